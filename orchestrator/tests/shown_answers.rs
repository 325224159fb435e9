//! The typed answer that the events of a run show, against the answer that the run returns.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use proptest::prelude::*;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_module::event::{Event, EventKind};
use toolwright_module::hook::{AskNext, Hook};
use toolwright_module::message::ReplyPart;
use toolwright_module::model::{BoxFuture, Capabilities, Delta, Request};
use toolwright_module::{Context, Dialect, Error, LanguageModel, Reply, Result, ToolCall};
use toolwright_orchestrator::perform::{Replay, with_performer};
use toolwright_orchestrator::{Agent, Finished, Task};
use toolwright_signature::{Field, Partial};

use crate::support::{look, soon};

/// A letter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Letter {
    to: String,
    pages: u32,
    lines: Vec<String>,
    #[serde(default)]
    copies: u32,
    note: Option<String>,
}

/// A type of answer, with the path of its value in the text that is shown.
trait Answer: Debug + PartialEq + Serialize + DeserializeOwned + JsonSchema + Send + Sync {
    const AT: &'static str;
    /// The value in all forms in which a model may write it.
    const WRITTEN: &'static [&'static str];
    /// Another value.
    const OTHER: &'static str;
}

impl Answer for Letter {
    const AT: &'static str = "$";
    const WRITTEN: &'static [&'static str] = &[
        r#"{"to": "Ada", "pages": 2, "lines": ["a", "b"]}"#,
        r#"{"to": "Ada", "pages": 2, "lines": ["a", "b"],}"#,
        r#"{"to": "Ada", "pages": 2, "lines": ["a", "b",]}"#,
        r#"{"to": "Ada", "pages": "2", "lines": ["a", "b"]}"#,
        r#"{"to": "Ada", "pages": 2.0, "lines": ["a", "b"]}"#,
        r#"{"to": "Ada", "Pages": 2, "lines": ["a", "b"]}"#,
        r#"{"to": "Ada", "pages": 2, "lines": ["a", "b"], "copies": null, "note": null}"#,
        r#"{"to": "Ada", "pages": 2, "lines": ["a", "b"], "Note": "n"}"#,
        r#"{"to": "Ada", "pages": 2, "lines": ["a", "b"], "mood": "good"}"#,
        r#"{"arguments": {"to": "Ada", "pages": 2, "lines": ["a", "b"]}}"#,
        r#"{"name": "finish", "arguments": {"to": "Ada", "pages": 2, "lines": ["a", "b"]}}"#,
        r#"{"letter": {"to": "Ada", "pages": 2, "lines": ["a", "b"]}}"#,
        r#"{'to': 'Ada', 'pages': 2, 'lines': ['a', 'b']}"#,
        r#"{to: "Ada", pages: 2, lines: ["a", "b"]}"#,
        r#"{"to": "Ada", "pages": 2, "lines": ["a", "b"]}{"to": "Ada", "pages": 2, "lines": ["a", "b"]}"#,
        r#""{\"to\": \"Ada\", \"pages\": 2, \"lines\": [\"a\", \"b\"]}""#,
        "```json\n{\"to\": \"Ada\", \"pages\": 2, \"lines\": [\"a\", \"b\"]}\n```",
        "Here: {\"to\": \"Ada\", \"pages\": 2, \"lines\": [\"a\", \"b\"]}",
        "<think>{\"to\": \"Bob\"}</think>{\"to\": \"Ada\", \"pages\": 2, \"lines\": [\"a\", \"b\"]}",
        r#"[] and {"to": "Ada", "pages": 2, "lines": ["a", "b"]}"#,
        r#"{"to": "Ada", "pages": 2, "lines": "a"}"#,
        r#"{"to": "Ada"}"#,
    ];
    const OTHER: &'static str = r#"{"to": "Bob", "pages": 7, "lines": []}"#;
}

impl Answer for Vec<u32> {
    const AT: &'static str = "result";
    const WRITTEN: &'static [&'static str] = &[
        r#"{"result": [3, 4]}"#,
        r#"{"result": [3, 4],}"#,
        r#"{"result": ["3", 4]}"#,
        r#"{"result": [3, 4], "note": "n"}"#,
        r#"{"Result": [3, 4]}"#,
        r#"{"answer": [3, 4]}"#,
        r#"{"result": {"result": [3, 4]}}"#,
        r#"{"result": "[3, 4]"}"#,
        "[3, 4]",
        "[3, 4,]",
        "It is [3, 4]",
        r#"{"result": "many"}"#,
    ];
    const OTHER: &'static str = r#"{"result": [9]}"#;
}

