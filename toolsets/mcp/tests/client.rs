//! `McpClient` with servers of this crate: over HTTP, and as a child process.

use std::sync::Arc;

use crate::support::{Lines, Seen, clients, listen, server};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolwright_mcp::{McpClient, McpError, McpServer};
use toolwright_module::error::Stage;
use toolwright_module::message::{Audio, Document, Image, Part};
use toolwright_module::{
    AnyModule, Context, Contract, Effect, Module, Signature, Tool, ToolOutput, from_fn,
};

fn named<'a>(tools: &'a [Tool], name: &str) -> &'a Tool {
    tools.iter().find(|tool| tool.name() == name).unwrap()
}

async fn over_http(seen: &Arc<Seen>) -> McpClient {
    let (url, _) = listen(server(seen)).await;
    McpClient::http(&url).unwrap().with_trusted_results().connect().await.unwrap()
}

async fn over_stdio() -> McpClient {
    McpClient::stdio(clients(), [""; 0]).with_trusted_results().connect().await.unwrap()
}

#[tokio::test]
async fn tools_are_imported_in_order_with_their_contracts() {
    for remote in [over_http(&Arc::default()).await, over_stdio().await] {
        let tools = remote.tools();
        let names: Vec<&str> = tools.iter().map(Tool::name).take(8).collect();
        let all = ["add", "store_note", "hello", "fail", "wait", "tell", "picture", "promise"];
        assert_eq!(names, all);
        assert_eq!(tools[0].contract().description(), "Add two numbers.");
        assert!(tools.iter().all(|tool| tool.effect() == Effect::Write));
        assert_eq!(remote.left_out().len(), 0);
    }
}

