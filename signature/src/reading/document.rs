//! The value in a whole text: alone, or inside the wrappers that models put around it.
//!
//! In: the text and the contract's side ([`Document`]). Out: a [`ReadValue`], or faults. A wrapper
//! is a field such as `arguments`, a whole tool call, a list of calls, or a string that contains
//! JSON. For a tool `find` with the field `query`, all of these mean `{"query": "tax"}`:
//!
//! ```text
//! {"arguments": {"query": "tax"}}
//! {"name": "find", "arguments": "{\"query\": \"tax\"}"}
//! {"tool_calls": [{"type": "function", "function": {"name": "find", "arguments": {…}}}]}
//! {"find": {"query": "tax"}}
//! "{\"query\": \"tax\"}"
//! ```
//!
//! An ambiguous text is rejected: a tool may declare a field `arguments` itself, and a call may
//! name another tool whose arguments fit by chance. For an answer, only a call of a tool that takes
//! answers ([`ANSWERS`]) or of the contract itself has the answer in it.
//!
//! Begin with [`Document::read`]. It parses the text ([`json_of`](Document::json_of)), looks for
//! wrappers ([`value`](Document::value)), and lets the [`RepairWalk`] read the value inside them
//! ([`fit`](Document::fit)).

use std::borrow::Cow;

use crate::contract::Contract;
use crate::error::{Fault, Side};
use crate::limits::GUESS_DEPTH;
use crate::reading::coerce::folded;
use crate::reading::fault_words::{excerpt, fault, is_near, shortened};
use crate::reading::fit_check::{FitCheck, Fits};
use crate::reading::lenient::{self, Asked, NotJson};
use crate::reading::object::{UNASKED, WRAPPERS, is_void};
use crate::reading::policy::{Policy, Repair};
use crate::reading::repair_walk::{At, Level, Path, RepairWalk};
use crate::reading::tape::{Broken, Tape, TokenKind};
use crate::schema::graph::{Graph, Node, Rest};
use crate::schema::types::Types;
use crate::wire_shapes::{INPUT, RESULT};

/// Fields in which APIs put a whole call: its name and its arguments.
pub(super) const CALLS: [&str; 4] = ["function", "function_call", "tool_call", "tool_calls"];

/// Fields beside the arguments of a call that name the tool.
const NAMES: [&str; 5] = ["name", "tool", "tool_name", "function", "action"];

/// Further fields beside the arguments of a call.
const BESIDE: [&str; 5] = ["type", "id", "index", "call_id", "tool_call_id"];

/// Those of [`NAMES`] that always name a tool, even without arguments beside them.
const TOOLS: [&str; 2] = ["tool", "tool_name"];

/// Names of tools whose arguments are the answer.
const ANSWERS: [&str; 4] = [Contract::FINISH, "answer", "final_answer", "final_result"];

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

/// A value: its text, its token in the text, and its path from the root.
#[derive(Clone, Copy)]
struct Place<'a> {
    tape: &'a Tape<'a>,
    token: usize,
    path: &'a str,
}

impl<'a> Place<'a> {
    fn kind(self) -> TokenKind {
        self.tape.kind(self.token)
    }

    /// Returns another value of the same text.
    fn to(self, token: usize, path: &'a str) -> Self {
        Self { token, path, ..self }
    }
}

/// The faults of a text, and the number of further ones.
type Refused = (Vec<Fault>, usize);

/// The contract's side that a text is read as.
pub(super) struct Document<'f> {
    pub(super) graph: &'f Graph,
    /// The contract's name: the tool that has these arguments, or what the answer is of.
    pub(super) name: &'f str,
    pub(super) policy: Policy,
    /// Whether the model was asked for the value in the field [`RESULT`].
    pub(super) wrapped: bool,
    pub(super) side: Side,
}

