//! The assertion that a signature can be sent to a provider, for unit tests of users.

use std::any::type_name;

use crate::contract::Contract;
use crate::error::Result;
use crate::lowering::dialect::{Dialect, Loss};
use crate::signature::Signature;

/// Asserts that a signature fits `dialect`, strictly if the dialect is strict, and returns its
/// losses.
///
/// Put it into a unit test for each signature and each dialect that you send. Schemas that a
/// provider would reject in production then fail in `cargo test`, with the place and the fix. It
/// checks the input and the output. A loss is not a failure, because reading still enforces the
/// rule. If a signature must not have losses, assert that the list is empty.
///
/// ```
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// use toolwright_signature::{Dialect, Signature, assert_fits};
///
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Rate {
///     #[schemars(range(min = 1, max = 5))]
///     stars: u8,
/// }
///
/// impl Signature for Rate {
///     type Output = ();
/// }
///
/// assert!(assert_fits::<Rate>(Dialect::OpenAiStrict).is_empty());
///
/// let losses = assert_fits::<Rate>(Dialect::Anthropic);
/// assert_eq!(losses[0].to_string(), "input $.stars: `minimum` is written only in the description");
/// ```
///
/// # Panics
///
/// If the dialect has no form for the input or the output, if a strict dialect has no strict form,
/// or if [`Contract::of`] returns an error:
///
/// ```should_panic
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// # use toolwright_signature::{Dialect, Signature, assert_fits};
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Store {
///     value: serde_json::Value,
/// }
///
/// impl Signature for Store {
///     type Output = ();
/// }
///
/// // the input of `Store` cannot be sent strict to openai-strict: input $.value: `strict` is
/// // off: it accepts any value; give it a type
/// assert_fits::<Store>(Dialect::OpenAiStrict);
/// ```
#[track_caller]
#[expect(clippy::panic, reason = "that is what an assertion does")]
pub fn assert_fits<S: Signature>(dialect: Dialect) -> Vec<Loss> {
    let contract = said::<S, _>("contract", Contract::of::<S>());
    let input = said::<S, _>("input", contract.lower(dialect));
    let output = said::<S, _>("output", contract.lower_output(dialect));
    for (what, lowered) in [("input", input), ("output", output)] {
        if let Some(loss) = lowered.losses.iter().find(|loss| loss.keyword == "strict") {
            let name = type_name::<S>();
            panic!("the {what} of `{name}` cannot be sent strict to {dialect}: {loss}");
        }
    }
    input.losses.iter().chain(&output.losses).cloned().collect()
}

#[track_caller]
#[expect(clippy::panic, reason = "that is what an assertion does")]
fn said<S, T>(what: &str, outcome: Result<T>) -> T {
    outcome.unwrap_or_else(|error| {
        panic!("the {what} of `{}` cannot be sent: {error}", type_name::<S>())
    })
}
