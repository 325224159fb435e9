//! The fields of a selection, in all forms that models use.
//!
//! The requested form is `{"selection": {"action", "tool_name", "tool_input"}}`. Also accepted are
//! the inner object alone, other names for the fields, and the step of a ReAct prompt: `{"thought",
//! "action", "action_input"}`, whose action is the tool. Any other field is a mistake that the
//! model gets reported, because it could be a misplaced argument.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use toolwright_module::Policy;
use toolwright_module::runner::{meant_tool, name_repair};
use toolwright_signature::Contract;
use toolwright_signature::Repair;

use super::{Selection, Selects};

const SELECTION: &str = "selection";
const ACTION: &str = "action";
const CALL_TOOL: &str = "call_tool";
const FINISH: &str = Contract::FINISH;

/// Names of the fields for the tool and its arguments. The first one is requested.
const NAMES: [&str; 4] = ["tool_name", "tool", "name", "function"];
const INPUTS: [&str; 10] = [
    "tool_input",
    "action_input",
    "arguments",
    "args",
    "input",
    "parameters",
    "params",
    "kwargs",
    "tool_arguments",
    "tool_args",
];

/// Names of the field for an answer beside `finish`.
const ANSWERS: [&str; 2] = ["final_answer", "answer"];

/// Names of fields for remarks, which do not change the selection.
const THOUGHTS: [&str; 5] = ["thought", "thoughts", "thinking", "reasoning", "explanation"];

/// Further fields of native calls, beside the name and the arguments.
const BESIDE: [&str; 4] = ["type", "id", "call_id", "tool_call_id"];

/// Values of `action` that mean a call of a tool.
const CALLS: [&str; 7] =
    ["call_tool", "tool_call", "use_tool", "call", "tool", "function", "function_call"];

type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// Returns the schema of any object. It names the known fields for the repair of their names.
pub(super) fn any_object() -> Value {
    let known = [SELECTION, ACTION].into_iter();
    let known = known.chain(NAMES).chain(INPUTS).chain(ANSWERS).chain(THOUGHTS).chain(BESIDE);
    let properties: Map<String, Value> = known.map(|name| (name.to_owned(), json!({}))).collect();
    json!({"type": "object", "properties": properties, "additionalProperties": true})
}

/// Reads the selection in a text. The error is a text for the model.
pub(super) fn read(
    contract: &Contract,
    tools: &[String],
    typed: bool,
    text: &str,
    policy: Policy,
) -> Result<Selection, String> {
    let reading =
        contract.read_output_with::<IgnoredAny>(text, policy).map_err(|fault| fault.to_string())?;
    let json = reading.json().unwrap_or(text).to_owned();
    let mut reader = Reader { tools, typed, policy, repairs: reading.repairs };
    let fields = fields_of("$", &json)?;
    let (selects, thought) = reader.outer(&fields)?;
    if matches!(selects, Selects::Call { .. }) && is_followed_by_words(text) {
        return Err("there is text after it, so it is not clear that the call is meant.".to_owned());
    }
    Ok(Selection { selects, thought, repairs: reader.repairs })
}

/// Returns whether words follow the JSON. Words before it announce the call, but words after it may
/// take it back: `I could do {…}, but which prefix?`
fn is_followed_by_words(text: &str) -> bool {
    let after = text.rsplit(['}', ']', '`', '>']).next().unwrap_or_default();
    after.contains(char::is_alphanumeric)
}

fn fields_of<'a>(path: &str, json: &'a str) -> Result<Fields<'a>, String> {
    let mut reader = serde_json::Deserializer::from_str(json);
    match reader.deserialize_map(Once) {
        Ok(Ok(fields)) => Ok(fields),
        Ok(Err(twice)) => Err(format!("{path}: field `{twice}` is given twice; give it once")),
        Err(_) => Err(format!("{path}: expected an object")),
    }
}

