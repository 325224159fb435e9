//! What a server does beyond one answer: tools of its own, background replies, the conversation's
//! state. And the servers themselves: Azure and the list of services.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolwright_module::message::ReplyPart;
use toolwright_module::model::{Delta, Setting, Settings};
use toolwright_module::{LanguageModel, Message, Reply, Request};
use toolwright_openai::{Api, OpenAi, ProviderError, Service};

use crate::common::{APIS, Answer, Server, hi, ok, own, streamed};

/// A reply of Responses with an id and a text.
fn stored(id: &str, text: &str) -> String {
    let content = json!([{"type": "output_text", "text": text}]);
    json!({"id": id, "status": "completed", "output": [{"type": "message", "content": content}]})
        .to_string()
}

#[tokio::test]
async fn the_options_of_a_model_have_their_fields() {
    for api in APIS {
        let server = Server::answering([ok(api)]).await;
        let model = server
            .model(api)
            .with_server_tool(json!({"type": "web_search"}))
            .with_prompt_cache_key("k1")
            .with_reasoning_summaries();
        model.generate(&hi()).await.unwrap();
        let body = &server.seen()[0].body;
        assert_eq!(body["tools"], json!([{"type": "web_search"}]));
        assert_eq!(body["prompt_cache_key"], "k1");
        let summaries = (api == Api::Responses).then(|| json!({"summary": "auto"}));
        assert_eq!(body.get("reasoning"), summaries.as_ref());
    }
}

#[tokio::test]
async fn a_background_reply_is_polled_to_its_end() {
    let status = |status| json!({"id": "resp_1", "status": status, "output": []}).to_string();
    let answers = || {
        let unfinished = ["queued", "in_progress"].map(|word| Answer::json(status(word)));
        unfinished.into_iter().chain([Answer::json(stored("resp_1", "Blue."))])
    };
    let server = Server::answering(answers()).await;
    let model = server.model(Api::Responses).with_background();
    assert_eq!(model.generate(&hi()).await.unwrap().to_text(), "Blue.");
    let seen = server.seen();
    assert_eq!(seen[0].body["background"], true);
    let polled: Vec<_> = seen[1..].iter().filter_map(|seen| seen.head.lines().next()).collect();
    assert_eq!(polled, ["get /v1/responses/resp_1 http/1.1"; 2]);

    let server = Server::answering(answers()).await;
    let (deltas, reply) = streamed(&server.model(Api::Responses).with_background(), hi()).await;
    assert_eq!(
        (deltas, reply.unwrap().to_text()),
        (vec![Delta::Text("Blue.".into())], "Blue.".into())
    );

    // It ends with the limit of an answer.
    let server = Server::answering((0..9).map(|_| Answer::json(status("queued")))).await;
    let model = server
        .model(Api::Responses)
        .with_background()
        .with_connection(|c| Ok(c.with_max_time(Duration::from_secs(1))))
        .unwrap();
    let error = model.generate(&hi()).await.unwrap_err();
    assert!(
        matches!(own(&error), ProviderError::Http { raw, .. } if raw.contains("queued")),
        "{error:?}"
    );
}

/// Returns the conversation after a reply and a message of the user.
fn after(request: &Request, reply: &Reply, text: &str) -> Request {
    let said = Arc::new(Message::Assistant { parts: reply.parts.clone() });
    Request::new(request.messages.iter().cloned().chain([said, Message::user(text)]))
}

fn sent(server: &Server) -> Vec<(Value, usize)> {
    let seen = server.seen();
    let input = |body: &Value| body["input"].as_array().map_or(0, Vec::len);
    seen.iter().map(|seen| (seen.body["previous_response_id"].clone(), input(&seen.body))).collect()
}

