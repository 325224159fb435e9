//! Random runs and readers.

use proptest::prelude::*;
use toolwright_module::event::InCall;

use super::*;

/// What happens to a run.
#[derive(Debug, Clone)]
enum Step {
    /// A model writes, in the run itself or below.
    Write { below: bool, is_reasoning: bool, text: String },
    /// What is being written is lost.
    Lose { below: bool },
    /// All that is being written is lost, as after a crash.
    Crash,
    /// The reply is stored: as it was written and on, or another one.
    Reply { below: bool, goes_on: bool, text: String },
    /// Something else is stored.
    Store,
    /// A reader gets what is new, with this much room.
    Read { reader: usize, room: usize },
    /// A reader comes back.
    Return { reader: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let text = "[a-cé]{1,6}";
    let step = prop_oneof![
        6 => (any::<bool>(), any::<bool>(), text).prop_map(|(below, is_reasoning, text)| {
            Step::Write { below, is_reasoning, text }
        }),
        1 => any::<bool>().prop_map(|below| Step::Lose { below }),
        1 => Just(Step::Crash),
        3 => (any::<bool>(), any::<bool>(), text).prop_map(|(below, goes_on, text)| {
            Step::Reply { below, goes_on, text }
        }),
        1 => Just(Step::Store),
        8 => (0..3_usize, 1..200_usize).prop_map(|(reader, room)| Step::Read { reader, room }),
        3 => (0..3_usize).prop_map(|reader| Step::Return { reader }),
    ];
    prop::collection::vec(step, 0..80)
}

#[test]
fn a_summary_and_the_check_of_a_call_are_not_shown() {
    for tool in ["compact", "check"] {
        let mut state = State::default();
        let event = serde_json::json!({
            "path": [{"tool": tool, "id": "1"}],
            "event": "text_delta",
            "text": "The user wants",
        });
        assert!(!state.hear(&serde_json::from_value(event).unwrap()));
        assert!(!state.is_live());
    }
}

#[test]
fn what_is_being_written_is_taken_back_before_the_run_stops() {
    let mut state = State::default();
    let kind = UpdateKind::Compacted { tokens_before: 1, tokens_after: 0 };
    state.push_entry(Entry::Updates(vec![Update::new(kind)]));
    let text = EventKind::TextDelta { text: "Let me".to_owned() };
    state.hear(&serde_json::from_value(event(false, &text)).unwrap());
    let (mut cursor, mut new) = (Cursor::default(), Cursor::default());
    let (placed, _) = cursor.next(&state, 1_000);
    let position = placed.last().unwrap().1;
    state.push(&toolwright_journal::home::cancelled(None));
    let kinds = |cursor: &mut Cursor| {
        let (placed, _) = cursor.next(&state, 1_000);
        let json = placed.iter().map(|(update, _)| serde_json::to_value(update).unwrap());
        json.map(|json| json["update"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let back = kinds(&mut Cursor::at(position));
    assert_eq!(back, kinds(&mut cursor));
    assert_eq!(back, ["discarded", "stopped"]);
    assert_eq!(kinds(&mut new), ["compacted", "stopped"]);
}

fn path(below: bool) -> Path {
    let call = InCall { tool: "helper".to_owned(), id: "1".to_owned() };
    if below { vec![call] } else { Path::new() }
}

/// What a reader sees: whole replies with their paths, and numbers of other updates.
#[derive(Debug, Clone, PartialEq)]
enum Seen {
    Reply(bool, Vec<Piece>),
    Other(u64),
}

#[derive(Default)]
struct Page {
    cursor: Cursor,
    position: Position,
    writing: BTreeMap<bool, Vec<Piece>>,
    seen: Vec<Seen>,
}

impl Page {
    fn read(&mut self, state: &State, room: usize) -> bool {
        let (placed, _) = self.cursor.next(state, room);
        let is_new = !placed.is_empty();
        for (update, position) in placed {
            self.position = position;
            let below = !update.path.is_empty();
            let writing = self.writing.entry(below).or_default();
            match update.kind {
                UpdateKind::Text { text } => recorded::push(writing, false, &text),
                UpdateKind::Reasoning { text } => recorded::push(writing, true, &text),
                UpdateKind::Discarded => writing.clear(),
                UpdateKind::Replied { .. } => {
                    self.seen.push(Seen::Reply(below, std::mem::take(writing)));
                }
                UpdateKind::Compacted { tokens_before, .. } => {
                    self.seen.push(Seen::Other(tokens_before));
                }
                kind => panic!("{kind:?}"),
            }
        }
        is_new
    }
}

proptest! {
    #[test]
    fn readers_who_come_and_go_see_what_is_stored_once(steps in steps()) {
        let (mut state, mut pages) = (State::default(), <[Page; 3]>::default());
        let (mut stored, mut count) = (Vec::new(), 0);
        let mut store = |state: &mut State, stored: &mut Vec<Seen>| {
            count += 1;
            let kind = UpdateKind::Compacted { tokens_before: count, tokens_after: 0 };
            state.push_entry(Entry::Updates(vec![Update::new(kind)]));
            stored.push(Seen::Other(count));
        };
        store(&mut state, &mut stored);
        for step in steps {
            match step {
                Step::Write { below, is_reasoning, text } => {
                    let kind = match is_reasoning {
                        true => EventKind::ReasoningDelta { text },
                        false => EventKind::TextDelta { text },
                    };
                    state.hear(&serde_json::from_value(event(below, &kind)).unwrap());
                }
                Step::Lose { below } => {
                    let kind = EventKind::HookActed {
                        hook: "retry".to_owned(),
                        tool: None,
                        did: HookAct::Retried,
                    };
                    state.hear(&serde_json::from_value(event(below, &kind)).unwrap());
                }
                Step::Crash => state.end_live(),
                Step::Reply { below, goes_on, text } => {
                    let path = path(below);
                    let mut pieces = match state.live.get(&path) {
                        Some(live) if goes_on => live.pieces.clone(),
                        _ => Vec::new(),
                    };
                    recorded::push(&mut pieces, false, &text);
                    let cost = crate::update::Cost::default();
                    let after = vec![at(&path, UpdateKind::Replied { model: None, cost })];
                    let reply = Replied { path, pieces: pieces.clone(), continues: 0, after };
                    state.push_entry(Entry::Reply(reply));
                    stored.push(Seen::Reply(below, pieces));
                }
                Step::Store => store(&mut state, &mut stored),
                Step::Read { reader, room } => {
                    pages[reader].read(&state, room);
                }
                Step::Return { reader } => {
                    let page = &mut pages[reader];
                    let position: Position = page.position.to_string().parse().unwrap();
                    prop_assert_eq!(position, page.position);
                    page.cursor = Cursor::at(position);
                }
            }
        }
        state.end_live();
        for page in &mut pages {
            while page.read(&state, 100) {}
            prop_assert_eq!(&page.seen, &stored);
            // A reader that came back may keep the beginning of a reply below that was lost and is
            // never asked for again: its position does not say that it has it.
            prop_assert!(page.writing.get(&false).is_none_or(Vec::is_empty));
        }
    }
}

fn event(below: bool, kind: &EventKind) -> serde_json::Value {
    let mut event = serde_json::to_value(kind).unwrap();
    event["path"] = serde_json::to_value(path(below)).unwrap();
    event
}

/// A model may write its typed answer anew in the same reply.
#[test]
fn an_answer_that_begins_again_is_shown_from_its_start() {
    let mut state = State::default();
    let kind = UpdateKind::Compacted { tokens_before: 1, tokens_after: 0 };
    state.push_entry(Entry::Updates(vec![Update::new(kind)]));
    let mut cursor = Cursor::default();
    let mut shown = String::new();
    for (at, text) in [(0, r#"{"name":"#), (8, "1"), (0, r#"{"a":2"#), (6, r#","b":3}"#)] {
        let kind = EventKind::AnswerDelta { at, text: text.to_owned() };
        state.hear(&serde_json::from_value(event(false, &kind)).unwrap());
        for (update, _) in cursor.next(&state, 1_000).0 {
            if let UpdateKind::Answer { at, text } = update.kind {
                shown.truncate(at);
                shown.push_str(&text);
            }
        }
    }
    assert_eq!(shown, r#"{"a":2,"b":3}"#);
}
