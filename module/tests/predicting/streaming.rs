//! Streams of partial outputs.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use toolwright_module::budget::{Budget, Ledger};
use toolwright_module::error::Stage;
use toolwright_module::event::EventKind;
use toolwright_module::message::ReplyPart;
use toolwright_module::model::{BoxFuture, Capabilities, Delta, Finish, Usage};
use toolwright_module::predict::{PredictEvent, PredictStream, Reasoned};
use toolwright_module::{
    Cancellation, ChainOfThought, Context, Error, LanguageModel, Module, Predict, Reply, Request,
    Result, ToolCall,
};
use toolwright_signature::Field;

use crate::support::{
    FindWords, SUMMARY, Summarize, Summary, calling, finish, plain, replies, structured, summarize,
};

/// A model that streams these deltas, one list per request.
struct Streaming {
    capabilities: Capabilities,
    streams: Mutex<VecDeque<Vec<Result<Delta>>>>,
    /// Number of deltas that were read.
    taken: Arc<AtomicUsize>,
}

impl Streaming {
    fn new(
        capabilities: Capabilities,
        streams: impl IntoIterator<Item = Vec<Result<Delta>>>,
    ) -> Self {
        let streams = Mutex::new(streams.into_iter().collect());
        Self { capabilities, streams, taken: Arc::default() }
    }
}

impl LanguageModel for Streaming {
    fn name(&self) -> &str {
        "streaming"
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn generate<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        panic!("a stream was asked for")
    }

    fn stream<'a>(&'a self, _: Request) -> BoxStream<'a, Result<Delta>> {
        let deltas = self.streams.lock().unwrap().pop_front().unwrap();
        let taken = Arc::clone(&self.taken);
        stream::iter(deltas)
            .inspect(move |_| {
                taken.fetch_add(1, Ordering::SeqCst);
            })
            .boxed()
    }
}

fn text(piece: &str) -> Result<Delta> {
    Ok(Delta::Text(piece.to_owned()))
}

fn call(index: usize, piece: &str) -> Result<Delta> {
    Ok(Delta::Call { index, name: "finish".to_owned(), arguments: piece.to_owned() })
}

fn done(reply: Reply) -> Result<Delta> {
    Ok(Delta::Done(Box::new(reply)))
}

/// Splits an answer into pieces of this many characters.
fn in_pieces(reply: &Reply, size: usize) -> Vec<Result<Delta>> {
    let mut deltas = Vec::new();
    for (index, part) in reply.parts.iter().enumerate() {
        let whole = match part {
            ReplyPart::Text(text) => &text.text,
            ReplyPart::Call(call) => &call.arguments,
            _ => continue,
        };
        let letters: Vec<char> = whole.chars().collect();
        for piece in letters.chunks(size).map(|piece| piece.iter().collect::<String>()) {
            let is_text = matches!(part, ReplyPart::Text(_));
            deltas.push(if is_text { text(&piece) } else { call(index, &piece) });
        }
    }
    deltas.push(done(reply.clone()));
    deltas
}

/// Formats all events, with consecutive texts joined, and the error at the end.
async fn shown<O: serde::de::DeserializeOwned + std::fmt::Debug>(
    mut stream: PredictStream<'_, O>,
) -> (Vec<String>, Option<Error>) {
    let (mut shown, mut so_far) = (Vec::new(), String::new());
    let mut ended = None;
    while let Some(event) = stream.next().await {
        assert!(ended.is_none(), "something follows the end");
        let event = match event {
            Ok(PredictEvent::Text(text)) => {
                so_far.push_str(&text);
                assert_eq!(stream.partial().as_str(), so_far);
                continue;
            }
            Ok(event) => event,
            Err(error) => {
                ended = Some(Some(error));
                continue;
            }
        };
        shown.extend(Some(std::mem::take(&mut so_far)).filter(|text| !text.is_empty()));
        match event {
            PredictEvent::Discard => {
                assert_eq!(stream.partial().as_str(), "");
                shown.push("discard".to_owned());
            }
            other => {
                shown.push(format!("{other:?}"));
                ended = Some(None);
            }
        }
    }
    shown.extend(Some(so_far).filter(|text| !text.is_empty()));
    (shown, ended.expect("a stream ends with its output or an error"))
}

