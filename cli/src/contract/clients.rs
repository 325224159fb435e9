//! What MCP clients do with a tool's definition: a table of rules with sources, and the check of
//! tools against it.
//!
//! The rules are those that users of the clients reported or that the clients' source has. The page
//! `docs/mcp.md` shows them; a test compares both.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The rules, in the order of the page.
const CLIENTS: &str = include_str!("clients.json");

/// A rule of one client.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub(super) struct ClientRule {
    client: String,
    #[serde(skip_serializing)]
    takes: Takes,
    /// What the client does with a tool that breaks the rule.
    otherwise: String,
    source: String,
    /// The date of the source, or the day when it was read.
    date: String,
}

/// What a client takes.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Takes {
    /// At most this number of tools.
    Tools(usize),
    /// A name of at most this many bytes, without the name of the server that the client may add.
    NameBytes(usize),
    /// A name of these characters.
    NameCharacters(String),
    /// Names of fields of these characters, at most 64.
    FieldNames(String),
    /// `type: object` at the root of both schemas.
    ObjectsAtTheRoot,
    /// `properties` in each object of the input.
    PropertiesInObjects,
    /// `items` in each list of the input.
    ItemsInLists,
    /// No such keyword at the root of the input.
    RootWithout(Vec<String>),
    /// No such keyword in the input.
    Without(Vec<String>),
}

/// A tool that a client does not take as it is.
#[derive(Debug, Serialize)]
pub(super) struct Refused {
    /// What the client refuses: a path and what is there.
    found: String,
    #[serde(flatten)]
    rule: ClientRule,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ClientRule { client, otherwise, source, date, .. } = &self.rule;
        write!(f, "{client} {otherwise}: {} ({source}, {date})", self.found)
    }
}

/// Returns the rules.
///
/// # Errors
///
/// If the file in this program is damaged.
pub(super) fn rules() -> Result<Vec<ClientRule>, serde_json::Error> {
    serde_json::from_str(CLIENTS)
}

impl ClientRule {
    /// Checks a tool in the form of MCP, at its place in the list.
    pub(super) fn refuses(&self, tool: &Value, place: usize) -> Option<Refused> {
        let found = self.takes.refused(tool, place)?;
        Some(Refused { found, rule: self.clone() })
    }
}

impl Takes {
    /// Returns the part of a tool that breaks the rule.
    fn refused(&self, tool: &Value, place: usize) -> Option<String> {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        let input = tool.get("inputSchema").unwrap_or(&Value::Null);
        match self {
            Self::Tools(most) => {
                (place >= *most).then(|| format!("it is tool {} of at most {most}", place + 1))
            }
            Self::NameBytes(most) => (name.len() > *most)
                .then(|| format!("the name has {} characters of at most {most}", name.len())),
            Self::NameCharacters(known) => wrong(name, known),
            Self::FieldNames(known) => first(input, &mut |schema| {
                let fields = schema.get("properties")?.as_object()?;
                fields.keys().find_map(|field| match field.len() {
                    1..=64 => wrong(field, known),
                    _ => Some(format!("the field's name `{field}`")),
                })
            }),
            Self::ObjectsAtTheRoot => {
                let sides = ["inputSchema", "outputSchema"].into_iter();
                let mut schemas = sides.filter_map(|side| tool.get(side).map(|it| (side, it)));
                let (side, _) = schemas.find(|(_, schema)| schema["type"] != "object")?;
                Some(format!("`{side}` has no `type: object` at its root"))
            }
            Self::PropertiesInObjects => lacking(input, "object", "properties"),
            Self::ItemsInLists => lacking(input, "array", "items"),
            Self::RootWithout(keywords) => {
                let keyword =
                    keywords.iter().find(|keyword| input.get(keyword.as_str()).is_some())?;
                Some(format!("`{keyword}` at the root"))
            }
            Self::Without(keywords) => first(input, &mut |schema| {
                let is_there = |keyword: &&String| schema.get(keyword.as_str()).is_some();
                keywords.iter().find(is_there).map(|keyword| format!("`{keyword}`"))
            }),
        }
    }

    /// Returns the rule in words, for the page.
    #[cfg(test)]
    fn words(&self) -> String {
        let quoted = |keywords: &[String]| {
            keywords.iter().map(|keyword| format!("`{keyword}`")).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Tools(most) => format!("at most {most} tools"),
            Self::NameBytes(most) => format!("a name of at most {most} characters"),
            Self::NameCharacters(known) => format!("a name of `{known}`"),
            Self::FieldNames(known) => format!("field names of 1 to 64 characters of `{known}`"),
            Self::ObjectsAtTheRoot => "`type: object` at the root of both schemas".to_owned(),
            Self::PropertiesInObjects => "`properties` in each object".to_owned(),
            Self::ItemsInLists => "`items` in each list".to_owned(),
            Self::RootWithout(keywords) => format!("no {} at the root", quoted(keywords)),
            Self::Without(keywords) => format!("no {}", quoted(keywords)),
        }
    }
}

/// Returns the first character of a name that is not in a list such as `A-Za-z0-9_-`.
fn wrong(name: &str, known: &str) -> Option<String> {
    let is_known =
        |c: char| c.is_ascii_alphanumeric() || known.trim_start_matches("A-Za-z0-9").contains(c);
    let wrong = name.chars().find(|c| !is_known(*c))?;
    Some(format!("`{wrong}` in the name `{name}`"))
}

