//! Reading a model's text as a contract's input or output.

use serde::de::DeserializeOwned;

use super::{Contract, Output};
use crate::error::{Result, Side};
use crate::reading::Target;
use crate::reading::policy::{Policy, Reading};
use crate::schema;

impl Contract {
    /// Reads an input: a tool's arguments as a model sent them.
    ///
    /// Takes the contract's own shape and that of every dialect, puts right what has
    /// one meaning ([`Policy::Coerce`]), and otherwise says all that is wrong. A text
    /// that is as it should be costs one pass of `serde_json::from_str` into the type;
    /// where only the schema knows a rule, it costs a check before that.
    ///
    /// `T` is the contract's type, or `serde_json::Value` for a contract made at run
    /// time.
    ///
    /// # Errors
    ///
    /// [`Error::Reading`](crate::ContractError::Reading) with everything that does not fit.
    #[inline]
    pub fn read<T: DeserializeOwned>(&self, wire: &str) -> Result<T> {
        match self.input.read_plain(wire) {
            Some(value) => Ok(value),
            None => self
                .input_target()
                .read_closely(wire, Policy::default())
                .map(|reading| reading.value),
        }
    }

    /// Reads an input as far as `policy` goes, and says what was put right.
    ///
    /// # Errors
    ///
    /// [`Error::Reading`](crate::ContractError::Reading) with everything that does not fit.
    #[inline]
    pub fn read_with<T: DeserializeOwned>(&self, wire: &str, policy: Policy) -> Result<Reading<T>> {
        match self.input.read_plain(wire) {
            Some(value) => Ok(Reading::clean(value)),
            None => self.input_target().read_closely(wire, policy),
        }
    }

    /// Reads an input of a plain contract that is as it should be; `None` asks for
    /// [`read_with`](Self::read_with). For callers that have no time to spare.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn read_plain<T: DeserializeOwned>(&self, wire: &str) -> Option<T> {
        self.input.read_plain(wire)
    }

    /// Reads an output: what a model was asked to produce by
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
    /// [`Error::Reading`](crate::ContractError::Reading) with everything that does not fit.
    #[inline]
    pub fn read_output<T: DeserializeOwned>(&self, wire: &str) -> Result<T> {
        match self.output.as_ref().and_then(|output| output.to_read.read_plain(wire)) {
            Some(value) => Ok(value),
            None => self
                .output_target()
                .read_closely(wire, Policy::default())
                .map(|reading| reading.value),
        }
    }

    /// Reads an output as far as `policy` goes, and says what was put right.
    ///
    /// # Errors
    ///
    /// [`Error::Reading`](crate::ContractError::Reading) with everything that does not fit.
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
