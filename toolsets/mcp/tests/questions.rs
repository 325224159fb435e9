//! Questions of servers for the person of a call: `McpClient` with `examples/odd.rs`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::example;
use serde_json::{Value, json};
use toolwright_mcp::{McpClient, McpClientBuilder};
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::{Context, Effect, Error, Tool};

/// The revisions with questions as requests and as results.
const MODES: [&str; 2] = ["", "modern"];

fn odd(mode: &str) -> McpClientBuilder {
    McpClient::stdio(example("odd"), [mode])
        .with_trusted_results()
        .with_tool_time(Duration::from_secs(10))
}

fn tool(remote: &McpClient, name: &str) -> Tool {
    remote.tools().into_iter().find(|tool| tool.name() == name).unwrap()
}

fn edit(arguments: &str) -> Result<Decision, Error> {
    Ok(Decision::Edit { arguments: arguments.to_owned() })
}

/// Returns the answer that the server gets when the approver makes this decision.
async fn answer(
    remote: &McpClient,
    decide: impl Fn() -> Result<Decision, Error> + Send + Sync + 'static,
) -> Value {
    let cx = Context::default().with_approver(move |_: Approval| {
        let decision = decide();
        async move { decision }
    });
    let output = tool(remote, "ask").call("{}", &cx).await.unwrap();
    let mut values = serde_json::Deserializer::from_str(&output.text).into_iter::<Value>();
    values.next().unwrap().unwrap()
}

#[tokio::test]
async fn a_question_goes_to_the_approver_of_the_call_with_its_fields() {
    for mode in MODES {
        let remote = odd(mode).with_questions().connect().await.unwrap();
        let asked = Arc::new(Mutex::new(None));
        let seen = Arc::clone(&asked);
        let cx = Context::default().with_approver(move |approval: Approval| {
            *seen.lock().unwrap() = Some(approval);
            async { edit(r#"{"row": 3, "side": "right", "note": null}"#) }
        });
        let output = tool(&remote, "ask").call("{}", &cx).await.unwrap();
        assert!(output.text.contains(r#""action":"accept""#), "{}", output.text);
        assert!(output.text.contains(r#""content":{"row":3,"side":"right"}"#), "{}", output.text);
        if mode == "modern" {
            assert!(output.text.ends_with(r#" "state 1""#), "{}", output.text);
        }
        let asked = asked.lock().unwrap().take().unwrap();
        assert_eq!(asked.call.name, "answer_question");
        assert_eq!(asked.effect, Effect::Irreversible);
        let shown: Value = serde_json::from_str(&asked.call.arguments).unwrap();
        assert_eq!(shown, json!({"row": null, "side": "left", "note": null}));
        let reason = asked.reason.unwrap();
        for text in [
            "asks: Where do you want to sit?",
            "`row` (integer): From 1 to 20.",
            "`note` (string, optional)",
            r#"one of ["left","right"]"#,
        ] {
            assert!(reason.contains(text), "{text}: {reason}");
        }
    }
}

#[tokio::test]
async fn a_question_is_declined_unless_a_person_gives_an_answer_that_fits() {
    for mode in MODES {
        let remote = odd(mode).with_questions().connect().await.unwrap();
        for arguments in [r#"{"row": 99, "side": "left"}"#, r#"{"side": "left"}"#, "{", "[]"] {
            let answer = answer(&remote, move || edit(arguments)).await;
            assert_eq!(answer, json!({"action": "decline"}), "{arguments}");
        }
        let answer_of = answer(&remote, || Ok(Decision::deny("no"))).await;
        assert_eq!(answer_of, json!({"action": "decline"}));
        // A required answer has no default.
        let answer_of = answer(&remote, || Ok(Decision::Approve)).await;
        assert_eq!(answer_of, json!({"action": "decline"}));
        let answer_of = answer(&remote, || Err(Error::other("the person has gone"))).await;
        assert_eq!(answer_of, json!({"action": "cancel"}));
        let output = tool(&remote, "ask").call("{}", &Context::default()).await.unwrap();
        assert!(output.text.contains(r#"{"action":"decline"}"#), "{}", output.text);
    }
}

#[tokio::test]
async fn without_the_setting_no_person_is_asked() {
    for mode in MODES {
        let remote = odd(mode).connect().await.unwrap();
        let answer = answer(&remote, || edit(r#"{"row": 3, "side": "left"}"#)).await;
        assert_eq!(answer, json!({"action": "decline"}));
    }
}

#[tokio::test]
async fn a_question_that_could_be_that_of_another_call_is_declined() {
    let remote = odd("").with_questions().with_effect("ask", Effect::Read).connect().await.unwrap();
    let ask = tool(&remote, "ask");
    let cx =
        Context::default().with_approver(async |_: Approval| edit(r#"{"row": 3, "side": "left"}"#));
    let (ask_first, cx_first) = (ask.clone(), cx.clone());
    let first = tokio::spawn(async move {
        ask_first.call(r#"{"text": "first"}"#, &cx_first).await.unwrap().text
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    // The server responds to the first call when it has the answer for the second.
    let second = tokio::spawn(async move { ask.call("{}", &cx).await });
    assert_eq!(first.await.unwrap(), r#"{"action":"decline"}"#);
    second.abort();
}

#[tokio::test]
async fn a_server_that_asks_again_and_again_gets_no_more_answers() {
    let remote = odd("modern").with_questions().connect().await.unwrap();
    let cx =
        Context::default().with_approver(async |_: Approval| edit(r#"{"row": 3, "side": "left"}"#));
    let error = tool(&remote, "ask_again_and_again").call("{}", &cx).await.unwrap_err();
    assert!(
        error.for_model().contains("kept asking the user, and accepted no answer"),
        "{error:#}"
    );
}

#[tokio::test]
async fn the_timeout_of_a_call_waits_for_the_person() {
    for mode in MODES {
        let remote = odd(mode)
            .with_questions()
            .with_tool_time(Duration::from_millis(1_500))
            .connect()
            .await
            .unwrap();
        let cx = Context::default().with_approver(async |_: Approval| {
            tokio::time::sleep(Duration::from_secs(3)).await;
            edit(r#"{"row": 3, "side": "left"}"#)
        });
        let output = tool(&remote, "ask").call("{}", &cx).await.unwrap();
        assert!(output.text.contains(r#""row":3"#), "{}", output.text);
    }
}
