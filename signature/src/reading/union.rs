//! Repairing unions: finding the only member that is meant.
//!
//! In: a value and the members of its union. Out: the value as JSON, read as one member, or a fault
//! that says which members are possible:
//!
//! ```text
//! {"kind": "Circle", "r": 1}     →  the member with the tag `circle`
//! {"r": "1"}                     →  the only member with a field `r`; `"1"` is coerced to 1
//! "5" for an integer or a float  →  fault: it may be an integer, and also a number
//! ```
//!
//! Begin with [`RepairWalk::union`]. A tag decides alone. Without one, every member is tried
//! ([`choose`](RepairWalk::choose)): first without repairs, then with the shapes of dialects, and
//! only then with coercion. The best match is still rejected if it loses fields that another member
//! has, or if serde would take an earlier member ([`doubt`](RepairWalk::doubt)).

use std::collections::HashSet;

use crate::reading::coerce::folded;
use crate::reading::fault_words::{excerpt, expected, got};
use crate::reading::fit_check::{Fits, INVOLVED, is_rounded, specificity};
use crate::reading::object::TAG;
use crate::reading::repair_walk::{At, Attempt, Level, Path, RepairWalk};
use crate::reading::tape::{Tape, TokenKind};
use crate::schema::graph::{Id, Node, Union};
use crate::schema::types::Types;

/// The result of reading a value as one member.
struct Candidate {
    /// The position of the member in the union.
    index: usize,
    id: Id,
    attempt: Attempt,
}

/// The member that is meant, or the reason why there is no such member.
enum Choice {
    One(Candidate),
    /// Members fit, but it is not certain which one is meant; with the reason.
    Doubt(String),
    /// No member fits.
    None,
}

