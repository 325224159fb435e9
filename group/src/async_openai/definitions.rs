//! Definitions as tools and response formats of both APIs.
use std::sync::Arc;

use async_openai::types::chat::{
    ChatCompletionTools, CustomGrammarFormatParam, CustomToolChatCompletions, CustomToolProperties,
    CustomToolPropertiesFormat, GrammarSyntax, ResponseFormat,
};
use async_openai::types::responses::{
    CustomToolParam, CustomToolParamFormat, TextResponseFormatConfiguration, Tool,
};
use serde::de::DeserializeOwned;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use toolwright_module::message::CallKind;
use toolwright_signature::{ContractError, Dialect};

use crate::{Definition, Format, Parameters, ToolGroup};

/// The API of OpenAI that a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Api {
    /// Chat Completions.
    Chat,
    /// Responses.
    Responses,
}

/// The conversion of a definition to OpenAI's JSON and to `async-openai`'s types.
///
/// A strict definition is lowered to OpenAI's strict dialect, any other to the loose one. An
/// explicit schema stays unchanged. A strict definition whose schema OpenAI's strict mode does not
/// support is sent with `strict: false`; [`Definition::parameters`] lists the reasons.
pub trait DefinitionExt {
    /// Returns an entry of `tools`.
    ///
    /// # Errors
    ///
    /// [`ContractError::Lowering`] if the schema cannot be lowered. The other functions have the same
    /// errors.
    fn tool(&self, api: Api) -> Result<Box<RawValue>, ContractError>;

    /// Returns the format of structured output: `response_format` of Chat Completions, or
    /// `text.format` of Responses.
    ///
    /// # Errors
    ///
    /// The errors of [`tool`](Self::tool).
    fn format_json(&self, api: Api) -> Result<Box<RawValue>, ContractError>;

    /// Returns an entry of `tools` for Chat Completions. `async-openai` always sends a custom
    /// tool's description and format, by default an empty text and plain text.
    ///
    /// # Errors
    ///
    /// The errors of [`tool`](Self::tool).
    fn chat_tool(&self) -> Result<ChatCompletionTools, ContractError>;

    /// Returns an entry of `tools` for Responses. See [`chat_tool`](Self::chat_tool).
    ///
    /// # Errors
    ///
    /// The errors of [`tool`](Self::tool).
    fn responses_tool(&self) -> Result<Tool, ContractError>;

    /// Returns `response_format` of Chat Completions.
    ///
    /// # Errors
    ///
    /// The errors of [`tool`](Self::tool).
    fn response_format(&self) -> Result<ResponseFormat, ContractError>;

    /// Returns `text.format` of Responses.
    ///
    /// # Errors
    ///
    /// The errors of [`tool`](Self::tool).
    fn text_format(&self) -> Result<TextResponseFormatConfiguration, ContractError>;
}

impl DefinitionExt for Definition {
    fn tool(&self, api: Api) -> Result<Box<RawValue>, ContractError> {
        raw(self.name(), &Wire::tool(self, api)?)
    }

    fn format_json(&self, api: Api) -> Result<Box<RawValue>, ContractError> {
        raw(self.name(), &Wire::format(self, api)?)
    }

    fn chat_tool(&self) -> Result<ChatCompletionTools, ContractError> {
        if self.kind() != CallKind::Custom {
            return typed(self, &self.tool(Api::Chat)?);
        }
        Ok(ChatCompletionTools::Custom(CustomToolChatCompletions {
            custom: CustomToolProperties {
                name: self.name().to_owned(),
                description: Some(self.description().to_owned()),
                format: match self.format().and_then(grammar) {
                    Some(grammar) => CustomToolPropertiesFormat::Grammar { grammar },
                    None => CustomToolPropertiesFormat::Text,
                },
            },
        }))
    }

    fn responses_tool(&self) -> Result<Tool, ContractError> {
        if self.kind() != CallKind::Custom {
            return typed(self, &self.tool(Api::Responses)?);
        }
        Ok(Tool::Custom(CustomToolParam {
            name: self.name().to_owned(),
            description: Some(self.description().to_owned()),
            format: match self.format().and_then(grammar) {
                Some(grammar) => CustomToolParamFormat::Grammar(grammar),
                None => CustomToolParamFormat::Text,
            },
            ..CustomToolParam::default()
        }))
    }

    fn response_format(&self) -> Result<ResponseFormat, ContractError> {
        typed(self, &self.format_json(Api::Chat)?)
    }

    fn text_format(&self) -> Result<TextResponseFormatConfiguration, ContractError> {
        typed(self, &self.format_json(Api::Responses)?)
    }
}

/// The conversion of all definitions of a group to OpenAI's JSON and to `async-openai`'s types.
pub trait GroupExt {
    /// Returns `tools` as JSON. It is made once for each API and cached, so a repeated call is
    /// cheap.
    ///
    /// # Errors
    ///
    /// The errors of [`DefinitionExt::tool`], and [`ContractError::TooManyTools`]. The other functions have
    /// the same errors.
    fn tools(&self, api: Api) -> Result<Arc<RawValue>, ContractError>;

    /// Returns `tools` for Chat Completions in `async-openai`'s types. They are not cached.
    ///
    /// # Errors
    ///
    /// The errors of [`tools`](Self::tools).
    fn chat_tools(&self) -> Result<Vec<ChatCompletionTools>, ContractError>;

    /// Returns `tools` for Responses in `async-openai`'s types. They are not cached.
    ///
    /// # Errors
    ///
    /// The errors of [`tools`](Self::tools).
    fn responses_tools(&self) -> Result<Vec<Tool>, ContractError>;
}