#[tokio::test]
async fn with_the_state_at_the_server_a_request_has_only_what_is_new() {
    let event = format!(
        r#"data: {{"type": "response.completed", "response": {}}}"#,
        stored("resp_2", "Red.")
    );
    let refusal =
        r#"{"error": {"message": "No such response.", "code": "previous_response_not_found"}}"#;
    let server = Server::answering([
        Answer::json(stored("resp_1", "Blue.")),
        Answer::events(&(event + "\n\n"), 64),
        Answer::new(400, "", refusal),
        Answer::json(stored("resp_3", "Green.")),
        Answer::json(stored("resp_4", "Grey.")),
        Answer::json(stored("resp_5", "Pink.")),
    ])
    .await;
    let model = server.model(Api::Responses).with_server_state();
    let first = Request::new([Message::system("Be brief."), Message::user("Name a color.")]);
    let blue = model.generate(&first).await.unwrap();
    let second = after(&first, &blue, "Another.");
    let red = streamed(&model, second.clone()).await.1.unwrap();
    // The server has forgotten it, so the request is sent again as a whole.
    let third = after(&second, &red, "Another.");
    model.generate(&third).await.unwrap();
    // The conversation was changed, so no earlier reply fits.
    let mut changed = third.clone();
    changed.messages[0] = Message::system("Be polite.");
    model.generate(&changed).await.unwrap();
    // The last messages were removed, so an earlier reply fits.
    let mut shorter = third.clone();
    shorter.messages.remove(4);
    model.generate(&shorter).await.unwrap();
    assert_eq!(
        sent(&server),
        [
            (Value::Null, 2),
            (json!("resp_1"), 1),
            (json!("resp_2"), 1),
            (Value::Null, 6),
            (Value::Null, 6),
            (json!("resp_1"), 2),
        ]
    );
    // Another model gets the conversation without the marks.
    let server = Server::answering([ok(Api::Responses), ok(Api::Chat)]).await;
    server.model(Api::Responses).generate(&second).await.unwrap();
    server.model(Api::Chat).generate(&second).await.unwrap();
    let count = |list: &Value| list.as_array().map_or(0, Vec::len);
    let seen = server.seen();
    assert_eq!((count(&seen[0].body["input"]), count(&seen[1].body["messages"])), (4, 4));
}

#[tokio::test]
async fn a_reply_that_the_server_does_not_keep_has_no_mark() {
    let reply =
        stored("resp_1", "Blue.").replace("\"completed\"", "\"completed\", \"store\": false");
    let server =
        Server::answering([Answer::json(reply), Answer::json(stored("resp_1", "Blue."))]).await;
    let model = server.model(Api::Responses).with_server_state();
    for model in [model.clone(), model.with_encrypted_reasoning()] {
        let reply = model.generate(&hi()).await.unwrap();
        assert_eq!(reply.parts, [ReplyPart::text("Blue.")]);
    }
}

#[tokio::test]
async fn azure_has_its_own_paths_and_headers() {
    let cases = [
        (None, "/openai/v1/chat/completions", "/openai/v1/responses"),
        (
            Some("2024-10-21"),
            "/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21",
            "/openai/responses?api-version=2024-10-21",
        ),
        (
            Some("preview"),
            "/openai/v1/chat/completions?api-version=preview",
            "/openai/v1/responses?api-version=preview",
        ),
    ];
    for (version, chat, responses) in cases {
        for (api, path) in APIS.into_iter().zip([chat, responses]) {
            let server = Server::answering([ok(api), ok(api)]).await;
            let endpoint = server.url.trim_end_matches("/v1");
            let model = OpenAi::azure(endpoint, "my-gpt", version).unwrap().with_api(api);
            model.clone().with_key("made-up").unwrap().generate(&hi()).await.unwrap();
            model.with_token("e-token").unwrap().generate(&hi()).await.unwrap();
            let seen = server.seen();
            assert!(seen[0].head.starts_with(&format!("post {path} ")), "{}", seen[0].head);
            assert!(seen[0].head.contains("api-key: made-up") && !seen[0].head.contains("bearer"));
            assert!(seen[1].head.contains("authorization: bearer e-token"));
            assert_eq!(seen[0].body["model"], "my-gpt");
        }
    }
    // The endpoint may be given with the path.
    for end in ["", "/", "/openai", "/openai/v1", "/openai/v1/"] {
        let model = OpenAi::azure(&format!("https://example.openai.azure.com{end}"), "m", None);
        assert_eq!(model.unwrap().base_url(), "https://example.openai.azure.com/openai");
    }
}

#[test]
fn the_list_of_services_has_usable_rows() {
    let mut names: Vec<_> = Service::ALL.iter().map(|service| service.name).collect();
    for service in Service::ALL {
        let url = service.base_url.replace("{AZURE_OPENAI_ENDPOINT}", "https://a.openai.azure.com");
        let url = url.replace(['{', '}'], "");
        OpenAi::at(&url, "m").unwrap();
        assert!(url.starts_with("https://") || service.key_variable.is_none(), "{service}");
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Service::ALL.len());
}