#[tokio::test]
async fn arguments_and_results_are_validated_against_the_servers_schemas() {
    let cx = Context::default();
    for remote in [over_http(&Arc::default()).await, over_stdio().await] {
        let tools = remote.tools();
        let sum = named(&tools, "add").call(r#"{"a": "2", "b": 3}"#, &cx).await.unwrap();
        assert_eq!(sum.text, "5");
        assert_eq!(sum.value().unwrap(), Some(json!({"result": 5})));

        let stored = named(&tools, "store_note").call(r#"{"title": "A"}"#, &cx).await.unwrap();
        assert_eq!(stored.text, "Stored 'A'.\n{\"title\":\"A\",\"replaced\":false}");

        let error = named(&tools, "add").call(r#"{"a": 5000}"#, &cx).await.unwrap_err();
        assert_eq!(error.stage(), Stage::Arguments);
        let message = error.for_model();
        let expected = "input of `add` does not fit: \
             $.a: expected an integer of at most 1000, got the number 5000";
        assert_eq!(message, expected);
    }
}

#[tokio::test]
async fn results_are_untrusted_by_default_and_values_for_programs_have_no_marks() {
    let (cx, seen) = (Context::default(), Arc::default());
    let (url, _) = listen(server(&seen)).await;
    let remote = McpClient::http(&url).unwrap().connect().await.unwrap();
    let tools = remote.tools();
    assert!(tools.iter().all(Tool::is_untrusted));
    let sum = named(&tools, "add").call(r#"{"a": 2, "b": 3}"#, &cx).await.unwrap();
    assert!(sum.untrusted);
    assert_eq!(sum.text, "<untrusted_data>\n5\n</untrusted_data>");
    assert_eq!(sum.value().unwrap(), Some(json!({"result": 5})));
    // What this program says is not marked.
    let error = named(&tools, "add").call(r#"{"a": 5000}"#, &cx).await.unwrap_err();
    assert!(!error.is_untrusted());
    let typed = remote.typed::<Sum>("add").unwrap();
    assert!(Tool::new(typed).unwrap().is_untrusted());

    // A server of this crate that passes the tools on sends the text with its marks, and the value
    // without.
    let (url, _) = listen(McpServer::new("gate", "1", tools).unwrap()).await;
    let gate = McpClient::http(&url).unwrap().with_trusted_results().connect().await.unwrap();
    let tools = gate.tools();
    let sum = named(&tools, "add").call(r#"{"a": 2, "b": 3}"#, &cx).await.unwrap();
    assert!(sum.untrusted, "a text with marks is untrusted");
    let expected = "<untrusted_data>\n5\n</untrusted_data>\n\
                    <untrusted_data>\n{\"result\":5}\n</untrusted_data>";
    assert_eq!(sum.text, expected);
    assert_eq!(sum.value().unwrap(), Some(json!({"result": 5})));
}

/// Add two numbers.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Sum {
    #[schemars(range(min = 0, max = 1000))]
    a: i64,
    b: i64,
}

impl Signature for Sum {
    type Output = i64;
}

/// A caller that works with a local and a remote module.
async fn sum(module: impl Module<Signature = Sum>) -> i64 {
    module.call(Sum { a: 2, b: 3 }, &Context::default()).await.unwrap()
}

#[tokio::test]
async fn a_remote_tool_can_replace_a_local_module() {
    let local = from_fn(async |Sum { a, b }: Sum| Ok(a + b));
    assert_eq!(sum(local).await, 5);
    for remote in [over_http(&Arc::default()).await, over_stdio().await] {
        let module = remote.typed::<Sum>("add").unwrap();
        assert_eq!(module.effect(), Effect::Write);
        let tool = Tool::new(remote.typed::<Sum>("add").unwrap()).unwrap();
        assert_eq!(tool.name(), "sum");
        let said = tool.call(r#"{"a": 2, "b": 3}"#, &Context::default()).await.unwrap();
        assert_eq!(said.text, "5");
        assert_eq!(sum(module).await, 5);
        assert_eq!(sum(AnyModule::new(remote.typed::<Sum>("add").unwrap())).await, 5);
    }
}

#[tokio::test]
async fn typed_reports_all_differences_from_the_signature() {
    let remote = over_http(&Arc::default()).await;

    /// Store a note.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct StoreNote {
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<u8>,
    }

    impl Signature for StoreNote {
        type Output = bool;
    }

    let error = remote.typed::<StoreNote>("store_note").unwrap_err();
    assert!(matches!(&error, McpError::Differs { differences, .. } if differences.len() > 1));
    insta::assert_snapshot!(error, @"the server's tool `store_note` does not fit the signature `store_note`: input $.title: ours: may be missing; theirs: is required; input $.title: ours: is an integer or null; theirs: takes a string; output $: ours: takes true or false; theirs: is an object with `title`, `replaced`");
    let error = remote.typed::<StoreNote>("store").unwrap_err();
    assert!(matches!(error, McpError::NoSuchTool { .. }), "{error}");
}

#[tokio::test]
async fn tools_without_an_output_schema_fit_string_and_unit_outputs() {
    let remote = over_http(&Arc::default()).await;

    /// Draw.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Draw {}

    impl Signature for Draw {
        type Output = String;
    }

    /// Draw without a result.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct DrawOnly {}

    impl Signature for DrawOnly {
        type Output = ();
    }

    let drawn =
        remote.typed::<Draw>("picture").unwrap().call(Draw {}, &Context::default()).await.unwrap();
    assert!(drawn.starts_with("A house."), "{drawn}");
    remote
        .typed::<DrawOnly>("picture")
        .unwrap()
        .call(DrawOnly {}, &Context::default())
        .await
        .unwrap();
}

/// Count the atoms of a thing.
#[derive(Serialize, Deserialize, JsonSchema)]
struct CountAtoms {}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Atoms {
    atoms: u128,
}

impl Signature for CountAtoms {
    type Output = Atoms;
}

/// A value that JSON of most programs cannot have is in the text, which has each digit.
#[tokio::test]
async fn an_integer_with_more_than_64_bits_is_a_result_and_no_error() {
    let atoms = Atoms { atoms: u128::MAX };
    let count = Tool::new(from_fn(async |_: CountAtoms| Ok(Atoms { atoms: u128::MAX }))).unwrap();
    let server = || McpServer::new("test", "1", [count.clone()]).unwrap();
    let mut lines = Lines::begun(server()).await;
    let result = lines.call("count_atoms", json!({})).await;
    assert_eq!(result["isError"], false, "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Atoms>(text).unwrap(), atoms);

    // A tool that was created at run time has its value as text.
    let contract = Contract::of::<CountAtoms>().unwrap();
    let passed = Tool::dynamic(contract, Effect::Read, async |_, _| {
        Ok(ToolOutput::text_only(r#"{"atoms":12345678901234567890123}"#))
    });
    let mut lines = Lines::begun(McpServer::new("test", "1", [passed]).unwrap()).await;
    let result = lines.call("count_atoms", json!({})).await;
    assert_eq!((&result["isError"], &result["structuredContent"]), (&json!(false), &json!(null)));

    let (url, _) = listen(server()).await;
    let remote = McpClient::http(&url).unwrap().with_trusted_results().connect().await.unwrap();
    let module = remote.typed::<CountAtoms>("count_atoms").unwrap();
    assert_eq!(module.call(CountAtoms {}, &Context::default()).await.unwrap(), atoms);
}

/// Plot a sine.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Plot {}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Plotted {
    title: String,
    pages: Vec<Document>,
    image: Image,
    thumbnail: Image,
    sound: Option<Audio>,
}

impl Signature for Plot {
    type Output = Plotted;
}

fn plotted() -> Plotted {
    Plotted {
        // A text that looks like a place, without a part.
        title: "[image 1]".to_owned(),
        pages: vec![Document::bytes("application/pdf", *b"%PDF")],
        image: Image::url("https://example.com/a.png"),
        thumbnail: Image::bytes("image/png", *b"\x89PNG"),
        sound: Some(Audio::bytes("audio/wav", *b"RIFF")),
    }
}

fn plotter(plotted: Plotted) -> McpServer {
    let plot = from_fn(move |_: Plot| {
        let plotted = plotted.clone();
        async { Ok(plotted) }
    });
    McpServer::new("test", "1", [Tool::new(plot).unwrap()]).unwrap()
}

/// The content is in blocks, because hosts send structured values to models as JSON.
#[tokio::test]
async fn images_of_a_typed_tool_are_blocks_and_places_in_the_structured_value() {
    let only = Plotted { image: plotted().thumbnail, pages: Vec::new(), sound: None, ..plotted() };
    let mut lines = Lines::begun(plotter(only)).await;
    let result = lines.call("plot", json!({})).await;
    insta::assert_snapshot!(result, @r#"{"content":[{"type":"text","text":"{\"title\":\"[image 1]\",\"pages\":[],\"image\":\"[image 1]\",\"thumbnail\":\"[image 2]\",\"sound\":null}"},{"type":"image","data":"iVBORw==","mimeType":"image/png"},{"type":"image","data":"iVBORw==","mimeType":"image/png"}],"structuredContent":{"title":"[image 1]","pages":[],"image":"[image 1]","thumbnail":"[image 2]","sound":null},"isError":false}"#);

    let mut lines = Lines::begun(plotter(plotted())).await;
    let result = lines.call("plot", json!({})).await;
    insta::assert_snapshot!(result["structuredContent"], @r#"{"title":"[image 1]","pages":["[document 1]"],"image":"https://example.com/a.png","thumbnail":"[image 1]","sound":"[audio 1]"}"#);
    let kinds = result["content"].as_array().unwrap().iter().map(|block| &block["type"]);
    let kinds: Vec<_> = kinds.collect();
    // The text for models, the JSON of the structured value, and the blocks of the parts. The
    // address is a text.
    assert_eq!(kinds, ["text", "text", "resource", "text", "image", "audio"]);
}

#[tokio::test]
async fn images_of_a_remote_tool_come_back_as_they_were() {
    let (url, _) = listen(plotter(plotted())).await;
    let remote = McpClient::http(&url).unwrap().with_trusted_results().connect().await.unwrap();
    let module = remote.typed::<Plot>("plot").unwrap();
    assert_eq!(module.call(Plot {}, &Context::default()).await.unwrap(), plotted());

    // As a tool again, with the types of this program.
    let cx = Context::default();
    let tool = Tool::new(module).unwrap();
    let output = tool.call("{}", &cx).await.unwrap();
    assert_eq!(output.parts.len(), 4);
    assert!(output.text.contains(r#""image":"[image 1]","thumbnail":"[image 2]""#));

    // Without the types: the parts that have content, and the server's text.
    let output = remote.tools()[0].call("{}", &cx).await.unwrap();
    let Plotted { pages, thumbnail, sound, .. } = plotted();
    let parts: [Part; 3] = [pages[0].clone().into(), thumbnail.into(), sound.unwrap().into()];
    assert_eq!(output.parts, parts);
}

#[tokio::test]
async fn a_place_without_an_image_is_a_broken_promise() {
    let output = json!({"type": "object", "properties": {
        "title": {"type": "string"},
        "pages": {"type": "array", "items": {"type": "string"}},
        "image": {"type": "string"},
        "thumbnail": {"type": "string"},
        "sound": {"type": ["string", "null"]},
    }, "required": ["title", "pages", "image", "thumbnail", "sound"]});
    let contract = Contract::dynamic(
        "plot",
        "Plot.",
        json!({"type": "object", "properties": {}}),
        Some(output),
    );
    let forged = Tool::dynamic(contract.unwrap(), Effect::Read, async |_, _| {
        let value = json!({"title": "", "pages": [], "image": "[image 7]", "thumbnail": "x:", "sound": null});
        Ok(ToolOutput::text_only("").with_value(value))
    });
    let (url, _) = listen(McpServer::new("test", "1", [forged]).unwrap()).await;
    let remote = McpClient::http(&url).unwrap().with_trusted_results().connect().await.unwrap();
    let module = remote.typed::<Plot>("plot").unwrap();
    let error = module.call(Plot {}, &Context::default()).await.unwrap_err();
    insta::assert_snapshot!(format!("{error:#}"), @r"
    the result of the server's tool `plot` does not match its output schema
    stage: decoding
    cause: output of `plot` does not fit: $.image: the result has no image for `[image 7]`
    ");
}

#[tokio::test]
async fn settings_of_a_child_process_are_rejected_over_http() {
    let web = || McpClient::http("http://127.0.0.1:9/mcp").unwrap();
    for client in [web().with_env("KEY", "hunter2"), web().with_folder("/")] {
        let error = client.connect().await.unwrap_err();
        assert!(matches!(error, McpError::Url { .. }), "{error}");
        assert!(error.to_string().contains("`with_token`"), "{error}");
        assert!(!format!("{error:?}").contains("hunter2"));
    }
}
