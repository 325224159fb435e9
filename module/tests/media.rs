//! Images, documents and audio in signatures: they reach a model as parts, with JSON around them.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_module::error::Stage;
use toolwright_module::message::{Audio, Document, Image, Part, ToolResult};
use toolwright_module::model::Capabilities;
use toolwright_module::predict::Example;
use toolwright_module::testing::Scripted;
use toolwright_module::{
    ChainOfThought, Context, Contract, Dialect, LanguageModel, Message, Module, Predict, Reply,
    Result, Signature, Tool, ToolCall, from_fn,
};
use toolwright_signature::{ContractError, SchemaFault, Side};

/// Name the animal.
#[derive(Serialize, Deserialize, JsonSchema)]
struct NameAnimal {
    /// The animal.
    photo: Image,
    hint: String,
}

impl Signature for NameAnimal {
    type Output = String;
}

fn pixel() -> Image {
    Image::bytes("image/png", [1, 2, 3])
}

fn url() -> Image {
    Image::url("https://example.com/a.png")
}

fn question() -> NameAnimal {
    // The hint looks like a place, and stays a text.
    NameAnimal { photo: pixel(), hint: "[image 1]".into() }
}

fn says(text: &str) -> impl Fn(&toolwright_module::Request) -> Result<Reply> + Send + Sync {
    let text = text.to_owned();
    move |_| Ok(Reply::text(text.clone()))
}

fn parts_of(message: &Message) -> &[Part] {
    match message {
        Message::User { parts } => parts,
        other => panic!("not a user message: {other:?}"),
    }
}

async fn call(tool: &Tool) -> toolwright_module::ToolOutput {
    tool.call("{}", &Context::default()).await.unwrap()
}

fn fault(error: &ContractError) -> Option<SchemaFault> {
    error.schema_fault()
}

