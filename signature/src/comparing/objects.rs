//! Objects: field by field, and then the fields that have no name.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{ANY, Comparing, SAYS_NOTHING};
use crate::error::{Side, shown};
use crate::limits::ANALYSIS_STEPS;
use crate::lowering::fits::Fits;
use crate::lowering::shape::{Schema, required, takes_null};
use crate::reading::coerce::folded;
use crate::reading::pattern::Pattern;
use crate::schema::types::Types;

/// What fields an object may have.
struct Fields<'a> {
    named: &'a Schema,
    required: HashSet<&'a str>,
    patterns: &'a Schema,
    /// What those may be that neither a name nor a pattern speaks of; `None` if there are
    /// none.
    rest: Option<&'a Value>,
    /// Whether it lists fields and says nothing of others.
    silent: bool,
    /// What names those have.
    names: Option<&'a Value>,
    /// Which fields are required beside which.
    dependent: &'a Schema,
}

impl<'a> Fields<'a> {
    fn of(map: &'a Schema) -> Self {
        let schemas = |keyword: &str| map.get(keyword).and_then(Value::as_object);
        let rest = map.get("additionalProperties").unwrap_or(&ANY);
        let lists = map.contains_key("properties") || map.contains_key("patternProperties");
        Self {
            named: schemas("properties").unwrap_or(&SAYS_NOTHING),
            required: required(map).collect(),
            patterns: schemas("patternProperties").unwrap_or(&SAYS_NOTHING),
            rest: Some(rest).filter(|rest| **rest != Value::Bool(false)),
            silent: lists && !map.contains_key("additionalProperties"),
            names: map.get("propertyNames"),
            dependent: schemas("dependentRequired").unwrap_or(&SAYS_NOTHING),
        }
    }

    /// The fields of what comes: where nothing is said of others, there are none. Whoever
    /// lists the fields of a struct lists all of them.
    fn that_come(map: &'a Schema) -> Self {
        let fields = Self::of(map);
        Self { rest: fields.rest.filter(|_| !fields.silent), ..fields }
    }

    fn most(&self) -> Option<u64> {
        let known = self.rest.is_none() && self.patterns.is_empty();
        known.then_some(self.named.len() as u64)
    }

    /// Those that the other side does not name, or not so: reading takes a field by nearly
    /// its name for it.
    fn nearly_named(&self, comes: &Self) -> HashMap<String, &'a str> {
        if comes.named.keys().all(|name| self.named.contains_key(name)) {
            return HashMap::new();
        }
        let others = self.named.keys().filter(|name| !comes.named.contains_key(*name));
        others.map(|name| (folded(name), name.as_str())).collect()
    }

    fn may_have(&self, name: &str) -> bool {
        self.most().is_none() || self.named.contains_key(name)
    }
}

impl<'a> Comparing<'a> {
    pub(super) fn objects(&mut self, ours: &'a Schema, theirs: &'a Schema) -> bool {
        let (mut comes, takes) = (Fields::that_come(ours), Fields::of(theirs));
        if !self.spend(comes.required.len() + takes.required.len()) {
            return false;
        }
        // What may be left out on the way is not surely there.
        comes.required.retain(|name| {
            let may_be_null = comes.named.get(*name).is_some_and(|one| takes_null(self.comes, one));
            !may_be_null || self.kinds_that_come(name, &takes) == Types::ALL
        });
        let (least, most) = (comes.required.len() as u64, comes.most());
        let counted = ("minProperties", "maxProperties", "fields");
        let mut fits = self.counts(ours, theirs, counted, (least, most));
        let looks: [fn(&mut Self, &Fields<'a>, &Fields<'a>) -> bool; 5] =
            [Self::missing, Self::named, Self::patterns, Self::rest, Self::dependent];
        for look in looks {
            if fits || !self.trying {
                fits &= look(self, &comes, &takes);
            }
        }
        fits
    }