/// Returns the place of the first schema of a type without a keyword.
fn lacking(input: &Value, kind: &str, keyword: &str) -> Option<String> {
    first(input, &mut |schema| {
        let is_one = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().any(|one| one == kind),
            one => one == kind,
        };
        (is_one && schema.get(keyword).is_none()).then(|| format!("`{kind}` without `{keyword}`"))
    })
}

/// Returns the first finding in a schema and the schemas below it, with its path.
fn first(root: &Value, find: &mut impl FnMut(&Value) -> Option<String>) -> Option<String> {
    let mut waiting = vec![(root, "$".to_owned())];
    while let Some((schema, path)) = waiting.pop() {
        if let Some(found) = find(schema) {
            return Some(format!("{found} at {path}"));
        }
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            match (keyword.as_str(), value) {
                ("properties", Value::Object(named)) => {
                    let fields = named.iter().rev();
                    waiting.extend(fields.map(|(name, below)| (below, format!("{path}.{name}"))));
                }
                (
                    "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
                    Value::Object(named),
                ) => {
                    waiting.extend(
                        named.iter().map(|(name, below)| (below, format!("{path}.{name}"))),
                    );
                }
                ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(members)) => {
                    waiting.extend(members.iter().map(|below| (below, path.clone())));
                }
                ("items", below) => waiting.push((below, format!("{path}[]"))),
                (
                    "additionalProperties"
                    | "propertyNames"
                    | "contains"
                    | "not"
                    | "if"
                    | "then"
                    | "else",
                    below,
                ) => waiting.push((below, path.clone())),
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;

    /// The table of the page `docs/mcp.md`.
    fn table() -> String {
        let mut table =
            String::from("| client | takes | otherwise it | source |\n|---|---|---|---|\n");
        for ClientRule { client, takes, otherwise, source, date } in rules().unwrap() {
            let takes = takes.words();
            writeln!(table, "| {client} | {takes} | {otherwise} | [{date}]({source}) |").unwrap();
        }
        table
    }

    #[test]
    fn the_page_on_mcp_has_the_rules_of_the_clients() {
        let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/mcp.md");
        let text = std::fs::read_to_string(&page).unwrap();
        let head = "| client | takes |";
        let start = text.find(head).unwrap_or(text.len());
        let length = text[start..].find("\n\n").map_or(text.len() - start, |at| at + 1);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            let new = format!("{}{}{}", &text[..start], table(), &text[start + length..]);
            std::fs::write(&page, new).unwrap();
            return;
        }
        assert_eq!(&text[start..start + length], table(), "run it with UPDATE_DOCS=1");
    }

    #[test]
    fn each_rule_refuses_a_tool_that_breaks_it_and_no_other() {
        let text = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}});
        let tool = |name: &str, input: Value| json!({"name": name, "inputSchema": input});
        let refused = |tool: &Value, place: usize| -> Vec<String> {
            let rules = rules().unwrap();
            let found = rules.iter().filter_map(|rule| rule.refuses(tool, place));
            found.map(|refused| format!("{}: {}", refused.rule.client, refused.found)).collect()
        };
        assert_eq!(refused(&tool("find", text("a")), 0), [""; 0]);
        let list = json!({"type": "object", "properties": {"a": {"type": "array"}}});
        assert_eq!(refused(&tool("find", list), 0), ["VS Code: `array` without `items` at $.a"]);
        let bare = json!({"type": "object", "properties": {"a": {"type": "object"}}});
        let found = refused(&tool("find", bare), 0);
        assert!(
            found[0].contains("Copilot CLI: `object` without `properties` at $.a"),
            "{found:?}"
        );
        let any = json!({"type": "object", "properties": {}, "allOf": [{"required": ["a"]}]});
        assert_eq!(refused(&tool("find", any), 0).len(), 4);
        let union = json!({"type": "object", "properties": {"a": {"oneOf": [{}, {}]}}});
        assert_eq!(refused(&tool("find", union), 0), ["Codex: `oneOf` at $.a"]);
        let mut output = tool("find", text("a"));
        output["outputSchema"] = json!({"type": "array"});
        assert_eq!(refused(&output, 0).len(), 2);
        let reference = json!({"type": "object", "properties": {"a": {"$ref": "#"}}});
        assert_eq!(refused(&tool("find", reference), 0).len(), 5);
        assert_eq!(refused(&tool(&"n".repeat(60), text("a")), 0).len(), 1);
        assert_eq!(refused(&tool("find.it", text("a")), 0).len(), 3);
        assert_eq!(refused(&tool("find", text("a$")), 0).len(), 1);
        assert_eq!(refused(&tool("find", text("a")), 90).len(), 1);
        assert_eq!(refused(&tool("find", text("a")), 128).len(), 3);
    }

    #[test]
    fn each_rule_has_a_source_and_a_date() {
        for rule in rules().unwrap() {
            assert!(rule.source.starts_with("https://"), "{rule:?}");
            let is_date =
                rule.date.len() == 10 && rule.date.chars().filter(|c| *c == '-').count() == 2;
            assert!(is_date, "{rule:?}");
        }
    }
}
