//! How far reading may go, and what it says of the way.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How much a text may need before it is a value.
///
/// What lowering did to a shape is undone under every policy: a dialect asked for it.
/// Everything else that is read is listed in [`Reading::repairs`].
///
/// | the model wrote | `Strict` | `Repair` | `Coerce` |
/// |---|---|---|---|
/// | a shape of a dialect, `3.0` for an integer, no text where there are no arguments | read | read | read |
/// | `null` for a field that has a default | read, listed | read, listed | read, listed |
/// | an unknown field beside a known one | left out, listed | left out, listed | left out, listed |
/// | a code fence or words around the JSON, comments, other quotes, a trailing comma, `True`, `None` | fault | read | read |
/// | the arguments in `input`, `arguments`, `parameters`, in a whole call (`function`, `tool_calls`), under the tool's own name, or as text in a text | fault | read | read |
/// | `"3"` for 3, `"true"` for true, `""` or `"null"` for null, `HIGH` for `high`, `dueDate` for `due_date`, `null` for no arguments | fault | fault | read |
/// | a list or an object as text, one plain item for a list of one | fault | fault | read |
/// | `2026-12-01 10:00:00z` for a date with a time and a zone | fault | fault | read |
/// | `"N/A"`, `"a and b"`, `"a, b"` for a list of strings | fault | fault | fault |
/// | a quote inside a string that is not escaped, a comment that may belong to a string | fault | fault | fault |
/// | several values that differ, or one value beside another that cannot be read | fault | fault | fault |
/// | `prefx` where `prefix` is absent, an object that holds something but none of its fields | fault | fault | fault |
/// | text that is cut off, `3.5` for an integer, `"three"`, `1` for true, `5` for a string, a number that is too large, either of two union members | fault | fault | fault |
///
/// A type with `deny_unknown_fields` refuses unknown fields. A contract made at run time keeps
/// them, unless they evidently hold the declared fields too deep.
///
/// `Exact` reads what `Strict` reads without a repair: there, a field that nobody asked for is
/// a fault too. The `null` that a strict dialect asks for is none
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
    /// As [`Strict`](Self::Strict), and any repair is a fault. For calls that cannot be
    /// undone: nothing is read that the model did not write.
    Exact,
    /// JSON that fits the schema, or that fits the schema of some dialect.
    Strict,
    /// Also text that is not clean JSON: a code fence or words around it, trailing
    /// commas, comments, other quotes, arguments in a wrapper.
    Repair,
    /// Also values of another type where the schema leaves one meaning: `"5"` for 5,
    /// `HIGH` for `high`, one item for a list of one.
    #[default]
    Coerce,
}

/// A value, and what had to be done to the text to read it.
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
    /// What was read.
    pub value: T,
    /// What was done to the text and what was left out of it; empty if it was as it should
    /// be.
    pub repairs: Vec<Repair>,
    json: Option<String>,
}

impl<T> Reading<T> {
    /// Of a text that fits as it is.
    #[inline]
    pub(crate) fn clean(value: T) -> Self {
        Self { value, repairs: Vec::new(), json: None }
    }

    pub(crate) fn repaired(value: T, repairs: Vec<Repair>, json: String) -> Self {
        Self { value, repairs, json: Some(json) }
    }

    /// JSON of what was read, in the contract's own shape and without fields that were left
    /// out; `None` if the text itself is that.
    ///
    /// It is what to send back to a model in place of arguments that had to be repaired.
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

    /// The same with what `change` makes of the value.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Reading<U> {
        Reading { value: change(self.value), repairs: self.repairs, json: self.json }
    }
}

/// One thing that was not as it should be, and was read all the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Repair {
    /// Where, from `$`; the first place if it was done in several.
    pub path: String,
    /// What was done.
    pub what: String,
}

/// What is said of `null` in the place of a field that is left out.
pub(crate) const NULL_FOR_DEFAULT: &str = "left out a field that is null, so its default holds";

impl Repair {
    /// Whether the model wrote `null` for a field that it left out, so that the default holds.
    ///
    /// A strict dialect asks for every field, and so for this `null`: a call that must need no
    /// repair may still have it.
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

    /// A repair, by whoever reads a text in another way than by a contract.
    pub fn new(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { path: path.into(), what: what.into() }
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)
    }
}
