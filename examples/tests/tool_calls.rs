//! The programs with a loop of their own, each against fixed replies.
//!
//! The plans are those that `examples/plans/programs/run` plays on a server that checks
//! every request; here a small one gives their replies and keeps what it was asked.

use std::collections::BTreeSet;

use crate::common::{program, run};
use crate::server::Server;
use serde_json::{Value, json};

fn plan(name: &str) -> Value {
    let path = format!("{}/plans/programs/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A step of a plan as Chat Completions would reply.
fn chat(step: &Value) -> Value {
    let mut message = json!({"role": "assistant", "content": step["text"], "refusal": null});
    if let Some(calls) = step["calls"].as_array() {
        let calls = calls.iter().map(|call| {
            let function =
                json!({"name": call["name"], "arguments": call["arguments"].to_string()});
            json!({"id": call["id"], "type": "function", "function": function})
        });
        message["tool_calls"] = calls.collect();
    }
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "gpt-4.1",
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": "stop"}],
    })
}

/// A step of a plan as Responses would reply.
fn responses(step: &Value) -> Value {
    let mut output = Vec::new();
    if let Some(thought) = step["reasoning"].as_str() {
        let summary = json!([{"type": "summary_text", "text": thought}]);
        output.push(json!({"type": "reasoning", "id": "rs_1", "summary": summary}));
    }
    if let Some(text) = step["text"].as_str() {
        let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
        output.push(json!({
            "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": content,
        }));
    }
    for call in step["calls"].as_array().into_iter().flatten() {
        output.push(json!({
            "type": "function_call", "id": "fc_1", "call_id": call["id"], "name": call["name"],
            "arguments": call["arguments"].to_string(), "status": "completed",
        }));
    }
    let mut reply = json!({
        "id": "resp_1", "object": "response", "created_at": 0, "status": "completed",
        "model": "gpt-4.1", "output": output,
    });
    if let Some(extra) = step["extra"].as_object() {
        reply.as_object_mut().unwrap().extend(extra.clone());
    }
    reply
}

/// What a program prints and asks while a plan is played.
fn play(name: &str, plan: &Value) -> Value {
    let reply = if name.starts_with("chat") { chat } else { responses };
    let replies = plan["steps"].as_array().unwrap().iter();
    let replies: Vec<String> = replies.map(|step| reply(step).to_string()).collect();
    let server = Server::start(&replies.iter().map(String::as_str).collect::<Vec<_>>());
    let mut program = program(name);
    program.env("OPENAI_BASE_URL", &server.base_url).env("OPENAI_API_KEY", "none");
    let ran = run(&mut program);
    assert_eq!(json!(ran.code), *plan.get("exit").unwrap_or(&json!(0)), "{name}: {}", ran.stderr);
    let (said, says) = (ran.stdout.clone() + &ran.stderr, plan["says"].as_str().unwrap());
    assert!(said.contains(says), "{name}: {said}");
    let asked = server.asked();
    assert_eq!(json!(asked.len()), plan["requests"], "{name}");
    json!({"prints": ran.stdout.lines().collect::<Vec<_>>(), "asks": asked})
}

/// Plays a plan on the async and on the blocking program of an API: the same transcript.
fn play_both(api: &str, plan_name: &str, kind: &str) -> Value {
    let (name, plan) = (format!("{api}_{kind}"), plan(plan_name));
    let transcript = play(&name, &plan);
    assert_eq!(play(&format!("{name}_blocking"), &plan), transcript);
    transcript
}

#[test]
fn every_workflow_has_a_program_for_each_api_and_each_side_and_a_plan() {
    let mut expected = BTreeSet::from(["intro".to_owned()]);
    for api in ["chat", "responses"] {
        for kind in ["output", "tool", "group"] {
            for side in ["", "_blocking"] {
                expected.insert(format!("{api}_{kind}{side}"));
            }
        }
    }
    let plans = ["output", "tool", "group", "intro"].map(plan);
    let played = plans.iter().flat_map(|plan| plan["programs"].as_array().unwrap());
    let played: BTreeSet<_> = played.map(|name| name.as_str().unwrap().to_owned()).collect();
    assert_eq!(played, expected);
    played.iter().for_each(|name| drop(program(name)));
}