/// A visitor that reads the fields of an object, or the name of a field that occurs twice.
struct Once;

impl<'de> Visitor<'de> for Once {
    type Value = Result<Fields<'de>, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut fields, mut twice) = (Fields::new(), None);
        while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
            if fields.insert(name.clone(), value).is_some() {
                twice.get_or_insert(name);
            }
        }
        Ok(twice.map_or(Ok(fields), Err))
    }
}

struct Reader<'a> {
    tools: &'a [String],
    typed: bool,
    policy: Policy,
    repairs: Vec<Repair>,
}

impl Reader<'_> {
    fn outer(&mut self, fields: &Fields<'_>) -> Result<(Selects, Option<String>), String> {
        let Some((key, inner)) = self.find("$", fields, &[SELECTION])? else {
            let selected = self.inner("$", fields)?;
            self.repaired(Policy::Repair, "$", "read the selection without `selection` around it")?;
            return Ok(selected);
        };
        let path = path_to("$", &key);
        let inner_text;
        let inner = match serde_json::from_str::<String>(inner.get()) {
            Ok(text) => {
                self.repaired(Policy::Coerce, &path, "read the string as the object in it")?;
                inner_text = text;
                fields_of(&path, &inner_text)?
            }
            Err(_) => fields_of(&path, inner.get())?,
        };
        // Beside the selection there may be a remark, but no other field.
        let outer = thought_of("$", fields)?;
        for name in fields.keys().filter(|name| **name != key && !is_any(name, &THOUGHTS)) {
            let fix = format!("everything but a thought goes into `{key}`");
            refuse_unless_empty("$", name, fields, &fix)?;
        }
        let (selects, thought) = self.inner(&path, &inner)?;
        Ok((selects, thought.or(outer)))
    }

    fn inner(
        &mut self,
        path: &str,
        fields: &Fields<'_>,
    ) -> Result<(Selects, Option<String>), String> {
        let thought = thought_of(path, fields)?;
        let action = self.text(path, fields, &[ACTION])?;
        let name = self.text(path, fields, &NAMES)?;
        let input = self.find(path, fields, &INPUTS)?;
        let answer = self.find(path, fields, &ANSWERS)?;
        let known = |name: &str| {
            let all = [&[ACTION][..], &NAMES, &INPUTS, &ANSWERS, &THOUGHTS];
            all.iter().any(|names| is_any(name, names)) || is_beside(name, fields)
        };
        for name in fields.keys().filter(|name| !known(name)) {
            refuse_unless_empty(path, name, fields, "arguments go into `tool_input`")?;
        }
        let selects = match self.tool(path, action, name, input.is_some())? {
            Some(name) => {
                if let Some((key, _)) = answer {
                    let at = path_to(path, &key);
                    return Err(format!("{at}: an answer goes with \"action\": \"finish\""));
                }
                let arguments = input.map_or("{}", |(_, input)| input.get());
                Selects::Call { name, arguments: arguments.to_owned() }
            }
            None if !self.typed => Selects::Finish,
            None => {
                if let (Some((one, _)), Some((other, _))) = (&input, &answer) {
                    let at = path_to(path, other);
                    return Err(format!("{at}: give the answer once; there is `{one}` too"));
                }
                if let Some((key, _)) = &answer {
                    let what = format!("read `{key}` as `tool_input`");
                    self.repaired(Policy::Repair, &path_to(path, key), &what)?;
                }
                let arguments = input.or(answer).map_or("{}", |(_, input)| input.get());
                Selects::Call { name: FINISH.to_owned(), arguments: arguments.to_owned() }
            }
        };
        Ok((selects, thought))
    }

    /// Returns the tool to call, or `None` to finish.
    fn tool(
        &mut self,
        path: &str,
        action: Option<(String, String)>,
        name: Option<(String, String)>,
        has_input: bool,
    ) -> Result<Option<String>, String> {
        let name = match name {
            Some((key, said)) => {
                let tool = self.known(&path_to(path, &key), &said)?;
                Some((key, tool.unwrap_or(said)))
            }
            None => None,
        };
        let Some((key, said)) = action else {
            let Some((_, name)) = name else {
                return Err(format!("{path}: `action` and `tool_name` are missing"));
            };
            let what = "read a tool without `action` as a call of it";
            self.repaired(Policy::Repair, path, what)?;
            return Ok(Some(name).filter(|name| self.is_tool(name)));
        };
        let at = path_to(path, &key);
        let word = folded(&said);
        if word == FINISH {
            return match name {
                Some((other, name)) if name != FINISH => {
                    let other = path_to(path, &other);
                    Err(format!("{other}: it names a tool, and `{key}` says \"finish\""))
                }
                _ => Ok(None),
            };
        }
        if CALLS.iter().any(|call| folded(call) == word) {
            let Some((_, name)) = name else {
                return Err(format!("{path}: `tool_name` is missing"));
            };
            if said != CALL_TOOL {
                let what = format!("read {} as \"{CALL_TOOL}\"", Value::from(said));
                self.repaired(Policy::Coerce, &at, &what)?;
            }
            return Ok(Some(name).filter(|name| self.is_tool(name)));
        }
        // In a step of a ReAct prompt, the action is the tool.
        match (self.known(&at, &said)?, name) {
            (Some(tool), None) => {
                self.repaired(Policy::Repair, &at, "read the action as the tool to call")?;
                Ok(Some(tool))
            }
            (Some(tool), Some((_, name))) if tool == name => {
                self.repaired(Policy::Repair, &at, "read the action as the tool to call")?;
                Ok(Some(tool))
            }
            // The tool does not exist. The run's answer lists those that do.
            (None, None) if has_input => Ok(Some(said)),
            _ => {
                let said = Value::from(cut(&said));
                Err(format!("{at}: expected \"{CALL_TOOL}\" or \"finish\", got the string {said}"))
            }
        }
    }

    /// Returns whether this name is that of a tool. `finish` ends the run, unless an untyped run
    /// has a tool of that name.
    fn is_tool(&self, name: &str) -> bool {
        name != FINISH || !self.typed && self.tools.iter().any(|tool| tool == FINISH)
    }

    /// Returns the tool with this name. The case may differ if only one tool matches.
    fn known(&mut self, path: &str, said: &str) -> Result<Option<String>, String> {
        if self.tools.iter().any(|tool| tool == said) {
            return Ok(Some(said.to_owned()));
        }
        let meant = meant_tool(said, self.tools.iter().map(String::as_str));
        if let Some(tool) = meant.map(ToOwned::to_owned) {
            let what = name_repair(said, &tool).what;
            self.repaired(Policy::Repair, path, &what)?;
            return Ok(Some(tool));
        }
        let word = folded(said);
        let mut near = self.tools.iter().filter(|tool| folded(tool) == word);
        let (Some(tool), None) = (near.next(), near.next()) else { return Ok(None) };
        let what = format!("read {} as the tool `{tool}`", Value::from(said));
        let tool = tool.clone();
        self.repaired(Policy::Coerce, path, &what)?;
        Ok(Some(tool))
    }

    /// Returns the only field with one of these names and a value.
    fn find<'f>(
        &mut self,
        path: &str,
        fields: &Fields<'f>,
        names: &[&str],
    ) -> Result<Option<(String, &'f RawValue)>, String> {
        let mut found: Option<(&String, &'f RawValue)> = None;
        for (key, value) in fields.iter().filter(|(key, _)| is_any(key, names)) {
            match found {
                Some((other, one)) if one.get() != value.get() && !is_empty(value) => {
                    if !is_empty(one) {
                        let at = path_to(path, key);
                        return Err(format!("{at}: give it once; there is `{other}` too"));
                    }
                    found = Some((key, value));
                }
                Some(_) => {}
                None => found = Some((key, value)),
            }
        }
        let Some((key, value)) = found else { return Ok(None) };
        if is_null(value) {
            return Ok(None);
        }
        self.renamed(path, key, names)?;
        Ok(Some((key.clone(), value)))
    }

    fn text(
        &mut self,
        path: &str,
        fields: &Fields<'_>,
        names: &[&str],
    ) -> Result<Option<(String, String)>, String> {
        let Some((key, value)) = self.find(path, fields, names)? else { return Ok(None) };
        match serde_json::from_str::<String>(value.get()) {
            Ok(text) if text.trim().is_empty() => Ok(None),
            Ok(text) => Ok(Some((key, text.trim().to_owned()))),
            Err(_) => Err(format!("{}: expected a string", path_to(path, &key))),
        }
    }

    /// Records a repair if a field has another name than the requested one.
    fn renamed(&mut self, path: &str, key: &str, names: &[&str]) -> Result<(), String> {
        match names.first() {
            Some(first) if key != *first && !is_any(key, &ANSWERS) => {
                let what = format!("read `{key}` as `{first}`");
                self.repaired(Policy::Repair, &path_to(path, key), &what)
            }
            _ => Ok(()),
        }
    }

    fn repaired(&mut self, needed: Policy, path: &str, what: &str) -> Result<(), String> {
        if self.policy < needed {
            return Err(format!(
                "{path}: this needs a repair that is not allowed here ({what}); write it as requested"
            ));
        }
        self.repairs.push(Repair::new(path, what));
        Ok(())
    }
}

