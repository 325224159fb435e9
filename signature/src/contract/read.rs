//! Reading a model's text as a contract's input or output.

use serde::de::DeserializeOwned;

use super::Contract;
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
        self.read_with(wire, Policy::default()).map(|reading| reading.value)
    }

    /// Deserializes an input with the repairs that `policy` allows, and lists them.
    ///
    /// # Errors
    ///
    /// [`ContractError::Reading`](crate::ContractError::Reading) lists every fault.
    #[inline]
    pub fn read_with<T: DeserializeOwned>(&self, wire: &str, policy: Policy) -> Result<Reading<T>> {
        let target = Target {
            contract: &self.name,
            side: Side::Input,
            readable: Some(&self.input),
            unit: self.unit_input,
            wrapped: false,
        };
        target.read(wire, policy)
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
    pub fn read_output<T: DeserializeOwned>(&self, wire: &str) -> Result<T> {
        self.read_output_with(wire, Policy::default()).map(|reading| reading.value)
    }

    /// Deserializes an output with the repairs that `policy` allows, and lists them.
    ///
    /// # Errors
    ///
    /// [`ContractError::Reading`](crate::ContractError::Reading) lists every fault.
    pub fn read_output_with<T: DeserializeOwned>(
        &self,
        wire: &str,
        policy: Policy,
    ) -> Result<Reading<T>> {
        self.output_target().read(wire, policy)
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

    /// Returns the output, as a model has to produce it.
    pub(super) fn output_target(&self) -> Target<'_> {
        Target {
            contract: &self.name,
            side: Side::Output,
            readable: self.output.as_ref().map(|output| &output.to_read),
            unit: false,
            wrapped: !self.output_to_read().is_some_and(schema::is_object),
        }
    }
}