/// How a model gives an answer.
#[derive(Debug, Clone, Copy)]
enum Given {
    Call,
    /// By a call with the name in a model's own notation.
    OtherName,
    Text,
    /// By two calls, whose arguments are the same.
    Twice,
    /// Beside a call of another tool, so that it does not count.
    BesideACall,
    /// By a call that is marked as incomplete.
    Incomplete,
}

/// What a stream has before the whole reply.
#[derive(Debug, Clone, Copy)]
enum Streamed {
    /// The pieces of the reply, each of this many characters.
    Pieces(usize),
    /// The first pieces, without the rest.
    Half,
    /// The pieces of another answer.
    Other,
    /// The arguments twice.
    Repeated,
    /// `{}` before the arguments.
    AfterEmpty,
    Nothing,
}

/// One reply of the script.
#[derive(Debug, Clone, Copy)]
struct Said {
    text: &'static str,
    given: Given,
    streamed: Streamed,
}

impl Said {
    fn reply(self, nth: usize) -> Reply {
        let id = nth.to_string();
        let call = |name: &str| ToolCall::new(id.clone(), name, self.text);
        match self.given {
            Given::Call => Reply::calls([call("finish")]),
            Given::OtherName => Reply::calls([call("functions.finish")]),
            Given::Text => Reply::text(self.text),
            Given::Twice => {
                Reply::calls([call("finish"), ToolCall::new("again", "finish", self.text)])
            }
            Given::BesideACall => Reply::calls([
                call("finish"),
                ToolCall::new("beside", "look", r#"{"place": "desk"}"#),
            ]),
            Given::Incomplete => {
                let mut call = call("finish");
                call.incomplete = true;
                Reply::calls([call])
            }
        }
    }

    fn deltas(self, nth: usize, other: &str) -> Vec<Delta> {
        let reply = self.reply(nth);
        let mut deltas = Vec::new();
        for (index, part) in reply.parts.iter().enumerate() {
            let (name, whole) = match part {
                ReplyPart::Text(text) => (None, text.text.clone()),
                ReplyPart::Call(call) => (Some(call.name.clone()), call.arguments.clone()),
                _ => continue,
            };
            let mut add = |text: &str, size: usize| {
                let letters: Vec<char> = text.chars().collect();
                deltas.extend(letters.chunks(size.max(1)).map(|piece| {
                    let text: String = piece.iter().collect();
                    match &name {
                        None => Delta::Text(text),
                        Some(name) => Delta::Call { index, name: name.clone(), arguments: text },
                    }
                }));
            };
            match self.streamed {
                Streamed::Pieces(size) => add(&whole, size),
                Streamed::Half => {
                    let half: String = whole.chars().take(whole.chars().count() / 2).collect();
                    add(&half, 4);
                }
                Streamed::Other => add(other, 5),
                Streamed::Repeated => [&whole, &whole].iter().for_each(|text| add(text, 9)),
                Streamed::AfterEmpty => ["{}", &whole].iter().for_each(|text| add(text, 9)),
                Streamed::Nothing => {}
            }
        }
        deltas.push(Delta::Done(Box::new(reply)));
        deltas
    }
}

/// A model that streams these deltas, one list for each request.
struct Streams {
    dialect: Dialect,
    replies: Mutex<VecDeque<Vec<Delta>>>,
}

impl LanguageModel for Streams {
    fn name(&self) -> &str {
        "streams"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(self.dialect)
    }

    fn generate<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        // Without a listener.
        let last = self.replies.lock().unwrap().pop_front().expect("one more reply").pop();
        Box::pin(async move {
            match last {
                Some(Delta::Done(reply)) => Ok(*reply),
                _ => panic!("a stream ends with its reply"),
            }
        })
    }

    fn stream<'a>(&'a self, _: Request) -> BoxStream<'a, Result<Delta>> {
        let deltas =
            self.replies.lock().unwrap().pop_front().expect("one more reply in the script");
        stream::iter(deltas.into_iter().map(Ok)).boxed()
    }
}

