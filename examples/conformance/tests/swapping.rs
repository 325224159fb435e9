//! A conversation that one provider began goes on with another one, and back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex};

use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use toolwright_conformance::{PROVIDERS, Wire};
use toolwright_module::message::{
    Document, Image, Opaque, Part, Reasoning, ReplyPart, Text, ToolResult,
};
use toolwright_module::{Contract, LanguageModel, Message, Reply, Request, Signature, ToolCall};

use crate::listener::Listener;
use crate::marks::{Kind, Mark, in_text, marks, strings};
use crate::wires::{self, Piece};

/// Look up a word.
#[derive(Serialize, Deserialize, JsonSchema)]
struct LookUp {
    word: String,
}

impl Signature for LookUp {
    type Output = String;
}

/// The models of all providers, at one listener.
struct World {
    runtime: Runtime,
    listener: Listener,
    models: Vec<Arc<dyn LanguageModel>>,
    look_up: Arc<Contract>,
}

static WORLD: LazyLock<Mutex<World>> = LazyLock::new(|| {
    let listener = Listener::start();
    let models = PROVIDERS.iter().map(|provider| (provider.model)(&listener.url).unwrap());
    let models = models.collect();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let look_up = Arc::new(Contract::of::<LookUp>().unwrap());
    Mutex::new(World { runtime, listener, models, look_up })
});

impl World {
    /// Returns the body of a request that a provider sends.
    fn body(&self, provider: usize, messages: &[Arc<Message>]) -> Value {
        let result = self.ask(provider, messages);
        let body = self.listener.body();
        body.unwrap_or_else(|| panic!("{} sends nothing: {result:?}", PROVIDERS[provider].name))
    }

    fn ask(&self, provider: usize, messages: &[Arc<Message>]) -> toolwright_module::Result<Reply> {
        let request =
            Request::new(messages.iter().cloned()).with_tools([Arc::clone(&self.look_up)]);
        self.runtime.block_on(self.models[provider].generate(&request))
    }

    /// Returns a provider's reply in the form in which it was read from the wire.
    fn reply(&self, provider: usize, messages: &[Arc<Message>], wire: Value) -> Reply {
        self.listener.answer(wire.clone());
        let reply = self.ask(provider, messages);
        let _ = self.listener.body();
        reply.unwrap_or_else(|error| panic!("{}: {error:#}: {wire}", PROVIDERS[provider].name))
    }
}

/// One turn: a message of the user, a reply, and the results of its calls.
#[derive(Debug, Clone)]
struct Turn {
    /// Whether the second provider replies.
    is_second: bool,
    user: Vec<UserPart>,
    before: Before,
    pieces: Vec<Said>,
    /// Whether the reply also has parts of a provider that nobody knows.
    has_foreign: bool,
}

#[derive(Debug, Clone)]
enum UserPart {
    Text(String),
    Media(Media),
}

#[derive(Debug, Clone, Copy)]
enum Media {
    ImageBytes,
    ImageUrl,
    Pdf,
    TextDocument,
}

/// A message of the model before its reply, which some APIs refuse.
#[derive(Debug, Clone, Copy)]
enum Before {
    Nothing,
    NoParts,
    EmptyText,
    OnlyForeign,
}

#[derive(Debug, Clone)]
enum Said {
    Text(String),
    Reasoning,
    Other,
    Call { id: String, name: &'static str, form: ArgumentsForm, result: Answer },
}

#[derive(Debug, Clone, Copy)]
enum ArgumentsForm {
    Object,
    Spaced,
    CutOff,
    Words,
}

#[derive(Debug, Clone)]
struct Answer {
    is_failed: bool,
    parts: Vec<Media>,
}

fn words() -> impl Strategy<Value = String> {
    "[a-zA-Z é世🦀.]{0,8}"
}

/// Ids of calls as servers make them, and some that no server should make.
fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        "call_[a-zA-Z0-9]{24}",
        "toolu_[a-zA-Z0-9]{24}",
        "chatcmpl-tool-[0-9a-f]{32}",
        "functions\\.[a-z_]{1,9}:[0-9]",
        "[a-zA-Z0-9]{9}",
        "[a-zA-Z0-9]{60,90}",
        "[ -~é世🦀]{1,12}",
        Just(String::new()),
    ]
}