#[test]
fn a_service_is_found_by_its_name_and_by_its_address() {
    assert_eq!(OpenAi::service("ollama", "m").unwrap().base_url(), "http://127.0.0.1:11434/v1");
    let error = OpenAi::service("grok", "m").unwrap_err();
    insta::assert_snapshot!(error, @"the service `grok` cannot be used: there is no service of that name; use one of openai, openrouter, mistral, deepseek, llama.cpp, groq, xai, doubleword, venice, copilot, perplexity, snowflake, zai, cerebras, huggingface, bedrock, mistral.rs, azure, google, ollama-cloud, ollama, heroku, together, fireworks, moonshot, nvidia, github, vllm, lm-studio, or `OpenAi::at`");
    // Without the key's variable, the error names it. A test cannot set one.
    if std::env::var_os("TOGETHER_API_KEY").is_none() {
        let error = OpenAi::service("together", "m").unwrap_err();
        assert!(matches!(error, ProviderError::MissingKey { variable: "TOGETHER_API_KEY" }));
    }
    if std::env::var_os("SNOWFLAKE_ACCOUNT").is_none() {
        let error = OpenAi::service("snowflake", "m").unwrap_err().to_string();
        assert_eq!(error, "the service `snowflake` cannot be used: set SNOWFLAKE_ACCOUNT");
    }
    let has =
        |url: &str, setting| OpenAi::at(url, "m").unwrap().capabilities().settings.has(setting);
    assert!(!has("https://api.mistral.ai/v1", Setting::Seed));
    assert!(has("https://mistral.example.com/v1", Setting::Seed));
    let structured = |url| OpenAi::at(url, "m").unwrap().capabilities().structured_output;
    assert!(!structured("https://api.deepseek.com") && structured("https://api.openai.com/v1"));
}

/// Returns the body that a service at this host gets. Its rules are those of its host, so the host
/// is a proxy's here.
async fn sent_to(base_url: &str, request: Request) -> Value {
    let server = Server::answering([Answer::json("{}")]).await;
    let proxy = toolwright_openai::reqwest::Proxy::http(server.url.replace("/v1", "")).unwrap();
    let http = toolwright_openai::reqwest::Client::builder().proxy(proxy).build().unwrap();
    let model = OpenAi::at(base_url, "m")
        .unwrap()
        .with_connection(|c| Ok(c.with_http(http)))
        .unwrap()
        .with_connection(|c| Ok(c.with_retries(0)))
        .unwrap();
    let (_, reply) = streamed(&model, request).await;
    reply.unwrap_err();
    server.seen()[0].body.clone()
}

#[tokio::test]
async fn a_service_gets_the_fields_that_it_knows() {
    let settings = Settings::default().with_max_output_tokens(7);
    let body = sent_to("http://api.mistral.ai/v1", hi().with_settings(settings)).await;
    assert_eq!((&body["max_tokens"], body.get("max_completion_tokens")), (&json!(7), None));
    assert_eq!((&body["stream"], body.get("stream_options")), (&json!(true), None));
}

#[tokio::test]
async fn a_service_gets_the_order_of_messages_that_it_accepts() {
    let call = toolwright_module::ToolCall::new("call_1", "look", "{}");
    let result = toolwright_module::message::ToolResult::new(&call, "ok");
    let messages = || {
        let called = Message::Assistant { parts: vec![ReplyPart::Call(call.clone())] };
        [
            Message::user("Hi!"),
            Message::user("Hi?"),
            Arc::new(called),
            Arc::new(Message::Tool(result.clone())),
            Message::user("And?"),
            Message::system("Be brief."),
        ]
    };
    let strict = ["system", "user", "assistant", "tool", "assistant", "user"];
    let free = ["user", "user", "assistant", "tool", "user", "system"];
    for (base_url, roles) in [
        ("http://api.mistral.ai/v1", strict),
        ("http://api.perplexity.ai", strict),
        ("http://openrouter.ai/api/v1", strict),
        ("http://models.example.com/v1", strict),
        ("http://api.openai.com/v1", free),
        ("http://api.deepseek.com", free),
        ("http://api.x.ai/v1", free),
        ("http://example.openai.azure.com", free),
    ] {
        let body = sent_to(base_url, Request::new(messages())).await;
        let sent = body["messages"].as_array().unwrap().iter();
        let sent: Vec<_> = sent.map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(sent, roles, "{base_url}");
    }
}
