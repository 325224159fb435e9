//! Generated streams, read without a socket: what the tests of all providers share.
//!
//! A provider describes its API as an [`Api`], and [`play`] reads streams of four kinds:
//!
//! - whole: a reply that is known ([`Meant`]), in the many forms that servers use. What is read is
//!   that reply, and says that it is complete only if it is. Each call that the model may not have
//!   finished is marked.
//! - cut off: such a stream up to any byte. It is an error, or a reply that lacks nothing which it
//!   has as complete.
//! - mixed: events that are dropped, repeated, moved and renamed. No piece is lost, changed or
//!   doubled.
//! - damaged: recorded streams with other bytes. Nothing panics, and the result does not depend on
//!   where the bytes are cut into chunks.
//!
//! A run plays 2000 streams of each API. `FUZZ_RUNS` is another number, and `FUZZ_FIRST` the first
//! seed. See CONTRIBUTING.md.
#![allow(dead_code, reason = "each provider uses what its API needs")]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use serde_json::Value;
use toolwright_module::message::ReplyPart;
use toolwright_module::model::Delta;
use toolwright_module::{Reply, ToolCall};
use toolwright_provider::{Decoder, Reader};

use crate::ProviderError;

/// What a provider brings to these tests.
pub(crate) struct Api {
    /// The folder of its recorded streams in `tests/streams`.
    pub(crate) recorded: &'static str,
    /// Writes the stream of a reply, and adds to it what this API makes of it.
    pub(crate) written: fn(&mut Meant, &mut Chance) -> Vec<u8>,
    /// Returns a stream of mixed events.
    pub(crate) mixed: fn(&mut Chance) -> Mixed,
    /// Reads a stream with [`read_with`].
    pub(crate) read: fn(&mut dyn Iterator<Item = Vec<u8>>) -> Read,
}

/// The deltas and the result of a stream.
pub(crate) type Read = (Vec<Delta>, Result<Reply, ProviderError>);

/// A random number generator (SplitMix64). Each stream has its own seed.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % most.max(1) as u64).unwrap()
    }

    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// A reply, as the stream means it.
#[derive(Clone, Debug)]
pub(crate) struct Meant {
    /// The reasoning.
    pub(crate) thoughts: String,
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
    /// Whether the reply ends in a way that says that it is complete.
    pub(crate) is_complete: bool,
    /// Whether nothing follows the event that ends the reply.
    pub(crate) ends_last: bool,
}

/// A call of the reply.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Its arguments as far as the stream has them.
    pub(crate) arguments: String,
    /// Whether the model may have written more.
    pub(crate) is_cut: bool,
}

const TEXTS: [&str; 8] = [
    "",
    "<",
    "It is well.",
    "ä\u{2028}\r\n\n\"data: x\"",
    "{\"a\": [1]}",
    "\u{1F600}\\u0041 end",
    "5 <think>{\"a\": 2}</think> 6",
    "<b>{\"a\": 3}",
];
const THOUGHTS: [&str; 6] =
    ["", "", "", "Hm. {\"a\": 4}", "Maybe </thin 4?", "a <think> b \u{1F600}"];
const ARGUMENTS: [&str; 9] = [
    "{}",
    "{}",
    r#"{"place": "hall"}"#,
    r#"{"a":{"b":[1,2.0,12345678901234567890123]},"a":"x"}"#,
    r#"{"text":"ä \"quoted\" \\ \n } {"}"#,
    r#"{"list":["é\"",{"n":1.5},null],"deep":{"yes":true,"word":"x"}}"#,
    r#"["a", {"b": null}]"#,
    "not JSON at all",
    "",
];