impl<In, Out> GroupExt for ToolGroup<In, Out> {
    fn tools(&self, api: Api) -> Result<Arc<RawValue>, ContractError> {
        self.wire_form(key(api), |definitions| tools(definitions, api))
    }

    fn chat_tools(&self) -> Result<Vec<ChatCompletionTools>, ContractError> {
        checked(self.definitions())?.iter().map(Definition::chat_tool).collect()
    }

    fn responses_tools(&self) -> Result<Vec<Tool>, ContractError> {
        checked(self.definitions())?.iter().map(Definition::responses_tool).collect()
    }
}

fn key(api: Api) -> &'static str {
    match api {
        Api::Chat => "openai chat",
        Api::Responses => "openai responses",
    }
}

/// Returns the definitions, or an error if there are too many for one request.
fn checked(definitions: &[Definition]) -> Result<&[Definition], ContractError> {
    let (dialect, count) = (Dialect::OpenAiLoose, definitions.len());
    match dialect.max_tools() {
        Some(most) if count > most => Err(ContractError::TooManyTools { dialect, count, most }),
        _ => Ok(definitions),
    }
}

fn tools(definitions: &[Definition], api: Api) -> Result<Box<RawValue>, ContractError> {
    let all = checked(definitions)?.iter();
    let all: Vec<_> = all.map(|one| Wire::tool(one, api)).collect::<Result<_, ContractError>>()?;
    raw(definitions.first().map_or("", Definition::name), &all)
}

fn raw(name: &str, value: &impl Serialize) -> Result<Box<RawValue>, ContractError> {
    to_raw_value(value).map_err(|source| ContractError::Write { contract: name.to_owned(), source })
}

/// Returns the dialect in which a definition's schema is sent.
fn dialect(definition: &Definition) -> Dialect {
    if definition.strict() { Dialect::OpenAiStrict } else { Dialect::OpenAiLoose }
}

/// Reads JSON into one of `async-openai`'s types.
fn typed<T: DeserializeOwned>(of: &Definition, json: &RawValue) -> Result<T, ContractError> {
    serde_json::from_str(json.get())
        .map_err(|source| ContractError::Write { contract: of.name().to_owned(), source })
}

fn grammar(format: &Format) -> Option<CustomGrammarFormatParam> {
    let (syntax, definition) = match format {
        Format::Regex(regex) => (GrammarSyntax::Regex, regex),
        Format::Lark(grammar) => (GrammarSyntax::Lark, grammar),
        _ => return None,
    };
    Some(CustomGrammarFormatParam { definition: definition.to_string(), syntax })
}

/// The JSON that is sent, with its fields in the order of OpenAI's documentation. Chat Completions
/// nests the fields in one more object, which has the name of the type.
struct Wire<'a> {
    api: Api,
    kind: &'static str,
    fields: Fields<'a>,
}

#[derive(Serialize, Default)]
struct Fields<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<CustomFormat<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum CustomFormat<'a> {
    Text { r#type: &'static str },
    ChatGrammar { r#type: &'static str, grammar: Grammar<'a> },
    Grammar { r#type: &'static str, syntax: &'static str, definition: &'a str },
}

#[derive(Serialize)]
struct Grammar<'a> {
    syntax: &'static str,
    definition: &'a str,
}

impl Serialize for Wire<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Flat<'a> {
            r#type: &'static str,
            #[serde(flatten)]
            fields: &'a Fields<'a>,
        }

        let Self { api, kind, fields } = self;
        match api {
            Api::Chat => {
                let mut nested = serializer.serialize_map(None)?;
                nested.serialize_entry("type", kind)?;
                nested.serialize_entry(kind, fields)?;
                nested.end()
            }
            Api::Responses => Flat { r#type: kind, fields }.serialize(serializer),
        }
    }
}

impl<'a> Wire<'a> {
    fn tool(of: &'a Definition, api: Api) -> Result<Self, ContractError> {
        let fields = Fields { name: of.name(), ..Fields::default() };
        if of.kind() == CallKind::Custom {
            let description = Some(of.description()).filter(|text| !text.is_empty());
            let format = of.format().map(|format| CustomFormat::of(format, api));
            return Ok(Self {
                api,
                kind: "custom",
                fields: Fields { description, format, ..fields },
            });
        }
        let Parameters { schema, strict, .. } = of.parameters(dialect(of))?;
        let (description, parameters, strict) =
            (Some(of.description()), Some(schema), Some(strict));
        let fields = Fields { description, parameters, strict, ..fields };
        Ok(Self { api, kind: "function", fields })
    }

    fn format(of: &'a Definition, api: Api) -> Result<Self, ContractError> {
        let Parameters { schema, strict, .. } = of.parameters(dialect(of))?;
        let fields = Fields {
            name: of.name(),
            description: Some(of.description()),
            schema: Some(schema),
            strict: Some(strict),
            ..Fields::default()
        };
        Ok(Self { api, kind: "json_schema", fields })
    }
}

impl<'a> CustomFormat<'a> {
    fn of(format: &'a Format, api: Api) -> Self {
        let (syntax, definition) = match format {
            Format::Regex(regex) => ("regex", regex),
            Format::Lark(grammar) => ("lark", grammar),
            _ => return Self::Text { r#type: "text" },
        };
        let r#type = "grammar";
        match api {
            Api::Chat => Self::ChatGrammar { r#type, grammar: Grammar { syntax, definition } },
            Api::Responses => Self::Grammar { r#type, syntax, definition },
        }
    }
}
