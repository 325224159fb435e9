//! The [`Signature`] trait: a contract as a type.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{ContractError, Result};
use crate::{name, schema};

/// What goes in, what comes back and what it is for: never who does it.
///
/// The implementing type *is* the input, so there is nothing to keep in step: the
/// name is the type's name in snake case, the description is its doc comment, and
/// the fields' doc comments describe the fields. All of it reaches the model.
///
/// Both sides are `Serialize + DeserializeOwned + JsonSchema` because every role
/// needs another half: a tool reads its input and writes its output, a module
/// served by a language model writes its input and reads its output.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
/// use toolwright_signature::Signature;
///
/// /// Say how the weather is.
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct GetWeather {
///     /// City name, in English.
///     city: String,
/// }
///
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Weather {
///     celsius: f64,
/// }
///
/// impl Signature for GetWeather {
///     type Output = Weather;
///     // Optional: a sentence instead of JSON for the model to read.
///     fn render(weather: &Weather) -> Result<String, toolwright_signature::ContractError> {
///         Ok(format!("It is {} °C.", weather.celsius))
///     }
/// }
///
/// assert_eq!(GetWeather::name(), "get_weather");
/// assert_eq!(GetWeather::render(&Weather { celsius: 21.5 })?, "It is 21.5 °C.");
/// # Ok::<(), toolwright_signature::ContractError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a signature",
    label = "needs `impl Signature for {Self}`",
    note = "derive `Serialize`, `Deserialize` and `JsonSchema`, then write `impl Signature for {Self} {{ type Output = …; }}`"
)]
pub trait Signature: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// What fulfilling this signature gives back.
    type Output: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static;

    /// The namespace that the name begins with, joined by `_`. Default: none.
    ///
    /// Two modules of a program may each have a `SearchDocuments`; a namespace tells them
    /// apart where a model sees both:
    ///
    /// ```
    /// # use toolwright_signature::Signature;
    /// mod legal {
    /// #   use schemars::JsonSchema;
    /// #   use serde::{Deserialize, Serialize};
    /// #   use toolwright_signature::Signature;
    ///     #[derive(Serialize, Deserialize, JsonSchema)]
    ///     pub struct SearchDocuments {
    ///         pub query: String,
    ///     }
    ///
    ///     impl Signature for SearchDocuments {
    ///         type Output = Vec<String>;
    ///
    ///         fn namespace() -> &'static str {
    ///             "Legal"
    ///         }
    ///     }
    /// }
    ///
    /// assert_eq!(legal::SearchDocuments::name(), "legal_search_documents");
    /// ```
    fn namespace() -> &'static str {
        ""
    }

    /// The name a model calls this by: the namespace and the type's name, in snake case.
    ///
    /// `HTTPGet` becomes `http_get`. A type that is renamed with
    /// `#[schemars(rename = "Legal::SearchDocuments")]` is `legal_search_documents`. A
    /// generic type must override this, because its schema name does not tell its
    /// instances apart; [`Contract::of`] refuses it otherwise. It may give the same name as
    /// a literal (`"fetch".into()`); one that it computes (`Cow::Owned`) cannot be told from
    /// this default.
    ///
    /// [`Contract::of`]: crate::Contract::of
    fn name() -> Cow<'static, str> {
        Cow::Owned(name::of::<Self>())
    }

    /// What this is for, as the model reads it: the type's doc comment.
    ///
    /// Without one it is the name in words (`search_documents` gives
    /// `Search documents`), which tells a model little: write the comment.
    fn description() -> Cow<'static, str> {
        match schema::description_of::<Self>() {
            Some(text) => Cow::Owned(text),
            None => Cow::Owned(name::words(&Self::name())),
        }
    }

    /// What a model sees of a result: JSON, or a string as it is.
    ///
    /// Override it where a sentence says it better than an object.
    ///
    /// # Errors
    ///
    /// [`ContractError::Write`] if the output does not serialise to JSON, for example a map
    /// with keys that are not strings.
    fn render(output: &Self::Output) -> Result<String> {
        let json = serde_json::to_string(output)
            .map_err(|source| ContractError::write(Self::name().into_owned(), source))?;
        // A bare JSON string reads better without its quotes and escapes.
        if json.starts_with('"') {
            return serde_json::from_str(&json)
                .map_err(|source| ContractError::write(Self::name().into_owned(), source));
        }
        Ok(json)
    }
}
