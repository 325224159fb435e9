use std::borrow::Cow;
use std::future::Future;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use toolwright_module::{Context, Result};

use crate::metadata::custom_metadata;

/// What a custom tool's text has to look like.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Any text.
    Text,
    /// Text that a regular expression matches as a whole, in the syntax of Rust's crate
    /// `regex`.
    Regex(Cow<'static, str>),
    /// Text of a Lark grammar.
    Lark(Cow<'static, str>),
}

/// A tool that is called with text and not with JSON: prose, code, or words of a grammar.
///
/// The type reads that text. A struct around a `String` takes any; serde's `try_from`
/// or an enum of words takes less.
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
/// Name and description are found as those of a [`Handle`](crate::Handle). A description
/// that nobody wrote is left out.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no custom tool for a group with context `{In}` in and `{Out}` out",
    label = "needs `impl Custom<{In}, {Out}> for {Self}`",
    note = "a tool whose arguments are JSON implements `Handle` and is added with `handler`"
)]
pub trait Custom<In = (), Out = ()>: DeserializeOwned + JsonSchema + Send + 'static {
    /// Does the work with text that could be read: text for the model, and `Out` for the
    /// program.
    ///
    /// # Errors
    ///
    /// As [`Handle::handle`](crate::Handle::handle).
    fn handle(self, cx_in: &In, cx: &Context)
    -> impl Future<Output = Result<(String, Out)>> + Send;

    custom_metadata!();
}

/// The one field of a custom tool where a provider only knows functions.
pub(crate) const INPUT: &str = "input";

/// The parameters of a custom tool where a provider only knows functions.
pub(crate) fn as_function(format: Option<&Format>) -> Value {
    let input = match format {
        // A pattern matches anywhere, unless it says where it starts and ends.
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