impl Meant {
    /// Returns a reply. One that is not complete may be cut off anywhere.
    fn any(chance: &mut Chance) -> Self {
        let calls = (0..chance.below(4)).map(|n| Call {
            id: format!("call_{n}"),
            name: (*chance.pick(&["look", "tidy", "look"])).to_owned(),
            arguments: (*chance.pick(&ARGUMENTS)).to_owned(),
            is_cut: false,
        });
        let calls = calls.collect();
        let text = (*chance.pick(&TEXTS)).to_owned();
        let thoughts = (*chance.pick(&THOUGHTS)).to_owned();
        let is_complete = !chance.one_in(3);
        let mut meant = Self { thoughts, text, calls, is_complete, ends_last: true };
        if !meant.is_complete && chance.one_in(2) {
            let last = match meant.calls.last_mut() {
                Some(call) => &mut call.arguments,
                None => &mut meant.text,
            };
            last.truncate(last.floor_char_boundary(chance.below(last.len() + 1)));
        }
        meant
    }

    fn is_empty(&self) -> bool {
        self.thoughts.is_empty() && self.text.is_empty() && self.calls.is_empty()
    }

    /// Marks all calls as ones that the model may not have finished.
    pub(crate) fn cut_calls(&mut self) {
        self.calls.iter_mut().for_each(|call| call.is_cut = true);
    }
}

/// Reads a stream, chunk by chunk.
pub(crate) fn read_with<D: Decoder>(decoder: D, chunks: &mut dyn Iterator<Item = Vec<u8>>) -> Read {
    let mut reader = Reader::new(decoder);
    let mut deltas = Vec::new();
    let mut drained = |reader: &mut Reader<D>| loop {
        match reader.next() {
            Ok(Some(delta)) => deltas.push(delta),
            Ok(None) => return Ok(()),
            Err(error) => return Err(error),
        }
    };
    for chunk in chunks {
        reader.push(chunk.into());
        if let Err(error) = drained(&mut reader) {
            return (deltas, Err(error));
        }
        if reader.is_over() {
            break;
        }
    }
    let ended = reader.end().and_then(|()| drained(&mut reader));
    let outcome = ended.and_then(|()| reader.finish());
    (deltas, outcome)
}

impl Api {
    /// Reads bytes in chunks of random sizes.
    fn read(&self, bytes: &[u8], chance: &mut Chance) -> Read {
        // The size of a chunk: from one byte to the whole stream.
        let most = *chance.pick(&[1, 2, 7, 64, 4096, 1 << 20]);
        let mut rest = bytes;
        let mut chunks = std::iter::from_fn(|| {
            let size = (1 + chance.below(most)).min(rest.len());
            let (chunk, more) = rest.split_at(size);
            rest = more;
            (!chunk.is_empty()).then(|| chunk.to_vec())
        });
        (self.read)(&mut chunks)
    }

    /// A whole stream is read as the reply that it means.
    fn whole(&self, chance: &mut Chance) {
        let mut meant = Meant::any(chance);
        let bytes = (self.written)(&mut meant, chance);
        if meant.is_empty() {
            return;
        }
        let (deltas, outcome) = self.read(&bytes, chance);
        let shown = || format!("{meant:?}\n{}", String::from_utf8_lossy(&bytes));
        let reply = outcome.unwrap_or_else(|error| panic!("{error:?}\n{}", shown()));
        assert_eq!(reply.to_text(), meant.text, "{}", shown());
        assert_eq!(texts_of(&deltas), meant.text, "{}", shown());
        assert_eq!(reasoning_of(&reply), meant.thoughts, "{}", shown());
        assert_eq!(thoughts_of(&deltas), meant.thoughts, "{}", shown());
        assert_eq!(reply.finish.is_complete(), meant.is_complete, "{}", shown());
        let usage = &reply.usage;
        let counts = (usage.incomplete, usage.input_tokens, usage.output_tokens);
        assert_eq!(counts, (false, 3, 4), "{}", shown());
        assert_eq!(reply.tool_calls().count(), meant.calls.len(), "{}", shown());
        for call in &meant.calls {
            let read: Vec<_> = reply.tool_calls().filter(|read| read.id == call.id).collect();
            let [read] = read[..] else { panic!("{:?}\n{}", reply.parts, shown()) };
            assert_eq!(read.name, call.name, "{}", shown());
            assert!(is_same(call, read), "{read:?}\n{}", shown());
            let is_cut = call.is_cut || !meant.is_complete;
            assert_eq!(read.incomplete, is_cut, "{read:?}\n{}", shown());
        }
        let mut streamed: BTreeMap<usize, String> = BTreeMap::new();
        for delta in &deltas {
            if let Delta::Call { index, arguments, .. } = delta {
                *streamed.entry(*index).or_default() += arguments;
            }
        }
        // Arguments that only the last event has, or that follow others, are not in a delta.
        let is_known = |streamed: &String| {
            matches!(streamed.as_str(), "" | "{}")
                || meant.calls.iter().any(|call| call.arguments == *streamed)
        };
        assert!(streamed.values().all(is_known), "{streamed:?}\n{}", shown());
    }

