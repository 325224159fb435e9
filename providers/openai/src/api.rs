//! The two APIs of OpenAI.

use std::fmt;
use std::str::FromStr;

/// API of OpenAI for a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Api {
    /// Chat Completions, which every compatible server has. The images of a tool's result are
    /// sent after it, in a message of the user.
    #[default]
    Chat,
    /// Responses, which keeps the model's reasoning between turns and allows images in tool
    /// results.
    Responses,
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
        })
    }
}

/// Parses the name `chat` or `responses`, for command lines.
///
/// ```
/// use toolwright_openai::Api;
///
/// assert_eq!("responses".parse::<Api>()?, Api::Responses);
/// assert_eq!(Api::default().to_string(), "chat");
/// assert_eq!(
///     "completions".parse::<Api>().unwrap_err(),
///     "`completions` is not an API of this crate; use `chat` or `responses`",
/// );
/// # Ok::<(), String>(())
/// ```
impl FromStr for Api {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "chat" => Ok(Self::Chat),
            "responses" => Ok(Self::Responses),
            _ => Err(format!("`{name}` is not an API of this crate; use `chat` or `responses`")),
        }
    }
}
