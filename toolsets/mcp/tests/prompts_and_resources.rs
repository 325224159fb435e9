//! Prompts and resources: `McpServer` serves them, and `McpClient` lists and reads them.

use std::time::Duration;

use crate::support::{Lines, listen};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_mcp::{
    McpClient, McpClientBuilder, McpError, McpServer, Resource, ResourceBody, ServerLimits,
};
use toolwright_module::message::{Image, Part};
use toolwright_module::{Context, Effect, Error, Message, Signature, Tool, ToolOutput, from_fn};

/// Review a file.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Review {
    /// Path of the file.
    path: String,
    /// Maximum number of findings.
    most: Option<u32>,
    tone: Option<Tone>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Tone {
    Formal,
    Friendly,
    Frank,
}

impl Signature for Review {
    type Output = String;
}

/// Describe a picture.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Describe {}

impl Signature for Describe {
    type Output = Picture;
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Picture {
    words: String,
    picture: Image,
}

/// Read a note.
#[derive(Serialize, Deserialize, JsonSchema)]
struct ReadNote {
    title: String,
    page: Option<u32>,
}

impl Signature for ReadNote {
    type Output = String;
}

fn prompts() -> Vec<Tool> {
    let review = from_fn(async |Review { path, most, tone }: Review| match &*path {
        "secret" => Err(Error::other("the key secret-7 was refused")),
        "panic" => panic!("at the disco with secret-7"),
        _ => Ok(format!("Review {path}: {most:?}, {tone:?}.")),
    });
    let describe = from_fn(async |_: Describe| {
        let picture = Image::bytes("image/png", *b"\x89PNG");
        Ok(Picture { words: "What is it?".to_owned(), picture })
    });
    vec![Tool::new(review).unwrap(), Tool::new(describe).unwrap()]
}

fn read_note() -> Tool {
    let read = from_fn(async |ReadNote { title, page }: ReadNote| match &*title {
        "none" => Err(Error::refuse("there is no such note")),
        _ => Ok(format!("{title}, {page:?}")),
    });
    Tool::new(read).unwrap()
}

fn server() -> McpServer {
    let all = Resource::new("notes://all", "notes")
        .with_title("All notes")
        .with_description("Every note.")
        .with_media_type("text/markdown");
    let logo = Resource::new("file:///logo.png", "logo").with_media_type("image/png");
    McpServer::new("notes", "1", [])
        .unwrap()
        .with_prompts(prompts())
        .unwrap()
        .with_resource(all, async |_| Ok("Buy *tea*."))
        .unwrap()
        .with_resource(logo, async |_| Ok(b"\x89PNG".to_vec()))
        .unwrap()
        .with_resource(Resource::new("notes://broken", "broken"), async |_| {
            Err::<String, _>(Error::other("the disk secret-7 is full"))
        })
        .unwrap()
        .with_resource(Resource::new("notes://panic", "panic"), async |_| -> Result<&str, _> {
            panic!("at the disco with secret-7")
        })
        .unwrap()
        .with_resource_template(Resource::new("notes://{title}/{page}", "note"), read_note())
        .unwrap()
}

async fn both() -> [Lines; 2] {
    [Lines::begun(server()).await, Lines::modern(server())]
}

#[tokio::test]
async fn a_prompt_is_a_tool_whose_fields_are_arguments_and_whose_output_is_the_message() {
    for mut lines in both().await {
        let listed = lines.request("prompts/list", json!({})).await;
        let review = json!({
            "name": "review",
            "description": "Review a file.",
            "arguments": [
                {"name": "path", "description": "Path of the file.", "required": true},
                {"name": "most", "description": "Maximum number of findings.", "required": false},
                {"name": "tone", "required": false},
            ],
        });
        assert_eq!(listed["prompts"][0], review);
        assert_eq!(listed["prompts"][1]["name"], "describe");
        assert!(listed["prompts"][1].get("arguments").is_none());

        // Clients send texts.
        let arguments = json!({"path": "a.rs", "most": "3", "tone": "frank"});
        let params = json!({"name": "review", "arguments": arguments});
        let got = lines.request("prompts/get", params).await;
        let text = json!({"type": "text", "text": "Review a.rs: Some(3), Some(Frank)."});
        assert_eq!(got["messages"], json!([{"role": "user", "content": text}]));
        assert_eq!(got["description"], "Review a file.");

        let got = lines.request("prompts/get", json!({"name": "describe"})).await;
        let image = json!({"type": "image", "data": "iVBORw==", "mimeType": "image/png"});
        assert_eq!(got["messages"][1], json!({"role": "user", "content": image}));
        lines.end().await;
    }
}

#[tokio::test]
async fn a_prompt_that_cannot_be_given_is_a_protocol_error_without_secrets() {
    for mut lines in both().await {
        for (params, code, text) in [
            (json!({"name": "nothing"}), -32602, "Unknown prompt: nothing"),
            (json!({"name": 7}), -32602, "the parameters of `prompts/get` are malformed"),
            (json!({"name": "review"}), -32602, "$.path: this field is missing"),
            (
                json!({"name": "review", "arguments": {"path": "a", "most": "many"}}),
                -32602,
                "$.most: expected",
            ),
            (json!({"name": "review", "arguments": {"path": "secret"}}), -32603, "failed"),
            (json!({"name": "review", "arguments": {"path": "panic"}}), -32603, "failed"),
        ] {
            let error = lines.request("prompts/get", params.clone()).await;
            assert_eq!(error["code"], code, "{params}: {error}");
            assert!(error["message"].as_str().unwrap().contains(text), "{params}: {error}");
            assert!(!error.to_string().contains("secret-7"), "{error}");
        }
        let error = lines.request("prompts/list", json!({"cursor": "2"})).await;
        assert_eq!(error["code"], -32602);
        // The server still responds.
        lines.request("prompts/list", json!({})).await["prompts"].as_array().unwrap();
        lines.end().await;
    }
}

#[tokio::test]
async fn the_values_of_an_enumeration_complete_an_argument() {
    for mut lines in both().await {
        let mut complete = async |what: Value, name: &str, value: &str| {
            let params = json!({"ref": what, "argument": {"name": name, "value": value}});
            lines.request("completion/complete", params).await
        };
        let review = json!({"type": "ref/prompt", "name": "review"});
        let found = complete(review.clone(), "tone", "Fr").await;
        assert_eq!(found["completion"]["values"], json!(["friendly", "frank"]));
        assert_eq!(found["completion"]["hasMore"], false);
        let found = complete(review.clone(), "path", "").await;
        assert_eq!(found["completion"]["values"], json!([]));
        let template = json!({"type": "ref/resource", "uri": "notes://{title}/{page}"});
        let found = complete(template, "title", "t").await;
        assert_eq!(found["completion"]["values"], json!([]));
        let other = json!({"type": "ref/prompt", "name": "other"});
        for (what, name) in [(review, "nothing"), (other, "path")] {
            assert_eq!(complete(what, name, "").await["code"], -32602);
        }
        lines.end().await;
    }
}

#[tokio::test]
async fn resources_are_listed_and_read() {
    for mut lines in both().await {
        let listed = lines.request("resources/list", json!({})).await;
        let all = json!({
            "uri": "notes://all",
            "name": "notes",
            "title": "All notes",
            "description": "Every note.",
            "mimeType": "text/markdown",
        });
        assert_eq!(listed["resources"][0], all);
        assert_eq!(listed["resources"].as_array().unwrap().len(), 4);
        let templates = lines.request("resources/templates/list", json!({})).await;
        let note = json!({
            "uriTemplate": "notes://{title}/{page}",
            "name": "note",
            "description": "Read a note.",
        });
        assert_eq!(templates["resourceTemplates"], json!([note]));

        let mut read = async |uri: &str| {
            lines.request("resources/read", json!({"uri": uri})).await["contents"].take()
        };
        let text =
            json!([{"uri": "notes://all", "mimeType": "text/markdown", "text": "Buy *tea*."}]);
        assert_eq!(read("notes://all").await, text);
        let logo =
            json!([{"uri": "file:///logo.png", "mimeType": "image/png", "blob": "iVBORw=="}]);
        assert_eq!(read("file:///logo.png").await, logo);
        let note = read("notes://to%20do/3").await;
        assert_eq!(note[0]["uri"], "notes://to%20do/3");
        assert_eq!(note[0]["text"], "to do, Some(3)");
        lines.end().await;
    }
}

#[tokio::test]
async fn a_resource_that_cannot_be_read_is_a_protocol_error_without_secrets() {
    for (mut lines, missing) in both().await.into_iter().zip([-32002, -32602]) {
        for (uri, code, text) in [
            ("notes://nothing", missing, "there is no resource with this URI"),
            ("notes://broken", -32603, "failed"),
            ("notes://panic", -32603, "failed"),
            ("notes://none/1", -32603, "there is no such note"),
            ("notes://tea/two", -32602, "$.page: expected"),
        ] {
            let error = lines.request("resources/read", json!({"uri": uri})).await;
            assert_eq!(error["code"], code, "{uri}: {error}");
            assert!(error["message"].as_str().unwrap().contains(text), "{uri}: {error}");
            assert!(!error.to_string().contains("secret-7"), "{error}");
            if uri == "notes://nothing" {
                assert_eq!(error["data"]["uri"], uri);
            }
        }
        let error = lines.request("resources/read", json!({})).await;
        assert_eq!(error["code"], -32602);
        lines.end().await;
    }
}

#[tokio::test]
async fn prompts_and_resources_have_the_limits_of_calls() {
    let limits = ServerLimits {
        max_result_bytes: 10,
        tool_time: Duration::from_millis(100),
        ..ServerLimits::default()
    };
    let slow = Resource::new("notes://slow", "slow");
    let long = Resource::new("notes://long", "long");
    let server = server()
        .with_resource(slow, async |_| std::future::pending::<Result<&str, _>>().await)
        .unwrap()
        .with_resource(long, async |_| Ok("more than ten bytes"))
        .unwrap()
        .with_limits(limits);
    let mut lines = Lines::modern(server);
    for uri in ["notes://long", "notes://a%20long%20note/1"] {
        let error = lines.request("resources/read", json!({"uri": uri})).await;
        assert_eq!(error["code"], -32603);
        assert!(error["message"].as_str().unwrap().contains("the maximum is 10"), "{error}");
    }
    let review = json!({"name": "review", "arguments": {"path": "a"}});
    let error = lines.request("prompts/get", review).await;
    assert!(error["message"].as_str().unwrap().contains("the maximum is 10"), "{error}");
    let error = lines.request("resources/read", json!({"uri": "notes://slow"})).await;
    assert!(error["message"].as_str().unwrap().contains("did not end in time"), "{error}");
    lines.end().await;
}

#[test]
fn prompts_and_resources_that_cannot_be_served_are_rejected() {
    let server = || McpServer::new("test", "1", []).unwrap();
    let twice = prompts().into_iter().chain(prompts());
    let error = server().with_prompts(twice).unwrap_err();
    assert!(matches!(error, McpError::Duplicate { .. }), "{error}");
    let template = |uri: &str| {
        let template = Resource::new(uri, "note");
        server().with_resource_template(template, read_note()).unwrap_err().to_string()
    };
    for (uri, fault) in [
        ("{title}", "is not a URI"),
        ("notes://{title", "has no `}`"),
        ("notes://{name}", "is not a field of the tool"),
        ("notes://{page}", "a required field of the tool is not one of its variables"),
        ("notes://{title}/{title}", "it has a variable twice"),
        ("notes://{title}{page}", "nothing separates"),
    ] {
        assert!(template(uri).contains(fault), "{uri}: {}", template(uri));
    }
    let all = || Resource::new("notes://all", "notes");
    let server = server().with_resource(all(), async |_| Ok("")).unwrap();
    let error = server.with_resource(all(), async |_| Ok("")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the resource `notes://all` cannot be served: another resource has this URI"
    );
}

async fn client(server: McpServer) -> McpClientBuilder {
    let (url, _) = listen(server).await;
    McpClient::http(&url).unwrap()
}

#[tokio::test]
async fn a_client_lists_and_gets_prompts() {
    let remote = client(server()).await.connect().await.unwrap();
    let prompts = remote.prompts().await.unwrap();
    assert_eq!(prompts[0].name, "review");
    assert_eq!(prompts[0].arguments[0].description.as_deref(), Some("Path of the file."));
    assert!(prompts[0].arguments[0].required);
    let messages = remote.prompt("review", &[("path", "a.rs"), ("most", "2")]).await.unwrap();
    let text = "<untrusted_data>\nReview a.rs: Some(2), None.\n</untrusted_data>";
    assert_eq!(messages, [Message::user(text)]);
    let messages = remote.prompt("describe", &[]).await.unwrap();
    let Message::User { parts } = &*messages[1] else { panic!("{messages:?}") };
    assert!(matches!(parts[..], [Part::Image(_)]), "{parts:?}");
    let error = remote.prompt("review", &[]).await.unwrap_err();
    assert!(format!("{error:?}").contains("$.path: this field is missing"), "{error:?}");
}

#[tokio::test]
async fn a_client_lists_and_reads_resources() {
    let remote = client(server()).await.connect().await.unwrap();
    let resources = remote.resources().await.unwrap();
    assert_eq!(resources[0].media_type.as_deref(), Some("text/markdown"));
    let templates = remote.resource_templates().await.unwrap();
    assert_eq!(templates[0].uri, "notes://{title}/{page}");
    let contents = remote.read_resource("notes://all").await.unwrap();
    assert_eq!(contents[0].body, ResourceBody::from("Buy *tea*."));
    let contents = remote.read_resource("file:///logo.png").await.unwrap();
    assert_eq!(contents[0].body, ResourceBody::from(b"\x89PNG".to_vec()));
    let error = remote.read_resource("notes://nothing").await.unwrap_err();
    assert!(format!("{error:?}").contains("there is no resource with this URI"), "{error:?}");

    let small = client(server()).await.with_max_result_bytes(5).connect().await.unwrap();
    for error in [
        small.read_resource("notes://all").await.unwrap_err(),
        small.prompt("describe", &[]).await.unwrap_err(),
    ] {
        assert!(format!("{error:?}").contains("the maximum is 5"), "{error:?}");
    }
}

#[tokio::test]
async fn the_tool_of_resources_lists_and_reads_them_between_marks() {
    let cx = Context::default();
    let remote = client(server()).await.with_prefix("notes").connect().await.unwrap();
    let tool = remote.read_resource_tool().unwrap();
    assert_eq!((tool.name(), tool.effect()), ("notes_read_resource", Effect::Read));
    let call = async |arguments: &str| tool.call(arguments, &cx).await;
    let listed = call("{}").await.unwrap();
    assert!(listed.untrusted);
    let all = "<untrusted_data>\nnotes://all: All notes (text/markdown). Every note.\n";
    assert!(listed.text.starts_with(all), "{}", listed.text);
    assert!(
        listed.text.contains("notes://{title}/{page}: note. Read a note.\n"),
        "{}",
        listed.text
    );
    let read = call(r#"{"uri": "notes://all"}"#).await.unwrap();
    assert_eq!(read.text, "<untrusted_data>\nBuy *tea*.\n</untrusted_data>");
    let ToolOutput { parts, .. } = call(r#"{"uri": "file:///logo.png"}"#).await.unwrap();
    assert!(matches!(parts[..], [Part::Image(_)]), "{parts:?}");
    let error = call(r#"{"uri": "notes://nothing"}"#).await.unwrap_err();
    assert!(error.is_untrusted());
    assert!(error.for_model().contains("there is no resource with this URI"));
}

#[tokio::test]
async fn a_server_without_prompts_and_resources_has_empty_lists() {
    let server = McpServer::new("test", "1", []).unwrap();
    let remote = client(server).await.connect().await.unwrap();
    assert_eq!(remote.prompts().await.unwrap(), []);
    assert_eq!(remote.resources().await.unwrap(), []);
    let tool = remote.read_resource_tool().unwrap();
    let listed = tool.call("{}", &Context::default()).await.unwrap();
    assert!(listed.text.contains("There are no resources."), "{}", listed.text);
    let error = remote.prompt("review", &[]).await.unwrap_err();
    assert!(matches!(error, McpError::Request { method: "prompts/get", .. }), "{error:?}");
}
