//! The arguments of a call, ready to be read.

use serde::de::DeserializeOwned;
use toolwright_signature::{Contract, Policy};

use crate::error::{Error, Result};
use crate::repaired::Repaired;

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
    /// Reads the arguments as a `T`, and returns their repairs, if there were any.
    ///
    /// # Errors
    ///
    /// An error for which [`is_of_arguments`](crate::driver::is_of_arguments) is true if the
    /// arguments do not fit.
    pub fn read<T: DeserializeOwned>(self) -> Result<(T, Option<Box<Repaired>>)> {
        let read = self.contract.read_with(self.text, self.policy);
        let reading = read.map_err(|error| Error::arguments(error, self.text))?;
        let repaired = match reading.repairs.is_empty() {
            true => None,
            false => Repaired::traced(self.contract, &reading).map(Box::new),
        };
        Ok((reading.value, repaired))
    }
}
