//! Names that a group rejects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_group::ToolGroup;
use toolwright_module::{Contract, Signature, Tool, from_fn};
use toolwright_signature::NameFault;

/// Query the database.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Query {
    sql: String,
}

impl Signature for Query {
    type Output = String;
}

fn query() -> Tool {
    Tool::new(from_fn(async |query: Query| Ok(query.sql))).unwrap()
}

/// End it.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Finish {}

impl Signature for Finish {
    type Output = String;
}

#[test]
fn a_duplicate_name_is_rejected_when_a_group_is_made() {
    let twice = ToolGroup::<(), ()>::new()
        .module(from_fn(async |query: Query| Ok(query.sql)))
        .and_then(|group| group.tool(query()));
    let fault = |refused: Result<ToolGroup, toolwright_signature::ContractError>| match refused
        .unwrap_err()
    {
        toolwright_signature::ContractError::Name { name, fault } => (name, fault),
        other => panic!("{other}"),
    };
    assert_eq!(fault(twice), ("query".to_owned(), NameFault::Duplicate));

    // Only a typed run reserves `finish`.
    let finish = ToolGroup::<(), ()>::new().module(from_fn(async |_: Finish| Ok(String::new())));
    let finish = finish.and_then(|group| group.tool(query().named(Contract::FINISH)?));
    assert_eq!(fault(finish), (Contract::FINISH.to_owned(), NameFault::Duplicate));
}
