//! The value in a whole text: alone, or inside the wrappers that models put around it.
//!
//! A wrapper is a field such as `arguments`, a whole tool call, a list of calls, or a string
//! that contains JSON. An ambiguous text is rejected.

use crate::error::Fault;
use crate::limits::GUESS_DEPTH;
use crate::reading::coerce::folded;
use crate::reading::fault_words::{excerpt, is_near, shortened};
use crate::reading::fit_check::{FitCheck, Fits};
use crate::reading::lenient::{self, Asked, NotJson, Note};
use crate::reading::object::{UNASKED, WRAPPERS, is_void};
use crate::reading::policy::{Policy, Repair};
use crate::reading::repair_walk::{At, Level, Path, RepairWalk};
use crate::reading::tape::{Broken, Tape, TokenKind};
use crate::schema::graph::{Graph, Rest};
use crate::schema::types::Types;
use crate::wire_shapes::{INPUT, RESULT};

/// Fields in which APIs put a whole call: its name and its arguments.
const CALLS: [&str; 4] = ["function", "function_call", "tool_call", "tool_calls"];

/// Fields beside the arguments of a call, such as the tool's name.
const BESIDE: [&str; 10] = [
    "name",
    "tool",
    "tool_name",
    "function",
    "action",
    "type",
    "id",
    "index",
    "call_id",
    "tool_call_id",
];

/// Those that name the tool.
const NAMES: [&str; 5] = ["name", "tool", "tool_name", "function", "action"];

/// Those that always name a tool, even without arguments beside them.
const TOOLS: [&str; 2] = ["tool", "tool_name"];

/// Values of a call's `type` that are not the name of a tool.
const TYPES: [&str; 6] = ["function", "function_call", "tool", "tool_call", "tool_use", "object"];

/// The value as JSON, its place in the text, and the repairs.
pub(super) struct ReadValue {
    pub(super) json: String,
    /// The JSON without undeclared fields; `None` if there are none.
    pub(super) clean: Option<String>,
    pub(super) path: String,
    pub(super) repairs: Vec<Repair>,
}

type Refused = (Vec<Fault>, usize);

/// The contract's side that a text is read as.
pub(super) struct Document<'f> {
    pub(super) graph: &'f Graph,
    /// The tool that has these arguments; `None` if a call may have another name.
    pub(super) tool: Option<&'f str>,
    pub(super) policy: Policy,
    pub(super) unit: bool,
    pub(super) wrapped: bool,
    /// The field in which lowering puts a value that is not a plain object.
    pub(super) wrapper: &'static str,
}

