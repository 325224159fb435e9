//! Replies of Chat Completions, as servers send them.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolwright_module::model::Usage;
use toolwright_provider::TokenCounts;
use toolwright_provider::lenient::{
    Arguments, Count, Str, Text, Words, fields, if_object, is_set, object, or_default,
};

/// A whole reply, or one event of a stream. They differ in one field of [`Choice`].
#[derive(Deserialize)]
pub(crate) struct Completion<'e> {
    #[serde(borrow, default)]
    pub(super) model: Str<'e>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(super) choices: Vec<Choice<'e>>,
    #[serde(default, deserialize_with = "if_object")]
    pub(super) usage: Option<Tokens>,
    /// The usage in streams of Groq.
    #[serde(default, deserialize_with = "object")]
    pub(super) x_groq: Groq,
    #[serde(default)]
    pub(super) error: Value,
}

/// The fields of an error without the usual form. They are not part of a [`Completion`], so that it
/// stays small.
#[derive(Deserialize)]
pub(super) struct BareError<'e> {
    #[serde(borrow, default)]
    object: Str<'e>,
    #[serde(default)]
    detail: Value,
    #[serde(default)]
    errors: Value,
    #[serde(default)]
    message: Value,
    #[serde(default)]
    msg: Value,
    #[serde(default)]
    status: Value,
    #[serde(default)]
    success: Value,
    #[serde(default)]
    error_msg: Value,
    /// MiniMax has it in every reply, with the code zero if there is no error.
    #[serde(default)]
    base_resp: Value,
}

impl BareError<'_> {
    /// Returns whether an object without choices is an error.
    pub(super) fn is_in(json: &str) -> bool {
        serde_json::from_str::<BareError<'_>>(json).map_or(true, |error| {
            &*error.object == "error"
                || error.success == Value::Bool(false)
                || error.status.as_str().is_some_and(|status| matches!(status, "error" | "failed"))
                || error.base_resp["status_code"].as_i64().is_some_and(|code| code != 0)
                || [&error.detail, &error.errors, &error.message, &error.msg, &error.error_msg]
                    .into_iter()
                    .any(is_set)
        })
    }
}

#[derive(Default, Deserialize)]
pub(super) struct Groq {
    #[serde(default, deserialize_with = "if_object")]
    pub(super) usage: Option<Tokens>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'e> {
    #[serde(default)]
    pub(super) index: Count,
    /// The message of a whole reply. Some servers also end a stream with it.
    #[serde(borrow, default, deserialize_with = "message")]
    pub(super) message: Option<Box<Message<'e>>>,
    /// A piece of the message, in a stream.
    #[serde(borrow, default, deserialize_with = "message")]
    pub(super) delta: Option<Box<Message<'e>>>,
    /// The text in the older Completions API.
    #[serde(borrow, default)]
    pub(super) text: Str<'e>,
    #[serde(default)]
    pub(super) error: Value,
    #[serde(borrow, default)]
    pub(super) finish_reason: Str<'e>,
    /// The word of the model's own server, behind a gateway that has its own words.
    #[serde(borrow, default)]
    pub(super) native_finish_reason: Str<'e>,
    /// The stop text that ended the reply, as vLLM names it. A number is a token at a normal end.
    #[serde(default)]
    pub(super) stop_reason: Value,
    /// The same, as SGLang names it.
    #[serde(default)]
    pub(super) matched_stop: Value,
    /// The usage in streams of Moonshot.
    #[serde(default, deserialize_with = "if_object")]
    pub(super) usage: Option<Tokens>,
}

/// Deserializes a message into a box: it is large, and a choice would move it several times.
fn message<'de: 'e, 'e, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<Message<'e>>>, D::Error> {
    fields(deserializer).map(Some)
}

#[derive(Default, Deserialize)]
pub(super) struct Message<'e> {
    #[serde(borrow, default)]
    pub(super) content: Content<'e>,
    #[serde(borrow, default)]
    pub(super) refusal: Str<'e>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Str<'e>,
    /// The same under another name. Some servers send both.
    #[serde(borrow, default)]
    pub(super) reasoning: Str<'e>,
    /// The reasoning with signatures, in OpenRouter's form.
    #[serde(default, deserialize_with = "details")]
    pub(super) reasoning_details: Vec<Map<String, Value>>,
    /// Google's data of a message, such as a signature.
    #[serde(default)]
    pub(super) extra_content: Value,
    #[serde(default, deserialize_with = "calls")]
    pub(super) tool_calls: Vec<Call>,
    /// The only call, in the first form of the API (`functions` instead of `tools`).
    #[serde(default, deserialize_with = "object")]
    pub(super) function_call: Function,
}

