//! Values that a program writes with a contract: inputs for a model, and outputs to check.

use serde::Serialize;

use super::Contract;
use super::finite::not_finite;
use crate::error::{ContractError, Result, Side};
use crate::reading::Target;

impl Contract {
    /// Returns whether the output schema has rules that its type does not enforce. A serialized
    /// value may then break the schema, so it is checked before it is sent.
    #[must_use]
    pub fn checks_output(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.to_write.is_checked())
    }

    /// Returns whether the output may contain a float. serde serializes `NaN` and infinities as `null`,
    /// so an output that contains `null` is checked.
    #[must_use]
    pub fn output_has_floats(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.to_write.has_floats())
    }

    /// Validates a serialized output against [`output_to_write`](Self::output_to_write).
    ///
    /// A value of the contract's own type needs it only where [`checks_output`](Self::checks_output)
    /// is true, or where a float may be [`null`](Self::output_has_floats).
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use toolwright_signature::{Contract, Signature};
    /// # #[derive(Serialize, Deserialize, JsonSchema)]
    /// # struct Rate {}
    /// #[derive(Serialize, Deserialize, JsonSchema)]
    /// struct Rating {
    ///     #[schemars(range(min = 1, max = 5))]
    ///     stars: u8,
    /// }
    ///
    /// impl Signature for Rate {
    ///     type Output = Rating;
    /// }
    ///
    /// let contract = Contract::of::<Rate>()?;
    /// contract.check_output(r#"{"stars": 5}"#)?;
    /// let error = contract.check_output(r#"{"stars": 9}"#).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "output of `rate` does not fit: $.stars: expected an integer from 1 to 5, got the number 9",
    /// );
    /// # Ok::<(), toolwright_signature::ContractError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ContractError::Reading`] lists every fault.
    pub fn check_output(&self, json: &str) -> Result<()> {
        let readable = self.output.as_ref().map(|output| &output.to_write);
        Target { readable, wrapped: false, ..self.output_target() }.check(json)
    }

    /// Checks that a value has no float that JSON cannot express. `serde_json` writes NaN and infinity as
    /// `null`, so only a value whose JSON contains `null` needs it.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use toolwright_signature::{Contract, Signature};
    /// # #[derive(Serialize, Deserialize, JsonSchema)]
    /// # struct Weather {}
    /// #[derive(Serialize, Deserialize, JsonSchema)]
    /// struct Air {
    ///     wind: Option<f64>,
    /// }
    ///
    /// impl Signature for Weather {
    ///     type Output = Air;
    /// }
    ///
    /// let contract = Contract::of::<Weather>()?;
    /// contract.check_finite(&Air { wind: None })?;
    /// let error = contract.check_finite(&Air { wind: Some(f64::NAN) }).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "a value of `weather` has no JSON form: $.wind is NaN, and JSON has neither NaN nor infinity; use another number, or `None`",
    /// );
    /// # Ok::<(), toolwright_signature::ContractError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ContractError::NotFinite`] names the first such float.
    pub fn check_finite<T: Serialize + ?Sized>(&self, value: &T) -> Result<()> {
        match not_finite(value) {
            None => Ok(()),
            Some((place, float)) => {
                Err(ContractError::NotFinite { contract: self.name.clone(), place, float })
            }
        }
    }

    /// Serializes an input for the model as one line of JSON. An input without fields is `{}`.
    ///
    /// The result has the contract's own shape; [`lower_value`](Self::lower_value) converts it to
    /// the shape of a dialect.
    ///
    /// # Errors
    ///
    /// [`ContractError::Write`] means that the value does not serialize to JSON, and
    /// [`ContractError::NotFinite`] that a float of it does not.
    pub fn write_input<T: Serialize>(&self, input: &T) -> Result<String> {
        if self.unit_input {
            return Ok("{}".to_owned());
        }
        let json = serde_json::to_string(input)
            .map_err(|source| ContractError::write(self.name.clone(), source))?;
        // Media may be collected while they are written, so the caller checks an input with them.
        if json.contains("null") && self.media(Side::Input).is_empty() {
            self.check_finite(input)?;
        }
        Ok(json)
    }
}
