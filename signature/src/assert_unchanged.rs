//! The assertion that contracts are those of a committed file, for unit tests of users.

use std::fs;
use std::path::Path;

use crate::contract::{Contract, ContractChange};

/// The environment variable with which the file is written anew.
const ACCEPT: &str = "TOOLWRIGHT_ACCEPT";

/// Asserts that contracts are the same as those in a committed file.
///
/// A contract is a promise: models wrote calls for it, programs read its outputs, and stored runs
/// have calls of it that are still open. With this assertion in a test, a change of a type that
/// changes the promise does not go unnoticed: the test fails, and lists each change and whom it
/// breaks. If the change is intended, run the tests with the environment variable
/// `TOOLWRIGHT_ACCEPT=1`, which writes the file anew, and commit the file.
///
/// The first argument is the path of the file, relative to the folder of the package whose test it
/// is. The second argument is a list of contracts, or of tools, such as `&tools`.
///
/// ```
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// use toolwright_signature::{Contract, Signature, assert_unchanged};
///
/// /// Say how the weather is.
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct GetWeather {
///     city: String,
/// }
///
/// impl Signature for GetWeather {
///     type Output = String;
/// }
///
/// # let folder = std::env::temp_dir().join(format!("assert-unchanged-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let file = folder.join("contracts.json");
/// # std::fs::write(&file, serde_json::to_string(&[Contract::of::<GetWeather>()?])?)?;
/// // In a test: let file = "tests/contracts.json";
/// assert_unchanged!(&file, [Contract::of::<GetWeather>()?]);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// If there is a change, or if the file cannot be read or written.
#[macro_export]
macro_rules! assert_unchanged {
    ($file:expr, $contracts:expr $(,)?) => {
        $crate::__private::assert_unchanged(
            ::core::env!("CARGO_MANIFEST_DIR"),
            ::core::convert::AsRef::<::std::path::Path>::as_ref(&$file),
            $contracts,
        )
    };
}

/// Asserts what the macro says. `package` is the folder that `file` is relative to.
#[track_caller]
#[expect(clippy::panic, reason = "that is what an assertion does")]
pub fn assert_unchanged<C: AsRef<Contract>>(
    package: &str,
    file: &Path,
    contracts: impl IntoIterator<Item = C>,
) {
    let shown = file.display();
    let file = &Path::new(package).join(file);
    let contracts: Vec<Contract> = contracts.into_iter().map(|one| one.as_ref().clone()).collect();
    if std::env::var_os(ACCEPT).is_some_and(|value| value == "1") {
        let written = serde_json::to_string_pretty(&contracts).map_err(std::io::Error::from);
        let written = written.and_then(|json| {
            file.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(file, json + "\n")
        });
        return written.unwrap_or_else(|error| panic!("{shown} cannot be written: {error}"));
    }
    let kept = match fs::read_to_string(file) {
        Ok(kept) => kept,
        Err(error) => panic!(
            "{shown} cannot be read: {error}; if there is no such file yet, run the test with {ACCEPT}=1, which writes it"
        ),
    };
    let kept: Vec<Contract> = serde_json::from_str(&kept).unwrap_or_else(|error| {
        panic!("{shown} is not a list of contracts: {error}; write it anew with {ACCEPT}=1")
    });
    let changes = ContractChange::between(&kept, &contracts);
    if changes.is_empty() {
        return;
    }
    let lines: Vec<String> = changes.iter().map(|change| format!("  {change}\n")).collect();
    let breaking = changes.iter().filter(|change| !change.breaks().is_empty()).count();
    panic!(
        "the contracts are not those of {shown}: changes: {}, breaking: {breaking}\n{}if they are intended, run the test with {ACCEPT}=1 and commit the file",
        changes.len(),
        lines.concat(),
    );
}