/// A call, or a piece of one in a stream.
#[derive(Deserialize)]
#[serde(from = "CallForm<'_>")]
pub(super) struct Call {
    pub(super) index: Option<u64>,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) is_custom: bool,
    /// Google's data of a call, such as a signature.
    pub(super) extra: Value,
}

/// The wire forms of a [`Call`].
#[derive(Deserialize)]
struct CallForm<'e> {
    #[serde(default)]
    index: Count,
    #[serde(default)]
    id: Text,
    #[serde(borrow, rename = "type", default)]
    kind: Str<'e>,
    #[serde(default, deserialize_with = "fields")]
    function: Function,
    #[serde(default, deserialize_with = "fields")]
    custom: Custom,
    // Some servers send these fields here and not in `function`.
    #[serde(default)]
    name: Text,
    #[serde(default)]
    arguments: Arguments,
    #[serde(default)]
    parameters: Arguments,
    #[serde(default)]
    input: Arguments,
    #[serde(default)]
    extra_content: Value,
}

impl From<CallForm<'_>> for Call {
    fn from(form: CallForm<'_>) -> Self {
        let CallForm {
            index, id, kind, function, custom, name, arguments, parameters, input, ..
        } = form;
        let first = |a: Text, b: Text| if a.is_empty() { b.0 } else { a.0 };
        let is_custom = &*kind == "custom" || !custom.name.is_empty();
        let (name, arguments) = if is_custom {
            (first(custom.name, name), first(custom.input, Text(input.0)))
        } else {
            let (called, text) = function.name_and_arguments();
            let text = Arguments::first([text, arguments, parameters, input]);
            (first(called, name), text.0)
        };
        Self { index: index.0, id: id.0, name, arguments, is_custom, extra: form.extra_content }
    }
}

#[derive(Default, Deserialize)]
pub(super) struct Function {
    #[serde(default)]
    pub(super) name: Text,
    #[serde(default)]
    pub(super) arguments: Arguments,
    // The arguments under other names.
    #[serde(default)]
    pub(super) parameters: Arguments,
    #[serde(default)]
    pub(super) input: Arguments,
}

#[derive(Default, Deserialize)]
struct Custom {
    #[serde(default)]
    name: Text,
    #[serde(default)]
    input: Text,
}

/// The content of a message: a string or a list of pieces.
#[derive(Default)]
pub(super) struct Content<'e> {
    pub(super) text: Cow<'e, str>,
    pub(super) refusal: String,
    /// The reasoning, which Mistral sends here.
    pub(super) thinking: String,
    pub(super) calls: Vec<Call>,
}

impl<'de: 'e, 'e> Deserialize<'de> for Content<'e> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor;

        impl ContentVisitor {
            fn text<'e, E>(text: impl ToString) -> Result<Content<'e>, E> {
                Ok(Content { text: Cow::Owned(text.to_string()), ..Content::default() })
            }
        }

        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = Content<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the content of a message")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Content<'de>, E> {
                Ok(Content { text: Cow::Borrowed(text), ..Content::default() })
            }

            fn visit_str<E>(self, text: &str) -> Result<Content<'de>, E> {
                Self::text(text)
            }

            fn visit_unit<E>(self) -> Result<Content<'de>, E> {
                Ok(Content::default())
            }

            fn visit_bool<E>(self, value: bool) -> Result<Content<'de>, E> {
                Self::text(value)
            }

            fn visit_i64<E>(self, value: i64) -> Result<Content<'de>, E> {
                Self::text(value)
            }

            fn visit_u64<E>(self, value: u64) -> Result<Content<'de>, E> {
                Self::text(value)
            }

            fn visit_f64<E>(self, value: f64) -> Result<Content<'de>, E> {
                Self::text(value)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Content<'de>, A::Error> {
                let object = Value::deserialize(MapAccessDeserializer::new(map))?;
                let mut content = Content::default();
                content.add(&object.to_string())?;
                let Content { text, refusal, thinking, calls } = &content;
                let is_empty = text.is_empty() && refusal.is_empty() && thinking.is_empty();
                // The text is not in any known field.
                match is_empty && calls.is_empty() && is_set(&object) && object["text"].is_null() {
                    true => Err(A::Error::custom("the content is an object without a text")),
                    false => Ok(content),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Content<'de>, A::Error> {
                let mut content = Content::default();
                while let Some(piece) = list.next_element::<&RawValue>()? {
                    content.add(piece.get())?;
                }
                Ok(content)
            }
        }

        deserializer.deserialize_any(ContentVisitor)
    }
}