impl Document<'_> {
    pub(super) fn read(&self, wire: &str) -> Result<ReadValue, Refused> {
        // Some servers send an empty text for a tool without arguments. An empty answer is a fault.
        let text = if wire.trim().is_empty() && self.is_input() { "{}" } else { wire };
        let (lenient, notes);
        let tape = match Tape::parse(text) {
            Ok(tape) => {
                notes = Vec::new();
                tape
            }
            Err(broken) => {
                (lenient, notes) = self.repaired(text, broken)?;
                Tape::parse(&lenient).map_err(|broken| no_json(text, &broken))?
            }
        };
        let mut found = self.value(&tape, 0, "$", GUESS_DEPTH)?;
        let noted = notes.into_iter().map(|Note { path, what }| Repair { path, what });
        found.repairs.splice(0..0, noted);
        Ok(found)
    }

    fn repaired(&self, text: &str, broken: Broken) -> Result<(String, Vec<Note>), Refused> {
        let hopeless = matches!(broken, Broken::TooDeep | Broken::TooLong | Broken::Twice { .. });
        if hopeless || self.policy < Policy::Repair {
            return Err(no_json(text, &broken));
        }
        let lists = self.wrapped || self.graph.node(self.graph.root).types.has(Types::LIST);
        let asked = Asked { lists, field: &|name| self.knows(name) };
        lenient::document(text, &asked).map_err(|refusal| match refusal {
            NotJson::EndsEarly => no_json(text, &Broken::EndsEarly),
            NotJson::TooDeep => no_json(text, &Broken::TooDeep),
            NotJson::Unclear { at, what } => no_json(text, &Broken::Unexpected { at, what }),
            NotJson::Nothing => no_json(text, &broken),
            NotJson::Several => {
                let what = "several values, and it is not clear which is meant";
                refused("$", "one JSON value", what, what)
            }
        })
    }

    fn is_input(&self) -> bool {
        self.wrapper == INPUT
    }

    fn leniently(&self) -> Self {
        Self { policy: Policy::Coerce, ..*self }
    }

    fn is_map(&self) -> bool {
        self.graph.node(self.graph.root).object.is_map()
    }

    fn level(&self) -> Level {
        if self.policy == Policy::Coerce { Level::Coerce } else { Level::Restore }
    }

    /// Reads the value at a token, directly or inside a wrapper.
    fn value(
        &self,
        tape: &Tape<'_>,
        token: usize,
        path: &str,
        left: usize,
    ) -> Result<ReadValue, Refused> {
        // A text that is ambiguous for one policy is rejected by all: a stricter one must not read
        // more.
        let lenient = self.leniently();
        if self.wrapped && tape.kind(token) == TokenKind::Object {
            let inner = tape.entries(token).find(|(key, _)| tape.text(*key) == RESULT);
            if let Some((_, inner)) = inner {
                let below = format!("{path}.{RESULT}");
                let found = self.fit(tape, inner, &below);
                let beside =
                    tape.entries(token).filter(|(_, value)| !is_void(tape, *value)).count();
                if beside > 1 && found.is_ok() && lenient.fit(tape, token, path).is_ok() {
                    return Err(may_be_either(path, RESULT));
                }
                return match found.and_then(|found| self.beside_result(tape, token, path, found)) {
                    Ok(found) => Ok(found),
                    Err(refused) => self.fit(tape, token, path).map_err(|_| refused),
                };
            }
        }
        if let Some(inner) = self.set_apart(tape, token)
            && let Ok(found) = self.fit(tape, inner, &format!("{path}.{}", self.wrapper))
        {
            return Ok(found);
        }
        if let Some((name, inner)) = self.wrapper(tape, token, true)
            && left > 0
            && (lenient.value(tape, inner, &format!("{path}.{name}"), left - 1).is_ok()
                || self.names_itself(tape, token))
        {
            return if self.policy >= Policy::Repair && self.names_itself(tape, token) {
                let mut found = self.value(tape, inner, &format!("{path}.{name}"), left - 1)?;
                let what = format!("took the value out of `{name}`");
                found.repairs.insert(0, Repair { path: path.to_owned(), what });
                Ok(found)
            } else {
                Err(may_be_either(path, &name))
            };
        }
        let as_is = self.fit(tape, token, path);
        if tape.is_text(token) && self.policy >= Policy::Repair && as_is.is_err() && left > 0 {
            return self.encoded_twice(tape, token, path, left).unwrap_or(as_is);
        }
        if tape.kind(token) == TokenKind::Null
            && self.policy == Policy::Coerce
            && self.is_input()
            && as_is.is_err()
            && let Ok(nothing) = Tape::parse("{}")
            && let Ok(mut found) = self.fit(&nothing, 0, path)
        {
            let what = "read null as no arguments".to_owned();
            found.repairs.push(Repair { path: path.to_owned(), what });
            return Ok(found);
        }
        match self.wrapper(tape, token, false) {
            Some((name, inner)) if left > 0 => {
                self.unwrapped(tape, token, (&name, inner), path, as_is, left)
            }
            _ => {
                let found = as_is?;
                self.names_no_other(tape, token, path)?;
                Ok(found)
            }
        }
    }

    /// Whether the undeclared fields of the arguments do not name another tool.
    fn names_no_other(&self, tape: &Tape<'_>, token: usize, path: &str) -> Result<(), Refused> {
        let object = &self.graph.node(self.graph.root).object;
        let leaves_out = self.graph.typed && matches!(object.rest, Rest::Open);
        if !leaves_out || tape.kind(token) != TokenKind::Object {
            return Ok(());
        }
        let unknown = || tape.entries(token).filter(|(key, _)| !self.knows(&tape.text(*key)));
        let is_call = unknown().any(|(key, value)| {
            let name = tape.text(key);
            TOOLS.contains(&&*name)
                || !is_void(tape, value) && (WRAPPERS.contains(&&*name) || CALLS.contains(&&*name))
        });
        if !is_call {
            return Ok(());
        }
        self.is_call_of(tape, unknown(), path)?;
        for (key, value) in unknown().filter(|(key, _)| CALLS.contains(&&*tape.text(*key))) {
            let path = format!("{path}.{}", tape.text(key));
            let calls = match tape.kind(value) {
                TokenKind::List => tape.items(value).collect(),
                _ => vec![value],
            };
            for call in calls.into_iter().filter(|call| tape.kind(*call) == TokenKind::Object) {
                self.is_own_call(tape, call, &path)?;
                let inner = tape.entries(call).find(|(key, _)| tape.text(*key) == "function");
                if let Some((_, inner)) = inner.filter(|(_, i)| tape.kind(*i) == TokenKind::Object)
                {
                    self.is_own_call(tape, inner, &path)?;
                }
            }
        }
        Ok(())
    }

    /// Lists the fields beside a wrapped output as repairs.
    fn beside_result(
        &self,
        tape: &Tape<'_>,
        token: usize,
        path: &str,
        mut found: ReadValue,
    ) -> Result<ReadValue, Refused> {
        for (key, _) in tape.entries(token).filter(|(_, value)| !is_void(tape, *value)) {
            let name = tape.text(key);
            let path = format!("{path}.{}", shortened(&name));
            if is_near(RESULT, &name) && name != RESULT {
                let got = format!("`{}` beside `{RESULT}`", shortened(&name));
                let message = format!("there is `{RESULT}` too, and one of them is meant");
                return Err(refused(&path, "one value", &got, &message));
            }
            if name != RESULT {
                found.repairs.push(Repair { path, what: UNASKED.to_owned() });
            }
        }
        Ok(found)
    }

    /// Returns the value of the field that lowering added: a union, or a map as pairs. `None` if
    /// the object declares a field of that name itself.
    fn set_apart(&self, tape: &Tape<'_>, token: usize) -> Option<usize> {
        let root = self.graph.node(self.graph.root);
        if tape.kind(token) != TokenKind::Object || self.knows(self.wrapper) {
            return None;
        }
        let mut entries = tape.entries(token);
        let (key, inner) = entries.next()?;
        if entries.next().is_some() || tape.text(key) != self.wrapper {
            return None;
        }
        let pairs = root.object.is_map() && tape.kind(inner) == TokenKind::List;
        let as_is =
            || FitCheck::new(self.graph, tape).fits(tape, token, self.graph.root) == Fits::Yes;
        ((root.union.is_some() || pairs) && !as_is()).then_some(inner)
    }

    fn unwrapped(
        &self,
        tape: &Tape<'_>,
        token: usize,
        (name, inner): (&str, usize),
        path: &str,
        as_is: Result<ReadValue, Refused>,
        left: usize,
    ) -> Result<ReadValue, Refused> {
        let restoring = name == INPUT && self.graph.node(self.graph.root).union.is_some();
        let below = format!("{path}.{name}");
        let refused_as_is = match as_is {
            // An entry of a map that needs a repair may be a wrapper.
            Ok(found) if !restoring && !found.repairs.is_empty() && self.is_map() => {
                return match self.value(tape, inner, &below, left - 1) {
                    Ok(other) if other.json != found.json => Err(may_be_either(path, name)),
                    _ => Ok(found),
                };
            }
            // A value that fits without repairs is not searched for wrappers.
            Ok(found) if !restoring => {
                // A type without fields would accept the call of any other tool.
                if self.graph.typed && self.graph.node(self.graph.root).object.is_free() {
                    self.is_own_call(tape, token, path)?;
                }
                return Ok(found);
            }
            // A more lenient policy reads it as a value without a wrapper, so it is not a wrapper
            // here.
            Err(refused)
                if self.policy < Policy::Coerce
                    && self.leniently().fit(tape, token, path).is_ok() =>
            {
                return Err(refused);
            }
            Ok(found) => {
                return self.value(tape, inner, &below, left - 1).or(Ok(found));
            }
            Err(refused) => refused,
        };
        let read = self.value(tape, inner, &below, left - 1);
        if restoring {
            return read;
        }
        if self.policy < Policy::Repair {
            let found = format!("`{name}` around it");
            let message = "the value is inside a wrapper; give it alone";
            let meant = read.is_ok();
            return Err(if meant {
                refused(path, "the value itself", &found, message)
            } else {
                refused_as_is
            });
        }
        let mut found = read?;
        self.is_own_call(tape, token, path)?;
        let what = format!("took the value out of `{name}`");
        found.repairs.insert(0, Repair { path: path.to_owned(), what });
        Ok(found)
    }

    /// Rejects a call of another tool: its arguments may fit by chance.
    fn is_own_call(&self, tape: &Tape<'_>, token: usize, path: &str) -> Result<(), Refused> {
        self.is_call_of(tape, tape.entries(token), path)
    }

    fn is_call_of(
        &self,
        tape: &Tape<'_>,
        entries: impl Iterator<Item = (usize, usize)>,
        path: &str,
    ) -> Result<(), Refused> {
        let Some(tool) = self.tool else {
            return Ok(());
        };
        for (key, value) in entries {
            let (key, said) = (tape.text(key), tape.text(value));
            let names = NAMES.contains(&&*key) || key == "type" && !TYPES.contains(&&*said);
            if names && tape.is_text(value) && !is_name_of(&said, tool) {
                let expected = format!("the arguments of `{tool}`");
                let got = format!("a call of {}", excerpt(&said));
                let message = format!("expected {expected}, got {got}");
                return Err(refused(&format!("{path}.{key}"), &expected, &got, &message));
            }
        }
        Ok(())
    }

    /// Whether an object is a call that names this tool.
    fn names_itself(&self, tape: &Tape<'_>, token: usize) -> bool {
        let Some(tool) = self.tool else {
            return false;
        };
        tape.entries(token).any(|(key, value)| {
            NAMES.contains(&&*tape.text(key))
                && tape.is_text(value)
                && is_name_of(&tape.text(value), tool)
        })
    }

    /// Returns the field with the arguments, if no field of the object is declared.
    ///
    /// With `shadowed`, some fields are declared, but only those that also occur beside the
    /// arguments of a call: in `{"name": …, "arguments": {…}}`, a tool may declare `name`.
    fn wrapper(&self, tape: &Tape<'_>, token: usize, shadowed: bool) -> Option<(String, usize)> {
        if tape.kind(token) != TokenKind::Object {
            return None;
        }
        let (mut found, mut known) = (None, false);
        for (key, value) in tape.entries(token) {
            let name = tape.text(key);
            let beside = BESIDE.contains(&&*name)
                && (tape.is_text(value) || tape.kind(value) == TokenKind::Number);
            if self.knows(&name) {
                if !(shadowed && beside) {
                    return None;
                }
                known = true;
            } else if let (Some(inner), None) = (self.wrapped_in(tape, &name, value), &found) {
                found = Some(inner);
            } else if !beside {
                return None;
            }
        }
        found.filter(|_| known == shadowed)
    }

    /// Returns the value that a field of this name wraps, and the path to it.
    fn wrapped_in(&self, tape: &Tape<'_>, name: &str, value: usize) -> Option<(String, usize)> {
        let root = self.graph.node(self.graph.root);
        let holds = match tape.kind(value) {
            TokenKind::Object => true,
            // If the root accepts texts, this may be the text itself or the JSON of another value.
            TokenKind::Text | TokenKind::Escaped => !root.types.has(Types::TEXT),
            _ => false,
        };
        if WRAPPERS.contains(&name) {
            return holds.then(|| (name.to_owned(), value));
        }
        if CALLS.contains(&name) {
            let mut calls = match tape.kind(value) {
                TokenKind::List => tape.items(value).collect(),
                _ => vec![value],
            };
            let call = calls.pop().filter(|_| calls.is_empty())?;
            let shadowed =
                || self.wrapper(tape, call, true).filter(|_| self.names_itself(tape, call));
            let (below, inner) = self.wrapper(tape, call, false).or_else(shadowed)?;
            let index = if call == value { "" } else { "[0]" };
            let own = self.is_own_call(tape, call, "$").is_ok();
            return own.then(|| (format!("{name}{index}.{below}"), inner));
        }
        let own = self.tool.is_some_and(|tool| is_name_of(name, tool));
        (own && tape.kind(value) == TokenKind::Object).then(|| (name.to_owned(), value))
    }

    /// Whether a field is declared, under this name or a similar one.
    fn knows(&self, name: &str) -> bool {
        let root = self.graph.node(self.graph.root);
        let members = root.union.iter().flat_map(|union| &union.members);
        let nodes = members.map(|id| self.graph.node(*id)).chain([root]);
        let mut fields = nodes.flat_map(|node| &node.object.fields);
        fields.any(|field| folded(&field.name) == folded(name))
    }

    /// Reads a text that contains the value as JSON.
    fn encoded_twice(
        &self,
        tape: &Tape<'_>,
        token: usize,
        path: &str,
        left: usize,
    ) -> Option<Result<ReadValue, Refused>> {
        let text = tape.text(token);
        let empty = text.trim().is_empty();
        let text = if empty { "{}" } else { text.trim() };
        if !text.starts_with(['{', '[', '"']) || empty && self.policy < Policy::Coerce {
            return None;
        }
        let (lenient, notes);
        let inner = match Tape::parse(text) {
            Ok(tape) => {
                notes = Vec::new();
                tape
            }
            Err(broken) => match self.repaired(text, broken) {
                Ok(found) => {
                    (lenient, notes) = found;
                    Tape::parse(&lenient).ok()?
                }
                Err(refused) => return Some(Err(refused)),
            },
        };
        Some(self.value(&inner, 0, path, left - 1).map(|mut found| {
            let what = "read the string as the JSON that is written in it".to_owned();
            let first = Repair { path: path.to_owned(), what };
            let notes =
                notes.into_iter().map(|Note { what, .. }| Repair { path: path.to_owned(), what });
            found.repairs.splice(0..0, [first].into_iter().chain(notes));
            found
        }))
    }

    fn fit(&self, tape: &Tape<'_>, token: usize, path: &str) -> Result<ReadValue, Refused> {
        let mut fit = RepairWalk::new(self.graph, tape);
        let root = Path::Root(path);
        let null = self.unit && tape.kind(token) == TokenKind::Null;
        if null || fit.value(At { tape, token, path: &root }, self.graph.root, self.level()) {
            if fit.more_repairs > 0 {
                let what = format!("and {} more of these", fit.more_repairs);
                fit.repairs.push(Repair { path: path.to_owned(), what });
            }
            let clean = fit.without_left_out();
            let path = path.to_owned();
            return Ok(ReadValue { json: fit.out, clean, path, repairs: fit.repairs });
        }
        Err((fit.faults, fit.more))
    }
}

