//! [`OpenAi::from_async_openai`]: the URLs and headers of async-openai's configurations.

use async_openai::config::{AzureConfig, Config, OpenAIConfig};
use toolwright_module::LanguageModel;
use toolwright_openai::{Api, OpenAi, ProviderError};

use crate::common::{APIS, Seen, Server, hi, ok};

async fn sent(server: &Server, config: &dyn Config, api: Api) -> Seen {
    let model = OpenAi::from_async_openai(config, "test-model").unwrap().with_api(api);
    assert!(!format!("{model:?}").contains("made-up"));
    model.generate(&hi()).await.unwrap();
    server.seen().pop().unwrap()
}

#[tokio::test]
async fn requests_have_the_urls_and_headers_of_the_configuration() {
    for (api, path) in APIS.into_iter().zip(["/v1/chat/completions", "/v1/responses"]) {
        let server = Server::answering([ok(api)]).await;
        let config = OpenAIConfig::new()
            .with_api_base(&server.url)
            .with_api_key("sk-made-up")
            .with_org_id("org-1")
            .with_project_id("proj_1")
            .with_header("x-title", "a title")
            .unwrap();
        let seen = sent(&server, &config, api).await;
        for line in [
            &format!("post {path} http/1.1"),
            "authorization: bearer sk-made-up",
            "openai-organization: org-1",
            "openai-project: proj_1",
            "x-title: a title",
        ] {
            assert!(seen.head.contains(line), "{line}: {}", seen.head);
        }
        assert_eq!(seen.body["model"], "test-model");
    }
}

#[tokio::test]
async fn requests_for_azure_have_its_path_and_query() {
    let server = Server::answering([ok(Api::Chat)]).await;
    let config = AzureConfig::new()
        .with_api_base(server.url.trim_end_matches("/v1"))
        .with_api_key("sk-made-up")
        .with_deployment_id("mine")
        .with_api_version("2025-01-01");
    let head = sent(&server, &config, Api::Chat).await.head;
    let path = "/openai/deployments/mine/chat/completions?api-version=2025-01-01";
    assert!(head.contains(&format!("post {path} http/1.1")), "{head}");
    assert!(head.contains("api-key: sk-made-up"), "{head}");
}

#[test]
fn a_key_with_a_line_break_is_an_error_and_not_a_panic() {
    let config = OpenAIConfig::new().with_api_key("sk-made-up\n");
    let error = OpenAi::from_async_openai(&config, "m").unwrap_err();
    assert!(matches!(error, ProviderError::Http { .. }), "{error:?}");
    assert!(!format!("{error:?}").contains("made-up"));
}

#[tokio::test]
async fn a_blank_key_is_not_sent() {
    let server = Server::answering([ok(Api::Chat)]).await;
    let config = OpenAIConfig::new().with_api_base(&server.url).with_api_key("");
    let head = sent(&server, &config, Api::Chat).await.head;
    assert!(!head.contains("authorization"), "{head}");
}

#[test]
fn a_key_for_plain_http_to_another_machine_is_rejected_without_showing_it() {
    let config = OpenAIConfig::new().with_api_key("sk-made-up");
    for url in ["http://192.168.0.7/v1", "not a URL"] {
        let config = config.clone().with_api_base(url);
        let error = OpenAi::from_async_openai(&config, "m").unwrap_err();
        assert!(matches!(error, ProviderError::Http { .. }), "{error:?}");
        assert!(!format!("{error:?}").contains("made-up"));
    }
}