const DONE: &str = r#"Done(Summary { sentence: "It rained.", topics: ["weather"] })"#;

#[tokio::test]
async fn a_stream_yields_the_text_and_then_the_output_in_every_mode() {
    for size in [1, 7, 1000] {
        for (capabilities, reply) in [
            (plain(), Reply::text(SUMMARY)),
            (structured(), Reply::text(SUMMARY)),
            (calling(), finish(SUMMARY)),
        ] {
            let model = Streaming::new(capabilities, [in_pieces(&reply, size)]);
            let module = Predict::<Summarize>::new(model).unwrap();
            let cx = Context::default();
            let (events, error) = shown(module.stream(summarize(), &cx)).await;
            assert!(error.is_none());
            assert_eq!(events, [SUMMARY, DONE]);
        }
    }
}

#[tokio::test]
async fn partial_fields_grow_while_the_answer_arrives() {
    let pieces =
        [r#"{"sentence": "It "#, r#"rained.", "topics": ["wea"#, r#"ther", "Os"#, r#"lo"]}"#];
    let mut deltas: Vec<_> = pieces.into_iter().map(text).collect();
    deltas.push(done(Reply::text(pieces.concat())));
    let model = Streaming::new(plain(), [deltas]);
    let module = Predict::<Summarize>::new(model).unwrap();
    let cx = Context::default();
    let mut stream = module.stream(summarize(), &cx);
    assert_eq!(stream.partial().field::<String>("sentence"), Field::Pending);

    let strings = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let rained = || "It rained.".to_owned();
    for (sentence, topics) in [
        (Field::Partial("It ".to_owned()), Field::Pending),
        (Field::Done(rained()), Field::Partial(strings(&["wea"]))),
        (Field::Done(rained()), Field::Partial(strings(&["weather", "Os"]))),
        (Field::Done(rained()), Field::Done(strings(&["weather", "Oslo"]))),
    ] {
        assert!(matches!(stream.next().await, Some(Ok(PredictEvent::Text(_)))));
        assert_eq!(stream.partial().field::<String>("sentence"), sentence);
        assert_eq!(stream.partial().field::<Vec<String>>("topics"), topics);
    }
    let output = Summary { sentence: rained(), topics: strings(&["weather", "Oslo"]) };
    let last = stream.next().await.unwrap().unwrap();
    assert_eq!(last, PredictEvent::Done(output));
    // The last partial text is still available.
    assert_eq!(stream.partial().field::<String>("topics[1]"), Field::Done("Oslo".to_owned()));
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn chain_of_thought_streams_reasoning_and_output() {
    let answer = format!(r#"{{"reasoning": "Wet all day.", "output": {SUMMARY}}}"#);
    for (capabilities, reply) in
        [(plain(), Reply::text(answer.clone())), (calling(), finish(&answer))]
    {
        let model = Streaming::new(capabilities, [in_pieces(&reply, 20)]);
        let module = ChainOfThought::<Summarize>::new(model).unwrap();
        let cx = Context::default();
        let mut stream = module.stream(summarize(), &cx);
        stream.next().await.unwrap().unwrap();
        assert_eq!(
            stream.partial().field::<String>("reasoning"),
            Field::Partial("Wet a".to_owned())
        );
        assert_eq!(stream.partial().field::<String>("output.sentence"), Field::Pending);
        let mut last = None;
        while let Some(event) = stream.next().await {
            last = Some(event.unwrap());
        }
        assert_eq!(stream.partial().field("output.sentence"), Field::Done("It rained.".to_owned()));
        let Some(PredictEvent::Done(Reasoned { reasoning, output, .. })) = last else {
            panic!("{last:?}")
        };
        assert_eq!((&*reasoning, &*output.sentence), ("Wet all day.", "It rained."));
    }
}

#[tokio::test]
async fn an_output_that_is_not_an_object_streams_under_result() {
    let reply = Reply::text(r#"{"result": ["a", "b"]}"#);
    let model = Streaming::new(structured(), [in_pieces(&reply, 16)]);
    let module = Predict::<FindWords>::new(model).unwrap();
    let cx = Context::default();
    let mut stream = module.stream(FindWords { text: String::new() }, &cx);
    stream.next().await.unwrap().unwrap();
    assert_eq!(stream.partial().field::<Vec<String>>("result").so_far().unwrap(), ["a"]);
}

#[tokio::test]
async fn a_retry_discards_the_text_so_far() {
    let wrong = r#"{"sentence": "No topics."}"#;
    for (capabilities, wrong_reply, right) in [
        (plain(), Reply::text(wrong), Reply::text(SUMMARY)),
        (calling(), finish(wrong), finish(SUMMARY)),
    ] {
        let usage = Usage::new(10, 2);
        let replies = [wrong_reply.with_usage(usage), right.with_usage(usage)];
        let model = Streaming::new(capabilities, replies.iter().map(|one| in_pieces(one, 5)));
        let module = Predict::<Summarize>::new(model).unwrap();
        let replied = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&replied);
        let ledger = Ledger::default();
        let cx = Context::default().with_ledger(ledger.clone()).with_events(move |event| {
            assert!(matches!(event.kind, EventKind::ModelReplied { .. }), "{event:?}");
            count.fetch_add(1, Ordering::SeqCst);
        });
        let (events, error) = shown(module.stream(summarize(), &cx)).await;
        assert!(error.is_none());
        assert_eq!(events, [wrong, "discard", SUMMARY, DONE]);
        assert_eq!((ledger.spent().usage, ledger.spent().model_calls), (usage + usage, 2));
        assert_eq!(replied.load(Ordering::SeqCst), 2);
    }
}

#[tokio::test]
async fn a_stream_sends_the_same_requests_as_a_call() {
    for (capabilities, wrong, right) in [
        (plain(), Reply::text("no"), Reply::text(SUMMARY)),
        (structured(), Reply::text("no"), Reply::text(SUMMARY)),
        (calling(), finish("no"), finish(SUMMARY)),
    ] {
        let (model, called) = replies(capabilities, [wrong.clone(), right.clone()]);
        Predict::<Summarize>::new(model)
            .unwrap()
            .call(summarize(), &Context::default())
            .await
            .unwrap();
        let (model, streamed) = replies(capabilities, [wrong, right]);
        let module = Predict::<Summarize>::new(model).unwrap();
        let cx = Context::default();
        shown(module.stream(summarize(), &cx)).await;
        assert_eq!(called.requests(), streamed.requests());
    }
}

/// A field that was complete has the value of the output, or the stream said that it is void.
#[tokio::test]
async fn a_field_that_reading_changes_is_discarded() {
    for (said, changes) in [
        (r#"{"sentence": "It rained.", "words": 2}"#, false),
        (
            "<think>{\"sentence\": \"No.\", \"words\": 1}</think>{\"sentence\": \"It rained.\", \"words\": 2}",
            false,
        ),
        ("```json\n{\"sentence\": \"It rained.\", \"words\": 2, \"more\": 1}\n```", false),
        // Not JSON, so the whole value could not be read.
        (r#"{"sentence": "It rained.", "words": 2,}"#, true),
        // Another name, another place, another value.
        (r#"{"sentence": "It rained.", "Words": 2}"#, true),
        (r#"{"sentence": "It rained.", "words": "2"}"#, true),
        ("[] and {\"sentence\": \"It rained.\", \"words\": 2}", true),
    ] {
        for size in [1, 3, 1000] {
            let deltas = in_pieces(&Reply::text(said), size);
            let model = Streaming::new(structured(), [deltas]);
            let predict = Predict::<Weather>::new(model).unwrap();
            let cx = Context::default();
            let mut stream = predict.stream(Weather {}, &cx);
            let (mut done, mut discards) = (None, 0);
            while let Some(event) = stream.next().await {
                match event.unwrap_or_else(|error| panic!("{said}: {error}")) {
                    PredictEvent::Discard => (done, discards) = (None, discards + 1),
                    PredictEvent::Done(output) => {
                        assert!(done.is_none_or(|done| done == output.words), "{said}");
                    }
                    _ => {}
                }
                if let Field::Done(words) = stream.partial().field::<Option<u8>>("words") {
                    done = Some(words);
                }
            }
            assert_eq!(discards, usize::from(changes), "{said}");
            assert_eq!(
                stream.partial().field::<Option<u8>>("words"),
                Field::Done(Some(2)),
                "{said}"
            );
        }
    }
}

/// Describe the weather.
#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Weather {}

#[derive(Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Described {
    sentence: String,
    words: Option<u8>,
}

impl toolwright_module::Signature for Weather {
    type Output = Described;
}

#[tokio::test]
async fn the_final_partial_text_is_the_text_that_was_read() {
    let call_of = |arguments: &str| ReplyPart::Call(ToolCall::new("c", "finish", arguments));
    let said = |words: &str| ReplyPart::text(words.to_owned());
    // Text instead of the requested call.
    let in_text = in_pieces(&Reply::text(SUMMARY), 9);
    // Text before the call, which is not the answer.
    let with_words = in_pieces(&Reply::new([said("I say {\"a\":"), call_of(SUMMARY)]), 9);
    // The same call twice.
    let twice = in_pieces(&Reply::new([call_of(SUMMARY), call_of(SUMMARY)]), 9);
    // Only the end, without pieces.
    let at_once = vec![done(finish(SUMMARY))];
    for deltas in [in_text, with_words, twice, at_once] {
        let model = Streaming::new(calling(), [deltas]);
        let module = Predict::<Summarize>::new(model).unwrap();
        let cx = Context::default();
        assert_eq!(shown(module.stream(summarize(), &cx)).await.0, [SUMMARY, DONE]);
    }
    // A server whose pieces differ from its final reply.
    let other = vec![call(0, "{\"sentence\": 1"), done(finish(SUMMARY))];
    let model = Streaming::new(calling(), [other]);
    let module = Predict::<Summarize>::new(model).unwrap();
    let cx = Context::default();
    let (events, _) = shown(module.stream(summarize(), &cx)).await;
    assert_eq!(events, ["{\"sentence\": 1", "discard", SUMMARY, DONE]);
}

fn lost() -> Result<Delta> {
    Err(Error::other("connection lost").at(Stage::Transport).retryable(true))
}

#[tokio::test]
async fn a_broken_stream_is_an_error_with_the_text_so_far() {
    let wrong = Reply::text("no").with_usage(Usage::new(3, 1));
    let broken = vec![text(r#"{"sentence": "It"#), text(" rai"), lost()];
    let model = Streaming::new(plain(), [in_pieces(&wrong, 9), broken]);
    let module = Predict::<Summarize>::new(model).unwrap();
    let cx = Context::default();
    let (events, error) = shown(module.stream(summarize(), &cx)).await;
    let error = error.unwrap();
    assert_eq!((error.stage(), error.is_retryable()), (Stage::Transport, true));
    assert_eq!(error.usage(), Usage::new(3, 1));
    let half = r#"{"sentence": "It rai"#;
    assert_eq!(error.raws().collect::<Vec<_>>(), ["no", half]);
    assert_eq!(events, ["no", "discard", half]);

    // The raw reply of the provider's error is more precise than the pieces.
    let kept = Err(Error::other("bad gateway").at(Stage::Provider).with_raw("<html>"));
    let model = Streaming::new(plain(), [vec![text("{"), kept]]);
    let module = Predict::<Summarize>::new(model).unwrap();
    let error = shown(module.stream(summarize(), &cx)).await.1.unwrap();
    assert_eq!(error.raws().collect::<Vec<_>>(), ["<html>"]);

    // A stream that ends without a reply.
    let model = Streaming::new(plain(), [vec![text("{")]]);
    let module = Predict::<Summarize>::new(model).unwrap();
    let error = shown(module.stream(summarize(), &cx)).await.1.unwrap();
    assert_eq!((error.stage(), error.raw()), (Stage::Decoding, Some("{")));
}

#[tokio::test]
async fn a_stream_ends_like_a_call_after_a_cut_off_or_refused_answer() {
    let half = r#"{"sentence": "It"#;
    let usage = Usage::new(5, 4);
    for (capabilities, reply) in [
        (plain(), Reply::text(half).with_finish(Finish::Length)),
        (calling(), finish(half).with_finish(Finish::Length)),
        (plain(), Reply::text("I do not do rain.").with_finish(Finish::Refused)),
        (calling(), Reply::text("I do not do rain.").with_finish(Finish::Refused)),
    ] {
        let reply = reply.with_usage(usage);
        let (model, _) = replies(capabilities, [reply.clone()]);
        let called =
            Predict::<Summarize>::new(model).unwrap().call(summarize(), &Context::default()).await;
        let called = called.unwrap_err();
        let model = Streaming::new(capabilities, [in_pieces(&reply, 4)]);
        let module = Predict::<Summarize>::new(model).unwrap();
        let cx = Context::default();
        let (_, streamed) = shown(module.stream(summarize(), &cx)).await;
        let streamed = streamed.unwrap();
        assert_eq!(format!("{streamed:#}"), format!("{called:#}"));
        assert_eq!((streamed.stage(), streamed.usage()), (called.stage(), usage));
        assert_eq!(streamed.raw(), called.raw());
    }
}

#[tokio::test]
async fn the_ledger_limits_a_stream() {
    let wrong = Reply::text("no").with_usage(Usage::new(30, 3));
    let model = Streaming::new(plain(), [in_pieces(&wrong, 9)]);
    let module = Predict::<Summarize>::new(model).unwrap();
    let cx = Context::default()
        .with_ledger(Ledger::new(Budget { model_calls: Some(1), ..Budget::default() }));
    let (events, error) = shown(module.stream(summarize(), &cx)).await;
    let error = error.unwrap();
    assert_eq!((error.stage(), error.usage()), (Stage::Limit, Usage::new(30, 3)));
    assert_eq!(error.raws().collect::<Vec<_>>(), ["no"]);
    assert_eq!(events, ["no", "discard"]);
}

#[tokio::test]
async fn a_stream_that_cannot_start_has_one_error() {
    let module = Predict::<Summarize>::from_context().unwrap();
    let cx = Context::default();
    let (events, error) = shown(module.stream(summarize(), &cx)).await;
    assert!(events.is_empty());
    assert_eq!(error.unwrap().stage(), Stage::Setup);
}

#[tokio::test]
async fn a_stream_sends_no_request_before_it_is_polled_or_after_it_is_dropped() {
    let reply = Reply::text(SUMMARY);
    let model = Streaming::new(plain(), [in_pieces(&reply, 5)]);
    let taken = Arc::clone(&model.taken);
    let module = Predict::<Summarize>::new(model).unwrap();
    let ledger = Ledger::default();
    let cx = Context::default().with_ledger(ledger.clone());
    let mut stream = module.stream(summarize(), &cx);
    assert_eq!(taken.load(Ordering::SeqCst), 0);
    stream.next().await.unwrap().unwrap();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    assert_eq!((taken.load(Ordering::SeqCst), ledger.spent().model_calls), (2, 1));
}

#[tokio::test]
async fn a_cancellation_ends_a_stream_between_two_pieces() {
    let reply = Reply::text(SUMMARY);
    let model = Streaming::new(plain(), [in_pieces(&reply, 5)]);
    let taken = Arc::clone(&model.taken);
    let module = Predict::<Summarize>::new(model).unwrap();
    let cancellation = Cancellation::default();
    let cx = Context::default().with_cancellation(cancellation.clone());
    let mut stream = module.stream(summarize(), &cx);
    stream.next().await.unwrap().unwrap();
    cancellation.cancel();
    let error = stream.next().await.unwrap().unwrap_err();
    assert_eq!((error.stage(), error.raw()), (Stage::Cancelled, Some(&SUMMARY[..5])));
    assert!(stream.next().await.is_none());
    assert_eq!(taken.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_predict_stream_implements_stream_and_is_send() {
    let model = Streaming::new(plain(), [in_pieces(&Reply::text(SUMMARY), 5)]);
    let module = Predict::<Summarize>::new(model).unwrap();
    let collected = tokio::spawn(async move {
        let cx = Context::default();
        let stream = module.stream(summarize(), &cx);
        StreamExt::collect::<Vec<_>>(stream).await.len()
    });
    assert_eq!(collected.await.unwrap(), SUMMARY.len().div_ceil(5) + 1);
}