impl Content<'_> {
    /// Adds a piece of a list.
    fn add<E: Error>(&mut self, piece: &str) -> Result<(), E> {
        #[derive(Deserialize)]
        struct Kind<'p> {
            #[serde(borrow, rename = "type", default)]
            kind: Str<'p>,
            #[serde(borrow, default)]
            refusal: Str<'p>,
            #[serde(borrow, default)]
            thinking: Str<'p>,
        }

        if piece.starts_with('{') {
            let Kind { kind, refusal, thinking } = read(piece)?;
            if matches!(&*kind, "tool_use" | "tool_call" | "function_call" | "function") {
                self.calls.push(read(piece)?);
                return Ok(());
            }
            self.refusal.push_str(&refusal);
            if matches!(&*kind, "thinking" | "reasoning" | "reasoning_text") {
                match thinking.is_empty() {
                    true => self.thinking.push_str(&read::<Words, E>(&format!("[{piece}]"))?),
                    false => self.thinking.push_str(&thinking),
                }
                return Ok(());
            }
            if kind.is_empty() && !refusal.is_empty() {
                return Ok(());
            }
        }
        self.text.to_mut().push_str(&read::<Words, E>(&format!("[{piece}]"))?);
        Ok(())
    }
}

fn read<'t, T: Deserialize<'t>, E: serde::de::Error>(text: &'t str) -> Result<T, E> {
    serde_json::from_str(text).map_err(E::custom)
}

/// Deserializes the entries of `reasoning_details`. Other values than objects have no meaning.
fn details<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Map<String, Value>>, D::Error> {
    let entries = match Value::deserialize(deserializer)? {
        Value::Array(entries) => entries,
        entry => vec![entry],
    };
    let object = |entry| match entry {
        Value::Object(entry) if !entry.is_empty() => Some(entry),
        _ => None,
    };
    Ok(entries.into_iter().filter_map(object).collect())
}

/// Deserializes the calls of a message: a list, a nested list, one call, or any of these as a
/// string of JSON.
fn calls<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Call>, D::Error> {
    let mut calls = Vec::new();
    AddCalls(&mut calls).deserialize(deserializer)?;
    Ok(calls)
}

/// Adds the calls of a value to a list.
struct AddCalls<'c>(&'c mut Vec<Call>);