fn media() -> impl Strategy<Value = Media> {
    prop_oneof![
        Just(Media::ImageBytes),
        Just(Media::ImageUrl),
        Just(Media::Pdf),
        Just(Media::TextDocument),
    ]
}

fn said() -> impl Strategy<Value = Said> {
    let form = prop_oneof![
        4 => Just(ArgumentsForm::Object),
        1 => Just(ArgumentsForm::Spaced),
        1 => Just(ArgumentsForm::CutOff),
        1 => Just(ArgumentsForm::Words),
    ];
    let name =
        prop_oneof![6 => Just("look_up"), 1 => Just("files.read:all"), 1 => Just("a tool 世")];
    let answer = (any::<bool>(), prop::collection::vec(media(), 0..3))
        .prop_map(|(is_failed, parts)| Answer { is_failed, parts });
    prop_oneof![
        2 => words().prop_map(Said::Text),
        1 => Just(Said::Reasoning),
        1 => Just(Said::Other),
        3 => (id(), name, form, answer)
            .prop_map(|(id, name, form, result)| Said::Call { id, name, form, result }),
    ]
}

fn turn() -> impl Strategy<Value = Turn> {
    let part = prop_oneof![
        2 => words().prop_map(UserPart::Text),
        1 => media().prop_map(UserPart::Media),
    ];
    let before = prop_oneof![
        5 => Just(Before::Nothing),
        1 => Just(Before::NoParts),
        1 => Just(Before::EmptyText),
        1 => Just(Before::OnlyForeign),
    ];
    let user = prop::collection::vec(part, 0..3);
    let pieces = prop::collection::vec(said(), 0..5);
    (any::<bool>(), user, before, pieces, prop::bool::weighted(0.3)).prop_map(
        |(is_second, user, before, mut pieces, has_foreign)| {
            // A reply needs content.
            let has_content = |said: &Said| matches!(said, Said::Text(_) | Said::Call { .. });
            if !pieces.iter().any(has_content) {
                pieces.push(Said::Text("So it is.".to_owned()));
            }
            Turn { is_second, user, before, pieces, has_foreign }
        },
    )
}

/// The API that a value belongs to. `None` for the one that nobody knows.
type Owner = Option<Wire>;

/// A conversation with what must be found in the bodies of later requests.
struct Conversation {
    messages: Vec<Arc<Message>>,
    next: usize,
    /// The marks in order, each with the number of its group: a message, or the results of a turn.
    expected: Vec<(usize, Mark)>,
    group: usize,
    /// The groups whose calls are after all texts, because the wire has no order between them.
    sorted: BTreeSet<usize>,
    own: BTreeMap<Mark, Owner>,
    /// Strings that must go back unchanged to their provider.
    kept: Vec<(Wire, String)>,
    /// Values that must go back unchanged to their provider.
    values: Vec<(Wire, Value)>,
    /// The calls: mark, API, id.
    calls: Vec<(Mark, Wire, String)>,
    /// The result of each call, by their marks.
    results: BTreeMap<Mark, Mark>,
}

impl Conversation {
    fn new() -> Self {
        let mut new = Self {
            messages: Vec::new(),
            next: 0,
            expected: Vec::new(),
            group: 0,
            sorted: BTreeSet::new(),
            own: BTreeMap::new(),
            kept: Vec::new(),
            values: Vec::new(),
            calls: Vec::new(),
            results: BTreeMap::new(),
        };
        let mark = new.mark(Kind::System);
        new.messages.push(Message::system(format!("Be brief. {mark}")));
        new
    }

    fn mark(&mut self, kind: Kind) -> Mark {
        self.next += 1;
        Mark { kind, number: self.next }
    }

    /// Returns a mark that later requests must have, in the group of the last message.
    fn expect(&mut self, kind: Kind) -> Mark {
        let mark = self.mark(kind);
        self.expected.push((self.group, mark));
        mark
    }

    fn media(&mut self, media: Media) -> Part {
        let mark = self.expect(Kind::Part);
        match media {
            Media::ImageBytes => Image::bytes("image/png", format!("PNG {mark}").as_bytes()).into(),
            Media::ImageUrl => Image::url(format!("https://example.com/{mark}.png")).into(),
            Media::Pdf => {
                Document::bytes("application/pdf", format!("%PDF {mark}").as_bytes()).into()
            }
            Media::TextDocument => {
                Document::bytes("text/plain", format!("Notes: {mark}").as_bytes()).into()
            }
        }
    }