    /// A stream that was cut off is an error, or what it has as complete is what was meant.
    fn cut_off(&self, chance: &mut Chance) {
        let mut meant = Meant::any(chance);
        let mut bytes = (self.written)(&mut meant, chance);
        if meant.is_empty() {
            return;
        }
        bytes.truncate(chance.below(bytes.len()));
        let (deltas, outcome) = self.read(&bytes, chance);
        let shown = || format!("{meant:?}\n{}", String::from_utf8_lossy(&bytes));
        assert!(meant.text.starts_with(&texts_of(&deltas)), "{deltas:?}\n{}", shown());
        assert!(meant.thoughts.starts_with(&thoughts_of(&deltas)), "{deltas:?}\n{}", shown());
        let Ok(reply) = outcome else { return };
        assert!(meant.text.starts_with(&reply.to_text()), "{reply:?}\n{}", shown());
        assert!(meant.thoughts.starts_with(&reasoning_of(&reply)), "{reply:?}\n{}", shown());
        if !reply.finish.is_complete() {
            assert!(reply.tool_calls().all(|call| call.incomplete), "{reply:?}\n{}", shown());
            return;
        }
        if !meant.ends_last {
            return;
        }
        assert!(meant.is_complete, "{reply:?}\n{}", shown());
        assert_eq!(reply.to_text(), meant.text, "{}", shown());
        assert_eq!(reasoning_of(&reply), meant.thoughts, "{}", shown());
        assert_eq!(reply.tool_calls().count(), meant.calls.len(), "{}", shown());
        for read in reply.tool_calls().filter(|call| !call.incomplete) {
            let is_it = |call: &&Call| call.id == read.id && !call.is_cut && is_same(call, read);
            assert!(meant.calls.iter().any(|call| is_it(&call)), "{read:?}\n{}", shown());
        }
    }

    /// Every piece of mixed events is in the reply once, whole and in order.
    fn mixed(&self, chance: &mut Chance) {
        let Mixed { bytes, mut text, mut arguments } = (self.mixed)(chance);
        let (deltas, outcome) = self.read(&bytes, chance);
        let shown = || format!("{}\n{outcome:?}", String::from_utf8_lossy(&bytes));
        let reply = match &outcome {
            Ok(reply) => {
                is_sound(reply, &shown);
                reply.clone()
            }
            Err(ProviderError::Empty { .. }) if text.is_empty() && arguments.is_empty() => return,
            // A name is missing: the error contains the parts.
            Err(ProviderError::Unclear { fault: "a call has no name", raw, .. }) => {
                Reply::new(serde_json::from_str::<Vec<_>>(raw).unwrap())
            }
            // The events contradict each other, or have a value of another type.
            Err(ProviderError::Unclear { .. } | ProviderError::Decoding { .. }) => return,
            Err(error) => panic!("{error:?}\n{}", shown()),
        };
        assert_eq!(numbers(&texts_of(&deltas)), text, "{}", shown());
        // The pieces of two texts may come in turn.
        let mut read = numbers(&reply.to_text());
        if reply.parts.iter().filter(|part| matches!(part, ReplyPart::Text(_))).count() > 1 {
            read.sort_unstable();
            text.sort_unstable();
        }
        assert_eq!(read, text, "{}", shown());
        let mut found: Vec<_> =
            reply.tool_calls().flat_map(|call| numbers(&call.arguments)).collect();
        found.sort_unstable();
        arguments.sort_unstable();
        // A call that came twice counts once.
        if found.len() < arguments.len() {
            found.dedup();
            arguments.dedup();
        }
        assert_eq!(found, arguments, "{}", shown());
    }

