//! The contracts of the attributes are those of a person.

use toolwright::__private::schemars::JsonSchema;
use toolwright::__private::serde::{Deserialize, Serialize};
use toolwright::prelude::*;
use toolwright::signature::Contract;

/// A tool as a person writes it.
mod by_hand {
    use super::{Deserialize, JsonSchema, Serialize, Signature};

    /// Plan a trip. Then say how long it takes:
    ///
    /// - by train,
    /// - by ship.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(crate = "toolwright::__private::serde")]
    #[schemars(crate = "toolwright::__private::schemars")]
    pub(crate) struct PlanTrip {
        /// Where it
        /// begins.
        from: String,
        /// Stops on the way.
        #[serde(default)]
        stops: Vec<String>,
        /// How many travel.
        #[serde(default = "one")]
        #[schemars(range(min = 1))]
        people: u32,
    }

    fn one() -> u32 {
        1
    }

    impl Signature for PlanTrip {
        type Output = Option<u32>;
    }
}

/// Plan a trip. Then say how long it takes:
///
/// - by train,
/// - by ship.
///
/// # Errors
///
/// None.
#[tool]
fn plan_trip(
    /// Where it
    /// begins.
    from: &str,
    /// Stops on the way.
    #[default]
    stops: &[String],
    /// How many travel.
    #[default = 1]
    #[schemars(range(min = 1))]
    people: u32,
) -> Result<Option<u32>> {
    Ok((from.len() > stops.len()).then_some(people))
}

#[test]
fn an_attribute_makes_the_contract_that_a_person_writes() {
    let [ours, theirs] = [Contract::of::<PlanTrip>(), Contract::of::<by_hand::PlanTrip>()];
    let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
    assert_eq!(ours.fingerprint(), theirs.fingerprint());
    assert_eq!(serde_json::to_string(&ours).unwrap(), serde_json::to_string(&theirs).unwrap());
    assert!(ours.description().ends_with("- by ship."), "{}", ours.description());
}