impl Document<'_> {
    /// Reads a whole text.
    ///
    /// An empty text means no arguments, as some servers send it; an empty answer is a fault.
    pub(super) fn read(&self, wire: &str) -> Result<ReadValue, Refused> {
        // Some servers send an empty text for a tool without arguments. An empty answer is a fault.
        let text = if wire.trim().is_empty() && self.is_input() { "{}" } else { wire };
        let (json, notes) = self.json_of(text)?;
        let tape = Tape::parse(&json).map_err(|broken| no_json(text, &broken))?;
        let mut found = self.value(Place { tape: &tape, token: 0, path: "$" }, GUESS_DEPTH)?;
        found.repairs.splice(0..0, notes);
        Ok(found)
    }

    /// Returns a text as JSON, repaired if the policy allows it, and the repairs.
    fn json_of<'t>(&self, text: &'t str) -> Result<(Cow<'t, str>, Vec<Repair>), Refused> {
        let Err(broken) = Tape::parse(text) else {
            return Ok((Cow::Borrowed(text), Vec::new()));
        };
        let hopeless = matches!(broken, Broken::TooDeep | Broken::TooLong | Broken::Twice { .. });
        if hopeless || self.policy < Policy::Repair {
            return Err(no_json(text, &broken));
        }
        let lists = self.wrapped || self.root().types.has(Types::LIST);
        let asked = Asked { lists, field: &|name| self.knows(name) };
        let found = lenient::document(text, &asked).map_err(|refusal| match refusal {
            NotJson::EndsEarly => no_json(text, &Broken::EndsEarly),
            NotJson::TooDeep => no_json(text, &Broken::TooDeep),
            NotJson::Unclear { at, what } => unclear(text, at, what),
            NotJson::Nothing => no_json(text, &broken),
            NotJson::Several => {
                let what = "several values, and it is not clear which is meant";
                refused("$", "one JSON value", what, what)
            }
        });
        found.map(|(json, notes)| (Cow::Owned(json), notes))
    }

    /// Whether the text is a tool's arguments.
    fn is_input(&self) -> bool {
        self.side == Side::Input
    }

    /// Returns the same side with the most lenient policy, to find ambiguous texts.
    fn leniently(&self) -> Self {
        Self { policy: Policy::Coerce, ..*self }
    }

    /// Returns the node of the whole value.
    fn root(&self) -> &Node {
        self.graph.node(self.graph.root)
    }

    /// Returns the repairs of values that the policy allows.
    fn level(&self) -> Level {
        if self.policy == Policy::Coerce { Level::Coerce } else { Level::Restore }
    }

    /// Reads the value at a token, directly or inside a wrapper.
    ///
    /// The cases, in this order: an output in `result`, a union or a map in the field that lowering
    /// added, a call whose tool declares `name` itself, the value as it is, a string with JSON,
    /// null for no arguments, and a wrapper.
    fn value(&self, at: Place<'_>, left: usize) -> Result<ReadValue, Refused> {
        let Place { tape, token, path } = at;
        // A text that is ambiguous for one policy is rejected by all: a stricter one must not read
        // more.
        let lenient = self.leniently();
        if self.wrapped
            && at.kind() == TokenKind::Object
            && let Some(inner) = tape.field(token, RESULT)
        {
            let found = self.fit(at.to(inner, &format!("{path}.{RESULT}")));
            let beside = tape.entries(token).filter(|(_, value)| !is_void(tape, *value)).count();
            if beside > 1 && found.is_ok() && lenient.fit(at).is_ok() {
                return Err(may_be_either(path, RESULT));
            }
            let found = found.and_then(|found| self.beside_result(at, found));
            return found.or_else(|refused| self.fit(at).map_err(|_| refused));
        }
        if let Some(inner) = self.set_apart(tape, token)
            && let Ok(found) = self.fit(at.to(inner, &format!("{path}.{}", self.side.wrapper())))
        {
            return Ok(found);
        }
        if let Some((name, inner)) = self.wrapper(tape, token, true)
            && left > 0
            && (lenient.value(at.to(inner, &format!("{path}.{name}")), left - 1).is_ok()
                || self.names_itself(tape, token))
        {
            if self.policy < Policy::Repair || !self.names_itself(tape, token) {
                return Err(may_be_either(path, &name));
            }
            let found = self.value(at.to(inner, &format!("{path}.{name}")), left - 1)?;
            return Ok(found.out_of(&name, path));
        }
        let as_is = self.fit(at);
        if tape.is_text(token) && self.policy >= Policy::Repair && as_is.is_err() && left > 0 {
            return self.encoded_twice(at, left).unwrap_or(as_is);
        }
        if at.kind() == TokenKind::Null
            && self.policy == Policy::Coerce
            && self.is_input()
            && as_is.is_err()
            && let Ok(nothing) = Tape::parse("{}")
            && let Ok(mut found) = self.fit(Place { tape: &nothing, token: 0, path })
        {
            found.repairs.push(Repair::new(path, "read null as no arguments"));
            return Ok(found);
        }
        match self.wrapper(tape, token, false) {
            Some((name, inner)) if left > 0 => self.unwrapped(at, (&name, inner), as_is, left),
            _ => {
                let found = as_is?;
                self.names_no_other(at).map(|()| found)
            }
        }
    }

    /// Rejects a value whose undeclared fields are a call of another tool. They would be left out,
    /// and the declared ones may fit by chance.
    ///
    /// ```text
    /// {"query": "tax", "tool": "delete"}   →   $.tool: expected the arguments of `find`, …
    /// ```
    fn names_no_other(&self, at: Place<'_>) -> Result<(), Refused> {
        let Place { tape, token, path } = at;
        let object = &self.root().object;
        let leaves_out = self.graph.typed && matches!(object.rest, Rest::Open);
        if !leaves_out || at.kind() != TokenKind::Object {
            return Ok(());
        }
        let unknown = || tape.entries(token).filter(|(key, _)| !self.knows(&tape.text(*key)));
        // The arguments under the tool's own name, beside others.
        let own = unknown().find(|(key, value)| {
            tape.kind(*value) == TokenKind::Object
                && !is_void(tape, *value)
                && is_name_of(&tape.text(*key), self.name)
        });
        if let Some((key, _)) = own {
            let (name, expected) = (tape.text(key), "all fields side by side");
            let got = format!("some of them inside `{}`", shortened(&name));
            return Err(refused(&format!("{path}.{}", shortened(&name)), expected, &got, ""));
        }
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
            let is_object = |token: &usize| tape.kind(*token) == TokenKind::Object;
            for call in calls_in(tape, value).into_iter().filter(is_object) {
                let inner = tape.field(call, "function").filter(is_object);
                for call in [call].into_iter().chain(inner) {
                    self.is_own_call(at.to(call, &path))?;
                }
            }
        }
        Ok(())
    }

    /// Lists the fields beside a wrapped output as repairs.
    ///
    /// ```text
    /// {"result": 5, "note": "x"}    →  5; left out a field that is not asked for
    /// {"result": 5, "Result": 6}    →  fault: one of them is meant
    /// ```
    fn beside_result(&self, at: Place<'_>, mut found: ReadValue) -> Result<ReadValue, Refused> {
        let Place { tape, token, path } = at;
        for (key, _) in tape.entries(token).filter(|(_, value)| !is_void(tape, *value)) {
            let name = tape.text(key);
            let path = format!("{path}.{}", shortened(&name));
            if is_near(RESULT, &name) && name != RESULT {
                let got = format!("`{}` beside `{RESULT}`", shortened(&name));
                let message = format!("there is `{RESULT}` too, and one of them is meant");
                return Err(refused(&path, "one value", &got, &message));
            }
            if name != RESULT {
                found.repairs.push(Repair::new(path, UNASKED));
            }
        }
        Ok(found)
    }

    /// Returns the value of the field that lowering added: a union, or a map as pairs. `None` if
    /// the object declares a field of that name itself.
    ///
    /// ```text
    /// {"input": {"kind": "a"}}            →  {"kind": "a"}, a union
    /// {"input": [{"key": …, "value": …}]} →  the list, a map as pairs
    /// ```
    fn set_apart(&self, tape: &Tape<'_>, token: usize) -> Option<usize> {
        let root = self.root();
        if tape.kind(token) != TokenKind::Object || self.knows(self.side.wrapper()) {
            return None;
        }
        let inner = tape
            .field(token, self.side.wrapper())
            .filter(|_| tape.entries(token).nth(1).is_none())?;
        let pairs = root.object.is_map() && tape.kind(inner) == TokenKind::List;
        let as_is =
            || FitCheck::new(self.graph, tape).fits(tape, token, self.graph.root) == Fits::Yes;
        ((root.union.is_some() || pairs) && !as_is()).then_some(inner)
    }

    /// Decides between a value as it is (`as_is`) and the value `inner` in its field `name`.
    ///
    /// A value that fits as it is wins, except where lowering puts a union into that field.
    /// Otherwise the policy has to allow the unwrapping.
    ///
    /// ```text
    /// {"arguments": {"query": "tax"}}, for `query`     →  {"query":"tax"}
    /// {"arguments": {"query": "tax"}}, for a map      →  as it is: `arguments` is a key
    /// ```
    fn unwrapped(
        &self,
        at: Place<'_>,
        (name, inner): (&str, usize),
        as_is: Result<ReadValue, Refused>,
        left: usize,
    ) -> Result<ReadValue, Refused> {
        let restoring = name == INPUT && self.root().union.is_some();
        let below = format!("{}.{name}", at.path);
        let read = || self.value(at.to(inner, &below), left - 1);
        let refused_as_is = match as_is {
            // An entry of a map that needs a repair may be a wrapper.
            Ok(found) if !restoring && !found.repairs.is_empty() && self.root().object.is_map() => {
                return match read() {
                    Ok(other) if other.json != found.json => Err(may_be_either(at.path, name)),
                    _ => Ok(found),
                };
            }
            // A value that fits without repairs is not searched for wrappers.
            Ok(found) if !restoring => {
                // A type without fields would accept the call of any other tool. As an answer, it is
                // any object, which may have a name and parameters.
                if self.is_input() && self.graph.typed && self.root().object.is_free() {
                    self.is_own_call(at)?;
                }
                return Ok(found);
            }
            // A more lenient policy reads it as a value without a wrapper, so it is not a wrapper
            // here.
            Err(refused) if self.policy < Policy::Coerce && self.leniently().fit(at).is_ok() => {
                return Err(refused);
            }
            Ok(found) => return read().or(Ok(found)),
            Err(refused) => refused,
        };
        let read = read();
        if restoring {
            return read;
        }
        if self.policy < Policy::Repair {
            let found = format!("`{name}` around it");
            let message = "the value is inside a wrapper; give it alone";
            let refused = refused(at.path, "the value itself", &found, message);
            return Err(if read.is_ok() { refused } else { refused_as_is });
        }
        let found = read?;
        self.is_own_call(at)?;
        Ok(found.out_of(name, at.path))
    }

    /// Rejects an object that names another tool: its arguments may fit by chance.
    fn is_own_call(&self, at: Place<'_>) -> Result<(), Refused> {
        self.is_call_of(at.tape, at.tape.entries(at.token), at.path)
    }

    /// Rejects fields that name another tool.
    ///
    /// A `type` that only says that this is a call does not count.
    fn is_call_of(
        &self,
        tape: &Tape<'_>,
        entries: impl Iterator<Item = (usize, usize)>,
        path: &str,
    ) -> Result<(), Refused> {
        for (key, value) in entries {
            let (key, said) = (tape.text(key), tape.text(value));
            let names = NAMES.contains(&&*key) || key == "type" && !TYPES.contains(&&*said);
            if names && tape.is_text(value) && !self.is_named(&said) {
                let of = if self.is_input() { "arguments" } else { "answer" };
                let expected = format!("the {of} of `{}`", self.name);
                let got = format!("a call of {}", excerpt(&said));
                return Err((vec![fault(format!("{path}.{key}"), expected, got, "")], 0));
            }
        }
        Ok(())
    }

    /// Whether an object is a call that names this tool.
    ///
    /// ```text
    /// {"name": "find", "arguments": {…}}, for the tool `find`
    /// ```
    fn names_itself(&self, tape: &Tape<'_>, token: usize) -> bool {
        tape.entries(token).any(|(key, value)| {
            NAMES.contains(&&*tape.text(key))
                && tape.is_text(value)
                && self.is_named(&tape.text(value))
        })
    }

    /// Whether a call of this name has the value in its arguments.
    fn is_named(&self, said: &str) -> bool {
        is_name_of(said, self.name)
            || !self.is_input() && ANSWERS.iter().any(|name| is_name_of(said, name))
    }

    /// Returns the field with the arguments, if no field of the object is declared.
    ///
    /// With `shadowed`, some fields are declared, but only those that also occur beside the
    /// arguments of a call: in `{"name": …, "arguments": {…}}`, a tool may declare `name`.
    ///
    /// ```text
    /// {"arguments": {…}}                      →  arguments
    /// {"id": "1", "function": {"name": …, "arguments": {…}}}   →  function.arguments
    /// {"arguments": {…}, "query": "tax"}      →  none: `query` is declared
    /// ```
    fn wrapper(&self, tape: &Tape<'_>, token: usize, shadowed: bool) -> Option<(String, usize)> {
        if tape.kind(token) != TokenKind::Object {
            return None;
        }
        let (mut found, mut known) = (None, false);
        for (key, value) in tape.entries(token) {
            let name = tape.text(key);
            let beside = (NAMES.contains(&&*name) || BESIDE.contains(&&*name))
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
    ///
    /// ```text
    /// "parameters": {…}                   →  parameters
    /// "tool_calls": [{"function": …}]     →  tool_calls[0].function.arguments
    /// "tool_calls": [{…}, {…}]            →  none: two calls
    /// "find": {…}, for the tool `find`    →  find
    /// ```
    fn wrapped_in(&self, tape: &Tape<'_>, name: &str, value: usize) -> Option<(String, usize)> {
        let root = self.root();
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
            let mut calls = calls_in(tape, value);
            let call = calls.pop().filter(|_| calls.is_empty())?;
            let shadowed =
                || self.wrapper(tape, call, true).filter(|_| self.names_itself(tape, call));
            let (below, inner) = self.wrapper(tape, call, false).or_else(shadowed)?;
            let index = if call == value { "" } else { "[0]" };
            let own = self.is_own_call(Place { tape, token: call, path: "$" }).is_ok();
            return own.then(|| (format!("{name}{index}.{below}"), inner));
        }
        let own = self.is_input() && is_name_of(name, self.name);
        (own && tape.kind(value) == TokenKind::Object).then(|| (name.to_owned(), value))
    }

    /// Whether a field is declared, under this name or a similar one.
    fn knows(&self, name: &str) -> bool {
        let root = self.root();
        let members = root.union.iter().flat_map(|union| &union.members);
        let nodes = members.map(|id| self.graph.node(*id)).chain([root]);
        let mut fields = nodes.flat_map(|node| &node.object.fields);
        fields.any(|field| folded(&field.name) == folded(name))
    }

    /// Reads a text that contains the value as JSON.
    ///
    /// ```text
    /// "{\"query\": \"tax\"}"   →  {"query":"tax"}
    /// ""                       →  {}, if the policy coerces
    /// ```
    fn encoded_twice(&self, at: Place<'_>, left: usize) -> Option<Result<ReadValue, Refused>> {
        let text = at.tape.text(at.token);
        let empty = text.trim().is_empty();
        let text = if empty { "{}" } else { text.trim() };
        if !text.starts_with(['{', '[', '"']) || empty && self.policy < Policy::Coerce {
            return None;
        }
        let (json, notes) = match self.json_of(text) {
            Ok(found) => found,
            Err(refused) => return Some(Err(refused)),
        };
        let (tape, path) = (&Tape::parse(&json).ok()?, at.path);
        Some(self.value(Place { tape, token: 0, path }, left - 1).map(|mut found| {
            let first = Repair::new(path, "read the string as the JSON that is written in it");
            let notes = notes.into_iter().map(|note| Repair::new(path, note.what));
            found.repairs.splice(0..0, [first].into_iter().chain(notes));
            found
        }))
    }

    /// Reads a value without wrappers.
    ///
    /// For a type that is serialized as `null`, null fits too.
    fn fit(&self, at: Place<'_>) -> Result<ReadValue, Refused> {
        let Place { tape, token, path } = at;
        let mut fit = RepairWalk::new(self.graph, tape, self.is_input(), self.level());
        let at = At { tape, token, path: &Path::Root(path) };
        if fit.value(at, self.graph.root) {
            if fit.more_repairs > 0 {
                let what = format!("and {} more of these", fit.more_repairs);
                fit.repairs.push(Repair::new(path, what));
            }
            let clean = fit.without_left_out();
            let path = path.to_owned();
            return Ok(ReadValue { json: fit.out, clean, path, repairs: fit.repairs });
        }
        Err((fit.faults, fit.more))
    }
}

