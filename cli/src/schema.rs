//! The form of an answer: JSON Schema, or the short form for fields.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolwright_module::Contract;

use crate::texts::read_file;

/// The form of a structured answer.
///
/// The text is a JSON Schema, the path of a file with one that ends in `.json`, or the short form:
///
/// ```text
/// answer = fields | "list of" type
/// fields = field { ("," | newline) field }
/// field  = name [ type ] [ "?" ] [ ":" description ]
/// type   = "text" | "int" | "number" | "bool" | "list of" type
///        | word "|" word { "|" word } | "{" fields "}"
/// ```
///
/// A field without a type is text. A field with `?` may be missing. A description ends at the next
/// comma or line.
#[derive(Debug, Clone)]
pub(crate) struct AnswerSchema {
    contract: Arc<Contract>,
}

impl AnswerSchema {
    /// Returns the contract whose output is the answer.
    #[must_use]
    pub(crate) fn contract(&self) -> Arc<Contract> {
        Arc::clone(&self.contract)
    }

    /// Returns the JSON Schema.
    pub(crate) fn schema(&self) -> Option<&Value> {
        self.contract.output_to_read()
    }
}

impl FromStr for AnswerSchema {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let json = |text: &str| {
            let schema = serde_json::from_str::<Value>(text);
            schema.map_err(|error| format!("it is not JSON Schema: {error}"))
        };
        let schema = if text.starts_with('{') {
            json(text)?
        } else if text.ends_with(".json") {
            json(&read_file(Path::new(text)).map_err(|error| format!("{text}: {error}"))?)?
        } else {
            short(text)?
        };
        let input = json!({"type": "object", "properties": {}});
        let contract = Contract::dynamic("answer", "Answer the task.", input, Some(schema));
        Ok(Self { contract: Arc::new(contract.map_err(|error| error.to_string())?) })
    }
}

/// Maximum number of objects and lists inside each other.
const DEEPEST: usize = 20;

/// Reads the short form.
fn short(text: &str) -> Result<Value, String> {
    let mut reader = Reader { rest: text, depth: 0 };
    let schema = match reader.rest.starts_with("list of ") {
        true => reader.kind()?,
        false => reader.fields()?,
    };
    match reader.rest.trim_start().is_empty() {
        true => Ok(schema),
        false => Err(reader.fault("expected a comma")),
    }
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn fields(&mut self) -> Result<Value, String> {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        loop {
            self.rest = self.rest.trim_start();
            if self.rest.is_empty() || self.rest.starts_with('}') {
                break;
            }
            let name = self.word();
            if name.is_empty() {
                return Err(self.fault("expected the name of a field"));
            }
            let mut schema = match self.next() {
                None | Some(',' | '\n' | '?' | ':' | '}') => json!({"type": "string"}),
                Some(_) => self.kind()?,
            };
            match self.next() == Some('?') {
                true => self.skip(),
                false => required.push(json!(name)),
            }
            if self.next() == Some(':') {
                self.skip();
                let end = self.rest.find([',', '\n', '}']).unwrap_or(self.rest.len());
                let (description, rest) = self.rest.split_at(end);
                schema["description"] = json!(description.trim());
                self.rest = rest;
            }
            if properties.insert(name.to_owned(), schema).is_some() {
                return Err(format!("the field `{name}` is there twice"));
            }
            match self.next() {
                Some(',' | '\n') => self.skip(),
                None | Some('}') => {}
                Some(_) => return Err(self.fault("expected a comma")),
            }
        }
        if properties.is_empty() {
            return Err("there is no field; write for example `name, age int`".to_owned());
        }
        Ok(json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }))
    }

    fn kind(&mut self) -> Result<Value, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("there are more than {DEEPEST} levels"));
        }
        let kind = self.kind_of_this_level();
        self.depth -= 1;
        kind
    }

    fn kind_of_this_level(&mut self) -> Result<Value, String> {
        if self.next() == Some('{') {
            self.skip();
            let fields = self.fields()?;
            if self.next() != Some('}') {
                return Err(self.fault("expected `}`"));
            }
            self.skip();
            return Ok(fields);
        }
        let before = self.rest;
        let word = self.word();
        if self.next() == Some('|') {
            let mut words = vec![word];
            while self.next() == Some('|') {
                self.skip();
                self.rest = self.rest.trim_start();
                words.push(self.word());
            }
            if words.contains(&"") {
                return Err(self.fault("expected a word on both sides of `|`"));
            }
            return Ok(json!({"type": "string", "enum": words}));
        }
        Ok(match word {
            "text" | "string" | "str" => json!({"type": "string"}),
            "int" | "integer" => json!({"type": "integer"}),
            "number" | "float" => json!({"type": "number"}),
            "bool" | "boolean" => json!({"type": "boolean"}),
            "list" => {
                self.rest = self.rest.trim_start();
                if self.word() != "of" {
                    return Err(self.fault("expected `of` after `list`"));
                }
                self.rest = self.rest.trim_start();
                json!({"type": "array", "items": self.kind()?})
            }
            _ => {
                self.rest = before;
                let types = "text, int, number, bool, list of …, one|another or {fields}";
                return Err(self.fault(&format!("expected a type: {types}")));
            }
        })
    }

    /// Returns the next character that is not a space, and goes there.
    fn next(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r']);
        self.rest.chars().next()
    }

    /// Skips one character.
    fn skip(&mut self) {
        let mut chars = self.rest.chars();
        chars.next();
        self.rest = chars.as_str();
    }

    /// Returns the word that begins here, which may be empty.
    fn word(&mut self) -> &'a str {
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn fault(&self, expected: &str) -> String {
        match self.rest.trim() {
            "" => format!("{expected} at the end"),
            rest => format!("{expected} at `{}`", rest.chars().take(20).collect::<String>()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_is_a_schema() {
        let schema =
            short("name, age int, tags list of text?, size small|large: its size").unwrap();
        let expected = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "age": {"type": "integer"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "size": {"type": "string", "enum": ["small", "large"], "description": "its size"},
            },
            "required": ["name", "age", "size"],
            "additionalProperties": false,
        });
        assert_eq!(schema, expected);
        let lines =
            short("\n name\n age int\n tags list of text ?\n size small | large : its size\n");
        assert_eq!(lines.unwrap(), expected);
    }

    #[test]
    fn lists_and_objects_can_be_nested() {
        let people = short("list of {name, address {street, city?}, born {year int}?}").unwrap();
        let person = &people["items"];
        assert_eq!(people["type"], "array");
        assert_eq!(person["required"], json!(["name", "address"]));
        assert_eq!(person["properties"]["address"]["required"], json!(["street"]));
        assert_eq!(person["properties"]["born"]["properties"]["year"]["type"], "integer");
        let matrix = short("rows list of list of number").unwrap();
        assert_eq!(matrix["properties"]["rows"]["items"]["items"]["type"], "number");
    }

    #[test]
    fn a_schema_can_be_given_whole() {
        let whole = r#"{"type": "object", "properties": {"age": {"type": "integer"}}}"#;
        let schema: AnswerSchema = whole.parse().unwrap();
        assert_eq!(schema.schema().unwrap()["properties"]["age"]["type"], "integer");
        assert!("{".parse::<AnswerSchema>().unwrap_err().starts_with("it is not JSON Schema"));
        assert!("no/such.json".parse::<AnswerSchema>().unwrap_err().starts_with("no/such.json: "));
    }
}