fn agent<T: Answer + 'static>(said: &[Said]) -> Agent<T> {
    agent_in(Dialect::JsonSchema2020, said)
}

fn agent_in<T: Answer + 'static>(dialect: Dialect, said: &[Said]) -> Agent<T> {
    let replies = said.iter().enumerate().map(|(nth, said)| said.deltas(nth, T::OTHER));
    let replies = Mutex::new(replies.collect());
    Agent::new(Streams { dialect, replies }, [look()]).unwrap().answering().unwrap()
}

/// Follows the rule of `AnswerDelta`.
#[derive(Clone, Default)]
struct Screen(Arc<Mutex<Partial>>);

impl Screen {
    fn watch(&self, cx: Context) -> Context {
        let shown = Arc::clone(&self.0);
        cx.with_events(move |event: &Event| {
            let EventKind::AnswerDelta { at, text } = &event.kind else { return };
            let mut shown = shown.lock().unwrap();
            if *at == 0 {
                *shown = Partial::new();
            }
            assert_eq!(*at, shown.as_str().len());
            shown.push(text);
        })
    }

    fn shows<T: Answer>(&self, finished: &Finished<T>) {
        let shown = self.0.lock().unwrap();
        let Field::Done(mut value) = shown.field::<Value>(T::AT) else {
            panic!("{:?} is shown for {:?}", shown.as_str(), finished.answer);
        };
        // A strict dialect asks for `null` in the place of a default.
        if let Value::Object(fields) = &mut value {
            fields.retain(|_, value| !value.is_null());
        }
        let answer: T = serde_json::from_value(value).unwrap();
        assert_eq!(answer, finished.answer, "{:?} is shown", shown.as_str());
        assert!(shown.is_done());
    }
}

async fn run<T: Answer + 'static>(agent: &Agent<T>) -> Result<Finished<T>> {
    let screen = Screen::default();
    let finished = agent.run("Go.", &screen.watch(soon())).await?;
    screen.shows(&finished);
    Ok(finished)
}

fn said<T: Answer>() -> impl Strategy<Value = Said> {
    let text = prop::sample::select(T::WRITTEN);
    let given = prop::sample::select(vec![
        Given::Call,
        Given::Call,
        Given::OtherName,
        Given::Text,
        Given::Twice,
        Given::BesideACall,
        Given::Incomplete,
    ]);
    let streamed = prop::sample::select(vec![
        Streamed::Pieces(1),
        Streamed::Pieces(7),
        Streamed::Pieces(1000),
        Streamed::Half,
        Streamed::Other,
        Streamed::Repeated,
        Streamed::AfterEmpty,
        Streamed::Nothing,
    ]);
    (text, given, streamed).prop_map(|(text, given, streamed)| Said { text, given, streamed })
}

/// Returns replies that end a run. The last one fits, whatever those before it do.
fn script<T: Answer>() -> impl Strategy<Value = Vec<Said>> {
    prop::collection::vec(said::<T>(), 0..3).prop_map(|mut script| {
        let (text, given, streamed) = (T::WRITTEN[0], Given::Call, Streamed::Pieces(3));
        script.push(Said { text, given, streamed });
        script
    })
}

/// Asks twice, and takes the first or the second reply, or one of its own.
#[derive(Debug, Clone, Copy)]
enum Meddles {
    First,
    Second,
    Own(&'static str),
}

impl Hook for Meddles {
    fn name(&self) -> &str {
        "meddles"
    }