    fn missing(&mut self, comes: &Fields<'a>, takes: &Fields<'a>) -> bool {
        let mut missing: Vec<_> = takes.required.difference(&comes.required).collect();
        // In an order that does not depend on hashing.
        missing.sort_unstable();
        for name in &missing {
            self.below_field(name, |all| {
                all.differ(|_| {
                    let known = comes.may_have(name);
                    let words = if known { "may be missing" } else { "has no such field" };
                    (words.to_owned(), "is required".to_owned())
                })
            });
        }
        missing.is_empty()
    }

    fn named(&mut self, comes: &Fields<'a>, takes: &Fields<'a>) -> bool {
        let patterns: Vec<_> = takes
            .patterns
            .iter()
            .map(|(pattern, schema)| (Pattern::new(pattern), schema))
            .collect();
        let mut fits = true;
        // One that is required without being described may be anything.
        let bare = comes.required.iter().filter(|name| !comes.named.contains_key(**name));
        let mut bare: Vec<&str> = bare.copied().collect();
        bare.sort_unstable();
        let bare = bare.into_iter().map(|name| (name, comes.rest.unwrap_or(&ANY)));
        let near = takes.nearly_named(comes);
        for (name, schema) in comes.named.iter().map(|(name, one)| (name.as_str(), one)).chain(bare)
        {
            if *schema == Value::Bool(false) {
                continue;
            }
            if !self.spend(patterns.len() + 1) || self.is_over() || !fits && self.trying {
                return false;
            }
            fits &= self.below_field(name, |all| {
                // What cannot be matched here may match there.
                let matching = patterns.iter().filter(|(pattern, _)| {
                    pattern.as_ref().is_none_or(|pattern| pattern.is_match(name))
                });
                let mut known: Vec<&'a Value> = matching.map(|(_, schema)| *schema).collect();
                known.extend(takes.named.get(name));
                if let Some(near) = near.get(&folded(name)).filter(|_| known.is_empty()) {
                    return all.differ(|_| {
                        ("has this field".to_owned(), format!("calls it `{}`", shown(near)))
                    });
                }
                if known.is_empty() {
                    let Some(rest) = takes.rest else {
                        let words = "takes no such field";
                        return all.unknown(comes.required.contains(name), words);
                    };
                    // It would be let in and passed over, which nobody would notice.
                    if takes.silent && all.side == Side::Input && !takes.required.contains(name) {
                        let words = "does not name it";
                        return all.unknown(comes.required.contains(name), words);
                    }
                    known.push(rest);
                }
                let kinds = all.kinds_that_come(name, takes);
                let mut fits = all.takes_name(name, takes);
                for takes in known {
                    fits &= all.fit(schema, kinds, takes);
                }
                fits
            });
        }
        fits
    }

    /// A null for a field that may be left out and has none is left out by whoever reads.
    fn kinds_that_come(&self, name: &str, takes: &Fields<'a>) -> Types {
        let dropped = takes.named.get(name).is_some_and(|schema| {
            !takes.required.contains(name) && !takes_null(self.takes, schema)
        });
        if dropped { Types::ALL.without(Types::NULL) } else { Types::ALL }
    }

    fn unknown(&mut self, always: bool, theirs: &str) -> bool {
        self.differ(|_| {
            let words = if always { "has this field" } else { "may have this field" };
            (words.to_owned(), theirs.to_owned())
        })
    }

    fn takes_name(&mut self, name: &str, takes: &Fields<'a>) -> bool {
        let Some(names) = takes.names else {
            return true;
        };
        self.takes_value(names, &name.into())
            || self.differ(|all| {
                let words = all.words(all.takes, names, Types::TEXT);
                ("has this field".to_owned(), format!("takes fields whose name is {words}"))
            })
    }

    fn patterns(&mut self, comes: &Fields<'a>, takes: &Fields<'a>) -> bool {
        let mut fits = true;
        for (pattern, schema) in comes.patterns {
            if !self.spend(takes.named.len() + takes.patterns.len() + 1) {
                return false;
            }
            fits &= self.below(".*", |all| {
                let own = comes.names.unwrap_or(&ANY);
                if !all.takes_names(own, Some(pattern), takes) {
                    return false;
                }
                if let Some(same) = takes.patterns.get(pattern) {
                    return all.fit(schema, Types::ALL, same);
                }
                let Some(rest) = takes.rest else {
                    return all.differ(|_| {
                        let words = format!("may have fields that match {}", shown(pattern));
                        (words, "takes no such fields".to_owned())
                    });
                };
                all.fit_all(schema, takes.patterns.values().chain([rest]))
            });
            let Some(pattern) = Pattern::new(pattern) else {
                continue;
            };
            let is_one = |name: &str| !comes.named.contains_key(name) && pattern.is_match(name);
            fits &= self.unnamed(schema, takes, is_one);
        }
        fits
    }

