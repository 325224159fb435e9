mod client;
mod generated;

use std::fmt::Write as _;

use serde_json::{Value, json};
use toolwright_module::approval::Decision;
use toolwright_module::message::{Document, Image, Part};

use super::input::{Input, read};
use super::writer::{AgUi, messages};
use crate::update::tests::{call_text, called, reasoning, text};
use crate::update::{Around, Attachment, Cost, Decided, Question, Update, UpdateKind};

/// Returns what `read` makes of a request with these messages.
fn asked(messages: &Value) -> Result<Input, String> {
    read_json(
        json!({ "threadId": "t", "runId": "r", "messages": messages, "protocolVersion": "1.0" }),
    )
}

fn read_json(body: Value) -> Result<Input, String> {
    read(body.to_string().as_bytes())
}

fn input() -> Input {
    asked(&json!([{ "id": "u1", "role": "user", "content": "Pay Ann." }])).unwrap()
}

/// Returns the events of the updates, one a line.
fn events(updates: &[Update]) -> String {
    let mut writer = AgUi::new("t", input());
    lines(updates.iter().flat_map(|update| writer.write(update)))
}

fn lines(events: impl IntoIterator<Item = String>) -> String {
    events.into_iter().fold(String::new(), |mut lines, event| {
        writeln!(lines, "{event}").unwrap();
        lines
    })
}

fn updates(kinds: impl IntoIterator<Item = UpdateKind>) -> Vec<Update> {
    kinds.into_iter().map(Update::new).collect()
}

fn below(id: &str, kind: UpdateKind) -> Update {
    let around = Around { tool: "research".to_owned(), id: id.to_owned() };
    Update { path: vec![around], kind }
}

fn started() -> UpdateKind {
    let (run, message) = ("run-1".to_owned(), Some("u1".to_owned()));
    UpdateKind::Started { run, message, text: "Pay Ann.".to_owned(), attachments: Vec::new() }
}

fn cost() -> Cost {
    let money = Some("0.001".to_owned());
    Cost { input_tokens: 20, cached_tokens: 8, output_tokens: 5, incomplete: false, money }
}

fn replied() -> UpdateKind {
    UpdateKind::Replied { model: Some("m".to_owned()), cost: cost() }
}

fn result(id: &str, name: &str, text: &str) -> UpdateKind {
    let (id, name, text) = (id.to_owned(), name.to_owned(), text.to_owned());
    UpdateKind::Result { id, name, text, whole_bytes: None, failed: false, milliseconds: 7 }
}

fn question(id: &str, name: &str, arguments: &str) -> Question {
    Question {
        question: format!("q-{id}"),
        run: "run-1".to_owned(),
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        effect: "write".to_owned(),
        unknown: false,
        reason: None,
        schema: Some(json!({ "type": "object", "properties": { "to": { "type": "string" } } })),
    }
}

fn decided(id: &str) -> UpdateKind {
    UpdateKind::Decided { id: id.to_owned(), decision: Decided::Approve, by: None }
}

fn done(answer: &str) -> UpdateKind {
    UpdateKind::Done { answer: json!(answer), ending: "answered".to_owned(), cost: cost() }
}

fn stopped() -> UpdateKind {
    UpdateKind::Stopped {
        reason: "The model cannot be reached.".to_owned(),
        can_go_on: true,
        by_person: false,
    }
}

#[test]
fn a_text() {
    let kinds = [started(), reasoning("Hm"), reasoning("."), text("Do"), text("ne."), replied()];
    insta::assert_snapshot!(events(&updates(kinds.into_iter().chain([done("Done.")]))));
}