    async fn model(&self, request: Request, next: AskNext<'_>) -> Result<Reply> {
        let own = |text| Reply::calls([ToolCall::new("own", "finish", text)]);
        match *self {
            Self::First => {
                let first = next.run(request.clone()).await?;
                next.run(request).await?;
                Ok(first)
            }
            Self::Second => {
                next.run(request.clone()).await?;
                next.run(request).await
            }
            Self::Own(text) => next.run(request).await.map(|_| own(text)),
        }
    }
}

fn done<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

fn holds<T: Answer + 'static>(script: &[Said]) {
    done(async {
        run(&agent::<T>(script)).await.unwrap();
        // Each record that a drive left is found by the next one.
        let journal = Replay::in_memory([]);
        let cx = with_performer(&soon(), journal.clone());
        let whole = agent::<T>(script).run("Go.", &cx).await.unwrap();
        let records = journal.records();
        for cut in 0..=records.len() {
            let asked = records[..cut]
                .iter()
                .filter(|record| serde_json::to_string(record).unwrap().contains("\"reply\""));
            let left = &script[asked.count().min(script.len())..];
            let cx = with_performer(&soon(), Replay::in_memory(records[..cut].to_vec()));
            let screen = Screen::default();
            let finished = agent::<T>(left).run("Go.", &screen.watch(cx)).await.unwrap();
            screen.shows(&finished);
            assert_eq!(finished.answer, whole.answer);
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_pieces_of_an_answer_read_as_the_answer(script in script::<Letter>()) {
        holds::<Letter>(&script);
    }

    #[test]
    fn the_pieces_of_an_answer_that_is_not_an_object_read_as_the_answer(
        script in script::<Vec<u32>>(),
    ) {
        holds::<Vec<u32>>(&script);
    }

    #[test]
    fn the_pieces_read_as_the_answer_whatever_a_hook_does(
        first in said::<Letter>(),
        own in prop::sample::select(Letter::WRITTEN),
        which in 0..3,
    ) {
        let meddles = match which {
            0 => Meddles::First,
            1 => Meddles::Second,
            _ => Meddles::Own(own),
        };
        let (text, given, streamed) = (Letter::OTHER, Given::Call, Streamed::Pieces(4));
        let script = [first, Said { text, given, streamed }].repeat(12);
        // A run may also end without an answer, if the model repeats its mistake.
        let _ = done(run(&agent::<Letter>(&script).with_hook(meddles)));
    }
}

/// Every form counts once: an answer in it ends the run, or the model gets its fault.
#[test]
fn most_forms_of_an_answer_are_read() {
    let read = |text: &'static str| {
        let said = Said { text, given: Given::Call, streamed: Streamed::Pieces(3) };
        let fits = Said { text: Letter::OTHER, ..said };
        let finished = done(run(&agent::<Letter>(&[said, fits]))).unwrap();
        finished.answer.to == "Ada"
    };
    let unread: Vec<_> = Letter::WRITTEN.iter().filter(|text| !read(text)).collect();
    assert!(unread.len() < 8, "{unread:#?}");
}

#[tokio::test]
async fn a_run_that_is_driven_again_at_its_end_shows_its_answer_again() {
    let text = r#"{"to": "Ada", "pages": "2", "lines": []}"#;
    let said = Said { text, given: Given::Call, streamed: Streamed::Pieces(3) };
    let agent = agent::<Letter>(&[said]).with_validator(|_: &Task, _: &Letter| Ok::<_, Error>(()));
    let mut run = agent.start("Go.").unwrap();
    agent.drive(&mut run, &soon()).await.unwrap();
    let screen = Screen::default();
    let finished = agent.drive(&mut run, &screen.watch(soon())).await.unwrap();
    screen.shows(&finished);
}

/// The ages of people.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Ages {
    ages: BTreeMap<String, u8>,
}

impl Answer for Ages {
    const AT: &'static str = "$";
    const WRITTEN: &'static [&'static str] = &[
        r#"{"ages": [{"key": "Ada", "value": 36}]}"#,
        r#"{"ages": [{"key": "Ada", "value": "36"}]}"#,
    ];
    const OTHER: &'static str = r#"{"ages": []}"#;
}

#[tokio::test]
async fn an_answer_in_the_shape_of_the_dialect_is_shown_once() {
    for (text, shown_again) in Ages::WRITTEN.iter().zip([false, true]) {
        let said = Said { text, given: Given::Call, streamed: Streamed::Pieces(8) };
        let agent = agent_in::<Ages>(Dialect::OpenAiStrict, &[said]);
        let (begins, shown) = (Arc::new(Mutex::new(0)), Screen::default());
        let count = Arc::clone(&begins);
        let cx = soon().with_events(move |event: &Event| {
            if let EventKind::AnswerDelta { at: 0, .. } = event.kind {
                *count.lock().unwrap() += 1;
            }
        });
        let finished = agent.run("Go.", &shown.watch(cx)).await.unwrap();
        assert_eq!(finished.answer.ages["Ada"], 36);
        assert_eq!(*begins.lock().unwrap(), 1 + u8::from(shown_again), "{text}");
        if shown_again {
            shown.shows(&finished);
        }
    }
}
