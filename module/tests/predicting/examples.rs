//! Examples: the form in which they are sent, and examples that are rejected.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::model::Capabilities;
use toolwright_module::predict::{Example, OutputMode};
use toolwright_module::{ChainOfThought, Context, Message, Module, Predict, Reply, Signature};

use crate::support::{Asked, calling, finish, plain, replies, structured};

/// Count the words of a text.
#[derive(Serialize, Deserialize, JsonSchema)]
struct CountWords {
    text: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Counts {
    /// How often each word occurs.
    words: BTreeMap<String, u32>,
    /// How hard the text is.
    #[schemars(range(min = 1, max = 5))]
    level: u8,
    /// How sure this is.
    sure: f32,
}

impl Signature for CountWords {
    type Output = Counts;
}

fn input(text: &str) -> CountWords {
    CountWords { text: text.to_owned() }
}

fn counts(words: &[(&str, u32)]) -> Counts {
    let words = words.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect();
    Counts { words, level: 1, sure: 0.1 }
}

fn examples() -> [Example<CountWords>; 3] {
    [
        Example::new(input("a b a"), counts(&[("a", 2), ("b", 1)]))
            .with_reasoning("`a` stands twice."),
        Example::new(input(""), counts(&[])),
        Example::new(input("c"), counts(&[("c", 1)])).with_reasoning("One word."),
    ]
}

const ANSWER: &str = r#"{"words": {"d": 1}, "level": 1, "sure": 1}"#;

fn reply(capabilities: Capabilities, text: &str) -> Reply {
    match OutputMode::from(capabilities) {
        OutputMode::Tool => finish(text),
        _ => Reply::text(text),
    }
}

async fn predicted(capabilities: Capabilities) -> Asked {
    let (model, asked) = replies(capabilities, vec![reply(capabilities, ANSWER); 2]);
    let module = Predict::<CountWords>::new(model).unwrap().with_examples(examples()).unwrap();
    for text in ["d", "d d"] {
        module.call(input(text), &Context::default()).await.unwrap();
    }
    asked
}

async fn thought(capabilities: Capabilities) -> Asked {
    let answer = format!(r#"{{"reasoning": "d.", "output": {ANSWER}}}"#);
    let (model, asked) = replies(capabilities, vec![reply(capabilities, &answer); 2]);
    let module = ChainOfThought::<CountWords>::new(model).unwrap();
    let module = module.with_examples(examples()).unwrap();
    for text in ["d", "d d"] {
        module.call(input(text), &Context::default()).await.unwrap();
    }
    asked
}

fn first(asked: &Asked) -> String {
    crate::support::show(&asked.requests()[0])
}

#[tokio::test]
async fn predict_sends_examples_as_turns_in_the_requested_shape() {
    insta::assert_snapshot!("predict_sends_examples_prompted", first(&predicted(plain()).await));
    let structured = first(&predicted(structured()).await);
    insta::assert_snapshot!("predict_sends_examples_beside_a_schema", structured);
    insta::assert_snapshot!("predict_sends_examples_as_calls", first(&predicted(calling()).await));
}

#[tokio::test]
async fn chain_of_thought_lists_examples_without_reasoning_and_sends_the_others_as_turns() {
    let prompted = first(&thought(plain()).await);
    insta::assert_snapshot!("chain_of_thought_sends_examples_prompted", prompted);
    let structured = first(&thought(structured()).await);
    insta::assert_snapshot!("chain_of_thought_sends_examples_beside_a_schema", structured);
    let calls = first(&thought(calling()).await);
    insta::assert_snapshot!("chain_of_thought_sends_examples_as_calls", calls);
}

#[tokio::test]
async fn all_calls_have_the_same_prompt_before_the_input() {
    for capabilities in [plain(), structured(), calling()] {
        for asked in [predicted(capabilities).await, thought(capabilities).await] {
            let [one, other] = &asked.requests()[..] else { panic!("asked twice") };
            let same = one.messages.len() - 1;
            assert_eq!(one.messages[..same], other.messages[..same]);
            assert_ne!(one.messages[same], other.messages[same]);
            assert_eq!(one.tools, other.tools);
        }
    }
}

#[tokio::test]
async fn new_examples_replace_those_of_the_same_module_only() {
    let (model, asked) = replies(plain(), vec![Reply::text(ANSWER); 2]);
    let module = Predict::<CountWords>::new(model).unwrap().with_examples(examples()).unwrap();
    let bare = module.clone().with_examples([]).unwrap().with_instructions("Be quick.");
    bare.call(input("d"), &Context::default()).await.unwrap();
    module.call(input("d"), &Context::default()).await.unwrap();
    let counts: Vec<usize> = asked.requests().iter().map(|one| one.messages.len()).collect();
    assert_eq!(counts, [2, 8]);
}

#[test]
fn an_example_that_does_not_fit_its_schema_is_rejected_with_the_path() {
    let wrong = || Example::new(input("a"), Counts { level: 9, ..counts(&[]) });
    let (model, _) = replies(plain(), []);
    let error = Predict::<CountWords>::new(model).unwrap().with_examples([wrong()]).unwrap_err();
    insta::assert_snapshot!(error, @"output of `count_words` does not fit: $.level: expected an integer from 1 to 5, got the number 9");
    // The example is wrong for any model.
    let module = ChainOfThought::<CountWords>::from_context().unwrap();
    let error = module.with_examples([wrong()]).unwrap_err();
    insta::assert_snapshot!(error, @"output of `count_words` does not fit: $.output.level: expected an integer from 1 to 5, got the number 9");
}

/// Name the parts.
#[derive(Serialize, Deserialize, JsonSchema)]
struct NameParts {}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Parts {
    parts: Option<Vec<String>>,
    #[serde(default = "usual", skip_serializing_if = "is_usual")]
    unit: String,
}

fn usual() -> String {
    "piece".to_owned()
}

fn is_usual(unit: &String) -> bool {
    *unit == usual()
}

impl Signature for NameParts {
    type Output = Parts;
}

#[tokio::test]
async fn omitted_fields_are_null_in_a_strict_dialect() {
    let (model, asked) =
        replies(structured(), [Reply::text(r#"{"parts": null, "unit": "piece"}"#)]);
    let module = Predict::<NameParts>::new(model).unwrap();
    let example = Example::new(NameParts {}, Parts { parts: None, unit: usual() });
    let module = module.with_examples([example]).unwrap();
    module.call(NameParts {}, &Context::default()).await.unwrap();
    insta::assert_snapshot!(asked.shown());
}

#[tokio::test]
async fn each_call_of_an_example_has_a_unique_id_of_nine_characters() {
    let (model, asked) = replies(calling(), [finish(ANSWER)]);
    let examples = (0..1001).map(|_| Example::new(input("c"), counts(&[("c", 1)])));
    let module = Predict::<CountWords>::new(model).unwrap().with_examples(examples).unwrap();
    module.call(input("d"), &Context::default()).await.unwrap();
    let request = &asked.requests()[0];
    let ids = request.messages.iter().filter_map(|message| match &**message {
        Message::Tool(result) => Some(result.id.as_str()),
        _ => None,
    });
    let ids: Vec<&str> = ids.collect();
    let strict = |id: &&str| id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric());
    assert_eq!(ids.iter().find(|id| !strict(id)), None);
    let different: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!((ids.len(), different.len()), (1001, 1001));
}
