//! The [`Signature`] trait: a contract as a type.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{ContractError, Result};
use crate::{name, schema};

/// A typed contract: its fields are the input, and [`Output`](Self::Output) is the output.
///
/// The implementing type *is* the input, so the type and the schema cannot disagree. The name is
/// the type's name in snake case, the description is its doc comment, and the fields' doc comments
/// describe the fields. All of them are sent to the model.
///
/// Input and output are both `Serialize + DeserializeOwned + JsonSchema`, because tools and models
/// need opposite halves. A tool deserializes its input and serializes its output. A module that a
/// language model implements serializes its input and deserializes its output.
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
    /// The type of the output.
    type Output: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static;

    /// Returns the namespace: the first part of the name, joined to it by `_`. Default: empty.
    ///
    /// Two Rust modules of a program may each have a `SearchDocuments`. A namespace gives them
    /// different names for a model that sees both:
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

    /// Returns the contract's name: the namespace and the type's name, in snake case.
    ///
    /// `HTTPGet` becomes `http_get`. A type that is renamed with
    /// `#[schemars(rename = "Legal::SearchDocuments")]` becomes `legal_search_documents`.
    ///
    /// A generic type must override this method, because all its instances share one schema name;
    /// otherwise [`Contract::of`] returns an error. The override may return the default name as a
    /// literal (`"fetch".into()`). A computed name (`Cow::Owned`) has to differ from the default
    /// name, because [`Contract::of`] cannot distinguish the two.
    ///
    /// [`Contract::of`]: crate::Contract::of
    fn name() -> Cow<'static, str> {
        Cow::Owned(name::of(&Self::schema_name(), Self::namespace()))
    }

    /// Returns the description for the model: the type's doc comment.
    ///
    /// Without a doc comment it is the name in words: `search_documents` becomes `Search
    /// documents`. That helps a model little, so write the comment.
    fn description() -> Cow<'static, str> {
        match schema::description_of::<Self>() {
            Some(text) => Cow::Owned(text),
            None => Cow::Owned(name::words(&Self::name())),
        }
    }

    /// Renders an output for the model: as JSON, or as plain text if the output is a string.
    ///
    /// Override it where a sentence is clearer than JSON.
    ///
    /// # Errors
    ///
    /// [`ContractError::Write`] means that the output does not serialize to JSON, such as a map
    /// whose keys are not strings.
    fn render(output: &Self::Output) -> Result<String> {
        let failed = |source| ContractError::write(Self::name().into_owned(), source);
        let json = serde_json::to_string(output).map_err(failed)?;
        // A bare JSON string reads better without its quotes and escapes.
        if json.starts_with('"') {
            return serde_json::from_str(&json).map_err(failed);
        }
        Ok(json)
    }
}