#[test]
fn a_call_that_is_streamed() {
    insta::assert_snapshot!(events(&updates([
        started(),
        text("I pay."),
        call_text(0, "", 0, ""),
        call_text(0, "pay", 0, r#"{"to":"#),
        call_text(0, "pay", 6, r#""Ann"}"#),
        called(0, "c1", "pay", r#"{"to":"Ann"}"#),
        called(1, "c2", "look", ""),
        replied(),
        result("c2", "look", "Nothing."),
        result("c1", "pay", "Paid."),
        text("Paid."),
        replied(),
        done("Paid."),
    ])));
}

#[test]
fn a_lost_reply() {
    insta::assert_snapshot!(events(&updates([
        started(),
        reasoning("Perhaps"),
        text("I wi"),
        call_text(0, "pay", 0, r#"{"to":"#),
        UpdateKind::Discarded,
        text("Paid."),
        replied(),
        done("Paid."),
    ])));
}

#[test]
fn arguments_that_begin_anew() {
    insta::assert_snapshot!(events(&updates([
        started(),
        call_text(0, "pay", 0, r#"{"to":"B"#),
        call_text(0, "pay", 0, r#"{"to":"#),
        // The streamed arguments were repaired.
        called(0, "c1", "pay", r#"{"to": "Ann"}"#),
        replied(),
    ])));
}

#[test]
fn an_agent_below() {
    let mut all = updates([
        started(),
        called(0, "c1", "research", r#"{"task":"Ann"}"#),
        called(1, "c2", "research", r#"{"task":"Bob"}"#),
        replied(),
    ]);
    all.extend([
        below("c1", text("Ann is")),
        below("c2", called(0, "c1", "look", "{}")),
        below("c1", text(" here.")),
        below("c2", replied()),
        below("c2", result("c1", "look", "Nobody.")),
        below("c1", replied()),
    ]);
    all.push(Update::new(result("c1", "research", "Ann is here.")));
    let UpdateKind::Result { id, name, text, whole_bytes, milliseconds, .. } =
        result("c2", "research", "It failed.")
    else {
        panic!()
    };
    let failed = UpdateKind::Result { id, name, text, whole_bytes, failed: true, milliseconds };
    all.push(Update::new(failed));
    insta::assert_snapshot!(events(&all));
}

/// The run up to the question.
fn waiting() -> Vec<Update> {
    let mut all = updates([started(), called(0, "c1", "research", "{}"), replied()]);
    let pay = r#"{"to":"Ann"}"#;
    all.extend([
        below("c1", text("I pay.")),
        below("c1", called(0, "c9", "pay", pay)),
        below("c1", replied()),
        below("c1", UpdateKind::ApprovalAsked(question("c9", "pay", pay))),
    ]);
    all
}

#[test]
fn a_question_and_its_answer() {
    let mut writer = AgUi::new("t", input());
    let mut events: Vec<_> = waiting().iter().flat_map(|update| writer.write(update)).collect();
    events.extend(writer.rest());
    assert!(writer.is_over());
    assert_eq!(writer.write(&below("c1", decided("c9"))), [""; 0]);

    let mut writer = AgUi::new("t", input());
    waiting().iter().for_each(|update| writer.absorb(update));
    writer.absorb(&Update::new(stopped()));
    writer.absorb(&below("c1", decided("c9")));
    events.extend(writer.begin(false));
    events.extend(writer.write(&below("c1", result("c9", "pay", "Paid."))));
    events.extend(writer.write(&Update::new(result("c1", "research", "Paid."))));
    insta::assert_snapshot!(lines(events));
}

#[test]
fn a_client_that_comes_back() {
    let base = json!([
        { "id": "u0", "role": "user", "content": "Hi" },
        { "id": "a0", "role": "assistant", "content": "Hello" },
        { "id": "u1", "role": "user", "content": "Pay Ann." },
        { "id": "run-1-1-reasoning-1", "role": "reasoning", "content": "Void" },
        { "id": "run-1-1", "role": "assistant", "content": "Void" },
    ]);
    let back = |updates: &[Update], rests| {
        let mut writer = AgUi::new("t", asked(&base).unwrap());
        updates.iter().for_each(|update| writer.absorb(update));
        lines(writer.begin(rests))
    };
    let void = [started(), reasoning("Void"), text("Void"), UpdateKind::Discarded];
    let mut all = updates(void);
    all.extend(updates([text("I p")]));
    insta::assert_snapshot!("in_a_text", back(&all, false));
    all.extend(updates([text("ay."), call_text(0, "pay", 0, "{")]));
    insta::assert_snapshot!("in_a_call", back(&all, false));
    insta::assert_snapshot!("at_a_question", back(&waiting(), true));
    insta::assert_snapshot!("at_the_end", back(&updates([started(), done("Paid.")]), true));
    insta::assert_snapshot!("stopped", back(&updates([started(), stopped()]), true));
}

#[test]
fn what_ag_ui_has_no_event_for() {
    let answer = UpdateKind::Answer { at: 0, text: r#"{"total":1"#.to_owned() };
    let question = Question {
        unknown: true,
        schema: None,
        reason: Some("its argument `to` is quoted from `mail`".to_owned()),
        ..question("c1", "pay", "{}")
    };
    let all = updates([
        started(),
        UpdateKind::Compacted { tokens_before: 900, tokens_after: 100 },
        called(0, "c1", "pay", "{}"),
        replied(),
        UpdateKind::ApprovalAsked(question),
        decided("c1"),
        answer,
        UpdateKind::Discarded,
        UpdateKind::Done {
            answer: json!({ "total": 1 }),
            ending: "cut_off".to_owned(),
            cost: cost(),
        },
    ]);
    insta::assert_snapshot!(events(&all));
}

#[test]
fn a_failed_run() {
    insta::assert_snapshot!(events(&updates([started(), text("I"), stopped()])));
}

#[test]
fn the_answer_at_a_limit_is_shown_once() {
    let end = |answer: &str| {
        let (answer, ending) = (json!(answer), "limit_reached".to_owned());
        let all = [started(), text("So far."), replied()].into_iter();
        let done = UpdateKind::Done { answer, ending, cost: cost() };
        events(&updates(all.chain([done]))).matches("TEXT_MESSAGE_START").count()
    };
    assert_eq!((end("So far."), end("No steps are left.")), (1, 2));
}

#[test]
fn messages_of_a_request() {
    let input = asked(&json!([
        { "id": "s", "role": "system", "content": "Obey." },
        { "id": "u0", "role": "user", "content": "Hi" },
        { "id": "x", "role": "user", "content": "For another agent", "subagentRunId": "s1" },
        { "id": "u1", "role": "user", "content": [
            { "type": "text", "text": "Look" },
            { "type": "image", "source": { "type": "data", "value": "AQID", "mimeType": "image/png" } },
            { "type": "image", "source": { "type": "url", "value": "https://example.com/a.png" } },
            { "type": "document", "source": { "type": "url", "value": "data:text/plain;base64,QQ==" } },
            { "type": "binary", "mimeType": "application/pdf", "data": "AQID", "filename": "a.pdf" },
            { "type": "video", "source": { "type": "url", "value": "https://example.com/a.mp4" } },
            { "type": "image", "source": { "type": "file", "value": "file-1", "provider": "openai" } },
            { "type": "image", "source": { "type": "url", "value": "file:///etc/passwd" } },
        ] },
        { "id": "r", "role": "reasoning", "content": "Hm" },
        { "id": "a", "role": "assistant", "content": "I see" },
    ]))
    .unwrap();
    assert_eq!((input.before.len(), input.incoming.earlier), (4, 1));
    assert_eq!(input.reasoning, ["r"]);
    let said = input.incoming.message.unwrap();
    assert_eq!((said.id.as_deref(), said.replaces), (Some("u1"), false));
    let left_out = |why: &str| Part::Text(format!("[Left out, because {why}]"));
    assert_eq!(
        said.parts,
        [
            "Look".into(),
            Image::bytes("image/png", [1, 2, 3]).into(),
            Image::url("https://example.com/a.png").into(),
            Document::bytes("text/plain", *b"A").into(),
            Document::bytes("application/pdf", [1, 2, 3]).into(),
            left_out("this agent cannot read it: video"),
            left_out("this server takes no files by their id at a provider: image"),
            left_out("its address does not start with `https://`: image"),
        ]
    );
}

#[test]
fn what_a_client_may_leave_empty() {
    let user = json!([{ "id": "u", "role": "user", "content": "cut \u{1F600}" }]);
    let body = json!({
        "threadId": "t", "runId": "r", "messages": user, "tools": [], "context": [], "state": {},
        "forwardedProps": {}, "protocolVersion": "1.1", "news": 1,
    });
    // JavaScript writes half a character if a text was cut in it.
    let body = body.to_string().replace('\u{1F600}', "\\ud83d");
    let said = read(body.as_bytes()).unwrap().incoming.message.unwrap();
    assert_eq!(said.parts, ["cut \u{fffd}".into()]);
}

#[test]
fn what_the_application_says() {
    let user = json!([{ "id": "u", "role": "user", "content": "Hi" }]);
    let context = json!([{ "description": "The open page", "value": "orders" }]);
    let body = json!({ "threadId": "t", "runId": "r", "messages": user, "context": context });
    let parts = read_json(body).unwrap().incoming.message.unwrap().parts;
    assert_eq!(parts, ["The application says:\n\nThe open page:\norders".into(), "Hi".into()]);
}

#[test]
fn the_references_of_a_question_lead_to_the_schema_of_the_arguments() {
    let schema = json!({
        "type": "object",
        "properties": {
            "to": { "$ref": "#/$defs/Person" },
            "below": { "anyOf": [{ "$ref": "#" }, { "type": "null" }] },
            "default": { "$ref": "#/$defs/Person" },
            "form": { "default": { "$ref": "#/$defs/Person" } },
        },
        "$defs": { "Person": { "type": "string" } },
    });
    let asked = Question { schema: Some(schema), ..question("c9", "pay", "{}") };
    let mut writer = AgUi::new("t", input());
    let updates =
        updates([started(), called(0, "c9", "pay", "{}"), UpdateKind::ApprovalAsked(asked)]);
    let mut all: Vec<_> = updates.iter().flat_map(|update| writer.write(update)).collect();
    all.extend(writer.rest());
    let all = lines(all);
    let ends = all.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let place = "/outcome/interrupts/0/responseSchema";
    let mut found = ends.filter_map(|event| event.pointer(place).cloned());
    let schema = found.next_back().unwrap();
    let arguments = &schema["properties"]["editedArgs"];
    let reference =
        |schema: &Value| schema["$ref"].as_str().unwrap().strip_prefix('#').unwrap().to_owned();
    for field in ["to", "default"] {
        let of = reference(&arguments["properties"][field]);
        assert_eq!(schema.pointer(&of), Some(&json!({ "type": "string" })));
    }
    let of = reference(&arguments["properties"]["below"]["anyOf"][0]);
    assert_eq!(schema.pointer(&of), Some(arguments));
    assert_eq!(reference(&arguments["properties"]["form"]["default"]), "/$defs/Person");
}

#[test]
fn answers_to_questions() {
    let decide = |entry: Value| {
        let mut resume = json!({ "interruptId": "q" });
        resume.as_object_mut().unwrap().extend(entry.as_object().unwrap().clone());
        let messages = json!([
            { "id": "u", "role": "user", "content": "Pay" },
            { "id": "a", "role": "assistant", "content": "May I?" },
        ]);
        let body =
            json!({ "threadId": "t", "runId": "r", "messages": messages, "resume": [resume] });
        let incoming = read_json(body)?.incoming;
        assert_eq!((incoming.message, incoming.decisions.len()), (None, 1));
        let [answered] = &incoming.decisions[..] else { panic!() };
        assert_eq!(answered.question, "q");
        Ok::<_, String>(answered.decision.clone())
    };
    let payload = |payload: Value| decide(json!({ "status": "resolved", "payload": payload }));
    let deny = |reason: &str| Ok(Decision::Deny { reason: reason.to_owned() });

    assert_eq!(payload(json!({ "approved": true, "reason": "" })), Ok(Decision::Approve));
    assert_eq!(
        payload(json!({ "approved": true, "editedArgs": { "to": "Bob" } })),
        Ok(Decision::Edit { arguments: r#"{"to":"Bob"}"#.to_owned() })
    );
    assert_eq!(payload(json!({ "approved": false, "reason": "No." })), deny("No."));
    assert_eq!(payload(json!({ "approved": false })), deny("The user said no."));
    assert_eq!(payload(json!({ "callAgain": true })), Ok(Decision::CallAgain));
    assert_eq!(
        payload(json!({ "happened": "Paid." })),
        Ok(Decision::Happened { result: "Paid.".to_owned() })
    );
    // A `Value` would round it.
    let exact = r#"{"amount":12345678901234567890123}"#;
    let body = r#"{"threadId":"t","runId":"r","messages":[],"resume":[{"interruptId":"q",
        "status":"resolved","payload":{"approved":true,"editedArgs":EXACT}}]}"#;
    let decisions = read(body.replace("EXACT", exact).as_bytes()).unwrap().incoming.decisions;
    assert_eq!(decisions[0].decision, Decision::Edit { arguments: exact.to_owned() });
    // Another character would be another call.
    let body = body.replace("EXACT", r#"{"to":"?"}"#).replace('?', "\u{1}").into_bytes();
    let body: Vec<u8> = body.into_iter().map(|byte| if byte == 1 { 0xff } else { byte }).collect();
    assert!(read(&body).is_err());
    assert_eq!(
        decide(json!({ "status": "cancelled" })),
        deny("The user closed the question without an answer.")
    );
    let wrong = [
        json!({}),
        json!(true),
        json!(null),
        json!({ "approved": false, "editedArgs": {} }),
        json!({ "approved": true, "happened": "Paid." }),
        json!({ "approved": false, "message": "No." }),
    ];
    insta::assert_snapshot!(lines(wrong.map(|wrong| payload(wrong).unwrap_err())));
}

#[test]
fn the_last_message_again() {
    let body = |own: Value| {
        let messages = json!([{ "id": "u", "role": "user", "content": "Hi" }]);
        let props = json!({ "toolwright": own });
        read_json(
            json!({ "threadId": "t", "runId": "r", "messages": messages, "forwardedProps": props }),
        )
        .map(|input| input.incoming)
    };
    let again = body(json!({ "again": true })).unwrap();
    assert_eq!((again.again.as_deref(), again.message), (Some("u"), None));
    let replaces = body(json!({ "replaces": true })).unwrap();
    assert!(replaces.again.is_none() && replaces.message.unwrap().replaces);
}

#[test]
fn wrong_requests() {
    let messages = json!([{ "id": "u", "role": "user", "content": "Hi" }]);
    let with = |name: &str, value: Value| {
        let mut body = json!({ "threadId": "t", "runId": "r", "messages": messages });
        body[name] = value;
        read_json(body).unwrap_err()
    };
    let content = |content: Value| {
        with("messages", json!([{ "id": "u", "role": "user", "content": content }]))
    };
    let image = |source: Value| content(json!([{ "type": "image", "source": source }]));
    insta::assert_snapshot!(lines([
        read(b"[]").unwrap_err(),
        read(b"{").unwrap_err(),
        with("threadId", json!("")),
        with("threadId", json!(1)),
        with("tools", json!([{ "name": "alert", "description": "" }])),
        with("state", json!({ "a": 1 })),
        with("forwardedProps", json!({ "a": 1 })),
        with("forwardedProps", json!({ "toolwright": { "agian": true } })),
        with("messages", json!([])),
        with("messages", json!([{ "id": "a", "role": "assistant", "content": "Hi" }])),
        with("resume", json!([{ "interruptId": "q", "status": "approved" }])),
        content(json!(" ")),
        content(json!([])),
        content(json!(null)),
        content(json!([{ "text": "Hi" }])),
        image(json!(null)),
        image(json!({ "type": "data", "value": "*", "mimeType": "image/png" })),
        image(json!({ "type": "data", "value": "AQID" })),
        image(json!({ "type": "url", "value": "data:image/png;base64,*" })),
    ]));
}

#[test]
fn a_run_that_a_person_stopped() {
    let stopped = UpdateKind::Stopped {
        reason: "The run was stopped.".to_owned(),
        can_go_on: false,
        by_person: true,
    };
    let mut all = waiting();
    all.push(below("c1", text("And")));
    all.push(Update::new(stopped));
    insta::assert_snapshot!(events(&all).lines().rev().take(4).collect::<Vec<_>>().join("\n"));

    let mut writer = AgUi::new("t", Input { is_old: true, ..input() });
    let events: Vec<_> = all.iter().flat_map(|update| writer.write(update)).collect();
    assert!(
        events.last().unwrap().contains(r#""type":"RUN_ERROR","message":"The run was stopped.""#)
    );
}

#[test]
fn the_messages_of_a_conversation() {
    let attachment = Attachment { kind: "image".to_owned(), media_type: None };
    let mut first = updates([started(), reasoning("Hm."), text("Paid."), replied(), done("Paid.")]);
    let UpdateKind::Started { message, attachments, .. } = &mut first[0].kind else { panic!() };
    (*message, *attachments) = (None, vec![attachment]);
    let all = messages([&*first, &waiting()]);
    insta::assert_snapshot!(lines(all.iter().map(ToString::to_string)));
    // A client that sends them again says nothing new.
    let again = asked(&json!(all[..3])).unwrap();
    assert_eq!((again.incoming.message, again.has_answer), (None, true));
}
