//! Graders of facts, and of the world at the end.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_evals::{
    Attempt, Case, Eval, ExpectedCall, Grade, GradedAttempt, Verdict, World, graders,
};
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Context, Error, Message, Module, Reply, Request, Signature, Tool, ToolCall, from_fn_with,
};
use toolwright_orchestrator::Agent;

#[derive(Clone, Serialize)]
struct Shop {
    orders: BTreeMap<u32, String>,
}

fn shop() -> Shop {
    Shop { orders: [7, 8].map(|id| (id, "open".to_owned())).into() }
}

/// Set the state of an order.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct SetState {
    id: u32,
    state: String,
}

impl Signature for SetState {
    type Output = String;
}

fn set_state() -> Tool {
    let set = from_fn_with(async |SetState { id, state }, cx: Context| {
        match state.as_str() {
            "lost" => return Err(Error::refuse("Orders are never lost.")),
            "broken" => return Err(Error::other("the database is away")),
            _ => {}
        }
        World::<Shop>::of(&cx)?.change(|shop| shop.orders.insert(id, state));
        Ok("Done.".to_owned())
    });
    Tool::new(set).unwrap()
}

/// Makes the calls of the task, and grades the world.
async fn graded(made: &[(u32, &str)], expected: Option<Vec<Value>>) -> Grade {
    let calls: Vec<_> = made
        .iter()
        .enumerate()
        .map(|(nth, (id, state))| {
            let arguments = json!({"id": id, "state": state}).to_string();
            ToolCall::new(nth.to_string(), "set_state", arguments)
        })
        .collect();
    let model = Scripted::new(move |request: &Request| {
        let is_done = request.messages.iter().any(|message| matches!(&**message, Message::Tool(_)));
        Ok(match is_done || calls.is_empty() {
            true => Reply::text("Done."),
            false => Reply::calls(calls.clone()),
        })
    });
    let mut case = Case::new("one", "Go.");
    if let Some(expected) = expected {
        let call = |arguments| ExpectedCall::new("set_state", arguments);
        case = case.expecting_calls(expected.into_iter().map(call));
    }
    let report = Eval::agent("shop", Agent::new(model, [set_state()]).unwrap())
        .with_cases([case])
        .with_world(shop())
        .with_grader("ends", graders::ends_as_expected(|_| shop(), [set_state()]))
        .run(&Context::default())
        .await
        .unwrap();
    let [GradedAttempt { grades, .. }] = &report.outcomes[..] else { panic!("{report}") };
    grades[0].clone()
}

#[tokio::test]
async fn the_world_has_to_be_as_after_the_expected_calls() {
    let cancelled = || Some(vec![json!({"id": 7, "state": "cancelled"})]);
    assert!(graded(&[(7, "cancelled")], cancelled()).await.passed());
    // Another way to the same state.
    assert!(graded(&[(7, "sent"), (7, "cancelled")], cancelled()).await.passed());
    let other = graded(&[(8, "cancelled")], cancelled()).await;
    assert_eq!(
        other.reason,
        "$.orders.7: expected \"cancelled\", got \"open\"\n\
         $.orders.8: expected \"open\", got \"cancelled\""
    );
    // A refused call changes nothing, and may be expected.
    assert!(graded(&[], Some(vec![json!({"id": 7, "state": "lost"})])).await.passed());
    assert!(graded(&[], Some(Vec::new())).await.passed());
    assert!(!graded(&[(7, "sent")], Some(Vec::new())).await.passed());
    assert_eq!(graded(&[], None).await.verdict, Verdict::Skip);
}

#[tokio::test]
async fn an_expected_call_that_cannot_be_made_is_an_error_of_the_grader() {
    for (arguments, reason) in [
        (json!({"id": 7, "state": {"$any": true}}), "a rule that accepts several values"),
        (json!({"id": "x", "state": "sent"}), "$.id: "),
        (json!({"id": 7, "state": "broken"}), "the database is away"),
    ] {
        let grade = graded(&[], Some(vec![arguments])).await;
        assert_eq!(grade.verdict, Verdict::Error, "{reason}");
        let start = "the grader failed: the expected call of `set_state` cannot be made: ";
        assert!(grade.reason.starts_with(start), "{}", grade.reason);
        assert!(grade.reason.contains(reason), "{}", grade.reason);
    }
    // An optional argument is left out.
    let fields = json!({"id": 7, "state": {"$exactly": "sent"}, "note": {"$optional": "x"}});
    assert!(graded(&[(7, "sent")], Some(vec![fields])).await.passed());
}

#[tokio::test]
async fn each_fact_of_a_case_has_to_be_in_the_output() {
    let grade = async |facts: Option<Value>, output: &str| {
        let mut case = Case::<String, String>::new("one", "Go.");
        if let Some(facts) = facts {
            case = case.with_metadata("facts", facts);
        }
        let attempt = Attempt::new(case, output);
        graders::contains_all("facts").call(attempt, &Context::default()).await.unwrap()
    };
    assert!(
        grade(Some(json!(["Friday", "on its way"])), "On its way until FRIDAY.").await.passed()
    );
    let half = grade(Some(json!(["Friday", "on its way"])), "On its way.").await;
    assert_eq!((half.verdict, half.score), (Verdict::Fail, Some(0.5)));
    assert_eq!(half.reason, "the output does not contain `Friday`: On its way.");
    assert!(grade(Some(json!([])), "Hm.").await.passed());
    assert_eq!(grade(None, "Hm.").await.verdict, Verdict::Skip);
    assert_eq!(grade(Some(json!([1])), "Hm.").await.verdict, Verdict::Error);
}
