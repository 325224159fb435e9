//! Custom tools: handlers whose input is text instead of JSON.
use std::borrow::Cow;
use std::future::Future;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use toolwright_module::{Context, Result};

use crate::metadata::custom_metadata;

/// The format of a custom tool's text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Any text.
    Text,
    /// Text that matches a regular expression as a whole, in the syntax of the crate `regex`.
    Regex(Cow<'static, str>),
    /// Text in the language of a Lark grammar.
    Lark(Cow<'static, str>),
}

/// A tool that takes text instead of JSON: prose, code, or words of a grammar.
///
/// The type deserializes from that text. A struct around a `String` accepts any text. Serde's
/// `try_from`, or an enum of words, accepts less.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use toolwright_group::{Custom, Format};
/// use toolwright_module::{Context, Result};
///
/// /// Say when to meet.
/// #[derive(Deserialize, JsonSchema)]
/// struct Timestamp(String);
///
/// impl Custom for Timestamp {
///     fn format() -> Option<Format> {
///         Some(Format::Regex(r"\d{2}:\d{2}".into()))
///     }
///
///     async fn handle(self, _cx_in: &(), _cx: &Context) -> Result<(String, ())> {
///         Ok((format!("We meet at {}.", self.0), ()))
///     }
/// }
/// ```
///
/// Name and description have the defaults of a [`Handle`](crate::Handle). An empty description is
/// not sent.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a custom tool for a group with context `{In}` in and `{Out}` out",
    label = "needs `impl Custom<{In}, {Out}> for {Self}`",
    note = "a tool whose arguments are JSON implements `Handle` and is added with `handler`"
)]
pub trait Custom<In = (), Out = ()>: DeserializeOwned + JsonSchema + Send + 'static {
    /// Handles one call. Returns a text for the model, and `Out` for the program.
    ///
    /// # Errors
    ///
    /// The errors of [`Handle::handle`](crate::Handle::handle).
    fn handle(self, cx_in: &In, cx: &Context)
    -> impl Future<Output = Result<(String, Out)>> + Send;

    custom_metadata!();
}

/// The only field of a custom tool that is sent as a function.
pub(crate) const INPUT: &str = "input";

/// Returns the parameters of a custom tool that is sent as a function.
pub(crate) fn as_function(format: Option<&Format>) -> Value {
    let input = match format {
        // A JSON Schema pattern matches anywhere in the text unless it is anchored.
        Some(Format::Regex(regex)) => {
            json!({"type": "string", "pattern": format!("^(?:{regex})$")})
        }
        Some(Format::Lark(grammar)) => {
            let description = format!("Text of this Lark grammar:\n{grammar}");
            json!({"type": "string", "description": description})
        }
        Some(Format::Text) | None => json!({"type": "string"}),
    };
    json!({
        "type": "object",
        "properties": {INPUT: input},
        "required": [INPUT],
        "additionalProperties": false,
    })
}
