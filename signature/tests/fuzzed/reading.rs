//! Any text as a reply: a milder policy reads the same value as a stricter one, and the value is
//! read again from its own JSON.

use std::sync::OnceLock;

use serde_json::Value;
use toolwright_signature::{Contract, ContractError, Policy, Reading, Repair};

use crate::zoo::{self, Echo, Specimen, Visitor};

/// Reads a text as one type of the zoo, on both sides of a contract.
#[allow(dead_code, reason = "the fuzzer asks for no names and schemas, the tests do")]
pub(crate) struct Case {
    pub(crate) name: String,
    /// The schema of the output, for the first inputs.
    pub(crate) schema: Value,
    hold: Box<dyn Fn(&str) + Send + Sync>,
}

/// The first byte is the number of a case, the rest a text.
pub(crate) fn check(input: &[u8]) {
    if let Some((case, text)) = input.split_first()
        && let Some(case) = cases().get(usize::from(case & 0x7f))
        && let Ok(text) = std::str::from_utf8(text)
    {
        case.check(text);
    }
}

impl Case {
    pub(crate) fn check(&self, text: &str) {
        (self.hold)(text);
    }
}

/// Every type of the zoo.
pub(crate) fn cases() -> &'static [Case] {
    static CASES: OnceLock<Vec<Case>> = OnceLock::new();
    CASES.get_or_init(|| {
        let mut collect = Collect(Vec::new());
        zoo::tour(&mut collect);
        collect.0
    })
}

struct Collect(Vec<Case>);

impl Visitor for Collect {
    fn visit<T: Specimen>(&mut self, case: &str) {
        let contract = Contract::of::<Echo<T>>().expect("the zoo is full of contracts");
        let name = case.to_owned();
        let schema = contract.output_to_read().expect("an echo has an output").clone();
        let hold = move |text: &str| {
            holds::<Echo<T>>(&name, text, |text, policy| contract.read_with(text, policy));
            holds::<T>(&name, text, |text, policy| contract.read_output_with(text, policy));
        };
        self.0.push(Case { name: case.to_owned(), schema, hold: Box::new(hold) });
    }
}

fn holds<T: Specimen>(
    case: &str,
    text: &str,
    read: impl Fn(&str, Policy) -> Result<Reading<T>, ContractError>,
) {
    let policies = [Policy::Strict, Policy::Repair, Policy::Coerce];
    let readings = policies.map(|policy| heard(case, read(text, policy)));
    let values =
        readings.each_ref().map(|reading| reading.as_ref().map(|read| written(&read.value)));
    if let Some(strict) = &readings[0] {
        let is_left_out = |repair: &Repair| repair.what.starts_with("left out a field");
        assert!(strict.repairs.iter().all(is_left_out), "{case}: {text}: {:?}", strict.repairs);
    }
    for (stricter, milder) in [(0, 1), (1, 2)] {
        if values[stricter].is_some() {
            assert_eq!(values[stricter], values[milder], "{case}: {text}");
        }
    }
    if let (Some(Some(strict)), Ok(plain)) = (&values[0], serde_json::from_str::<T>(text)) {
        assert_eq!(Some(strict), written(&plain).as_ref(), "{case}: {text}");
    }
    if let Some(Some(value)) = &values[2] {
        let again = value.to_string();
        // Some types cannot read what they write.
        let Ok(plain) = serde_json::from_str::<T>(&again) else {
            return;
        };
        if written(&plain).as_ref() == Some(value) {
            let strict = heard(case, read(&again, Policy::Strict));
            let strict = strict.map(|reading| written(&reading.value));
            assert_eq!(strict, Some(Some(value.clone())), "{case}: {text} read as {again}");
        }
    }
}

/// The value; checks the error if there is none.
fn heard<T>(case: &str, read: Result<Reading<T>, ContractError>) -> Option<Reading<T>> {
    let error = match read {
        Ok(reading) => return Some(reading),
        Err(error) => error,
    };
    let said = error.to_string();
    let ContractError::Reading { faults, .. } = error else {
        panic!("{case}: {said}");
    };
    assert!(!faults.is_empty(), "{case}");
    assert!(faults.iter().all(|fault| fault.path.starts_with('$')), "{case}: {said}");
    None
}

/// A value as JSON; some have none. Of an integer and a float either may read `-0`, and
/// only the float keeps its sign.
fn written<T: Specimen>(value: &T) -> Option<Value> {
    let mut written = serde_json::to_value(value).ok()?;
    level(&mut written);
    Some(written)
}

/// Makes values equal that a type cannot distinguish: zeros, and the order of a hash set.
pub(crate) fn level(value: &mut Value) {
    match value {
        Value::Number(number) if number.as_f64() == Some(0.0) => *value = 0.into(),
        Value::Array(items) => items.iter_mut().for_each(level),
        Value::Object(fields) => {
            fields.values_mut().for_each(level);
            if let Some(Value::Array(set)) = fields.get_mut("hashed") {
                set.sort_by_cached_key(Value::to_string);
            }
        }
        _ => {}
    }
}