/// Returns the remarks of the model.
fn thought_of(path: &str, fields: &Fields<'_>) -> Result<Option<String>, String> {
    let mut thoughts = Vec::new();
    for (key, value) in
        fields.iter().filter(|(key, value)| is_any(key, &THOUGHTS) && !is_empty(value))
    {
        let thought = serde_json::from_str::<String>(value.get());
        thoughts.push(thought.map_err(|_| format!("{}: expected a string", path_to(path, key)))?);
    }
    Ok((!thoughts.is_empty()).then(|| thoughts.join("\n")))
}

/// Returns whether a field is the kind or the id of a native call.
fn is_beside(name: &str, fields: &Fields<'_>) -> bool {
    let said = fields.get(name).and_then(|value| serde_json::from_str::<String>(value.get()).ok());
    let Some(said) = said.filter(|_| is_any(name, &BESIDE)) else { return false };
    folded(name) != "type" || CALLS.iter().any(|call| folded(call) == folded(&said))
}

fn refuse_unless_empty(
    path: &str,
    name: &str,
    fields: &Fields<'_>,
    fix: &str,
) -> Result<(), String> {
    if fields.get(name).is_none_or(|value| is_empty(value)) {
        return Ok(());
    }
    let at = path_to(path, &cut(name));
    Err(format!("{at}: a selection has no such field; {fix}"))
}

fn is_any(key: &str, names: &[&str]) -> bool {
    names.iter().any(|name| folded(name) == folded(key))
}

/// Returns whether a value is empty.
fn is_empty(value: &RawValue) -> bool {
    let bare: String = value.get().chars().filter(|c| !c.is_whitespace()).collect();
    matches!(bare.as_str(), "null" | "\"\"" | "{}" | "[]")
}

fn is_null(value: &RawValue) -> bool {
    value.get() == "null" || value.get() == "\"\""
}

/// Returns a word in lower case, without separators.
fn folded(word: &str) -> String {
    let letters = word.chars().filter(|c| !matches!(c, '_' | '-' | ' '));
    letters.flat_map(char::to_lowercase).collect()
}

fn path_to(path: &str, key: &str) -> String {
    format!("{path}.{key}")
}

/// Returns the start of a model's text.
fn cut(text: &str) -> String {
    text.chars().take(60).collect()
}
