//! The settings of a model: base URL, key, headers and environment variables.

use std::env;
use std::process::Command;

use toolwright_anthropic::{Anthropic, ProviderError};
use toolwright_module::LanguageModel;

use crate::common::{Server, hi, ok};

/// Variables are set for a process of its own, because all tests share theirs.
#[test]
fn variables_of_the_environment_are_read() {
    const CHILD: &str = "TOOLWRIGHT_TEST_CHILD";
    if env::var_os(CHILD).is_some() {
        match Anthropic::from_env("claude-test") {
            Ok(model) => println!("at {}", model.base_url()),
            Err(error) => println!("error {error}"),
        }
        return;
    }
    let run = |variables: &[(&str, &str)]| {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "setup::variables_of_the_environment_are_read", "--nocapture"]);
        command.env_remove("ANTHROPIC_API_KEY").env_remove("ANTHROPIC_BASE_URL").env(CHILD, "1");
        let output = command.envs(variables.iter().copied()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let key = ("ANTHROPIC_API_KEY", "sk-made-up");
    for (variables, says) in [
        (vec![], "error there is no API key: set ANTHROPIC_API_KEY"),
        (vec![("ANTHROPIC_API_KEY", " ")], "error there is no API key"),
        (vec![("ANTHROPIC_API_KEY", "sk\nsk")], "error the value of `key` contains a character"),
        (vec![key], "at https://api.anthropic.com/v1"),
        (vec![key, ("ANTHROPIC_BASE_URL", "http://127.0.0.1:9/")], "at http://127.0.0.1:9/v1"),
        (vec![key, ("ANTHROPIC_BASE_URL", "http://127.0.0.1:9/v1")], "at http://127.0.0.1:9/v1"),
        (vec![key, ("ANTHROPIC_BASE_URL", "http://example.com")], "error the base URL cannot"),
    ] {
        let said = run(&variables);
        assert!(said.contains(says), "{variables:?}: {said}");
    }
}

#[tokio::test]
async fn the_key_is_not_shown() {
    let server = Server::answering([ok()]).await;
    let model = server.model("claude-test").with_key("sk-made-up").unwrap();
    assert!(!format!("{model:?}").contains("made-up"));
    model.generate(&hi()).await.unwrap();
    assert!(server.seen()[0].head.contains("x-api-key: sk-made-up"));
    let plain = Anthropic::at("http://example.com/v1", "claude-test").unwrap();
    assert!(matches!(plain.with_key("sk-made-up"), Err(ProviderError::Http { .. })));
}

/// Prices are found by the service. Another server with the API may have others.
#[test]
fn only_a_model_at_anthropic_names_it_as_the_service() {
    let at = |url: &str| Anthropic::at(url, "claude-haiku-4-5").unwrap();
    assert_eq!(at("https://api.anthropic.com/v1").service(), Some("anthropic"));
    assert_eq!(at("https://api.deepseek.com/anthropic/v1").service(), None);
    assert_eq!(at("http://127.0.0.1:8080/v1").service(), None);
}
