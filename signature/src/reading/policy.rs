//! How much reading may repair, and what it reports.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The repairs that reading may make.
///
/// Every policy reverses what lowering did to a shape, because the dialect asked for that shape.
/// Everything else that is repaired is listed in [`Reading::repairs`].
///
/// | the model wrote | `Strict` | `Repair` | `Coerce` |
/// |---|---|---|---|
/// | a shape of a dialect, `3.0` for an integer, an empty text for no arguments | read | read | read |
/// | `null` for a field that has a default | read, listed | read, listed | read, listed |
/// | an unknown field beside a known one | left out, listed | left out, listed | left out, listed |
/// | a code fence or words around the JSON, comments, other quotes, a trailing comma, `True`, `None` | fault | read | read |
/// | the arguments in `input`, `arguments`, `parameters`, in a whole call (`function`, `tool_calls`), under the tool's own name, or as text in a text | fault | read | read |
/// | `"3"` for 3, `"true"` for true, `""` or `"null"` for null, `HIGH` for `high`, `dueDate` for `due_date`, `null` for no arguments | fault | fault | read |
/// | a list or an object as text, one plain item for a list of one | fault | fault | read |
/// | `2026-12-01 10:00:00z` for a date with a time and a zone | fault | fault | read |
/// | `"N/A"`, `"a and b"`, `"a, b"` for a list of strings | fault | fault | fault |
/// | an unescaped quote inside a string, a comment that may belong to a string | fault | fault | fault |
/// | several values that differ, or one value beside another that cannot be read | fault | fault | fault |
/// | `prefx` where `prefix` is absent, an object that is not empty but has none of its fields | fault | fault | fault |
/// | text that is cut off, `3.5` for an integer, `"three"`, `1` for true, `5` for a string, a number that is too large, a value that fits two union members | fault | fault | fault |
///
/// A type with `deny_unknown_fields` rejects unknown fields. A contract made at run time keeps
/// them, unless they evidently contain the declared fields at a deeper level.
///
/// `Exact` accepts the texts that `Strict` reads without a repair, so an unknown field is a fault
/// too. The `null` that a strict dialect asks for does not count as a repair
/// ([`Repair::is_null_for_default`]).
///
/// Policies are ordered from the strictest to the most lenient, so the stricter of two is
/// their [`min`](Ord::min).
///
/// ```
/// use toolwright_signature::Policy;
///
/// assert_eq!(Policy::Coerce.min(Policy::Strict), Policy::Strict);
/// assert_eq!(Policy::default(), Policy::Coerce);
/// ```
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Policy {
    /// Like [`Strict`](Self::Strict), but any repair is a fault. For calls that cannot be undone:
    /// every value is one that the model wrote.
    Exact,
    /// JSON that fits the schema, or that fits the schema of some dialect.
    Strict,
    /// Also text that is not clean JSON: a code fence or words around it, trailing commas,
    /// comments, other quotes, arguments in a wrapper.
    Repair,
    /// Also values of another type if the schema leaves one meaning: `"5"` for 5, `HIGH` for
    /// `high`, one item for a list of one.
    #[default]
    Coerce,
}

/// A value, and the repairs that were needed to read it.
///
/// ```
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// # use toolwright_signature::{Contract, Policy, Signature};
/// # #[derive(Serialize, Deserialize, JsonSchema)]
/// # struct Find { limit: u8 }
/// # impl Signature for Find { type Output = Vec<String>; }
/// let contract = Contract::of::<Find>()?;
/// let reading = contract.read_with::<Find>(r#"{"limit": "5"}"#, Policy::Coerce)?;
/// assert_eq!(reading.value.limit, 5);
/// assert_eq!(reading.repairs[0].to_string(), r#"$.limit: read the string "5" as the number 5"#);
/// assert!(contract.read_with::<Find>(r#"{"limit": "5"}"#, Policy::Strict).is_err());
/// # Ok::<(), toolwright_signature::ContractError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading<T> {
    /// The deserialized value.
    pub value: T,
    /// The repairs of the text and the fields left out of it; empty if the text fits as it is.
    pub repairs: Vec<Repair>,
    json: Option<String>,
}

impl<T> Reading<T> {
    /// Makes the reading of a text that needs no repair.
    pub(crate) fn clean(value: T) -> Self {
        Self { value, repairs: Vec::new(), json: None }
    }

    pub(crate) fn repaired(value: T, repairs: Vec<Repair>, json: String) -> Self {
        Self { value, repairs, json: Some(json) }
    }

    /// Returns the repaired JSON, in the contract's own shape and without the fields left out;
    /// `None` if the text needed no repair.
    ///
    /// Send it back to the model in place of the arguments that it wrote.
    ///
    /// ```
    /// # use serde_json::{Value, json};
    /// # use toolwright_signature::{Contract, Policy};
    /// let input = json!({"type": "object", "properties": {"limit": {"type": "integer"}}});
    /// let contract = Contract::dynamic("find", "Find.", input, None)?;
    /// let reading = contract.read_with::<Value>("{'limit': '5',}", Policy::Coerce)?;
    /// assert_eq!(reading.json(), Some(r#"{"limit":5}"#));
    /// let reading = contract.read_with::<Value>(r#"{"limit": 5}"#, Policy::Coerce)?;
    /// assert_eq!(reading.json(), None);
    /// # Ok::<(), toolwright_signature::ContractError>(())
    /// ```
    #[must_use]
    pub fn json(&self) -> Option<&str> {
        self.json.as_deref()
    }

    /// Converts the value with `change` and keeps the repairs.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Reading<U> {
        Reading { value: change(self.value), repairs: self.repairs, json: self.json }
    }

    /// Returns the value, and the reading without it.
    pub fn split(self) -> (T, Reading<()>) {
        let Self { value, repairs, json } = self;
        (value, Reading { value: (), repairs, json })
    }
}

/// One repair of a text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Repair {
    /// The path in the value, from `$`; the first place if there are several.
    pub path: String,
    /// A description of the repair.
    pub what: String,
}

/// The description of the repair for `null` in the place of an optional field.
pub(crate) const NULL_FOR_DEFAULT: &str = "left out a field that is null, so its default holds";

impl Repair {
    /// Returns whether the repair replaced `null` by the default of an optional field.
    ///
    /// A strict dialect asks for every field, so a model writes this `null` on purpose. Even
    /// [`Policy::Exact`] allows this repair.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::Deserialize;
    /// # use toolwright_signature::{Contract, Policy};
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Find {
    ///     #[serde(default)]
    ///     page: u32,
    /// }
    ///
    /// let contract = Contract::of_input::<Find>("", "")?;
    /// let reading = contract.read_with::<Find>(r#"{"page": null}"#, Policy::Strict)?;
    /// assert_eq!(reading.value.page, 0);
    /// assert!(reading.repairs[0].is_null_for_default());
    /// # Ok::<(), toolwright_signature::ContractError>(())
    /// ```
    #[must_use]
    pub fn is_null_for_default(&self) -> bool {
        self.what == NULL_FOR_DEFAULT
    }

    /// Makes a repair, for parsers that do not use a contract.
    pub fn new(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { path: path.into(), what: what.into() }
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)
    }
}
