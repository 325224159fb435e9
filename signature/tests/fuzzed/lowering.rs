//! Any JSON as a schema: it is lowered, or rejected with a path. A value in the lowered shape is
//! read as the value.

use serde_json::Value;
use toolwright_signature::{Contract, ContractError, Dialect, Lowered, Policy};

/// The input is a schema, and a value if there is a second JSON text.
pub(crate) fn check(input: &[u8]) {
    let mut texts = serde_json::Deserializer::from_slice(input).into_iter::<Value>();
    let Some(Ok(schema)) = texts.next() else {
        return;
    };
    let Ok(contract) = contract(&schema) else {
        return;
    };
    let again = self::contract(&schema).expect("it was made before");
    let value = texts.next().and_then(|value| value.ok());
    let value = value.and_then(|value| read(&contract, &value).ok());
    for dialect in Dialect::ALL {
        let lowered = contract.lower(dialect);
        same(&lowered, &again.lower(dialect), dialect);
        same(&contract.lower_output(dialect), &again.lower_output(dialect), dialect);
        if let (Ok(lowered), Some(value)) = (lowered, &value) {
            comes_back(&contract, dialect, lowered, value);
        }
    }
}

fn contract(schema: &Value) -> Result<Contract, ContractError> {
    Contract::dynamic("fuzzed", "A tool.", schema.clone(), Some(schema.clone()))
}

fn read(contract: &Contract, value: &Value) -> Result<Value, ContractError> {
    Ok(contract.read_with(&value.to_string(), Policy::Strict)?.value)
}

fn same(
    first: &Result<&Lowered, ContractError>,
    second: &Result<&Lowered, ContractError>,
    dialect: Dialect,
) {
    match (first, second) {
        (Ok(first), Ok(second)) => {
            assert_eq!(first.schema.get(), second.schema.get(), "{dialect}");
            let root: Value = serde_json::from_str(first.schema.get()).expect("a schema is JSON");
            assert!(root.is_object(), "{dialect}: {root}");
        }
        (Err(first), Err(second)) => {
            assert_eq!(first.to_string(), second.to_string());
            let ContractError::Lowering { path, advice, .. } = first else {
                panic!("{dialect}: {first}");
            };
            assert!(
                path.starts_with(['$', '#']) && !advice.is_empty(),
                "{dialect}: {path} {advice}"
            );
        }
        (first, second) => panic!("{dialect}: {first:?}, then {second:?}"),
    }
}

fn comes_back(contract: &Contract, dialect: Dialect, lowered: &Lowered, value: &Value) {
    let Ok(rendered) = contract.lower_value(dialect, value) else {
        return;
    };
    match read(contract, &rendered) {
        Ok(back) if without_null(back.clone()) == without_null(value.clone()) => {}
        // Absent and null are the same there, and the loss is listed.
        _ if lowered.losses.iter().any(|loss| loss.keyword == "default") => {}
        other => panic!("{dialect}: {value} was rendered as {rendered}, read as {other:?}"),
    }
}

/// Where null is let in, it is the same as absent, and rendered in its place.
fn without_null(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(|field| *field = without_null(field.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_null(item.take())),
        _ => {}
    }
    value
}
