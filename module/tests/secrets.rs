//! The masking of keys in recordings.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_module::message::{Document, Part, Reasoning, ReplyPart, ToolResult};
use toolwright_module::model::Finish;
use toolwright_module::testing::{Recorder, Recording, Replay, Scripted};
use toolwright_module::{Contract, LanguageModel, Message, Reply, Request, ToolCall};

/// Returns a file for one test. It does not exist when the test begins.
fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("secrets");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    let _ = std::fs::remove_file(&path);
    path
}

/// A request with `secret` in every text.
fn request_with(secret: &str) -> Request {
    let arguments = json!({"key": secret, "line": format!("my key:\n{secret}")});
    let call = ToolCall::new(format!("call {secret}"), "login_here", arguments.to_string());
    let nested = json!({"result": format!("\t{arguments}")});
    let input = json!({
        "type": "object",
        "properties": {"key": {"type": "string", "default": secret, "description": secret}},
    });
    let contract = Contract::dynamic("login_here", &format!("Use {secret}."), input, None).unwrap();
    let messages = [
        Message::system(format!("Use {secret}.")),
        Message::user(secret),
        Arc::new(Message::Assistant { parts: vec![ReplyPart::Call(call.clone())] }),
        Arc::new(Message::Tool(ToolResult::new(&call, format!("{secret} accepted")))),
        Arc::new(Message::Tool(ToolResult::new(&call, nested.to_string()))),
    ];
    Request::new(messages).with_tools([Arc::new(contract)])
}

/// A recording of one exchange with `secret` in every text.
async fn saved_with(secret: &str, name: &str) -> (PathBuf, Request) {
    let request = request_with(secret);
    let said = secret.to_owned();
    let recorder = Recorder::new(Scripted::new(move |_: &Request| {
        let thinking = Reasoning::new("p", said.clone(), json!({said.clone(): [said.clone()]}));
        let parts = [ReplyPart::Reasoning(thinking), ReplyPart::text(format!("({said})"))];
        Ok(Reply::new(parts).with_finish(Finish::Other(said.clone())).with_model(said.clone()))
    }));
    recorder.generate(&request).await.unwrap();
    let path = file(name);
    recorder.recording().save(&path).unwrap();
    (path, request)
}

#[tokio::test]
async fn a_key_in_a_document_of_text_is_masked() {
    let secret = format!("sk-{}", "Ab3".repeat(8));
    let notes = |text: &str| Document::bytes("text/csv; charset=utf-8", text.as_bytes());
    let document = notes(&format!("key,{secret}\n"));
    let call = ToolCall::new("1", "notes", "{}");
    let result = ToolResult::new(&call, json!({"notes": document}).to_string());
    let result = result.with_parts([Part::from(document.clone())]);
    let request = Request::new([
        Message::user_parts([Part::from(document)]),
        Arc::new(Message::Tool(result)),
    ]);
    let recorder = Recorder::new(Scripted::new(|_: &Request| Ok(Reply::text("Yes."))));
    recorder.generate(&request).await.unwrap();
    let path = file("document.json");
    recorder.recording().save(&path).unwrap();

    let masked = notes("key,[secret]\n");
    let loaded = Recording::load(&path).unwrap();
    let messages = &loaded.exchanges[0].request.messages;
    assert_eq!(messages[0], Message::user_parts([Part::from(masked.clone())]));
    let Message::Tool(result) = &*messages[1] else { panic!("not a result: {:?}", messages[1]) };
    assert_eq!(result.parts, [Part::from(masked.clone())]);
    assert_eq!(result.text, json!({"notes": masked}).to_string());
    assert_eq!(Replay::new(loaded).generate(&request).await.unwrap().to_text(), "Yes.");
}

/// The keys are assembled here, so that secret scanners do not report this file.
fn keys() -> Vec<String> {
    let body = "Ab3".repeat(8);
    let prefixes = [
        "sk-",
        "sk-proj-",
        "sk-ant-api03-",
        "ghp_",
        "github_pat_",
        "glpat-",
        "xoxb-",
        "xapp-1-A0-",
        "AIza",
        "gsk_",
        "xai-",
        "hf_",
        "sk_live_",
        "sk_test_",
        "rk_live_",
        "npm_",
        "pplx-",
        "r8_",
        "nvapi-",
        "ya29.",
        "ya29.c.",
    ];
    let mut keys: Vec<String> = prefixes.iter().map(|prefix| format!("{prefix}{body}")).collect();
    let capital = "AB3".repeat(8);
    keys.extend(["AKIA", "ASIA"].map(|prefix| format!("{prefix}{capital}")));
    keys.push(format!("SG.{body}.{body}"));
    keys.push(format!("eyJ{body}.eyJ{body}.{body}-_"));
    keys
}

