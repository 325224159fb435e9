//! Reading a model's text as a contract's input or output.

use serde::de::DeserializeOwned;

use super::{Contract, Output};
use crate::error::{Result, Side};
use crate::reading::Target;
use crate::reading::policy::{Policy, Reading};
use crate::schema;

impl Contract {
    /// Deserializes an input: a tool's arguments as a model sent them.
    ///
    /// It accepts the contract's own shape and that of every dialect. It repairs values with only
    /// one possible meaning ([`Policy::Coerce`]), and reports everything else. A text without
    /// faults costs one pass of `serde_json::from_str` into the type, and a validation before it if
    /// the schema has rules that the type does not enforce.
    ///
    /// `T` is the contract's type, or `serde_json::Value` for a contract made at run time.
    ///
    /// # Errors
    ///
    /// [`ContractError::Reading`](crate::ContractError::Reading) lists every fault.
    #[inline]
    pub fn read<T: DeserializeOwned>(&self, wire: &str) -> Result<T> {
        match self.input.read_plain(wire) {
            Some(value) => Ok(value),
            None => self.input_target().read_closely(wire, Policy::default()).map(|it| it.value),
        }
    }

    /// Deserializes an input with the repairs that `policy` allows, and lists them.
    ///
    /// # Errors
    ///
    /// [`ContractError::Reading`](crate::ContractError::Reading) lists every fault.
    #[inline]
    pub fn read_with<T: DeserializeOwned>(&self, wire: &str, policy: Policy) -> Result<Reading<T>> {
        match self.input.read_plain(wire) {
            Some(value) => Ok(Reading::clean(value)),
            None => self.input_target().read_closely(wire, policy),
        }
    }

    /// Deserializes an input that needs no repair and no validation; for all others it returns
    /// `None`, and the caller uses [`read_with`](Self::read_with). A fast path for hot loops.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn read_plain<T: DeserializeOwned>(&self, wire: &str) -> Option<T> {
        self.input.read_plain(wire)
    }

    /// Deserializes an output that a model produced for
    /// [`lower_output`](Self::lower_output).
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use toolwright_signature::{Contract, Signature};
    /// # #[derive(Serialize, Deserialize, JsonSchema)]
    /// # struct Find {}
    /// # impl Signature for Find { type Output = Vec<String>; }
    /// let contract = Contract::of::<Find>()?;
    /// let found: Vec<String> = contract.read_output(r#"{"result": ["a", "b"]}"#)?;
    /// assert_eq!(found, ["a", "b"]);
    /// # Ok::<(), toolwright_signature::ContractError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ContractError::Reading`](crate::ContractError::Reading) lists every fault.
    #[inline]
    pub fn read_output<T: DeserializeOwned>(&self, wire: &str) -> Result<T> {
        match self.output.as_ref().and_then(|output| output.to_read.read_plain(wire)) {
            Some(value) => Ok(value),
            None => self.output_target().read_closely(wire, Policy::default()).map(|it| it.value),
        }
    }

    /// Deserializes an output with the repairs that `policy` allows, and lists them.
    ///
    /// # Errors
    ///
    /// [`ContractError::Reading`](crate::ContractError::Reading) lists every fault.
    #[inline]
    pub fn read_output_with<T: DeserializeOwned>(
        &self,
        wire: &str,
        policy: Policy,
    ) -> Result<Reading<T>> {
        match self.output.as_ref().and_then(|output| output.to_read.read_plain(wire)) {
            Some(value) => Ok(Reading::clean(value)),
            None => self.output_target().read_closely(wire, policy),
        }
    }

    /// Deserializes an output in which a server cut a character in half, so that the text has U+FFFD
    /// for it. Like [`read_output_with`](Self::read_output_with), and the first string with U+FFFD is
    /// listed, because it is not the one that the model meant. [`Policy::Exact`] does not allow it.
    ///
    /// A model may also write U+FFFD itself. Only who received the text knows which it is.
    ///
    /// # Errors
    ///
    /// [`ContractError::Reading`](crate::ContractError::Reading) lists every fault.
    pub fn read_cut_output<T: DeserializeOwned>(
        &self,
        wire: &str,
        policy: Policy,
    ) -> Result<Reading<T>> {
        let reading = self.read_output_with(wire, policy)?;
        self.output_target().with_lost_half(reading, wire, policy)
    }

    pub(super) fn check_written(&self, output: &Output, json: &str) -> Result<()> {
        let target =
            Target { readable: Some(output.written()), wrapped: false, ..self.output_target() };
        target.check(json)
    }

    fn input_target(&self) -> Target<'_> {
        Target {
            contract: &self.name,
            side: Side::Input,
            readable: Some(&self.input),
            unit: self.unit_input,
            wrapped: false,
        }
    }

    fn output_target(&self) -> Target<'_> {
        Target {
            contract: &self.name,
            side: Side::Output,
            readable: self.output.as_ref().map(|output| &output.to_read),
            unit: false,
            wrapped: !self.output_to_read().is_some_and(schema::is_object),
        }
    }
}