impl RepairWalk<'_> {
    /// Reads a value as the member that is meant.
    ///
    /// ```text
    /// null, if the union accepts it         →  null
    /// {"kind": "Circle", "r": 1}            →  by the tag
    /// {"r": 1}                              →  by trying all members
    /// ```
    pub(super) fn union(&mut self, at: At<'_>, node: &Node, union: &Union) -> bool {
        if at.kind() == TokenKind::Null && node.takes_null() {
            return self.keep(at);
        }
        if at.kind() == TokenKind::Object
            && let Some(said) = self.said_beside(at, union)
            && self.contradicts(&said, at, union)
        {
            return self.fault(at, node, &format!("`{TAG}` says that it is {}", excerpt(&said)));
        }
        if at.kind() == TokenKind::Object
            && let Some(tag) = &union.tag
            && let Some(fits) = self.by_tag(at, union, tag)
        {
            return fits;
        }
        let tagged = at.kind() == TokenKind::Object && union.tag.is_some();
        match self.choose(at, union, tagged) {
            Choice::One(candidate) => self.take(candidate.attempt),
            Choice::Doubt(why) => self.fault(at, node, &why),
            Choice::None => self.none_fits(at, node, union),
        }
    }

    /// Returns the type name that an object has in [`TAG`], if that is not a field of a member.
    ///
    /// ```text
    /// {"_type": "Circle", "r": 1}   →   "Circle"
    /// ```
    fn said_beside(&self, at: At<'_>, union: &Union) -> Option<String> {
        let declared = |id: &Id| self.graph.node(*id).object.field(TAG, 0).is_some();
        let value = at.tape.field(at.token, TAG)?;
        let is_name = at.tape.is_text(value) && !union.members.iter().any(declared);
        is_name.then(|| at.tape.text(value).into_owned())
    }

    /// Whether a type name belongs to a member whose tag or required fields the object does not
    /// have.
    ///
    /// ```text
    /// "Circle" for {"side": 1}                    →  true: a circle needs `radius`
    /// "Circle" for {"kind": "square", "side": 1}  →  true: the tag is another
    /// "Circle" for {"radius": 1}                  →  false
    /// ```
    pub(super) fn contradicts(&self, said: &str, at: At<'_>, union: &Union) -> bool {
        let (said, tag) = (folded(said), union.tag.as_deref());
        let is_meant = |id: &&Id| {
            let fields = &self.graph.node(**id).object.fields;
            match (tag, fields.as_slice()) {
                (Some(tag), _) => self.tags(**id, tag).iter().any(|text| folded(text) == said),
                (None, [only]) => only.required && folded(&only.name) == said,
                (None, _) => false,
            }
        };
        let Some(meant) = union.members.iter().find(is_meant) else {
            return false;
        };
        let given = |name: &str| {
            let name = folded(name);
            at.tape.entries(at.token).find(|(key, _)| folded(&at.tape.text(*key)) == name)
        };
        if let Some(tag) = tag
            && let Some((_, value)) = given(tag)
        {
            return at.tape.is_text(value) && folded(&at.tape.text(value)) != said;
        }
        let mut fields = self.graph.node(*meant).object.fields.iter();
        fields.any(|field| {
            field.required && Some(&*field.name) != tag && given(&field.name).is_none()
        })
    }

    /// Reads the member that the tag names; `None` if the object has no tag.
    ///
    /// ```text
    /// {"kind": "Circle", …}   →  the member `circle`, if the policy coerces and no other is alike
    /// {"kind": "cirle", …}    →  $.kind: expected one of `circle`, `square`, got …
    /// ```
    fn by_tag(&mut self, at: At<'_>, union: &Union, tag: &str) -> Option<bool> {
        let value = at.tape.field(at.token, tag)?;
        let path = Path::Field(at.path, tag);
        let mut known = Vec::new();
        if at.tape.is_text(value) {
            let found = at.tape.text(value);
            for id in &union.members {
                for text in self.tags(*id, tag) {
                    if text == *found {
                        return Some(self.value(at, *id));
                    }
                    known.push((*id, text));
                }
            }
            let mut near = known.iter().filter(|(_, text)| folded(text) == folded(&found));
            if let (Some((id, _)), None, Level::Coerce) = (near.next(), near.next(), self.level) {
                return Some(self.value(at, *id));
            }
        }
        Some(self.push_fault(&path, self.all_tags(union, tag), got(at.tape, value), ""))
    }

    /// Lists the tags of all members, for a fault.
    fn all_tags(&self, union: &Union, tag: &str) -> String {
        let all = union.members.iter().flat_map(|id| self.tags(*id, tag));
        let all: Vec<_> = all.take(20).map(|text| format!("`{text}`")).collect();
        format!("one of {}", all.join(", "))
    }

    /// Returns the texts that a member's tag may have.
    ///
    /// A member may have several: an enum of texts with one meaning.
    fn tags(&self, id: Id, tag: &str) -> Vec<String> {
        let node = self.graph.node(id);
        let field = node.object.fields.iter().find(|field| *field.name == *tag);
        let values = field.and_then(|field| self.graph.node(field.node).values.as_ref());
        let texts = values.into_iter().flatten().filter_map(|value| value.as_str());
        texts.map(str::to_owned).collect()
    }

    /// Tries all members and returns the best one, if it is certain. `tagged` means that the union
    /// has a tag and the object does not.
    ///
    /// ```text
    /// "5" for integer | text    →  the text: it fits without coercion
    /// "5" for integer | float   →  doubt: both are coerced
    /// ```
    fn choose(&mut self, at: At<'_>, union: &Union, tagged: bool) -> Choice {
        let typed = self.graph.typed;
        let mut candidates: Vec<Candidate> = Vec::new();
        for step in [Level::Exact, Level::Restore, Level::Coerce] {
            // Coercion applies only if no member fits without it. Without a type, undeclared fields
            // are kept, so they are not lost.
            let lost = |candidate: &Candidate| typed && candidate.attempt.unknown > 0;
            let settled = !candidates.iter().all(lost);
            if step > self.level || step == Level::Coerce && settled {
                break;
            }
            for (index, id) in union.members.iter().enumerate() {
                let known = candidates.iter().any(|candidate| candidate.index == index);
                if !known && let Some(attempt) = self.attempt(at, *id, step) {
                    candidates.push(Candidate { index, id: *id, attempt });
                }
            }
        }
        let rank = |candidate: &Candidate| {
            let Attempt { unknown, level, .. } = candidate.attempt;
            if typed { (unknown, level, 0) } else { (0, level, unknown) }
        };
        let Some(best) = candidates.iter().map(rank).min() else {
            return Choice::None;
        };
        candidates.retain(|candidate| rank(candidate) == best);
        self.narrow(at, &mut candidates);
        let first = candidates.first().map(|first| first.attempt.json.as_str());
        let same = |other: &Candidate| Some(other.attempt.json.as_str()) == first;
        if candidates.len() > 1 && (typed || !candidates.iter().all(same)) {
            let mut all: Vec<_> =
                candidates.iter().map(|candidate| self.described(candidate.id)).collect();
            all.dedup();
            return Choice::Doubt(match all.as_slice() {
                [one] => format!("it may be {one} in more than one way"),
                some => format!("it may be {}", some.join(", and also ")),
            });
        }
        let Some(winner) = candidates.into_iter().next() else {
            return Choice::None;
        };
        match self.doubt(at, union, &winner, tagged) {
            Some(why) => Choice::Doubt(why),
            None => Choice::One(winner),
        }
    }

    /// Describes a member, for advice.
    fn described(&self, id: Id) -> String {
        expected(self.graph, self.graph.node(id))
    }

    /// Keeps the most specific of several matching members.
    ///
    /// More specific means: a listed value or a format before any text, and of objects the member
    /// whose required fields include those of all others.
    fn narrow(&self, at: At<'_>, candidates: &mut Vec<Candidate>) {
        if candidates.len() < 2 {
            return;
        }
        let own =
            |candidate: &Candidate| specificity(self.graph.node(candidate.id), at.tape, at.token);
        let most = candidates.iter().map(own).max().unwrap_or_default();
        candidates.retain(|candidate| own(candidate) == most);
        let set = |candidate: &Candidate| (candidate.index, self.required(candidate.id));
        let sets: Vec<(usize, HashSet<&str>)> = candidates.iter().map(set).collect();
        let largest = sets.iter().find(|(index, set)| {
            sets.iter().all(|(other, smaller)| {
                other == index || smaller.is_subset(set) && smaller.len() < set.len()
            })
        });
        if let (Some((index, _)), TokenKind::Object) = (largest, at.kind()) {
            candidates.retain(|candidate| candidate.index == *index);
        }
    }

    /// Returns the names of a member's required fields.
    fn required(&self, id: Id) -> HashSet<&str> {
        let fields = &self.graph.node(id).object.fields;
        fields.iter().filter(|field| field.required).map(|field| &*field.name).collect()
    }

    /// Returns the reason why the best match is not certainly the member that is meant.
    ///
    /// ```text
    /// 18446744073709551617 for u64 | f64        it would lose digits as a float
    /// {"url": "x", "file": "y"} for File | Page  `file` belongs to another of them
    /// a member that fits, after one that fits too  serde would take the earlier one
    /// ```
    fn doubt(
        &mut self,
        at: At<'_>,
        union: &Union,
        winner: &Candidate,
        tagged: bool,
    ) -> Option<String> {
        let (members, own) = (&union.members, self.graph.node(winner.id));
        let json = winner.attempt.json.as_str();
        if json.starts_with(|c: char| c.is_ascii_digit() || c == '-')
            && is_rounded(self.graph, members, own, json)
        {
            return Some("it is too large an integer, and would lose digits as a float".to_owned());
        }
        if !self.graph.typed {
            return None;
        }
        if winner.attempt.unknown > 0 && at.kind() == TokenKind::Object {
            if own.object.fields.is_empty() && !tagged {
                return Some("it has fields, and none that a member declares".to_owned());
            }
            let others = union.members.iter().enumerate().filter(|(i, _)| *i != winner.index);
            let fields = others.flat_map(|(_, id)| &self.graph.node(*id).object.fields);
            let known: HashSet<String> = fields.map(|field| folded(&field.name)).collect();
            let entries = at.tape.entries(at.token);
            let lost = entries
                .filter(|(_, value)| at.tape.kind(*value) != TokenKind::Null)
                .map(|(key, _)| at.tape.text(key))
                .find(|name| own.object.field(name, 0).is_none() && known.contains(&folded(name)));
            if let Some(name) = lost {
                return Some(format!("{} belongs to another of them", excerpt(&name)));
            }
        }
        if tagged {
            return None;
        }
        // serde takes the first member that fits, so no earlier one may.
        let tape = Tape::parse(json).ok()?;
        let earlier = self.exact.aside(&tape, |exact| {
            union.members.iter().take(winner.index).find(|id| {
                let fits = exact.fits(&tape, 0, **id);
                fits == Fits::Yes || fits == Fits::Nearly && tape.kind(0) != TokenKind::Number
            })
        });
        let Some(earlier) = earlier else {
            return Some(INVOLVED.to_owned());
        };
        let earlier = earlier?;
        let (first, meant) = (self.described(*earlier), self.described(winner.id));
        Some(format!("it is {meant}, but would be taken for {first}, which is declared before it"))
    }

    /// Reports a value that no member fits: with the faults of the only member that it may be, or
    /// with a description of all members.
    ///
    /// ```text
    /// {"side": "x"}   →   $.side: expected a number, …     only one member has `side`
    /// 7               →   $: expected a string or an object with `side`, got the number 7
    /// ```
    fn none_fits(&mut self, at: At<'_>, node: &Node, union: &Union) -> bool {
        if self.trying {
            return false;
        }
        // If only one member is of this kind, its faults are more helpful than all names.
        let kind = match at.kind() {
            TokenKind::List => Types::LIST,
            TokenKind::Object => Types::OBJECT,
            _ => return self.fault(at, node, ""),
        };
        let graph = self.graph;
        let mut alike = union.members.iter().filter(|id| graph.node(**id).types.has(kind));
        let first = alike.next();
        let only = first.filter(|_| alike.next().is_none()).or_else(|| self.by_keys(at, union));
        let faults = self.faults.len() + self.more;
        if let Some(id) = only {
            self.value(at, *id);
        } else if let (TokenKind::Object, Some(tag)) = (at.kind(), &union.tag) {
            let expected = self.all_tags(union, tag);
            self.push_fault(&Path::Field(at.path, tag), expected, "nothing".to_owned(), "");
        }
        if self.faults.len() + self.more == faults {
            self.fault(at, node, "");
        }
        false
    }

    /// Returns the only member that declares a key which no other member declares.
    fn by_keys<'u>(&self, at: At<'_>, union: &'u Union) -> Option<&'u Id> {
        let mut only = None;
        for (key, _) in at.tape.entries(at.token) {
            let name = at.tape.text(key);
            let knows = |id: &&Id| self.graph.node(**id).object.field(&name, 0).is_some();
            let mut knowing = union.members.iter().filter(knows);
            if let (Some(id), None) = (knowing.next(), knowing.next()) {
                if only.is_some_and(|only| only != id) {
                    return None;
                }
                only = Some(id);
            }
        }
        only
    }
}
