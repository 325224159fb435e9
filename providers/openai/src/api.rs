use crate::error::OpenAiError;
use std::fmt;
use std::str::FromStr;

/// Which of OpenAI's two APIs is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Api {
    /// Chat Completions: what every compatible server speaks. Images of a tool's result
    /// follow it in a user's message.
    #[default]
    Chat,
    /// Responses: keeps the model's reasoning from turn to turn, and takes images in
    /// tool results.
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

/// The name on a command line.
///
/// ```
/// use toolwright_openai::Api;
///
/// assert_eq!("responses".parse::<Api>()?, Api::Responses);
/// assert_eq!(Api::default().to_string(), "chat");
/// assert_eq!(
///     "completions".parse::<Api>().unwrap_err().to_string(),
///     "`completions` is no API that is known here; choose chat or responses",
/// );
/// # Ok::<(), toolwright_openai::OpenAiError>(())
/// ```
impl FromStr for Api {
    type Err = OpenAiError;

    fn from_str(name: &str) -> Result<Self, OpenAiError> {
        match name {
            "chat" => Ok(Self::Chat),
            "responses" => Ok(Self::Responses),
            _ => Err(OpenAiError::UnknownApi { name: name.to_owned() }),
        }
    }
}