impl ReadValue {
    /// Adds the repair of a value that was inside the field `name`.
    fn out_of(mut self, name: &str, path: &str) -> Self {
        self.repairs.insert(0, Repair::new(path, format!("took the value out of `{name}`")));
        self
    }
}

/// Returns the calls in a field of [`CALLS`]: the items of a list, or the value itself.
fn calls_in(tape: &Tape<'_>, value: usize) -> Vec<usize> {
    match tape.kind(value) {
        TokenKind::List => tape.items(value).collect(),
        _ => vec![value],
    }
}

/// Whether `said` means the tool `tool`. MCP clients put the name of a server before it:
/// `functions.find`, `mcp__web__find`.
///
/// ```text
/// functions.find, mcp__web__find, Find   →  find
/// ```
fn is_name_of(said: &str, tool: &str) -> bool {
    let plain = said.rsplit(['.', '/', ':']).next().unwrap_or_default();
    let plain = plain.rsplit("__").next().unwrap_or_default();
    [said, plain].iter().any(|name| folded(name) == folded(tool))
}

/// Makes the fault of a value that may be a call with the value inside it.
fn may_be_either(path: &str, name: &str) -> Refused {
    let message =
        format!("it may be the value, or a call with the value in `{name}`; give the value alone");
    refused(path, "one value", &format!("a value in `{name}` too"), &message)
}

/// Makes the only fault of a text.
fn refused(path: &str, expected: &str, got: &str, message: &str) -> Refused {
    let [path, expected, got, message] = [path, expected, got, message].map(str::to_owned);
    (vec![Fault { path, expected, got, message }], 0)
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
        Broken::Unexpected { at, expected } => {
            unclear(text, *at, &format!("{expected} is expected"))
        }
        Broken::Trailing { at } => unclear(text, *at, "something follows the value"),
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

/// Makes the fault of an unexpected character.
fn unclear(text: &str, at: usize, what: &str) -> Refused {
    let place = text.get(at..).unwrap_or_default();
    let line: String = shortened(place).chars().take(30).flat_map(char::escape_debug).collect();
    let before = text.get(..at).unwrap_or_default().chars().count();
    let got = if place.is_empty() { "its end".to_owned() } else { format!("`{line}`") };
    let message = format!("not JSON: {what} at character {}, got {got}", before + 1);
    refused("$", "JSON", &got, &message)
}