    /// The names of fields that have none of their own are taken.
    fn takes_names(&mut self, own: &'a Value, pattern: Option<&str>, takes: &Fields<'a>) -> bool {
        let Some(names) = takes.names else {
            return true;
        };
        let same = pattern.is_some_and(|own| names.get("pattern").is_some_and(|one| one == own));
        let alone = names.as_object().is_some_and(|names| {
            names.keys().all(|keyword| matches!(keyword.as_str(), "type" | "pattern"))
        });
        same && alone
            || self.tries(own, Types::TEXT, names)
            || self.differ(|all| {
                let own = match pattern {
                    Some(pattern) => format!("a string that matches {}", shown(pattern)),
                    None => all.words(all.comes, own, Types::TEXT),
                };
                let names = all.words(all.takes, names, Types::TEXT);
                let names = format!("takes fields whose name is {names}");
                (format!("may have fields whose name is {own}"), names)
            })
    }

    /// Whatever pattern it is that a name matches, its value is taken.
    fn fit_all(&mut self, comes: &'a Value, takes: impl Iterator<Item = &'a Value>) -> bool {
        let mut fits = true;
        for takes in takes {
            fits &= self.fit(comes, Types::ALL, takes);
        }
        fits
    }

    /// Fields that what comes does not name, and what takes it does.
    fn unnamed(
        &mut self,
        comes: &'a Value,
        takes: &Fields<'a>,
        may_come: impl Fn(&str) -> bool,
    ) -> bool {
        let mut fits = true;
        for (name, schema) in takes.named.iter().filter(|(name, _)| may_come(name)) {
            let kinds = self.kinds_that_come(name, takes);
            fits &= self.below_field(name, |all| all.fit(comes, kinds, schema));
        }
        fits
    }

    fn rest(&mut self, comes: &Fields<'a>, takes: &Fields<'a>) -> bool {
        let Some(rest) = comes.rest else {
            return true;
        };
        let mut fits = self.below(".*", |all| {
            let Some(other) = takes.rest else {
                return all.differ(|_| {
                    ("may have any other field".to_owned(), "takes no other fields".to_owned())
                });
            };
            let own = comes.names.unwrap_or(&ANY);
            let names = all.takes_names(own, None, takes);
            names & all.fit_all(rest, takes.patterns.values().chain([other]))
        });
        let names = comes.names.map(|names| {
            let fits = Fits { root: self.comes, left: Cell::new(ANALYSIS_STEPS) };
            let may = |name: &&String| fits.key(names, name);
            takes.named.keys().filter(may).map(String::as_str).collect::<HashSet<_>>()
        });
        let is_one = |name: &str| {
            !comes.named.contains_key(name)
                && names.as_ref().is_none_or(|names| names.contains(name))
        };
        fits &= self.unnamed(rest, takes, is_one);
        fits
    }

    fn dependent(&mut self, comes: &Fields<'a>, takes: &Fields<'a>) -> bool {
        let mut fits = true;
        for (name, needed) in takes.dependent {
            if !comes.may_have(name) {
                continue;
            }
            let own = comes.dependent.get(name).and_then(Value::as_array);
            let own: HashSet<_> = own.into_iter().flatten().filter_map(Value::as_str).collect();
            for other in needed.as_array().into_iter().flatten().filter_map(Value::as_str) {
                if !self.spend(1) {
                    return false;
                }
                if own.contains(other) || comes.required.contains(other) {
                    continue;
                }
                fits &= self.below_field(other, |all| {
                    all.differ(|_| {
                        let words = format!("is required beside `{}`", shown(name));
                        ("may be missing".to_owned(), words)
                    })
                });
            }
        }
        fits
    }
}
