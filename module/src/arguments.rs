//! The arguments of a call, ready to be read.

use serde::de::DeserializeOwned;
use toolwright_signature::{Contract, Policy};

use crate::repaired::Repaired;
use crate::tool::Failed;

/// The arguments of a call, with the contract and policy to read them.
#[derive(Debug, Clone, Copy)]
pub struct Arguments<'a> {
    /// The contract that the arguments have to fit.
    pub contract: &'a Contract,
    /// The arguments, as the model wrote them.
    pub text: &'a str,
    /// How far the arguments may be repaired.
    pub policy: Policy,
}

impl Arguments<'_> {
    /// Reads the arguments as a `T`. `note` gets the repairs, if there are any.
    ///
    /// # Errors
    ///
    /// [`Failed::read`] if the arguments do not fit.
    #[inline]
    pub fn read<T: DeserializeOwned>(self, note: impl FnOnce(Repaired)) -> Result<T, Failed> {
        match self.contract.read_plain(self.text) {
            Some(value) => Ok(value),
            None => self.read_closely(note),
        }
    }

    #[inline(never)]
    fn read_closely<T: DeserializeOwned>(self, note: impl FnOnce(Repaired)) -> Result<T, Failed> {
        match self.contract.read_with(self.text, self.policy) {
            Ok(reading) => {
                if !reading.repairs.is_empty() {
                    Repaired::traced(self.contract, &reading).map(note);
                }
                Ok(reading.value)
            }
            Err(error) => Err(Failed::read(error, self.text)),
        }
    }
}