async fn assert_masked(key: &str, name: &str) {
    let (path, request) = saved_with(key, name).await;
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains(key), "{key}: {text}");
    assert!(text.contains("[secret]"), "{key}");

    let replay = Replay::new(Recording::load(&path).unwrap());
    let reply = replay.generate(&request).await.unwrap();
    assert_eq!(reply.to_text(), "([secret])", "{key}");
}

#[tokio::test]
async fn no_key_is_written_and_the_replay_still_matches() {
    for (index, key) in keys().into_iter().enumerate() {
        assert_masked(&key, &format!("key-{index}.json")).await;
    }
}

/// Returns a message as it is written.
async fn written(text: &str) -> String {
    let recorder = Recorder::new(Scripted::new(|_: &Request| Ok(Reply::text(""))));
    recorder.generate(&Request::new([Message::user(text)])).await.unwrap();
    let path = file(&format!("written-{:?}.json", std::thread::current().id()));
    recorder.recording().save(&path).unwrap();
    let value: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    value["exchanges"][0]["request"]["messages"][0]["parts"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_escape_before_a_key_does_not_hide_it() {
    let key = format!("sk-{}", "Ab3".repeat(8));
    for escape in [r"\n", r"\t", r"\r", r"\\n", r"\u000a", r"\u00E9", "%20", "%3D", "\u{1b}[31m"] {
        let text = format!(r#"{{ "key" :"mine:{escape}{key}" }}"#);
        let masked = text.replace(&key, "[secret]");
        assert_eq!(written(&text).await, masked);
    }
    // The letter of an escape is not part of a key.
    let kept = r#"{"id": "payment:\npm_1MqLiJLkdIwHu7ixUEgbFdYF"}"#;
    assert_eq!(written(kept).await, kept);
}

#[tokio::test]
async fn keys_after_a_word_and_in_the_name_of_a_call_are_masked() {
    let key = format!("ghp_{}", "Ab3".repeat(12));
    assert_eq!(written(&format!("Bearer{key}, 1{key}")).await, "Bearer[secret], 1[secret]");
    for kept in ["myhf_automaticspeechrecognition", "a desk-Model3-of-the-2024-collection"] {
        assert_eq!(written(kept).await, kept);
    }

    let name = "hf_automaticspeechrecognition";
    let calls = [&key, name].map(|name| ToolCall::new("1", name, "{}"));
    let results = calls.each_ref().map(|call| Arc::new(Message::Tool(ToolResult::new(call, ""))));
    let recorder = Recorder::new(Scripted::new(move |_: &Request| Ok(Reply::calls(calls.clone()))));
    recorder.generate(&Request::new(results)).await.unwrap();
    let path = file("names.json");
    recorder.recording().save(&path).unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    assert!(!text.contains(&key), "{text}");
    assert_eq!(text.matches(r#""name": "[secret]""#).count(), 2, "{text}");
    assert_eq!(text.matches(name).count(), 2, "{text}");
}

#[tokio::test]
async fn a_private_key_is_masked_whole() {
    let body = "Ab3/".repeat(16);
    for kind in ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"] {
        let block = format!("-----BEGIN {kind}-----\n{body}\n{body}=\n-----END {kind}-----");
        let inside = json!({"file": format!("It is\n{block}\nas asked."), "size": 1}).to_string();
        assert_eq!(written(&inside).await, r#"{"file":"It is\n[secret]\nas asked.","size":1}"#);
        assert_eq!(written(&format!("<{block}> <{block}>")).await, "<[secret]> <[secret]>");
        // Its end may be cut off.
        let cut = json!({"file": format!("-----BEGIN {kind}-----\n{body}\n{body}")}).to_string();
        assert_eq!(written(&cut).await, r#"{"file":"[secret]"}"#);
    }
    for kept in [
        "-----BEGIN CERTIFICATE-----\nAb3/\n-----END CERTIFICATE-----".to_owned(),
        "A file that begins with -----BEGIN PRIVATE KEY----- is a secret.".to_owned(),
    ] {
        assert_eq!(written(&kept).await, kept);
    }
}

#[tokio::test]
async fn the_password_in_an_address_is_masked_and_the_address_stays() {
    for (address, masked) in [
        ("postgres://me:hunter2@db:5432/x?a=b@c", "postgres://me:[secret]@db:5432/x?a=b@c"),
        ("redis://:p%40ss:w@rd@db", "redis://:[secret]@db"),
        (r#"{"at":"https:\/\/me:hunter2@host\/"}"#, r#"{"at":"https:\/\/me:[secret]@host\/"}"#),
        ("http://a:b@c and http://d:e@f", "http://a:[secret]@c and http://d:[secret]@f"),
    ] {
        assert_eq!(written(address).await, masked);
        assert_eq!(written(masked).await, masked);
    }
    for kept in [
        "http://localhost:4873/@scope/package",
        "https://someone@example.com/",
        "http://host:80 someone@example.com",
    ] {
        assert_eq!(written(kept).await, kept);
    }
}

#[tokio::test]
async fn a_word_with_the_prefix_of_a_key_is_kept() {
    let words = [
        "the task-force-on-very-long-names-met",
        "a risk-averse-and-careful-investor",
        "sk-short",
        "AKIA is a prefix",
        "xoxb-",
        "hf_transformers_integration_tests.py",
        "npm_config_user_agent_string",
        "pplx-70b-online",
        "ASIAPacificRegionReport.pdf",
        "SG.singapore-office-of.report.pdf",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "xai-grok-code-fast-1-reasoning",
        "eyJ is how a token begins.",
    ];
    for (index, word) in words.into_iter().enumerate() {
        let (path, _) = saved_with(word, &format!("word-{index}.json")).await;
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(word) && !text.contains("[secret]"), "{word}");
    }
}

#[tokio::test]
async fn many_prefixes_of_keys_take_linear_time() {
    // Searching to the end of the text for each prefix would take minutes.
    for piece in [
        "eyJ.",
        "eyJ-",
        "ya29..",
        "task-",
        "zAIza",
        "-----BEGIN RSA PRIVATE KEY-----x",
        "zghp_Ab3aaaaaaaa_",
    ] {
        let text = format!("z{}", piece.repeat(1_000_000 / piece.len()));
        assert!(written(&text).await == text, "{piece}");
    }
    for piece in ["api_key=", "?key=", "x_token: ", "Bearer ", "Basic b", "=\\\\", "://a.", "\" : "]
    {
        let text = format!("z{}", piece.repeat(200_000 / piece.len()));
        assert!(written(&text).await == text, "{piece}");
    }
    let kinds = (0..30_000).map(|kind| format!("-----BEGIN {kind} PRIVATE KEY-----"));
    let text: String = kinds.collect();
    assert!(written(&text).await == text);
    let many = "http://a:b@c ghp_0123456789abcdef ".repeat(30_000);
    assert!(written(&many).await == "http://a:[secret]@c [secret] ".repeat(30_000));
}

/// Variables with the file and the text for the test below.
const FILE: &str = "TOOLWRIGHT_TEST_FILE";
const TEXT: &str = "TOOLWRIGHT_TEST_TEXT";

/// Runs in a process of its own, where the environment can be set.
#[tokio::test]
async fn inner_writes_a_text_with_secrets_of_the_environment() {
    if let (Ok(name), Ok(text)) = (std::env::var(FILE), std::env::var(TEXT)) {
        let (path, request) = saved_with(&text, &name).await;
        let recording = Recording::load(path).unwrap();
        let replay = Replay::new(recording);
        replay.generate(&request).await.unwrap();
    }
}

/// Returns `text` as it is written in an environment with these variables.
fn written_where(variables: &[(&str, &str)], text: &str, name: &str) -> String {
    let path = file(name);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "secrets::inner_writes_a_text_with_secrets_of_the_environment"])
        .envs(variables.iter().copied())
        .env(FILE, name)
        .env(TEXT, text)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn no_secret_of_the_environment_is_written() {
    // One value starts with the other, and contains characters that JSON escapes.
    let (secret, longer) = ("quite plain words", r#"quite plain words with "quotes" and \"#);
    let variables = [("SOME_KEY", secret), ("SOME_LONGER_KEY", longer)];
    for (name, text) in [("env.json", secret), ("env-longer.json", longer)] {
        let written = written_where(&variables, text, name);
        for part in [secret, "quotes"] {
            assert!(!written.contains(part), "{part} in {name}: {written}");
        }
        assert!(written.contains("[secret]"), "{name}");
    }
}

#[test]
fn the_ending_of_a_variables_name_marks_a_secret() {
    let secret = "quite plain words";
    for name in [
        "api_key",
        "Some_Token",
        "DB_PASS",
        "SERVICE_CRED",
        "SERVICE_CREDS",
        "SERVICE_CREDENTIAL",
        "service_credentials",
        "API_KEYS",
        "TOKENS",
        "APP_SECRETS",
        "PASSWORDS",
        "API_KEY_2",
    ] {
        let written = written_where(&[(name, secret)], secret, &format!("named-{name}.json"));
        assert!(!written.contains(secret), "{name}: {written}");
    }
    for name in ["KEYBOARD", "PASSENGER", "SECRETARY", "TOKENIZERS"] {
        let written = written_where(&[(name, secret)], secret, &format!("not-{name}.json"));
        assert!(written.contains(secret), "{name}: {written}");
    }
}

#[test]
fn the_keywords_of_the_format_are_never_masked() {
    let words = [
        "assistant",
        "messages",
        "exchanges",
        "arguments",
        "max_output_tokens",
        "description",
        "properties",
        "login_here",
        "reasoning",
    ];
    let names: Vec<String> = (0..words.len()).map(|index| format!("WORD_{index}_KEY")).collect();
    let variables: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(words.iter().copied()).collect();
    // The inner test loads and replays it.
    let masked = written_where(&variables, "a plain word", "format.json");
    let plain = written_where(&[], "a plain word", "no-format.json");
    assert_eq!(masked, plain);
}

#[tokio::test]
async fn a_key_of_unknown_form_is_masked_in_known_places() {
    let key = "opaque".repeat(2) + "42";
    let letters = "opaque".repeat(3);
    let texts = [
        "Authorization: Bearer KEY",
        "authorization:bearer KEY",
        r#"{"Authorization":"Bearer KEY","accept":"*/*"}"#,
        r#"{\"Authorization\": \"Bearer KEY\"}"#,
        r#"{\\\"authorization\\\": \\\"Token KEY\\\"}"#,
        "curl -H 'Authorization: KEY' -H 'x: y'",
        "curl -H \"X-Api-Key: KEY\" https://example.com",
        r#"headers = {"x-api-key": "KEY"}"#,
        "Use Bearer KEY.",
        "it sent `bearer KEY`, and got 401",
        "GET https://example.com/v1?api_key=KEY&page=2",
        "GET https://example.com/v1?page=2&token=KEY",
        "https://example.com/#access_token=KEY&state=1",
        "https://example.com/a?x=1\\u0026access_token=KEY",
        "https://example.com/a?x=1&amp;sig=KEY",
        "https://maps.example.com/json?key=KEY",
        "https://blob.example.com/a?se=2026&sig=KEY&sp=r",
        "https://s3.example.com/a?X-Amz-Signature=KEY",
        "https://user:KEY@example.com/a",
        r"https:\/\/user:KEY@example.com\/a",
        r#"{"access_token":"KEY","expires_in":3600}"#,
        "grant_type=refresh&client_secret=KEY&scope=a",
    ];
    for text in texts {
        let reported = written(&text.replace("KEY", &key)).await;
        assert_eq!(reported, text.replace("KEY", "[secret]"));
    }
    for text in ["Authorization: Bearer KEY", "?token=KEY", "&sig=KEY", "Bearer KEY"] {
        let reported = written(&text.replace("KEY", &letters)).await;
        assert_eq!(reported, text.replace("KEY", "[secret]"));
    }
    // `user:password` and `Aladdin:open sesame`.
    for login in ["dXNlcjpwYXNzd29yZA==", "QWxhZGRpbjpvcGVuIHNlc2FtZQ=="] {
        assert_eq!(written(&format!("Basic {login}")).await, "Basic [secret]");
        let reported = written(&format!("authorization: basic {login}\r\n")).await;
        assert_eq!(reported, "authorization: basic [secret]\r\n");
    }
    let token = format!("https://{key}{key}@example.com/repo.git");
    assert_eq!(written(&token).await, "https://[secret]@example.com/repo.git");
}

#[tokio::test]
async fn words_in_places_of_keys_are_kept() {
    let texts = [
        "The bearer of this letter may pass.",
        "Bearer tokens are sent in a header; bearer authentication is old.",
        "Use Basic auth, or basic arithmetic.",
        "Basic authentication sends a password.",
        "https://example.com/search?key=name&page=2&sort=token",
        "https://example.com/map?tokens=12345678&monkey=abcdefgh12345678",
        "https://example.com/?next_token=abcdef1234567890",
        "authorization: required",
        "api_key: the key that you got",
        r#"{"api_key": "description of the field", "type": "string"}"#,
        "api_key = os.environ.OPENAI_KEY_OF_MINE",
        "Send `Authorization: Bearer $TOKEN` or `Authorization: Bearer <token>`.",
        "The key = value pairs; token: a word; password: none",
        "https://example.com/?token=$TOKEN",
        "mail to kate@example.com at 12:30, ratio 3:4, a=b",
        "https://example.com/@kate/posts:12345678",
        "https://github.com:443/a@b",
        "authorization: https://auth2.example.com/login",
    ];
    for text in texts {
        assert_eq!(written(text).await, text);
    }
}