/// Whether a name means a tool. MCP clients put the name of a server before it:
/// `functions.find`, `mcp__web__find`.
fn is_name_of(said: &str, tool: &str) -> bool {
    let plain = said.rsplit(['.', '/', ':']).next().unwrap_or_default();
    let plain = plain.rsplit("__").next().unwrap_or_default();
    [said, plain].iter().any(|name| folded(name) == folded(tool))
}

fn may_be_either(path: &str, name: &str) -> Refused {
    let message =
        format!("it may be the value, or a call with the value in `{name}`; give the value alone");
    refused(path, "one value", &format!("a value in `{name}` too"), &message)
}

fn refused(path: &str, expected: &str, got: &str, message: &str) -> Refused {
    let message = message.to_owned();
    let fault = Fault {
        path: path.to_owned(),
        expected: expected.to_owned(),
        got: got.to_owned(),
        message,
    };
    (vec![fault], 0)
}

/// Makes the fault of a text that is not JSON.
fn no_json(text: &str, broken: &Broken) -> Refused {
    match broken {
        Broken::EndsEarly => {
            let length = text.chars().count();
            let got = format!("a text that ends too early, after {length} characters");
            let message = format!(
                "the JSON text ends too early, after {length} characters; write it again, whole"
            );
            refused("$", "a whole JSON value", &got, &message)
        }
        Broken::Unexpected { at, what } => {
            let place = text.get(*at..).unwrap_or_default();
            let line: String =
                shortened(place).chars().take(30).flat_map(char::escape_debug).collect();
            let before = text.get(..*at).unwrap_or_default().chars().count();
            let got = if place.is_empty() { "its end".to_owned() } else { format!("`{line}`") };
            let message = format!("not JSON: {what} at character {}, got {got}", before + 1);
            refused("$", "JSON", &got, &message)
        }
        Broken::TooDeep => {
            refused("$", "less nesting", "more than 127 levels", "it nests too deep")
        }
        Broken::TooLong => refused("$", "a shorter text", "more than 4 GB", "it is too long"),
        Broken::Twice { path, key } => {
            let key = shortened(key);
            let message = format!("field `{key}` is given twice; give it once");
            let path = shortened(path);
            refused(&path, "each field once", &format!("`{key}` twice"), &message)
        }
    }
}