#[test]
fn chat_output_is_corrected_once_and_then_strict() {
    insta::assert_json_snapshot!(play_both("chat", "output", "output"));
}

#[test]
fn chat_tool_greets_two_people() {
    insta::assert_json_snapshot!(play_both("chat", "tool", "tool"));
}

#[test]
fn chat_group_asks_elsewhere_after_an_error() {
    insta::assert_json_snapshot!(play_both("chat", "group", "group"));
}

/// That what is dispatched together runs together is shown beside `ToolGroup::dispatch`.
#[test]
fn the_async_programs_dispatch_all_calls_of_a_reply_together() {
    for program in ["chat_tool", "chat_group", "responses_tool", "responses_group"] {
        let path = format!("{}/examples/{program}.rs", env!("CARGO_MANIFEST_DIR"));
        let source = std::fs::read_to_string(path).unwrap();
        assert_eq!(source.matches("let calls = reply.calls();").count(), 1, "{program}");
        assert_eq!(source.matches(" tools.dispatch(&calls, ").count(), 1, "{program}");
        assert_eq!(source.matches(".run(").count(), 0, "{program}");
    }
}

#[test]
fn responses_output_is_corrected_once_and_then_strict() {
    insta::assert_json_snapshot!(play_both("responses", "output", "output"));
}

#[test]
fn responses_tool_greets_two_people() {
    insta::assert_json_snapshot!(play_both("responses", "tool", "tool"));
}

#[test]
fn responses_group_asks_elsewhere_after_an_error() {
    insta::assert_json_snapshot!(play_both("responses", "group", "group"));
}

#[test]
fn the_intro_runs_custom_tools_and_a_function() {
    insta::assert_json_snapshot!(play("intro", &plan("intro")));
}

#[test]
fn a_model_is_told_what_is_wrong_with_its_calls_and_the_others_run() {
    for api in ["chat", "responses"] {
        let transcript = play_both(api, "group_faults", "group");
        let (prints, asks) = (&transcript["prints"], &transcript["asks"]);
        let conversation = if api == "chat" { "messages" } else { "input" };
        let told = asks.as_array().unwrap().last().unwrap()[conversation].as_array().unwrap();
        let told = told.iter().filter_map(|item| match api {
            "chat" => item["tool_call_id"].as_str().zip(item["content"].as_str()),
            _ => item["call_id"].as_str().zip(item["output"].as_str()),
        });
        let told: Vec<_> = told.collect();
        insta::allow_duplicates! {
            insta::assert_json_snapshot!(json!({"prints": prints, "told": told}));
        }
    }
}

#[test]
fn output_that_never_fits_is_given_up_after_three_attempts() {
    let plan = plan("output_never");
    for program in plan["programs"].as_array().unwrap() {
        play(program.as_str().unwrap(), &plan);
    }
}

#[test]
fn the_programs_share_a_setup_and_the_blocking_one_differs_in_async_only() {
    let folder = format!("{}/examples", env!("CARGO_MANIFEST_DIR"));
    let text = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
    for plan in ["output", "tool", "group"].map(plan) {
        for program in plan["programs"].as_array().unwrap() {
            let program = program.as_str().unwrap();
            let own = "#[path = \"common/blocking.rs\"]\nmod common;";
            let text = text(&format!("{program}.rs"));
            assert_eq!(text.contains(own), program.ends_with("_blocking"), "{program}");
            assert!(text.contains("mod common;"), "{program}");
        }
    }
    let (with, without) = (text("common/mod.rs"), text("common/blocking.rs"));
    let with = with
        .replace("async fn", "fn")
        .replace("toolwright_module::", "toolwright_group::blocking::");
    // From the data on they are the same; before it the blocking one makes its client.
    let from_data = |text: &str| text[text.find("/// Entities in a text.").unwrap()..].to_owned();
    assert_eq!(from_data(&with), from_data(&without));
    let mut before = without.lines();
    let head = with.lines().skip(1).take_while(|line| *line != "/// Entities in a text.");
    // Our names come from two crates with `async`, and from one module without.
    for line in head.filter(|line| !line.starts_with("use toolwright_")) {
        assert!(before.any(|other| other == line), "`{line}` is not in the blocking setup");
    }
}