impl<'de> DeserializeSeed<'de> for AddCalls<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AddCalls<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("calls")
    }

    fn visit_map<A: MapAccess<'de>>(self, call: A) -> Result<(), A::Error> {
        self.0.push(Call::deserialize(MapAccessDeserializer::new(call))?);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(AddCalls(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        let text = text.trim();
        // Some servers send one of these words instead of an empty list.
        let words = ["", "none", "null", "n/a", "false"];
        if words.iter().any(|word| text.eq_ignore_ascii_case(word)) {
            return Ok(());
        }
        if !text.starts_with(['[', '{']) {
            return Err(E::custom("it is not a call"));
        }
        let mut json = serde_json::Deserializer::from_str(text);
        self.deserialize(&mut json).and_then(|()| json.end()).map_err(E::custom)
    }

    fn visit_bool<E: Error>(self, is_call: bool) -> Result<(), E> {
        match is_call {
            true => Err(E::custom("it is not a call")),
            false => Ok(()),
        }
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

impl Function {
    /// Returns the name and the arguments, which have several names.
    pub(super) fn name_and_arguments(self) -> (Text, Arguments) {
        (self.name, Arguments::first([self.arguments, self.parameters, self.input]))
    }
}

/// The counts of tokens. Each event of a stream that has some has those so far.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct Tokens {
    #[serde(default)]
    pub(super) prompt_tokens: Option<Count>,
    #[serde(default)]
    pub(super) completion_tokens: Option<Count>,
    /// The names of Responses, which some servers use here too.
    #[serde(default)]
    pub(super) input_tokens: Option<Count>,
    #[serde(default)]
    pub(super) output_tokens: Option<Count>,
    #[serde(default)]
    pub(super) total_tokens: Option<Count>,
    #[serde(default, deserialize_with = "object")]
    pub(super) prompt_tokens_details: PromptDetails,
    #[serde(default, deserialize_with = "object")]
    pub(super) completion_tokens_details: CompletionDetails,
    // The same counts in the places where other servers send them.
    #[serde(default)]
    pub(super) prompt_cache_hit_tokens: Option<Count>,
    #[serde(default)]
    pub(super) num_cached_tokens: Option<Count>,
    #[serde(default)]
    pub(super) cached_tokens: Option<Count>,
    #[serde(default)]
    pub(super) cache_read_input_tokens: Option<Count>,
    #[serde(default)]
    pub(super) cache_creation_input_tokens: Option<Count>,
    #[serde(default)]
    pub(super) reasoning_tokens: Option<Count>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct PromptDetails {
    #[serde(default)]
    pub(super) cached_tokens: Option<Count>,
    #[serde(default)]
    pub(super) cache_write_tokens: Option<Count>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct CompletionDetails {
    #[serde(default)]
    pub(super) reasoning_tokens: Option<Count>,
}

impl Tokens {
    /// Takes the counts of a later event. One that it leaves out or has as zero stays.
    pub(super) fn update(&mut self, later: Self) {
        let newer = |count: &mut Option<Count>, later: Option<Count>| {
            // A value that is not a count does not replace one.
            let later = later.filter(|later| later.0.is_some() || count.is_none());
            *count = TokenCounts::first([later, *count]);
        };
        newer(&mut self.prompt_tokens, later.prompt_tokens);
        newer(&mut self.completion_tokens, later.completion_tokens);
        newer(&mut self.input_tokens, later.input_tokens);
        newer(&mut self.output_tokens, later.output_tokens);
        newer(&mut self.total_tokens, later.total_tokens);
        newer(&mut self.prompt_cache_hit_tokens, later.prompt_cache_hit_tokens);
        newer(&mut self.num_cached_tokens, later.num_cached_tokens);
        newer(&mut self.cached_tokens, later.cached_tokens);
        newer(&mut self.cache_read_input_tokens, later.cache_read_input_tokens);
        newer(&mut self.cache_creation_input_tokens, later.cache_creation_input_tokens);
        newer(&mut self.reasoning_tokens, later.reasoning_tokens);
        let (prompt, more) = (&mut self.prompt_tokens_details, later.prompt_tokens_details);
        newer(&mut prompt.cached_tokens, more.cached_tokens);
        newer(&mut prompt.cache_write_tokens, more.cache_write_tokens);
        let (written, more) =
            (&mut self.completion_tokens_details, later.completion_tokens_details);
        newer(&mut written.reasoning_tokens, more.reasoning_tokens);
    }
}

impl From<Tokens> for Usage {
    fn from(tokens: Tokens) -> Self {
        let cached = [
            tokens.prompt_tokens_details.cached_tokens,
            tokens.prompt_cache_hit_tokens,
            tokens.num_cached_tokens,
            tokens.cached_tokens,
            tokens.cache_read_input_tokens,
        ];
        let cache_written =
            [tokens.prompt_tokens_details.cache_write_tokens, tokens.cache_creation_input_tokens];
        let reasoning =
            [tokens.completion_tokens_details.reasoning_tokens, tokens.reasoning_tokens];
        let counts = TokenCounts {
            read: TokenCounts::first([tokens.prompt_tokens, tokens.input_tokens]),
            written: TokenCounts::first([tokens.completion_tokens, tokens.output_tokens]),
            cached: TokenCounts::first(cached),
            cache_written: TokenCounts::first(cache_written),
            reasoning: TokenCounts::first(reasoning),
            total: tokens.total_tokens,
        };
        counts.usage()
    }
}
