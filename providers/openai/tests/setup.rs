//! The settings of a model: the base URL, the key, headers, and the environment variables.

use std::env;
use std::process::Command;

use toolwright_module::LanguageModel;
use toolwright_module::budget::Prices;
use toolwright_openai::{Api, ErrorKind, OpenAi, ProviderError, Service};
use toolwright_signature::Dialect;

use crate::common::{self, Answer, Server, hi};

const KEY: &str = "sk-very-secret-0123456789";

fn local() -> OpenAi {
    OpenAi::at("http://127.0.0.1:1/v1", "m").unwrap()
}

fn keyed() -> OpenAi {
    local().with_key(KEY).unwrap()
}

#[test]
fn an_invalid_base_url_is_rejected_without_showing_it() {
    let mut all = String::new();
    for url in [
        "",
        "sk-very-secret-0123456789",
        "localhost:8080",
        "file:///etc",
        "http://user:sk-very-secret-0123456789@127.0.0.1/v1",
        "http://127.0.0.1/v1?key=sk-very-secret-0123456789",
    ] {
        let error = OpenAi::at(url, "m").unwrap_err();
        assert!(matches!(error, ProviderError::Http { .. }));
        assert!(!format!("{error}{error:?}{error:#}").contains("secret"));
        all += &format!("{error}\n");
    }
    insta::assert_snapshot!(all, @"
    the base URL cannot be used: it is not a URL; write it with its scheme and host, such as https://example.com
    the base URL cannot be used: it is not a URL; write it with its scheme and host, such as https://example.com
    the base URL cannot be used: it does not begin with http:// or https://
    the base URL cannot be used: it does not begin with http:// or https://
    the base URL cannot be used: it contains a user name or a password; remove them and set the key as a header with `with_key`
    the base URL cannot be used: it contains `?` or `#`; remove that character and the text after it
    ");
    for (url, base) in [
        ("http://localhost:8080/v1/", "http://localhost:8080/v1"),
        ("https://[::1]/v1//", "https://[::1]/v1"),
        (" http://localhost:8080/v1/\n", "http://localhost:8080/v1"),
        ("http://localhost:8080/\tv1 \r\n", "http://localhost:8080/v1"),
    ] {
        assert_eq!(OpenAi::at(url, "m").unwrap().base_url(), base);
    }
}

#[test]
fn a_key_needs_https_or_a_server_on_this_machine() {
    for url in [
        "http://192.168.0.7:8080/v1",
        "http://api.example.com/v1",
        "http://[::2]/v1",
        "HTTP://localhost.example.com/v1",
    ] {
        let model = OpenAi::at(url, "m").unwrap();
        for refused in [
            model.clone().with_key(KEY),
            model.clone().with_connection(|c| c.with_header("api-key", KEY)),
            model.clone().with_connection(|c| c.with_header("Authorization", KEY)),
        ] {
            let error = refused.unwrap_err();
            assert!(matches!(error, ProviderError::Http { .. }));
            assert!(!format!("{error:?}").contains("secret"));
            insta::allow_duplicates! {
                insta::assert_snapshot!(error, @"the base URL cannot be used: it is plain http to another machine, so others on the network could read the key; use https, or call `with_plain_http` before the key is set if nobody else can read that network");
            }
        }
        assert!(
            model
                .clone()
                .with_connection(toolwright_openai::Connection::with_plain_http)
                .unwrap()
                .with_key(KEY)
                .is_ok()
        );
        assert!(model.with_organization("org-1").is_ok());
    }
    for url in [
        "http://localhost:1/v1",
        "http://127.9.9.9/v1",
        "http://[::1]/v1",
        "http://[::ffff:127.0.0.1]/v1",
        "https://api.example.com/v1",
    ] {
        assert!(OpenAi::at(url, "m").unwrap().with_key(KEY).is_ok(), "{url}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Server::answering([common::ok(Api::Chat)]).await;
    let headers = format!("location: {}/chat/completions\r\n", elsewhere.url);
    for status in [301, 302, 307, 308] {
        let server = Server::answering([Answer::new(status, &headers, "")]).await;
        let model = server.model(Api::Chat).with_key(KEY).unwrap();
        model.generate(&hi()).await.unwrap_err();
        assert!(elsewhere.seen().is_empty());
    }
}

#[test]
fn a_value_that_is_not_allowed_in_a_header_is_an_error() {
    let mut all = String::new();
    let broken = format!("{KEY}\n");
    for refused in [
        local().with_key(&broken),
        keyed().with_key("sk\0"),
        keyed().with_organization("a\nb"),
        keyed().with_project("a\nb"),
        keyed().with_connection(|c| c.with_header("x-title", "a\nb")),
        keyed().with_connection(|c| c.with_header("a header", "b")),
    ] {
        let error = refused.unwrap_err();
        assert!(!format!("{error}{error:?}{error:#}").contains("secret"));
        all += &format!("{error}\n");
    }
    insta::assert_snapshot!(all, @"
    the value of `key` contains a character that is not allowed in an HTTP header; look for a line break in it
    the value of `key` contains a character that is not allowed in an HTTP header; look for a line break in it
    the value of `openai-organization` contains a character that is not allowed in an HTTP header; look for a line break in it
    the value of `openai-project` contains a character that is not allowed in an HTTP header; look for a line break in it
    the value of `x-title` contains a character that is not allowed in an HTTP header; look for a line break in it
    the value of `header name` contains a character that is not allowed in an HTTP header; look for a line break in it
    ");
}

#[test]
fn the_debug_text_of_a_model_has_its_settings_and_not_its_key() {
    let model = keyed()
        .with_connection(|c| c.with_header("x-other-key", KEY))
        .unwrap()
        .with_api(Api::Responses);
    insta::assert_snapshot!(format!("{model:?}"), @r#"OpenAi { model: "m", base_url: "http://127.0.0.1:1/v1", api: Responses, dialect: OpenAiLoose, .. }"#);
}

#[test]
fn a_blank_key_is_rejected() {
    for refused in [local().with_key(""), local().with_key(" \t")] {
        assert!(matches!(refused.unwrap_err(), ProviderError::MissingKey { .. }));
    }
    // Some servers read the key from a header of their own.
    assert!(local().with_connection(|c| c.with_header("api-key", KEY)).is_ok());
}

#[test]
fn the_debug_text_of_an_error_without_a_cause_is_its_sentence() {
    let error = OpenAi::at("localhost:8080", "m").unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
}

#[test]
fn the_capabilities_follow_the_settings() {
    let model = keyed();
    let capabilities = model.capabilities();
    assert_eq!(capabilities.dialect, Dialect::OpenAiLoose);
    assert!(capabilities.structured_output && capabilities.tools);
    let model = model.with_dialect(Dialect::OpenAiStrict).with_structured_output(false);
    let capabilities = model.capabilities();
    assert_eq!(capabilities.dialect, Dialect::OpenAiStrict);
    assert!(!capabilities.structured_output);
}

#[tokio::test]
async fn a_key_that_the_server_repeats_is_redacted() {
    let body = format!(r#"{{"error": {{"message": "No such key: {KEY}", "code": "{KEY}"}}}}"#);
    for status in [401, 400] {
        let server = Server::answering([Answer::new(status, "", &body)]).await;
        let model = server.model(Api::Chat).with_key(KEY).unwrap();
        let error = model.generate(&hi()).await.unwrap_err();
        let shown = format!("{error}{error:?}{error:#}{:?}{:?}", common::own(&error), error.raw());
        assert!(!shown.contains("secret"), "{shown}");
        assert!(shown.contains("No such key: [key]"), "{shown}");
    }
}

#[tokio::test]
async fn headers_are_sent_and_secret_ones_are_redacted() {
    let body = format!(r#"{{"error": {{"message": "No such key: {KEY}"}}}}"#);
    let server = Server::answering([Answer::new(401, "", &body)]).await;
    let model = server.model(Api::Chat).with_connection(|c| c.with_header("api-key", KEY)).unwrap();
    let model = model.with_organization("org-1").unwrap().with_project("proj_1").unwrap();
    let error = model.generate(&hi()).await.unwrap_err().to_string();
    assert!(error.contains("No such key: [api-key]"), "{error}");
    assert!(!error.contains("with_key"), "{error}");
    let head = server.seen()[0].head.clone();
    for line in [&format!("api-key: {KEY}"), "openai-organization: org-1", "openai-project: proj_1"]
    {
        assert!(head.contains(line), "{line}: {head}");
    }
    assert!(!head.contains("authorization"), "{head}");
}

#[tokio::test]
async fn the_limits_hold_for_a_client_of_the_caller() {
    let http = toolwright_http::reqwest::Client::builder().no_proxy().user_agent("mine/1");
    let server = Server::answering([common::ok(Api::Chat), Answer::hang()]).await;
    let silence = std::time::Duration::from_millis(200);
    let model = server
        .model(Api::Chat)
        .with_connection(|c| Ok(c.with_http(http.build().unwrap())))
        .unwrap();
    let model = model.with_connection(|c| c.with_timeout(silence)).unwrap().with_key(KEY).unwrap();
    model.generate(&hi()).await.unwrap();
    assert!(server.seen()[0].head.contains("user-agent: mine/1"));
    let error = model.generate(&hi()).await.unwrap_err();
    assert!(matches!(common::http(&error), ErrorKind::Silent { after } if *after == silence));
}

#[tokio::test]
async fn a_connection_that_fails_does_not_show_the_key() {
    let model = keyed().with_connection(|c| Ok(c.with_retries(0))).unwrap();
    let error = model.generate(&hi()).await.unwrap_err();
    let shown = format!("{error}{error:?}{error:#}{:?}", common::own(&error));
    assert!(!shown.contains("secret"), "{shown}");
}

/// The test below runs this one in a process with other environment variables.
#[test]
fn child() {
    if env::var_os("TOOLWRIGHT_TEST_CHILD").is_none() {
        return;
    }
    match OpenAi::from_env("m") {
        Ok(model) => println!("[{}]", model.base_url()),
        Err(error) => println!("[{error}]"),
    }
    let _ = OpenAi::at("http://127.0.0.1:1/v1", "m").unwrap();
}

fn in_environment(variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "setup::child", "--nocapture"]);
    for name in ["KEY", "ADMIN_KEY", "BASE_URL", "ORG_ID", "PROJECT_ID"] {
        command.env_remove(format!("OPENAI_{name}"));
    }
    command.env("TOOLWRIGHT_TEST_CHILD", "1").env_remove("OPENAI_API_KEY");
    command.envs(variables.iter().copied());
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let (_, said) = output.split_once('[').unwrap();
    said.split_once("]\n").unwrap().0.to_owned()
}

#[test]
fn the_key_and_the_base_url_are_read_from_the_environment() {
    let missing = "there is no API key: set OPENAI_API_KEY, or use `at` without `with_key` for a server that needs none";
    let key = ("OPENAI_API_KEY", KEY);
    for (variables, said) in [
        (&[][..], missing),
        (&[("OPENAI_API_KEY", " ")], missing),
        (&[("OPENAI_ADMIN_KEY", KEY)], missing),
        (&[key], "https://api.openai.com/v1"),
        (&[key, ("OPENAI_BASE_URL", "")], "https://api.openai.com/v1"),
        (&[key, ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1/")], "http://127.0.0.1:1/v1"),
        (
            &[key, ("OPENAI_BASE_URL", "127.0.0.1:1")],
            "the base URL cannot be used: it is not a URL; write it with its scheme and host, such as https://example.com",
        ),
        (
            &[("OPENAI_API_KEY", "sk\n")],
            "the value of `key` contains a character that is not allowed in an HTTP header; look for a line break in it",
        ),
    ] {
        assert_eq!(in_environment(variables), said, "{variables:?}");
    }
}

/// Prices are found by the service. A server of which nothing is known has none, whatever its model is
/// called.
#[test]
fn a_model_names_the_service_that_is_paid_for_it() {
    let at = |url: &str| OpenAi::at(url, "gpt-5-mini").unwrap();
    let service = |model: &OpenAi| model.service().map(str::to_owned);
    assert_eq!(service(&at("https://api.openai.com/v1")).as_deref(), Some("openai"));
    assert_eq!(service(&at("https://api.groq.com/openai/v1")).as_deref(), Some("groq"));
    assert_eq!(service(&at("http://127.0.0.1:8080/v1")), None);
    assert_eq!(service(&at("https://proxy.example.com/v1")), None);
    let local = OpenAi::service("ollama", "qwen3").unwrap();
    assert_eq!(service(&local).as_deref(), Some("ollama"));
    let azure = OpenAi::azure("https://example.openai.azure.com", "ours", None).unwrap();
    assert_eq!(service(&azure).as_deref(), Some("azure"));
}

/// Every service with prices is a service that a model can have.
#[test]
fn the_built_in_prices_have_the_names_of_the_services() {
    let prices = Prices::builtin();
    for (service, model) in [
        ("openai", "gpt-4.1"),
        ("openrouter", "openai/gpt-4.1"),
        ("mistral", "mistral-small-latest"),
        ("deepseek", "deepseek-chat"),
        ("groq", "openai/gpt-oss-120b"),
        ("xai", "grok-4"),
        ("doubleword", "openai/gpt-oss-20b"),
        ("copilot", "gpt-5-mini"),
        ("zai", "glm-4.6"),
        ("cerebras", "gpt-oss-120b"),
        ("bedrock", "openai.gpt-5.4"),
        ("azure", "gpt-4.1"),
        ("google", "gemini-2.5-flash"),
        ("together", "zai-org/GLM-5.3"),
        ("fireworks", "accounts/fireworks/models/glm-5p3"),
        ("moonshot", "kimi-k2-thinking"),
    ] {
        assert!(Service::ALL.iter().any(|known| known.name == service), "{service}");
        assert!(prices.of(Some(service), model).is_some(), "{service} {model}");
    }
    // A server on the user's machine is not free: nobody knows what it costs.
    let local = Service::ALL.iter().filter(|service| service.key_variable.is_none());
    assert!(local.into_iter().all(|local| prices.of(Some(local.name), "gpt-5-mini").is_none()));
}