    /// The result for any bytes does not depend on where they are cut.
    fn damaged(&self, recorded: &[Vec<u8>], chance: &mut Chance) {
        let bytes = damaged(recorded, chance);
        let (first, second) = (self.read(&bytes, chance), self.read(&bytes, chance));
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(in_words(&first), in_words(&second), "{text:?}");
        if let Ok(reply) = &first.1 {
            is_sound(reply, &|| text.clone().into_owned());
        }
    }
}

fn texts_of(deltas: &[Delta]) -> String {
    let texts = deltas.iter().filter_map(|delta| match delta {
        Delta::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn thoughts_of(deltas: &[Delta]) -> String {
    let texts = deltas.iter().filter_map(|delta| match delta {
        Delta::Reasoning(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn reasoning_of(reply: &Reply) -> String {
    let texts = reply.parts.iter().filter_map(|part| match part {
        ReplyPart::Reasoning(reasoning) => Some(reasoning.text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Whether the arguments of a call are those that were meant. Missing ones are read as `{}`.
fn is_same(meant: &Call, read: &ToolCall) -> bool {
    match meant.arguments.trim() {
        "" if !read.incomplete => read.arguments == "{}",
        "" | "{}" => matches!(read.arguments.trim(), "" | "{}"),
        _ => read.arguments == meant.arguments,
    }
}

/// What holds for each reply: its calls can be answered, and those of a reply that is not complete
/// are marked.
fn is_sound(reply: &Reply, shown: &dyn Fn() -> String) {
    let mut ids: Vec<&str> = reply.tool_calls().map(|call| call.id.as_str()).collect();
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{}", shown());
    for call in reply.tool_calls() {
        assert!(!call.id.is_empty() && !call.name.trim().is_empty(), "{}", shown());
        assert!(call.incomplete || reply.finish.is_complete(), "{}", shown());
    }
}

fn in_words((deltas, outcome): &Read) -> String {
    match outcome {
        Ok(reply) => format!("{deltas:?} {reply:?}"),
        Err(error) => format!("{deltas:?} {error:#}"),
    }
}

/// Writes events as bytes, with keep-alives and line ends of any form.
pub(crate) fn wire(events: &[Value], ends: bool, chance: &mut Chance) -> Vec<u8> {
    let end = *chance.pick(&["\n", "\n", "\r\n", "\r"]);
    let noise = chance.one_in(2);
    let mut text = String::new();
    if chance.one_in(8) {
        text.push('\u{feff}');
    }
    for event in events {
        if noise && chance.one_in(3) {
            let heartbeats = [": ping", "data:", "data: ", "event: keepalive", "id: 7", "retry: 5"];
            text += *chance.pick::<&str>(&heartbeats);
            text += end;
            text += end;
        }
        if let Some(kind) = event["type"].as_str() {
            text += "event: ";
            text += kind;
            text += end;
        }
        let event = event.to_string();
        text += "data: ";
        // JSON may have a line end between any two tokens.
        match event.find(",\"") {
            Some(at) if noise && chance.one_in(5) => {
                text += &event[..=at];
                text += end;
                text += "data:";
                text += &event[at + 1..];
            }
            _ => text += &event,
        }
        text += end;
        text += end;
    }
    if ends {
        text += "data: [DONE]";
        text += end;
        text += end;
    }
    text.into_bytes()
}

/// Cuts a text into pieces.
pub(crate) fn cut(text: &str, chance: &mut Chance) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for char in text.chars() {
        piece.push(char);
        if chance.one_in(4) {
            pieces.push(std::mem::take(&mut piece));
        }
    }
    pieces.push(piece);
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// Merges sequences in random order. The order within each sequence stays.
pub(crate) fn interleaved(mut of: Vec<Vec<Value>>, chance: &mut Chance) -> Vec<Value> {
    let mut all = Vec::new();
    of.iter_mut().for_each(|events| events.reverse());
    while !of.is_empty() {
        let at = chance.below(of.len());
        match of[at].pop() {
            Some(event) => all.push(event),
            None => drop(of.remove(at)),
        }
    }
    all
}

/// A stream of events in any order, and the numbers of the pieces that it has.
pub(crate) struct Mixed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) text: Vec<usize>,
    pub(crate) arguments: Vec<usize>,
}

/// A piece with a number, by which it is found in the reply.
pub(crate) fn piece(number: usize) -> String {
    format!("<{number}>")
}

/// Returns the numbers of the pieces in a text.
pub(crate) fn numbers(text: &str) -> Vec<usize> {
    let numbers = text.split('<').skip(1).filter_map(|rest| rest.split_once('>')?.0.parse().ok());
    numbers.collect()
}

/// Drops, swaps and repeats some events.
pub(crate) fn mix(events: &mut Vec<Value>, chance: &mut Chance) {
    for _ in 0..chance.below(4) {
        let (from, to) = (chance.below(events.len()), chance.below(events.len()));
        match chance.below(3) {
            0 if events.len() > 1 => drop(events.remove(from)),
            1 => events.swap(from, to),
            _ => events.insert(to, events[from].clone()),
        }
    }
}

/// Returns a recorded stream with other bytes, or any bytes.
fn damaged(recorded: &[Vec<u8>], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = chance.pick(recorded).clone();
    bytes.truncate(if chance.one_in(2) { 1500 } else { bytes.len() });
    for _ in 0..chance.below(6) {
        let at = chance.below(bytes.len() + 1);
        let end = (at + chance.below(40)).min(bytes.len());
        match chance.below(7) {
            0 => drop(bytes.drain(at..end)),
            1 => {
                let again = bytes[at..end].to_vec();
                let to = chance.below(bytes.len() + 1);
                bytes.splice(to..to, again);
            }
            2 => bytes.insert(at, chance.next().to_le_bytes()[0]),
            3 => {
                let words: [&[u8]; 14] = [
                    b"\n\n",
                    b"\r",
                    b"data:",
                    b"data: [DONE]\n\n",
                    b"null",
                    b"[]",
                    b"{}",
                    b"\"",
                    b"-1",
                    b"\xff\xfe",
                    b"\xef\xbb\xbf",
                    b"1e999",
                    b"<think>",
                    b"</think>",
                ];
                let word = *chance.pick(&words);
                bytes.splice(at..at, word.iter().copied());
            }
            4 if at < end => bytes[at] ^= 1 << chance.below(8),
            5 => {
                let other = chance.pick(recorded);
                let from = chance.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            _ => bytes = (0..chance.below(300)).map(|_| chance.next().to_le_bytes()[0]).collect(),
        }
    }
    bytes
}

/// Plays streams of an API. A failure prints the seed of its stream.
pub(crate) fn play(api: &Api) {
    let number = |name, or: u64| env::var(name).map_or(or, |number| number.parse().unwrap());
    let (first, runs) = (number("FUZZ_FIRST", 0), number("FUZZ_RUNS", 2000));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams").join(api.recorded);
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let recorded: Vec<_> = files.into_iter().map(|file| fs::read(file).unwrap()).collect();
    let mut kinds = [0_u64; 4];
    for seed in first..first + runs {
        let mut chance = Chance(seed);
        let kind = chance.below(4);
        kinds[kind] += 1;
        let run = AssertUnwindSafe(|| match kind {
            0 => api.whole(&mut chance),
            1 => api.cut_off(&mut chance),
            2 => api.mixed(&mut chance),
            _ => api.damaged(&recorded, &mut chance),
        });
        if let Err(panic) = catch_unwind(run) {
            eprintln!("FUZZ_FIRST={seed} FUZZ_RUNS=1 plays it again");
            resume_unwind(panic);
        }
    }
    let [whole, cut_off, mixed, damaged] = kinds;
    println!(
        "{runs} streams: {whole} whole, {cut_off} cut off, {mixed} with mixed events, {damaged} \
         with damaged bytes"
    );
}