    fn user(&mut self, parts: &[UserPart]) {
        self.group += 1;
        let parts: Vec<_> = parts
            .iter()
            .map(|part| match part {
                UserPart::Text(words) => Part::Text(format!("{} {words}", self.expect(Kind::User))),
                UserPart::Media(media) => self.media(*media),
            })
            .collect();
        self.messages.push(Message::user_parts(parts));
    }

    fn foreign(&mut self) -> Mark {
        let mark = self.mark(Kind::Own);
        self.own.insert(mark, None);
        mark
    }

    fn assistant(&mut self, parts: Vec<ReplyPart>) {
        self.messages.push(Arc::new(Message::Assistant { parts }));
    }

    fn before(&mut self, before: Before) {
        match before {
            Before::Nothing => {}
            Before::NoParts => self.assistant(Vec::new()),
            Before::EmptyText => self.assistant(vec![ReplyPart::text("")]),
            Before::OnlyForeign => {
                let mark = self.foreign();
                let reasoning = Reasoning::new("acme", mark.to_string(), json!({"x": 1}));
                self.assistant(vec![ReplyPart::Reasoning(reasoning)]);
            }
        }
    }

    /// Lets a provider reply, and adds the reply and the results of its calls.
    fn reply(&mut self, world: &World, provider: usize, turn: &Turn) {
        self.group += 1;
        let wire = PROVIDERS[provider].wire;
        let number = self.messages.len();
        if !wires::mixes(wire) {
            self.sorted.insert(self.group);
        }
        let (mut pieces, mut marked) = (Vec::new(), Vec::new());
        for said in &turn.pieces {
            pieces.push(match said {
                Said::Text(words) => Piece::Text(format!("{} {words}", self.expect(Kind::Text))),
                Said::Reasoning => {
                    let (text, value) = (self.mark(Kind::Own), self.mark(Kind::Own));
                    Piece::Reasoning { text: text.to_string(), value: value.to_string() }
                }
                Said::Other => Piece::Other { value: self.mark(Kind::Own).to_string() },
                Said::Call { id, name, form, result } => {
                    let mark = self.expect(Kind::Call);
                    // The pieces of a conversation have different ids.
                    let id =
                        if id.is_empty() { String::new() } else { format!("{id}{}", mark.number) };
                    marked.push((mark, id.clone(), result.clone()));
                    let arguments = match form {
                        ArgumentsForm::Object => format!(r#"{{"word":"{mark}"}}"#),
                        ArgumentsForm::Spaced => {
                            format!("\n{{ \"word\" : \"{mark}\",\"n\": 1.0 }}")
                        }
                        ArgumentsForm::CutOff => format!(r#"{{"word":"{mark}"#),
                        ArgumentsForm::Words => format!("the word {mark}"),
                    };
                    let value = self.mark(Kind::Own).to_string();
                    Piece::Call { id, name: (*name).to_owned(), arguments, value }
                }
            });
        }
        let sent = wires::reply(wire, number, &pieces);
        for mark in marks(&sent).into_iter().filter(|mark| mark.kind == Kind::Own) {
            self.own.insert(mark, Some(wire));
        }
        strings(&sent, &mut |text| {
            if in_text(text).iter().any(|mark| mark.kind == Kind::Own) {
                self.kept.push((wire, text.to_owned()));
            }
        });
        let reply = world.reply(provider, &self.messages, sent);
        let calls: Vec<ToolCall> = reply.tool_calls().cloned().collect();
        assert_eq!(calls.len(), marked.len(), "{reply:?}");
        let mut parts = reply.parts;
        for part in &parts {
            let value = match part {
                ReplyPart::Reasoning(reasoning) => &reasoning.opaque,
                ReplyPart::Other(other) => &other.value,
                _ => continue,
            };
            if !value.is_null() {
                self.values.push((wire, value.clone()));
            }
        }
        if turn.has_foreign {
            let (reasoning, other, beside) = (self.foreign(), self.foreign(), self.foreign());
            let reasoning = Reasoning::new("acme", reasoning.to_string(), json!([1]));
            parts.insert(0, ReplyPart::Reasoning(reasoning));
            let other = Opaque::new("acme", json!({"type": "text", "text": other.to_string()}));
            parts.push(ReplyPart::Other(other));
            let text = Text::from(format!("And {}.", self.expect(Kind::Text)));
            let beside = Opaque::new("acme", json!({"text": beside.to_string()}));
            parts.push(ReplyPart::Text(text.with_opaque(beside)));
        }
        self.assistant(parts);
        self.group += 1;
        for (call, (mark, id, answer)) in calls.iter().zip(marked) {
            assert!(call.arguments.contains(&mark.to_string()), "{call:?}");
            assert!(id.is_empty() || call.id == id, "the id {id:?} is read as {:?}", call.id);
            self.calls.push((mark, wire, call.id.clone()));
            let text = self.expect(Kind::Result);
            self.results.insert(mark, text);
            let result = match answer.is_failed {
                true => ToolResult::failed(call, format!("No: {text}.")),
                false => ToolResult::new(call, format!("It is {text}.")),
            };
            let parts: Vec<_> = answer.parts.iter().map(|media| self.media(*media)).collect();
            self.messages.push(Arc::new(Message::Tool(result.with_parts(parts))));
        }
    }

    /// Checks the body of a request of a provider.
    fn check(&self, provider: usize, body: &Value) {
        let wire = PROVIDERS[provider].wire;
        let name = PROVIDERS[provider].name;
        let found = marks(body);
        let count = |mark: &Mark| found.iter().filter(|found| *found == mark).count();
        let system = Mark { kind: Kind::System, number: 1 };
        assert_eq!(count(&system), 1, "{name}: the system message in {body}");

        // Every text, call, result and part is there once and in order.
        let places: BTreeMap<Mark, (usize, usize)> = self
            .expected
            .iter()
            .enumerate()
            .map(|(place, (group, mark))| (*mark, (*group, place)))
            .collect();
        for (_, mark) in &self.expected {
            assert_eq!(count(mark), 1, "{name}: {mark} in {body}");
        }
        let order: Vec<_> =
            found.iter().filter_map(|mark| Some((mark, *places.get(mark)?))).collect();
        let groups = order.iter().map(|(_, (group, _))| group);
        assert!(groups.is_sorted(), "{name}: the order of messages in {body}");
        for group in 0..=self.group {
            let in_group: Vec<_> = order.iter().filter(|(_, (of, _))| *of == group).collect();
            let has = |kind| in_group.iter().any(|(mark, _)| mark.kind == kind);
            // An API may have no place for parts in a result, or one text beside all calls.
            let is_sorted = !wires::mixes(wire) || self.sorted.contains(&group);
            let may_part = has(Kind::Result) || has(Kind::Call) && is_sorted;
            // Those of failed results may come after those of the others.
            let result_of = |(mark, (_, place)): &(&Mark, (usize, usize))| match mark.kind {
                Kind::Part => {
                    self.expected[..*place].iter().rfind(|(_, mark)| mark.kind == Kind::Result)
                }
                _ => None,
            };
            let mut sorted: BTreeMap<_, Vec<usize>> = BTreeMap::new();
            for found in in_group {
                let key = may_part.then(|| (found.0.kind, result_of(found)));
                sorted.entry(key).or_default().push(found.1.1);
            }
            for places in sorted.values() {
                assert!(places.is_sorted(), "{name}: the order within a message in {body}");
            }
        }

        // Opaque values go back to their provider, and to no other one.
        for (mark, owner) in &self.own {
            let is_own = *owner == Some(wire);
            match wires::keeps(wire) {
                _ if !is_own => assert_eq!(count(mark), 0, "{name}: {mark} in {body}"),
                true => assert_eq!(count(mark), 1, "{name}: {mark} in {body}"),
                false => assert!(count(mark) <= 1, "{name}: {mark} in {body}"),
            }
        }
        if wires::keeps(wire) {
            let own = self.kept.iter().filter(|(owner, _)| *owner == wire);
            for (_, text) in own {
                let mut is_there = false;
                strings(body, &mut |found| is_there |= found == text);
                assert!(is_there, "{name}: {text} is changed in {body}");
            }
            let own = self.values.iter().filter(|(owner, _)| *owner == wire);
            for (_, value) in own {
                assert!(contains(body, value), "{name}: {value} is changed in {body}");
            }
        }

        self.check_pairs(provider, body);
        wires::check_turns(wire, body);
    }

    /// Checks the ids of calls and results.
    fn check_pairs(&self, provider: usize, body: &Value) {
        let wire = PROVIDERS[provider].wire;
        let (calls, results) = wires::pairs(wire, body);
        assert_eq!(calls.len(), self.calls.len(), "{body}");
        assert_eq!(results.len(), self.calls.len(), "{body}");
        let mut seen = Vec::new();
        for ((call, result), (mark, owner, id)) in calls.iter().zip(&results).zip(&self.calls) {
            assert!(marks(call.value).contains(mark), "{body}");
            assert!(marks(result.value).contains(&self.results[mark]), "{body}");
            assert_eq!(call.id, result.id, "{body}");
            assert_eq!(call.name, result.name.or(call.name), "{body}");
            assert!(wires::accepts_name(wire, call.name.unwrap_or_default()), "{:?}", call.name);
            let Some(sent) = call.id else {
                assert_eq!(wire, Wire::Gemini, "a call without an id: {body}");
                continue;
            };
            assert!(wires::accepts(wire, sent), "{}: the id {sent:?}", PROVIDERS[provider].name);
            assert!(!seen.contains(&sent), "two calls have the id {sent:?}");
            seen.push(sent);
            if *owner == wire && wires::accepts(wire, id) {
                assert_eq!(sent, id, "an id of its own is changed");
            }
        }
    }
}

/// Returns whether a value, or an object with its fields, is in a body.
fn contains(body: &Value, value: &Value) -> bool {
    let is_it = match (body, value) {
        (Value::Object(body), Value::Object(fields)) => {
            fields.iter().all(|(name, field)| body.get(name) == Some(field))
        }
        _ => body == value,
    };
    is_it
        || match body {
            Value::Array(items) => items.iter().any(|item| contains(item, value)),
            Value::Object(fields) => fields.values().any(|field| contains(field, value)),
            _ => false,
        }
}

/// Plays a conversation of two providers, and checks the next request of both.
fn play(pair: (usize, usize), turns: &[Turn]) {
    let world = WORLD.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let _ = world.listener.body();
    let mut conversation = Conversation::new();
    for (number, turn) in turns.iter().enumerate() {
        if number == 0 || !turn.user.is_empty() {
            let first = [UserPart::Text("Hi!".to_owned())];
            conversation.user(if turn.user.is_empty() { &first } else { &turn.user });
        }
        conversation.before(turn.before);
        let provider = if turn.is_second { pair.1 } else { pair.0 };
        conversation.reply(&world, provider, turn);
    }
    conversation.user(&[UserPart::Text("Go on.".to_owned())]);
    for provider in [pair.1, pair.0] {
        let body = world.body(provider, &conversation.messages);
        conversation.check(provider, &body);
    }
}

/// A server that parses the arguments would take one of both values, and the model would read of a
/// call that it did not write.
#[test]
fn both_values_of_a_field_that_a_model_gave_twice_go_back() {
    let world = WORLD.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for arguments in [
        r#"{"word":"the first","word":"the second"}"#,
        r#"{"word":{"of":"the first","of":"the second"}}"#,
    ] {
        let call = ToolCall::new("call_1", "look_up", arguments);
        let refused = ToolResult::failed(&call, "field `word` is given twice; give it once");
        let said = Message::Assistant { parts: vec![ReplyPart::Call(call)] };
        let messages = [Message::user("Hi!"), Arc::new(said), Arc::new(Message::Tool(refused))];
        for (provider, known) in PROVIDERS.iter().enumerate() {
            let body = world.body(provider, &messages);
            let mut all = String::new();
            strings(&body, &mut |text| all.push_str(text));
            assert!(all.contains("the first") && all.contains("the second"), "{}", known.name);
        }
    }
}

fn pair() -> impl Strategy<Value = (usize, usize)> {
    (0..PROVIDERS.len(), 0..PROVIDERS.len())
}

proptest! {
    #[test]
    fn a_conversation_goes_on_with_another_provider(
        pair in pair(),
        turns in prop::collection::vec(turn(), 1..6),
    ) {
        play(pair, &turns);
    }
}
