//! Whole streams, as clients get them.

use insta::assert_snapshot;
use serde_json::json;

use super::*;
use crate::ui_messages::conversation::messages;
use crate::ui_messages::writer::UiMessages;

fn stream(mut writer: UiMessages, updates: &[Update]) -> String {
    let mut events: Vec<_> = updates.iter().flat_map(|update| writer.write(update)).collect();
    events.extend(writer.write_end());
    events.join("\n")
}

fn seven(kinds: Vec<UpdateKind>) -> String {
    stream(UiMessages::new(true), &kinds.into_iter().map(update).collect::<Vec<_>>())
}

#[test]
fn a_reply_with_reasoning_and_text_is_one_step() {
    let pieces = vec![
        started(),
        reasoning("They greet."),
        text("Good "),
        text("day."),
        replied(),
        done("Good day."),
    ];
    assert_snapshot!(seven(pieces), @r#"
    {"type":"start","messageId":"run-1"}
    {"type":"start-step"}
    {"type":"reasoning-start","id":"run-1-1"}
    {"type":"reasoning-delta","id":"run-1-1","delta":"They greet."}
    {"type":"reasoning-end","id":"run-1-1"}
    {"type":"text-start","id":"run-1-2"}
    {"type":"text-delta","id":"run-1-2","delta":"Good "}
    {"type":"text-delta","id":"run-1-2","delta":"day."}
    {"type":"text-end","id":"run-1-2"}
    {"type":"message-metadata","messageMetadata":{"usage":{"inputTokens":10,"cachedInputTokens":0,"outputTokens":2},"model":"small"}}
    {"type":"finish-step"}
    {"type":"finish","finishReason":"stop","messageMetadata":{"ending":"answered","usage":{"inputTokens":10,"cachedInputTokens":0,"outputTokens":2}}}
    [DONE]
    "#);
}

#[test]
fn a_call_has_one_id_from_its_first_piece_to_its_result() {
    let pieces = vec![
        started(),
        call_text(0, "add", 0, r#"{"a":"#),
        call_text(0, "add", 5, "1}"),
        called(0, "call-7", "add", r#"{"a":1}"#),
        replied(),
        result("call-7", "add", "1"),
        text("1."),
        replied(),
        done("1."),
    ];
    assert_snapshot!(seven(pieces), @r#"
    {"type":"start","messageId":"run-1"}
    {"type":"start-step"}
    {"type":"tool-input-start","toolCallId":"run-1-0-0","toolName":"add","dynamic":true}
    {"type":"tool-input-delta","toolCallId":"run-1-0-0","inputTextDelta":"{\"a\":"}
    {"type":"tool-input-delta","toolCallId":"run-1-0-0","inputTextDelta":"1}"}
    {"type":"tool-input-available","toolCallId":"run-1-0-0","toolName":"add","input":{"a":1},"dynamic":true}
    {"type":"message-metadata","messageMetadata":{"usage":{"inputTokens":10,"cachedInputTokens":0,"outputTokens":2},"model":"small"}}
    {"type":"tool-output-available","toolCallId":"run-1-0-0","output":"1","providerMetadata":{"toolwright":{"milliseconds":5}}}
    {"type":"finish-step"}
    {"type":"start-step"}
    {"type":"text-start","id":"run-1-1"}
    {"type":"text-delta","id":"run-1-1","delta":"1."}
    {"type":"text-end","id":"run-1-1"}
    {"type":"message-metadata","messageMetadata":{"usage":{"inputTokens":20,"cachedInputTokens":0,"outputTokens":4},"model":"small"}}
    {"type":"finish-step"}
    {"type":"finish","finishReason":"stop","messageMetadata":{"ending":"answered","usage":{"inputTokens":10,"cachedInputTokens":0,"outputTokens":2}}}
    [DONE]
    "#);
}

/// The places of pieces count the texts before them with some providers. Names may come late.
#[test]
fn streamed_calls_are_matched_in_their_order() {
    let pieces = vec![
        started(),
        call_text(2, "", 0, ""),
        call_text(2, "first", 0, "{"),
        call_text(4, "second", 0, "{}"),
        call_text(4, "second", 0, "{ }"),
        call_text(5, "cut", 0, "{"),
        called(0, "a", "first", "{}"),
        called(1, "b", "second", "{ }"),
        replied(),
    ];
    assert_snapshot!(seven(pieces), @r#"
    {"type":"start","messageId":"run-1"}
    {"type":"start-step"}
    {"type":"tool-input-start","toolCallId":"run-1-0-0","toolName":"first","dynamic":true}
    {"type":"tool-input-delta","toolCallId":"run-1-0-0","inputTextDelta":"{"}
    {"type":"tool-input-start","toolCallId":"run-1-0-1","toolName":"second","dynamic":true}
    {"type":"tool-input-delta","toolCallId":"run-1-0-1","inputTextDelta":"{}"}
    {"type":"tool-input-start","toolCallId":"run-1-0-1","toolName":"second","dynamic":true}
    {"type":"tool-input-delta","toolCallId":"run-1-0-1","inputTextDelta":"{ }"}
    {"type":"tool-input-start","toolCallId":"run-1-0-2","toolName":"cut","dynamic":true}
    {"type":"tool-input-delta","toolCallId":"run-1-0-2","inputTextDelta":"{"}
    {"type":"tool-input-available","toolCallId":"run-1-0-0","toolName":"first","input":{},"dynamic":true}
    {"type":"tool-input-available","toolCallId":"run-1-0-1","toolName":"second","input":{},"dynamic":true}
    {"type":"tool-input-error","toolCallId":"run-1-0-2","toolName":"cut","input":"{","dynamic":true,"errorText":"The model did not finish this call."}
    {"type":"message-metadata","messageMetadata":{"usage":{"inputTokens":10,"cachedInputTokens":0,"outputTokens":2},"model":"small"}}
    {"type":"tool-approval-request","approvalId":"run-1-0-0-held","toolCallId":"run-1-0-0","isAutomatic":true}
    {"type":"tool-approval-response","approvalId":"run-1-0-0-held","approved":true}
    {"type":"tool-approval-request","approvalId":"run-1-0-1-held","toolCallId":"run-1-0-1","isAutomatic":true}
    {"type":"tool-approval-response","approvalId":"run-1-0-1-held","approved":true}
    {"type":"finish-step"}
    {"type":"finish","finishReason":"tool-calls"}
    [DONE]
    "#);
}

#[test]
fn a_failed_call_has_an_error_and_a_cut_result_its_length() {
    let failed = UpdateKind::Result {
        id: "a".to_owned(),
        name: "read".to_owned(),
        text: "There is no such file.".to_owned(),
        whole_bytes: Some(100_000),
        failed: true,
        milliseconds: 3,
    };
    let pieces = vec![started(), called(0, "a", "read", "not json"), replied(), failed];
    assert_snapshot!(seven(pieces), @r#"
    {"type":"start","messageId":"run-1"}
    {"type":"start-step"}
    {"type":"tool-input-available","toolCallId":"run-1-0-0","toolName":"read","input":"not json","dynamic":true}
    {"type":"message-metadata","messageMetadata":{"usage":{"inputTokens":10,"cachedInputTokens":0,"outputTokens":2},"model":"small"}}
    {"type":"tool-output-error","toolCallId":"run-1-0-0","errorText":"There is no such file.","providerMetadata":{"toolwright":{"milliseconds":3,"wholeBytes":100000}}}
    {"type":"finish-step"}
    {"type":"finish","finishReason":"tool-calls"}
    [DONE]
    "#);
}

fn asked() -> Vec<Update> {
    let mut asked = question("q1", "a", "pay", r#"{"to":"Bob"}"#);
    asked.reason = Some("its argument `to` is quoted".to_owned());
    asked.schema = Some(json!({ "type": "object" }));
    let kinds = vec![
        started(),
        text("I pay."),
        called(0, "a", "pay", r#"{"to":"Bob"}"#),
        replied(),
        UpdateKind::ApprovalAsked(asked),
    ];
    kinds.into_iter().map(update).collect()
}

#[test]
fn a_run_that_waits_for_a_person_ends_its_stream() {
    assert_snapshot!(stream(UiMessages::new(false), &asked()), @r#"
    {"type":"start","messageId":"run-1"}
    {"type":"start-step"}
    {"type":"text-start","id":"run-1-1"}
    {"type":"text-delta","id":"run-1-1","delta":"I pay."}
    {"type":"text-end","id":"run-1-1"}
    {"type":"tool-input-available","toolCallId":"run-1-0-0","toolName":"pay","input":{"to":"Bob"},"dynamic":true}
    {"type":"message-metadata","messageMetadata":{"usage":{"inputTokens":10,"cachedInputTokens":0,"outputTokens":2},"model":"small"}}
    {"type":"tool-approval-request","approvalId":"q1","toolCallId":"run-1-0-0","approvalDescriptor":{"run":"run-1","effect":"write","unknown":false,"schema":{"type":"object"}},"reason":"its argument `to` is quoted"}
    {"type":"finish-step"}
    {"type":"finish","finishReason":"tool-calls"}
    [DONE]
    "#);
}

#[test]
fn the_client_that_answered_gets_what_follows() {
    let mut updates = asked();
    let rest =
        [decided("a", Decided::Approve), result("a", "pay", "paid"), text("Done."), replied()];
    updates.extend(rest.into_iter().chain([done("Done.")]).map(update));
    assert_snapshot!(stream(UiMessages::after(true, ["q1"]), &updates), @r#"
    {"type":"start","messageId":"run-1"}
    {"type":"tool-approval-response","approvalId":"q1","approved":true}
    {"type":"data-decision","id":"q1","data":{"toolCallId":"run-1-0-0","decision":"approve","by":"Ada"}}
    {"type":"tool-output-available","toolCallId":"run-1-0-0","output":"paid","providerMetadata":{"toolwright":{"milliseconds":5}}}
    {"type":"start-step"}
    {"type":"text-start","id":"run-1-2"}
    {"type":"text-delta","id":"run-1-2","delta":"Done."}
    {"type":"text-end","id":"run-1-2"}
    {"type":"message-metadata","messageMetadata":{"usage":{"inputTokens":20,"cachedInputTokens":0,"outputTokens":4},"model":"small"}}
    {"type":"finish-step"}
    {"type":"finish","finishReason":"stop","messageMetadata":{"ending":"answered","usage":{"inputTokens":10,"cachedInputTokens":0,"outputTokens":2}}}
    [DONE]
    "#);
    assert_snapshot!(stream(UiMessages::after(false, ["q1"]), &updates), @r#"
    {"type":"start","messageId":"run-1"}
    {"type":"tool-input-available","toolCallId":"run-1-0-0","toolName":"pay","input":{"to":"Bob"},"dynamic":true}
    {"type":"data-decision","id":"q1","data":{"toolCallId":"run-1-0-0","decision":"approve","by":"Ada"}}
    {"type":"tool-output-available","toolCallId":"run-1-0-0","output":"paid","providerMetadata":{"toolwright":{"milliseconds":5}}}
    {"type":"start-step"}
    {"type":"text-start","id":"run-1-2"}
    {"type":"text-delta","id":"run-1-2","delta":"Done."}
    {"type":"text-end","id":"run-1-2"}
    {"type":"message-metadata","messageMetadata":{"usage":{"inputTokens":20,"cachedInputTokens":0,"outputTokens":4},"model":"small"}}
    {"type":"finish-step"}
    {"type":"finish","finishReason":"stop","messageMetadata":{"ending":"answered","usage":{"inputTokens":10,"cachedInputTokens":0,"outputTokens":2}}}
    [DONE]
    "#);
}

#[test]
fn a_refused_call_is_denied_and_has_no_result() {
    let mut updates = asked();
    let failed = UpdateKind::Result {
        id: "a".to_owned(),
        name: "pay".to_owned(),
        text: "The call was denied: Not today.".to_owned(),
        whole_bytes: None,
        failed: true,
        milliseconds: 0,
    };
    updates.extend([decided("a", deny("Not today.")), failed].map(update));
    assert_snapshot!(stream(UiMessages::after(true, ["q1"]), &updates), @r#"
    {"type":"start","messageId":"run-1"}
    {"type":"tool-approval-response","approvalId":"q1","approved":false,"reason":"Not today."}
    {"type":"tool-output-denied","toolCallId":"run-1-0-0"}
    {"type":"data-decision","id":"q1","data":{"toolCallId":"run-1-0-0","decision":{"deny":{"reason":"Not today."}},"by":"Ada"}}
    {"type":"finish","finishReason":"tool-calls"}
    [DONE]
    "#);
}

#[test]
fn changed_arguments_are_shown() {
    let mut updates = asked();
    updates.push(update(decided("a", Decided::Edit { arguments: json!({ "to": "Eve" }) })));
    assert_snapshot!(stream(UiMessages::after(true, ["q1"]), &updates), @r#"
    {"type":"start","messageId":"run-1"}
    {"type":"tool-input-available","toolCallId":"run-1-0-0","toolName":"pay","input":{"to":"Eve"},"dynamic":true}
    {"type":"tool-approval-response","approvalId":"q1","approved":true}
    {"type":"data-decision","id":"q1","data":{"toolCallId":"run-1-0-0","decision":{"edit":{"arguments":{"to":"Eve"}}},"by":"Ada"}}
    {"type":"tool-approval-request","approvalId":"run-1-0-0-held","toolCallId":"run-1-0-0","isAutomatic":true}
    {"type":"tool-approval-response","approvalId":"run-1-0-0-held","approved":true}
    {"type":"finish","finishReason":"tool-calls"}
    [DONE]
    "#);
}

#[test]
fn a_question_of_an_agent_below_is_a_call_in_a_step_of_its_own() {
    let asked = question("q1", "x", "pay", "{}");
    let updates = [
        update(started()),
        update(called(0, "a", "assistant", "{}")),
        update(replied()),
        below("assistant", "a", text("Let me pay.")),
        below("assistant", "a", called(0, "x", "pay", "{}")),
        below("assistant", "a", replied()),
        below("assistant", "a", UpdateKind::ApprovalAsked(asked)),
        below("assistant", "a", decided("x", Decided::Approve)),
        below("assistant", "a", result("x", "pay", "paid")),
        update(result("a", "assistant", "It is paid.")),
        update(text("Paid.")),
    ];
    assert_snapshot!(stream(UiMessages::new(false), &updates), @r#"
    {"type":"start","messageId":"run-1"}
    {"type":"start-step"}
    {"type":"tool-input-available","toolCallId":"run-1-0-0","toolName":"assistant","input":{},"dynamic":true}
    {"type":"message-metadata","messageMetadata":{"usage":{"inputTokens":10,"cachedInputTokens":0,"outputTokens":2},"model":"small"}}
    {"type":"data-nested","data":{"path":[{"tool":"assistant","id":"a"}],"update":"text","text":"Let me pay."},"transient":true}
    {"type":"data-nested","data":{"path":[{"tool":"assistant","id":"a"}],"update":"called","place":0,"id":"x","name":"pay","arguments":"{}"},"transient":true}
    {"type":"message-metadata","messageMetadata":{"usage":{"inputTokens":20,"cachedInputTokens":0,"outputTokens":4}}}
    {"type":"data-nested","data":{"path":[{"tool":"assistant","id":"a"}],"update":"replied","model":"small","cost":{"input_tokens":10,"output_tokens":2}},"transient":true}
    {"type":"finish-step"}
    {"type":"start-step"}
    {"type":"tool-input-available","toolCallId":"run-1-below-1","toolName":"pay","input":{},"dynamic":true,"title":"assistant › pay"}
    {"type":"tool-approval-request","approvalId":"q1","toolCallId":"run-1-below-1","approvalDescriptor":{"run":"run-1","effect":"write","unknown":false}}
    {"type":"data-nested","data":{"path":[{"tool":"assistant","id":"a"}],"update":"approval_asked","question":"q1","run":"run-1","id":"x","name":"pay","arguments":"{}","effect":"write"},"transient":true}
    {"type":"tool-input-available","toolCallId":"run-1-below-1","toolName":"pay","input":{},"dynamic":true,"title":"assistant › pay"}
    {"type":"data-decision","id":"q1","data":{"toolCallId":"run-1-below-1","decision":"approve","by":"Ada"}}
    {"type":"data-nested","data":{"path":[{"tool":"assistant","id":"a"}],"update":"decided","id":"x","decision":"approve","by":"Ada"},"transient":true}
    {"type":"tool-output-available","toolCallId":"run-1-below-1","output":"paid","providerMetadata":{"toolwright":{"milliseconds":5}}}
    {"type":"data-nested","data":{"path":[{"tool":"assistant","id":"a"}],"update":"result","id":"x","name":"pay","text":"paid","milliseconds":5},"transient":true}
    {"type":"tool-output-available","toolCallId":"run-1-0-0","output":"It is paid.","providerMetadata":{"toolwright":{"milliseconds":5}}}
    {"type":"finish-step"}
    {"type":"start-step"}
    {"type":"text-start","id":"run-1-1"}
    {"type":"text-delta","id":"run-1-1","delta":"Paid."}
    {"type":"text-end","id":"run-1-1"}
    {"type":"finish-step"}
    {"type":"finish","finishReason":"tool-calls"}
    [DONE]
    "#);
}

/// The client sends the answers by itself when each call of the step has an outcome or an answer.
#[test]
fn calls_that_wait_for_others_are_approved_by_themselves_in_version_7() {
    let mut updates = asked();
    updates.insert(3, update(called(1, "b", "add", "{}")));
    assert_snapshot!(stream(UiMessages::new(true), &updates), @r#"
    {"type":"start","messageId":"run-1"}
    {"type":"start-step"}
    {"type":"text-start","id":"run-1-1"}
    {"type":"text-delta","id":"run-1-1","delta":"I pay."}
    {"type":"text-end","id":"run-1-1"}
    {"type":"tool-input-available","toolCallId":"run-1-0-0","toolName":"pay","input":{"to":"Bob"},"dynamic":true}
    {"type":"tool-input-available","toolCallId":"run-1-0-1","toolName":"add","input":{},"dynamic":true}
    {"type":"message-metadata","messageMetadata":{"usage":{"inputTokens":10,"cachedInputTokens":0,"outputTokens":2},"model":"small"}}
    {"type":"tool-approval-request","approvalId":"q1","toolCallId":"run-1-0-0","approvalDescriptor":{"run":"run-1","effect":"write","unknown":false,"schema":{"type":"object"}},"reason":"its argument `to` is quoted"}
    {"type":"tool-approval-request","approvalId":"run-1-0-1-held","toolCallId":"run-1-0-1","isAutomatic":true}
    {"type":"tool-approval-response","approvalId":"run-1-0-1-held","approved":true}
    {"type":"finish-step"}
    {"type":"finish","finishReason":"tool-calls"}
    [DONE]
    "#);
}

fn lost() -> Vec<UpdateKind> {
    vec![
        started(),
        reasoning("First"),
        text("Let"),
        call_text(0, "add", 0, "{"),
        UpdateKind::Discarded,
        text("Again."),
        call_text(0, "add", 0, "{}"),
        called(0, "a", "add", "{}"),
        replied(),
    ]
}

#[test]
fn version_7_takes_a_lost_reply_back() {
    assert_snapshot!(seven(lost()), @r#"
    {"type":"start","messageId":"run-1"}
    {"type":"start-step"}
    {"type":"reasoning-start","id":"run-1-1"}
    {"type":"reasoning-delta","id":"run-1-1","delta":"First"}
    {"type":"reasoning-end","id":"run-1-1"}
    {"type":"text-start","id":"run-1-2"}
    {"type":"text-delta","id":"run-1-2","delta":"Let"}
    {"type":"text-end","id":"run-1-2"}
    {"type":"tool-input-start","toolCallId":"run-1-0-0","toolName":"add","dynamic":true}
    {"type":"tool-input-delta","toolCallId":"run-1-0-0","inputTextDelta":"{"}
    {"type":"reset-step"}
    {"type":"text-start","id":"run-1-3"}
    {"type":"text-delta","id":"run-1-3","delta":"Again."}
    {"type":"text-end","id":"run-1-3"}
    {"type":"tool-input-start","toolCallId":"run-1-0-0","toolName":"add","dynamic":true}
    {"type":"tool-input-delta","toolCallId":"run-1-0-0","inputTextDelta":"{}"}
    {"type":"tool-input-available","toolCallId":"run-1-0-0","toolName":"add","input":{},"dynamic":true}
    {"type":"message-metadata","messageMetadata":{"usage":{"inputTokens":10,"cachedInputTokens":0,"outputTokens":2},"model":"small"}}
    {"type":"tool-approval-request","approvalId":"run-1-0-0-held","toolCallId":"run-1-0-0","isAutomatic":true}
    {"type":"tool-approval-response","approvalId":"run-1-0-0-held","approved":true}
    {"type":"finish-step"}
    {"type":"finish","finishReason":"tool-calls"}
    [DONE]
    "#);
}

#[test]
fn version_6_gets_a_mark_after_a_lost_reply() {
    let updates: Vec<_> = lost().into_iter().map(update).collect();
    assert_snapshot!(stream(UiMessages::new(false), &updates), @r#"
    {"type":"start","messageId":"run-1"}
    {"type":"start-step"}
    {"type":"reasoning-start","id":"run-1-1"}
    {"type":"reasoning-delta","id":"run-1-1","delta":"First"}
    {"type":"reasoning-end","id":"run-1-1"}
    {"type":"text-start","id":"run-1-2"}
    {"type":"text-delta","id":"run-1-2","delta":"Let"}
    {"type":"text-end","id":"run-1-2"}
    {"type":"tool-input-start","toolCallId":"run-1-0-0","toolName":"add","dynamic":true}
    {"type":"tool-input-delta","toolCallId":"run-1-0-0","inputTextDelta":"{"}
    {"type":"tool-input-error","toolCallId":"run-1-0-0","toolName":"add","input":"{","dynamic":true,"errorText":"The model writes this call anew."}
    {"type":"data-discarded","id":"run-1-3","data":{}}
    {"type":"text-start","id":"run-1-4"}
    {"type":"text-delta","id":"run-1-4","delta":"Again."}
    {"type":"text-end","id":"run-1-4"}
    {"type":"tool-input-start","toolCallId":"run-1-0-0","toolName":"add","dynamic":true}
    {"type":"tool-input-delta","toolCallId":"run-1-0-0","inputTextDelta":"{}"}
    {"type":"tool-input-available","toolCallId":"run-1-0-0","toolName":"add","input":{},"dynamic":true}
    {"type":"message-metadata","messageMetadata":{"usage":{"inputTokens":10,"cachedInputTokens":0,"outputTokens":2},"model":"small"}}
    {"type":"finish-step"}
    {"type":"finish","finishReason":"tool-calls"}
    [DONE]
    "#);
}

#[test]
fn a_typed_answer_is_a_part_that_is_replaced() {
    let piece = |at, text: &str| UpdateKind::Answer { at, text: text.to_owned() };
    let pieces = vec![
        started(),
        piece(0, r#"{"name":"A"#),
        piece(10, r#"da","born"#),
        piece(19, r#"":1815}"#),
        replied(),
        done(json!({ "name": "Ada", "born": 1815 })),
    ];
    assert_snapshot!(seven(pieces), @r#"
    {"type":"start","messageId":"run-1"}
    {"type":"start-step"}
    {"type":"data-answer","id":"answer","data":{"text":"{\"name\":\"A"}}
    {"type":"data-answer","id":"answer","data":{"text":"{\"name\":\"Ada\",\"born"}}
    {"type":"data-answer","id":"answer","data":{"text":"{\"name\":\"Ada\",\"born\":1815}"}}
    {"type":"message-metadata","messageMetadata":{"usage":{"inputTokens":10,"cachedInputTokens":0,"outputTokens":2},"model":"small"}}
    {"type":"data-answer","id":"answer","data":{"value":{"name":"Ada","born":1815}}}
    {"type":"finish-step"}
    {"type":"finish","finishReason":"stop","messageMetadata":{"ending":"answered","usage":{"inputTokens":10,"cachedInputTokens":0,"outputTokens":2}}}
    [DONE]
    "#);
}

/// The sum of all parts is a small multiple of the answer.
#[test]
fn a_long_typed_answer_is_not_sent_for_each_piece() {
    let mut writer = UiMessages::new(true);
    writer.write(&update(started()));
    let (mut bytes, mut at) = (0, 0);
    for nth in 0..20_000 {
        let text = if nth == 0 { "[0".to_owned() } else { format!(",{nth}") };
        let length = text.len();
        bytes += writer.write(&update(UpdateKind::Answer { at, text })).concat().len();
        at += length;
    }
    assert!(bytes < 12 * at, "{bytes} bytes for an answer of {at} bytes");
}

#[test]
fn a_stopped_run_is_an_error_unless_it_goes_on() {
    let stop = || UpdateKind::Stopped {
        reason: "The model is busy.".to_owned(),
        can_go_on: true,
        by_person: false,
    };
    assert_snapshot!(seven(vec![started(), text("So"), stop()]), @r#"
    {"type":"start","messageId":"run-1"}
    {"type":"start-step"}
    {"type":"text-start","id":"run-1-1"}
    {"type":"text-delta","id":"run-1-1","delta":"So"}
    {"type":"text-end","id":"run-1-1"}
    {"type":"message-metadata","messageMetadata":{"stopped":{"reason":"The model is busy.","canGoOn":true}}}
    {"type":"error","errorText":"The model is busy."}
    [DONE]
    "#);
    let by_person = UpdateKind::Stopped {
        reason: "The run was stopped.".to_owned(),
        can_go_on: false,
        by_person: true,
    };
    assert_snapshot!(seven(vec![started(), by_person]), @r#"
    {"type":"start","messageId":"run-1"}
    {"type":"message-metadata","messageMetadata":{"stopped":{"reason":"The run was stopped.","canGoOn":false}}}
    {"type":"abort","reason":"The run was stopped."}
    [DONE]
    "#);
    let goes_on = vec![started(), stop(), text("So"), replied(), done("So")];
    assert!(!seven(goes_on).contains("error"));
}

#[test]
fn a_run_that_ends_leaves_no_call_open() {
    let stop = |can_go_on| {
        let mut updates = asked();
        updates.insert(3, update(called(1, "b", "add", "{}")));
        let reason = "Bye.".to_owned();
        updates.push(update(UpdateKind::Stopped { reason, can_go_on, by_person: false }));
        let events = stream(UiMessages::after(true, ["q1"]), &updates);
        events.lines().filter(|event| event.contains("toolCallId")).collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(stop(false), @r#"
    {"type":"tool-output-denied","toolCallId":"run-1-0-0"}
    {"type":"tool-output-error","toolCallId":"run-1-0-1","errorText":"The run ended before this call had a result.","providerMetadata":{}}
    "#);
    // The question can be answered still.
    assert_snapshot!(stop(true), @r#"
    {"type":"tool-output-error","toolCallId":"run-1-0-1","errorText":"The run ended before this call had a result.","providerMetadata":{}}
    "#);
}

#[test]
fn an_answer_that_was_not_shown_is_shown_at_the_end() {
    assert_snapshot!(seven(vec![started(), done("Yes.")]), @r#"
    {"type":"start","messageId":"run-1"}
    {"type":"start-step"}
    {"type":"text-start","id":"run-1-1"}
    {"type":"text-delta","id":"run-1-1","delta":"Yes."}
    {"type":"text-end","id":"run-1-1"}
    {"type":"finish-step"}
    {"type":"finish","finishReason":"stop","messageMetadata":{"ending":"answered","usage":{"inputTokens":10,"cachedInputTokens":0,"outputTokens":2}}}
    [DONE]
    "#);
}

/// The client ends a stream that has such a value.
#[test]
fn values_that_the_client_refuses_become_texts() {
    let arguments = r#"{"a":{"__proto__":1}}"#;
    let pieces = vec![
        started(),
        called(0, "a", "add", arguments),
        called(1, "b", "add", r#"[{"constructor":{"prototype":1}}]"#),
        called(2, "c", "add", r#"{"constructor":1}"#),
    ];
    assert_snapshot!(seven(pieces), @r#"
    {"type":"start","messageId":"run-1"}
    {"type":"start-step"}
    {"type":"tool-input-available","toolCallId":"run-1-0-0","toolName":"add","input":"{\"a\":{\"__proto__\":1}}","dynamic":true}
    {"type":"tool-input-available","toolCallId":"run-1-0-1","toolName":"add","input":"[{\"constructor\":{\"prototype\":1}}]","dynamic":true}
    {"type":"tool-input-available","toolCallId":"run-1-0-2","toolName":"add","input":{"constructor":1},"dynamic":true}
    {"type":"tool-approval-request","approvalId":"run-1-0-0-held","toolCallId":"run-1-0-0","isAutomatic":true}
    {"type":"tool-approval-response","approvalId":"run-1-0-0-held","approved":true}
    {"type":"tool-approval-request","approvalId":"run-1-0-1-held","toolCallId":"run-1-0-1","isAutomatic":true}
    {"type":"tool-approval-response","approvalId":"run-1-0-1-held","approved":true}
    {"type":"tool-approval-request","approvalId":"run-1-0-2-held","toolCallId":"run-1-0-2","isAutomatic":true}
    {"type":"tool-approval-response","approvalId":"run-1-0-2-held","approved":true}
    {"type":"finish-step"}
    {"type":"finish","finishReason":"tool-calls"}
    [DONE]
    "#);
}

#[test]
fn nothing_follows_the_last_event() {
    let mut writer = UiMessages::new(true);
    for kind in [started(), text("Yes."), replied(), done("Yes.")] {
        writer.write(&update(kind));
    }
    assert!(writer.is_over());
    assert_eq!(writer.write(&update(text("More"))), Vec::<String>::new());
    assert_eq!(writer.write_end(), Vec::<String>::new());
}

#[test]
fn a_page_that_is_opened_again_gets_whole_messages() {
    let mut updates = asked();
    let message = serde_json::to_string_pretty(&messages(&updates, false)).unwrap();
    assert_snapshot!(message, @r#"
    [
      {
        "id": "m1",
        "role": "user",
        "parts": [
          {
            "type": "text",
            "text": "Hello"
          }
        ]
      },
      {
        "id": "run-1",
        "role": "assistant",
        "parts": [
          {
            "type": "step-start"
          },
          {
            "type": "text",
            "state": "done",
            "text": "I pay."
          },
          {
            "toolName": "pay",
            "state": "approval-requested",
            "input": {
              "to": "Bob"
            },
            "type": "dynamic-tool",
            "toolCallId": "run-1-0-0",
            "approval": {
              "id": "q1",
              "descriptor": {
                "run": "run-1",
                "effect": "write",
                "unknown": false,
                "schema": {
                  "type": "object"
                }
              },
              "requestReason": "its argument `to` is quoted"
            }
          }
        ],
        "metadata": {
          "usage": {
            "inputTokens": 10,
            "cachedInputTokens": 0,
            "outputTokens": 2
          },
          "model": "small"
        }
      }
    ]
    "#);
    updates.push(update(decided("a", deny("Not today."))));
    updates.push(update(UpdateKind::Stopped {
        reason: "Bye.".to_owned(),
        can_go_on: false,
        by_person: false,
    }));
    let messages = messages(&updates, false);
    assert_snapshot!(messages[1]["parts"][2], @r#"{"toolName":"pay","state":"output-denied","input":{"to":"Bob"},"type":"dynamic-tool","toolCallId":"run-1-0-0","approval":{"id":"q1","descriptor":{"run":"run-1","effect":"write","unknown":false,"schema":{"type":"object"}},"requestReason":"its argument `to` is quoted","approved":false,"reason":"Not today."}}"#);
    assert_snapshot!(messages[1]["metadata"], @r#"{"usage":{"inputTokens":10,"cachedInputTokens":0,"outputTokens":2},"model":"small","stopped":{"reason":"Bye.","canGoOn":false}}"#);
}
