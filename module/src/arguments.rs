//! The arguments of a call, ready to be read.

use serde::de::{DeserializeOwned, IgnoredAny};
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
    /// Whether the output keeps the value that its text is rendered from.
    pub keeps_value: bool,
}

impl Arguments<'_> {
    /// Reads the arguments as a `T`, and returns their repairs, if there were any.
    ///
    /// # Errors
    ///
    /// An error for which [`is_of_arguments`](crate::runner::is_of_arguments) is true if the
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

    /// Returns the repairs of arguments that were read before, for a call that ended without an
    /// output.
    #[must_use]
    pub fn repaired(self) -> Option<Box<Repaired>> {
        let reading = self.contract.read_with::<IgnoredAny>(self.text, self.policy).ok()?;
        Repaired::of(&reading).map(Box::new)
    }
}