#[tokio::test]
async fn an_image_in_the_input_of_predict_is_a_part_of_the_message() {
    let model = Arc::new(Scripted::new(says("\"a cat\"")));
    let name = Predict::<NameAnimal>::new(model.clone()).unwrap();
    assert_eq!(name.call(question(), &Context::default()).await.unwrap(), "a cat");
    let messages = &model.requests()[0].messages;
    let [Message::System { text }, asked] = [&*messages[0], &*messages[1]] else { panic!() };
    // The schema has no marker.
    assert!(text.contains(r#""photo":{"type":"string","description":"The animal."}"#), "{text}");
    let json = r#"{"photo":"[image 1]","hint":"[image 1]"}"#;
    assert_eq!(parts_of(asked), [json.into(), pixel().into()]);
}

/// Sort the files.
#[derive(Serialize, Deserialize, JsonSchema)]
struct SortFiles {
    list: Vec<Image>,
    by_name: BTreeMap<String, Document>,
    none: Option<Audio>,
    some: Option<Audio>,
    untagged: Untagged,
    tagged: Tagged,
    #[serde(flatten)]
    flat: Flat,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Untagged {
    Image { image: Image },
    Text { text: String },
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind")]
enum Tagged {
    Photo { image: Image },
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Flat {
    cover: Image,
}

impl Signature for SortFiles {
    type Output = u8;
}

#[tokio::test]
async fn media_are_found_wherever_serde_serializes_them() {
    let model = Arc::new(Scripted::new(says("1")));
    let sort = Predict::<SortFiles>::new(model.clone()).unwrap();
    let note = Document::bytes("text/plain", *b"Note.");
    let input = SortFiles {
        list: vec![pixel(), url()],
        by_name: BTreeMap::from([("n".into(), note.clone())]),
        none: None,
        some: Some(Audio::file("scripted", "a1")),
        untagged: Untagged::Image { image: url() },
        tagged: Tagged::Photo { image: pixel() },
        flat: Flat { cover: url() },
    };
    sort.call(input, &Context::default()).await.unwrap();
    let request = &model.requests()[0];
    let [Part::Text(json), parts @ ..] = parts_of(&request.messages[1]) else { panic!() };
    let expected = json!({
        "list": ["[image 1]", "[image 2]"],
        "by_name": {"n": "[document 1]"},
        "none": null,
        "some": "[audio 1]",
        "untagged": {"image": "[image 3]"},
        "tagged": {"kind": "Photo", "image": "[image 4]"},
        "cover": "[image 5]",
    });
    assert_eq!(serde_json::from_str::<Value>(json).unwrap(), expected);
    let images = |image: Image| Part::from(image);
    let audio = Audio::file("scripted", "a1").into();
    let order = [
        images(pixel()),
        images(url()),
        note.into(),
        audio,
        url().into(),
        pixel().into(),
        url().into(),
    ];
    assert_eq!(parts, order);
}

#[tokio::test]
async fn an_example_of_predict_has_its_image() {
    let model = Arc::new(Scripted::new(says("\"a cat\"")));
    let example = Example::new(NameAnimal { photo: url(), hint: String::new() }, "a dog".into());
    let name = Predict::<NameAnimal>::new(model.clone()).unwrap();
    let name = name.with_examples([example]).unwrap();
    name.call(question(), &Context::default()).await.unwrap();
    let messages = &model.requests()[0].messages;
    assert_eq!(parts_of(&messages[1])[1], url().into());
    assert_eq!(parts_of(&messages[3])[1], pixel().into());
}

#[test]
fn an_example_without_reasoning_cannot_have_an_image() {
    let think = ChainOfThought::<NameAnimal>::new(Scripted::new(says(""))).unwrap();
    let example = || Example::new(question(), "a dog".into());
    assert!(think.clone().with_examples([example().with_reasoning("It barks.")]).is_ok());
    let error = think.with_examples([example()]).unwrap_err();
    insta::assert_snapshot!(error, @"the input schema of `name_animal` cannot be used at $.photo: an example with this image needs a reasoning; add one");
}

/// Plot a sine.
#[derive(Serialize, Deserialize, JsonSchema)]
struct PlotSine {}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Plot {
    title: String,
    image: Image,
}

impl Signature for PlotSine {
    type Output = Plot;
}

fn plot(image: Image) -> Tool {
    let plot = move |_: PlotSine| {
        let image = image.clone();
        async { Ok(Plot { title: "[image 2]".into(), image }) }
    };
    Tool::new(from_fn(plot)).unwrap()
}

#[tokio::test]
async fn an_image_in_a_tools_output_is_a_part_of_the_result() {
    let output = call(&plot(pixel())).await;
    assert_eq!(output.text, r#"{"title":"[image 2]","image":"[image 1]"}"#);
    assert_eq!(output.parts, [pixel().into()]);
    let complete = json!({"title": "[image 2]", "image": "data:image/png;base64,AQID"});
    assert_eq!(output.value().unwrap(), Some(complete.clone()));
    let beside = json!({"title": "[image 2]", "image": "[image 1]"});
    assert_eq!(output.value_beside_parts().unwrap(), Some(beside));

    let (result, _) = ToolResult::of(&ToolCall::new("c", "plot_sine", "{}"), Ok(output));
    assert_eq!(result.value.as_ref(), Some(&complete));
    assert_eq!(result.parts, [pixel().into()]);
    let read: Plot = serde_json::from_value(result.value.unwrap()).unwrap();
    assert_eq!(read.image, pixel());
}

#[tokio::test]
async fn an_address_stays_in_the_value_beside_parts() {
    let output = call(&plot(url())).await;
    assert_eq!(output.text, r#"{"title":"[image 2]","image":"[image 1]"}"#);
    assert_eq!(output.parts, [url().into()]);
    assert_eq!(output.value().unwrap(), output.value_beside_parts().unwrap());
}

/// Take a photo.
#[derive(Serialize, Deserialize, JsonSchema)]
struct TakePhoto {}

impl Signature for TakePhoto {
    type Output = Image;
}

/// Scan a page.
#[derive(Serialize, Deserialize, JsonSchema)]
struct ScanPage {}

impl Signature for ScanPage {
    type Output = (Document, u8);

    fn render((_, page): &(Document, u8)) -> Result<String, ContractError> {
        Ok(format!("Page {page} is scanned."))
    }
}

#[tokio::test]
async fn an_output_may_be_an_image_itself_or_have_a_text_of_its_own() {
    let photo = Tool::new(from_fn(async |_: TakePhoto| Ok(pixel()))).unwrap();
    let output = call(&photo).await;
    assert_eq!((&*output.text, &*output.parts), ("[image 1]", &[pixel().into()][..]));

    let page = Document::bytes("application/pdf", *b"%PDF");
    let scanned = page.clone();
    let scan = move |_: ScanPage| {
        let page = scanned.clone();
        async { Ok((page, 3)) }
    };
    let output = call(&Tool::new(from_fn(scan)).unwrap()).await;
    assert_eq!(output.text, "Page 3 is scanned.");
    assert_eq!(output.parts, [page.into()]);
}

#[test]
fn what_a_model_cannot_write_is_refused() {
    let name = from_fn(async |_: NameAnimal| Ok("a cat".to_owned()));
    let error = Tool::new(name).unwrap_err();
    assert_eq!(fault(&error), Some(SchemaFault::Media));
    insta::assert_snapshot!(error, @"the input schema of `name_animal` cannot be used at $.photo: it is an image, which a model cannot write; take a URL as a `String`");

    let model = || Scripted::new(says(""));
    let error = Predict::<PlotSine>::new(model()).unwrap_err();
    insta::assert_snapshot!(error, @"the output schema of `plot_sine` cannot be used at $.image: it is an image, which a model cannot write; take a URL as a `String`");
    assert_eq!(fault(&Predict::<PlotSine>::from_context().unwrap_err()), fault(&error));
    let error = ChainOfThought::<PlotSine>::new(model()).unwrap_err();
    assert!(error.to_string().contains("$.output.image"), "{error}");

    let contract = Contract::of::<PlotSine>().unwrap();
    for dialect in Dialect::ALL.iter().filter(|dialect| **dialect != Dialect::Mcp) {
        assert!(contract.lower_output(*dialect).is_err(), "{dialect}");
        assert!(contract.finish().unwrap().lower(*dialect).is_err(), "{dialect}");
    }
}

#[tokio::test]
async fn what_the_model_does_not_take_is_refused() {
    let blind = || {
        let capabilities =
            Capabilities { documents: true, ..Capabilities::new(Dialect::JsonSchema2020) };
        Scripted::new(says("\"a cat\"")).with_capabilities(capabilities)
    };
    let error = Predict::<NameAnimal>::new(blind()).unwrap_err();
    insta::assert_snapshot!(error, @"the input schema of `name_animal` cannot be used at $.photo: it is an image, and the model does not accept images; use a model that does, or a `String` with a URL");

    let name = Predict::<NameAnimal>::from_context().unwrap();
    let cx = Context::default().with_model(Arc::new(blind()) as Arc<dyn LanguageModel>);
    let error = name.call(question(), &cx).await.unwrap_err();
    assert_eq!(error.stage(), Stage::Setup);

    let capabilities = blind().capabilities();
    let (plots, scans) = (plot(url()), Contract::of::<ScanPage>().unwrap());
    assert!(capabilities.check_media(plots.contract(), Side::Output).is_err());
    assert!(capabilities.check_media(&scans, Side::Output).is_ok());
}

#[test]
fn the_marker_stays_in_the_contract() {
    let contract = Contract::of::<PlotSine>().unwrap();
    let [media] = contract.media(Side::Output) else { panic!() };
    assert_eq!((media.path.as_str(), media.kind.to_string().as_str()), ("$.image", "image"));
    let tool = contract.tool(Dialect::Mcp).unwrap();
    let image = json!({"type": "string", "description": "An image, beside this JSON."});
    assert_eq!(tool["outputSchema"]["properties"]["image"], image);
    let all = format!("{contract:?}{}", serde_json::to_string(&contract).unwrap());
    assert!(!all.contains("x-part"), "{all}");
    // A server's schema is not believed.
    let foreign =
        json!({"type": "object", "properties": {"a": {"type": "string", "x-part": "image"}}});
    let foreign = Contract::dynamic("foreign", "Foreign.", foreign, None).unwrap();
    assert!(foreign.media(Side::Input).is_empty());
}

/// Draw a line and its mirror image.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Mirror {}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Mirrored {
    line: Image,
    mirrored: Image,
}

impl Signature for Mirror {
    type Output = Mirrored;
}

#[tokio::test]
async fn the_numbers_beside_parts_count_content_only() {
    let mirror = from_fn(async |_: Mirror| {
        let line = Image::url("https://example.com/a.png");
        Ok(Mirrored { line, mirrored: Image::bytes("image/png", *b"b") })
    });
    let output = Tool::new(mirror).unwrap().call("{}", &Context::default()).await.unwrap();
    let beside = output.value_beside_parts().unwrap().unwrap();
    assert_eq!(beside, json!({"line": "https://example.com/a.png", "mirrored": "[image 1]"}));
    let read = || serde_json::from_value::<Mirrored>(beside.clone()).unwrap();
    // What a client makes of the content blocks.
    let content = &output.parts[1..];
    let read = toolwright_module::runner::read_with_parts(content, read);
    assert_eq!(read.mirrored, Image::bytes("image/png", *b"b"));
}
