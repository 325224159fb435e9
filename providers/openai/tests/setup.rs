//! What is wrong before anything is sent; and no key is ever shown.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper of a test is a test too, which clippy.toml cannot know"
)]

mod common;

use std::env;
use std::process::Command;

use common::{Answer, Server, hi};
use toolwright_module::LanguageModel;
use toolwright_openai::{Api, OpenAi, OpenAiError};
use toolwright_signature::Dialect;

const KEY: &str = "sk-very-secret-0123456789";

fn local() -> OpenAi {
    OpenAi::at("http://127.0.0.1:1/v1", "m").unwrap()
}

fn keyed() -> OpenAi {
    local().with_key(KEY).unwrap()
}

#[test]
fn an_address_is_checked_at_once() {
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
        assert!(matches!(error, OpenAiError::BaseUrl { .. }));
        assert!(!format!("{error}{error:?}{error:#}").contains("secret"));
        all += &format!("{error}\n");
    }
    insta::assert_snapshot!(all, @"
    the base URL cannot be used: it is not a URL; use one like http://127.0.0.1:8080/v1
    the base URL cannot be used: it is not a URL; use one like http://127.0.0.1:8080/v1
    the base URL cannot be used: it does not begin with http:// or https://
    the base URL cannot be used: it does not begin with http:// or https://
    the base URL cannot be used: it holds a name or a password; give the key with `with_key`
    the base URL cannot be used: it holds `?` or `#`; end it before them
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
fn a_key_is_not_sent_in_the_clear() {
    for url in [
        "http://192.168.0.7:8080/v1",
        "http://api.example.com/v1",
        "http://[::2]/v1",
        "HTTP://localhost.example.com/v1",
    ] {
        let model = OpenAi::at(url, "m").unwrap();
        for refused in [
            model.clone().with_key(KEY),
            model.clone().with_header("api-key", KEY),
            model.clone().with_header("Authorization", KEY),
        ] {
            let error = refused.unwrap_err();
            assert!(matches!(error, OpenAiError::BaseUrl { .. }));
            assert!(!format!("{error:?}").contains("secret"));
            insta::allow_duplicates! {
                insta::assert_snapshot!(error, @"the base URL cannot be used: it is plain http beyond this machine, where anybody on the way could read the API key; use https");
            }
        }
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
async fn a_redirect_takes_neither_the_key_nor_the_conversation() {
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
fn what_is_no_header_is_an_error_and_no_panic() {
    let mut all = String::new();
    let broken = format!("{KEY}\n");
    for refused in [
        local().with_key(&broken),
        keyed().with_key("sk\0"),
        keyed().with_organization("a\nb"),
        keyed().with_project("a\nb"),
        keyed().with_header("x-title", "a\nb"),
        keyed().with_header("a header", "b"),
    ] {
        let error = refused.unwrap_err();
        assert!(!format!("{error}{error:?}{error:#}").contains("secret"));
        all += &format!("{error}\n");
    }
    insta::assert_snapshot!(all, @"
    the API key holds a character that no HTTP header can carry; look for a line break in it
    the API key holds a character that no HTTP header can carry; look for a line break in it
    the organization's id holds a character that no HTTP header can carry; look for a line break in it
    the project's id holds a character that no HTTP header can carry; look for a line break in it
    the header `x-title` holds a character that no HTTP header can carry; look for a line break in it
    the name of a header holds a character that no HTTP header can carry; look for a line break in it
    ");
}

#[test]
fn a_model_shows_what_it_is_and_not_its_key() {
    let model = keyed().with_header("x-other-key", KEY).unwrap().with_api(Api::Responses);
    insta::assert_snapshot!(format!("{model:?}"), @r#"OpenAi { model: "m", base_url: "http://127.0.0.1:1/v1", api: Responses, dialect: OpenAiLoose, .. }"#);
}

#[test]
fn a_key_of_blanks_is_no_key() {
    for refused in [local().with_key(""), local().with_key(" \t")] {
        assert!(matches!(refused.unwrap_err(), OpenAiError::MissingKey { .. }));
    }
    // Some servers read the key from a header of their own.
    assert!(local().with_header("api-key", KEY).is_ok());
}

#[test]
fn an_error_that_ends_a_program_reads_like_a_sentence() {
    let error = OpenAi::at("localhost:8080", "m").unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
}

#[test]
fn a_model_says_what_it_can_do() {
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
async fn a_key_that_a_server_sends_back_is_not_kept() {
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
async fn headers_of_the_callers_own_are_sent_and_kept_secret() {
    let body = format!(r#"{{"error": {{"message": "No such key: {KEY}"}}}}"#);
    let server = Server::answering([Answer::new(401, "", &body)]).await;
    let model = server.model(Api::Chat).with_header("api-key", KEY).unwrap();
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
async fn a_client_of_the_callers_own_keeps_the_limits() {
    let http = toolwright_http::reqwest::Client::builder().no_proxy().user_agent("mine/1");
    let server = Server::answering([common::ok(Api::Chat), Answer::hang()]).await;
    let silence = std::time::Duration::from_millis(200);
    let model = server.model(Api::Chat).with_http(http.build().unwrap());
    let model = model.with_timeout(silence).unwrap().with_key(KEY).unwrap();
    model.generate(&hi()).await.unwrap();
    assert!(server.seen()[0].head.contains("user-agent: mine/1"));
    let error = model.generate(&hi()).await.unwrap_err();
    assert!(matches!(common::own(&error), OpenAiError::Timeout { after } if *after == silence));
}

#[tokio::test]
async fn a_connection_that_fails_does_not_show_the_key() {
    let model = keyed().with_retries(0);
    let error = model.generate(&hi()).await.unwrap_err();
    let shown = format!("{error}{error:?}{error:#}{:?}", common::own(&error));
    assert!(!shown.contains("secret"), "{shown}");
}

/// Run by the test below, in an environment of its own.
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
    command.args(["--exact", "child", "--nocapture"]);
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
fn the_environment_says_who_and_where() {
    let missing =
        "there is no API key: set OPENAI_API_KEY, or use `OpenAi::at` for a server that needs none";
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
            "the base URL cannot be used: it is not a URL; use one like http://127.0.0.1:8080/v1",
        ),
        (
            &[("OPENAI_API_KEY", "sk\n")],
            "the API key holds a character that no HTTP header can carry; look for a line break in it",
        ),
    ] {
        assert_eq!(in_environment(variables), said, "{variables:?}");
    }
}
