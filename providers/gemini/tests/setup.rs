//! The settings of a model: base URL, key, token, headers, environment variables.

use std::env;
use std::process::Command;

use toolwright_gemini::{Gemini, ProviderError};
use toolwright_module::LanguageModel;
use toolwright_module::model::{Setting, Settings};

use crate::common::{Server, hi, ok, ok_stream, streamed};

const BASE: &str = "https://example.com/v1beta";

#[tokio::test]
async fn the_key_and_the_headers_are_sent() {
    let server = Server::answering([ok(), ok_stream()]).await;
    let model = server.model().with_key("made-up").unwrap();
    let model = model.with_connection(|c| c.with_header("x-goog-user-project", "mine")).unwrap();
    model.generate(&hi()).await.unwrap();
    streamed(&model, hi()).await.1.unwrap();
    let [whole, stream] = <[_; 2]>::try_from(server.seen()).ok().unwrap();
    assert!(whole.head.starts_with("post /v1beta/models/gemini-2.5-flash:generatecontent http"));
    let path = "post /v1beta/models/gemini-2.5-flash:streamgeneratecontent?alt=sse http";
    assert!(stream.head.starts_with(path), "{}", stream.head);
    for seen in [whole, stream] {
        assert!(seen.head.contains("\r\nx-goog-api-key: made-up\r\n"), "{}", seen.head);
        assert!(seen.head.contains("\r\nx-goog-user-project: mine\r\n"), "{}", seen.head);
        assert!(seen.head.contains("\r\ncontent-type: application/json\r\n"), "{}", seen.head);
    }
}

#[tokio::test]
async fn a_name_may_be_a_path() {
    for (name, path) in [
        ("models/gemini-2.5-flash", "/v1beta/models/gemini-2.5-flash:generatecontent"),
        ("tunedModels/my-model", "/v1beta/tunedmodels/my-model:generatecontent"),
        ("a b?c", "/v1beta/models/a%20b%3fc:generatecontent"),
    ] {
        let server = Server::answering([ok()]).await;
        server.model_of(name).generate(&hi()).await.unwrap();
        let [seen] = <[_; 1]>::try_from(server.seen()).ok().unwrap();
        assert!(seen.head.starts_with(&format!("post {path} http")), "{}", seen.head);
    }
    for name in ["models/", "../secrets", "a//b"] {
        let error = Gemini::at(BASE, name).unwrap_err();
        assert!(
            matches!(error, ProviderError::Http { .. } | ProviderError::Service { .. }),
            "{name}: {error}"
        );
    }
}

#[tokio::test]
async fn vertex_has_its_own_paths_and_a_token() {
    let server = Server::answering([ok(), ok()]).await;
    let base_url = format!("{}/projects/p/locations/global", server.url);
    for (name, path) in [
        ("gemini-2.5-flash", "publishers/google/models/gemini-2.5-flash"),
        ("endpoints/123", "endpoints/123"),
    ] {
        let model = Gemini::vertex_at(&base_url, name).unwrap().with_token("made-up").unwrap();
        model.generate(&hi()).await.unwrap();
        let seen = server.seen().pop().unwrap();
        let path = format!("post /v1beta/projects/p/locations/global/{path}:generatecontent http");
        assert!(seen.head.starts_with(&path), "{}", seen.head);
        assert!(seen.head.contains("\r\nauthorization: bearer made-up\r\n"), "{}", seen.head);
    }
    let global = Gemini::vertex("p", "global", "gemini-2.5-flash", "made-up").unwrap();
    let base_url = "https://aiplatform.googleapis.com/v1beta1/projects/p/locations/global";
    assert_eq!(global.base_url(), base_url);
    assert!(Gemini::vertex("example.com:p", "us-east1", "m", "made-up").is_ok());
    for (project, location) in
        [("p", "evil.example/"), ("p", ""), ("p/../q", "global"), ("", "global"), ("p", "a.b")]
    {
        let error = Gemini::vertex(project, location, "m", "made-up").unwrap_err();
        assert!(matches!(error, ProviderError::Service { .. }), "{project} {location}: {error}");
    }
}

