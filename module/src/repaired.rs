//! Repairs of a model's texts.

use serde::{Deserialize, Serialize};
use toolwright_signature::{Contract, Reading, Repair};

/// The repaired form of a model's text, with the repairs.
///
/// The original text stays in the [`ToolCall`](crate::ToolCall) or the reply.
///
/// ```
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// use toolwright_module::{Context, Signature, Tool, from_fn};
///
/// /// Greet somebody.
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Greet {
///     name: String,
/// }
///
/// impl Signature for Greet {
///     type Output = String;
/// }
///
/// let tool = Tool::new(from_fn(async |greet: Greet| Ok(format!("Hello {}!", greet.name))))?;
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let output = tool.call("{'name': 'Kate'}", &Context::default()).await?;
/// let repaired = output.repaired.unwrap();
/// assert_eq!(repaired.json, r#"{"name":"Kate"}"#);
/// assert_eq!(repaired.repairs[0].to_string(), "$: read other quotes as double quotes, 2 times");
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repaired {
    /// The repaired text: JSON in the shape of the contract.
    pub json: String,
    /// The repairs. Never empty.
    pub repairs: Vec<Repair>,
}

impl Repaired {
    /// Returns the repairs of a reading, or `None` without any.
    #[must_use]
    pub fn of<T>(reading: &Reading<T>) -> Option<Self> {
        let repairs = reading.repairs.clone();
        let json = reading.json().unwrap_or_default().to_owned();
        (!repairs.is_empty()).then_some(Self { json, repairs })
    }

    /// Like [`of`](Self::of), and records the repairs as a `tracing` event.
    #[cold]
    pub(crate) fn traced<T>(contract: &Contract, reading: &Reading<T>) -> Option<Self> {
        let repaired = Self::of(reading)?;
        let name = contract.name();
        tracing::info!(contract = name, repairs = repaired.repairs.len(), "repaired a text");
        Some(repaired)
    }
}