#[test]
fn a_key_is_not_shown_and_not_sent_in_plain_text() {
    let model = Gemini::at(BASE, "m").unwrap().with_key("made-up").unwrap();
    assert!(!format!("{model:?}").contains("made-up"));
    let set = |model: Gemini| {
        [
            model.clone().with_key("made-up"),
            model.with_connection(|c| c.with_header("X-Goog-Api-Key", "made-up")),
        ]
    };
    for changed in set(Gemini::at("http://192.168.0.7/v1beta", "m").unwrap()) {
        assert!(matches!(changed, Err(ProviderError::Http { .. })), "{changed:?}");
    }
    for key in ["", " \n"] {
        let missing = Gemini::at(BASE, "m").unwrap().with_key(key).unwrap_err();
        assert!(matches!(missing, ProviderError::MissingKey { .. }));
    }
    let error = Gemini::at(BASE, "m").unwrap().with_key("a\nb").unwrap_err();
    assert!(error.to_string().starts_with("the value of `key` contains a character"), "{error}");
    let error = Gemini::at(BASE, "m").unwrap().with_token("a\nb").unwrap_err();
    assert!(error.to_string().starts_with("the value of `key` contains a character"), "{error}");
}

#[test]
fn the_capabilities_depend_on_api_and_model() {
    let settings = |model: Gemini| model.capabilities().settings;
    let gemini = settings(Gemini::at(BASE, "gemini-2.5-flash").unwrap());
    for setting in [Setting::Cache, Setting::User, Setting::ParallelCalls, Setting::Metadata] {
        assert!(!gemini.has(setting), "{setting}");
    }
    assert!(gemini.has(Setting::Effort) && gemini.has(Setting::Seed));
    let vertex = Gemini::vertex("p", "global", "gemini-2.5-flash", "made-up").unwrap();
    assert!(settings(vertex).has(Setting::Metadata));
    assert!(!settings(Gemini::at(BASE, "gemini-2.0-flash").unwrap()).has(Setting::Effort));
}

#[tokio::test]
async fn a_setting_that_the_api_lacks_is_an_error() {
    let model = Gemini::at(BASE, "m").unwrap();
    let model = model.with_settings(Settings::default().with_parallel_calls(false));
    let error = model.generate(&hi()).await.unwrap_err();
    assert!(error.to_string().contains("does not support the setting `parallel calls`"), "{error}");
}

/// The child of `the_key_comes_from_the_environment`.
#[test]
fn child_from_the_environment() {
    if env::var_os("GEMINI_TEST_CHILD").is_some() {
        match Gemini::from_env("gemini-2.5-flash") {
            Ok(model) => println!("made {}", model.base_url()),
            Err(error) => println!("{error}"),
        }
    }
}

/// A process of its own, because the environment belongs to the whole process.
#[test]
fn the_key_comes_from_the_environment() {
    let made = "made https://generativelanguage.googleapis.com/v1beta";
    let missing = "there is no API key: set GEMINI_API_KEY";
    for (variables, said) in [
        (vec![("GEMINI_API_KEY", "a")], made),
        (vec![("GOOGLE_API_KEY", "a")], made),
        (vec![("GEMINI_API_KEY", ""), ("GOOGLE_API_KEY", "a")], made),
        // The first wins, and its fault is not hidden by the second.
        (vec![("GEMINI_API_KEY", "a\nb"), ("GOOGLE_API_KEY", "a")], "the value of `key` contains"),
        (vec![], missing),
    ] {
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["setup::child_from_the_environment", "--exact", "--nocapture"]);
        child.env_remove("GEMINI_API_KEY").env_remove("GOOGLE_API_KEY");
        let output =
            child.env("GEMINI_TEST_CHILD", "1").envs(variables.iter().copied()).output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        assert!(output.contains(said), "{variables:?}: {output}");
    }
}

/// Prices are found by the service. A proxy may have others.
#[test]
fn only_a_model_at_google_names_it_as_the_service() {
    let at = |url: &str| Gemini::at(url, "gemini-2.5-flash").unwrap();
    assert_eq!(at("https://generativelanguage.googleapis.com/v1beta").service(), Some("gemini"));
    let vertex = |location| Gemini::vertex("p", location, "gemini-2.5-flash", "made-up").unwrap();
    assert_eq!(vertex("europe-west4").service(), Some("gemini"));
    assert_eq!(vertex("global").service(), Some("gemini"));
    assert_eq!(at("http://127.0.0.1:8080/v1beta").service(), None);
    assert_eq!(at("https://evil-aiplatform.googleapis.com.example.com/v1beta").service(), None);
}
