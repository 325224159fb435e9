//! A run that readers watch: its records, the replies that are being written, and where each reader is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use toolwright_journal::RunStatus;
use toolwright_module::event::{Event, EventKind, HookAct};
use toolwright_module::message::ReplyPart;
use toolwright_orchestrator::perform::Record;

use crate::home::{Known, News};
use crate::recorded::{self, Entry, Path, Piece, Reader, Replied, at};
use crate::update::{Update, UpdateKind};

#[cfg(test)]
mod tests;

/// The longest text of one update, in bytes.
const LONGEST_TEXT: usize = 32 * 1024;

/// The names in a path for what an agent asks a model beside its task: the summary of a compaction, and
/// the check of a call. Readers do not get these texts.
const BESIDE: [&str; 2] = ["compact", "check"];

/// A run that readers watch. They share one copy of its updates, and each has a [`Cursor`].
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) id: String,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) reader: Reader,
    entries: Vec<Entry>,
    /// The replies that are being written.
    live: BTreeMap<Path, Live>,
    /// Grows with each reply, so that a reader knows whether its pieces are of the same one.
    generation: u64,
    pub(crate) drive: Drive,
    /// Which drive of another worker the live texts are of, and the last of them.
    pub(crate) seen_live: (i64, i64),
    /// The number of records that drives of this process have stored, as far as it is known.
    heard: usize,
    /// How often the home had to be looked at, and the number of the last look.
    wanted: u64,
    looked: u64,
    /// The number of requests that stop the run now.
    stops: usize,
}

/// Who drives the run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Drive {
    /// It is not known yet.
    #[default]
    Unknown,
    /// This process.
    Here,
    /// Another worker, or soon one.
    Elsewhere,
    /// Nobody, and nobody will by itself. A drive that failed has an error.
    Nobody { error: Option<String> },
}

/// What a drive of this process has left behind that has failed without a record.
#[derive(Debug, Clone)]
pub(crate) struct Left {
    /// What readers read of the error.
    pub(crate) error: String,
    /// The number of records then. With more, something else has driven the run since.
    pub(crate) records: usize,
}

/// A reply that is being written.
#[derive(Debug, Default)]
struct Live {
    generation: u64,
    pieces: Vec<Piece>,
    answer: String,
    /// How often the answer was begun again.
    answers: usize,
    calls: BTreeMap<usize, (String, String)>,
}

/// Whether more updates follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// They do.
    Open,
    /// Not before a person decides.
    Waiting,
    /// None, unless the run is driven again.
    Over,
}

impl Rest {
    /// Returns the word for clients.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Waiting => "waiting",
            Self::Over => "over",
        }
    }
}

impl Watched {
    pub(crate) fn new(id: &str, shows_errors: bool) -> Self {
        let (changed, mut state) = (watch::Sender::new(0), State::default());
        state.reader.shows_errors = shows_errors;
        Self { id: id.to_owned(), state: Mutex::new(state), changed }
    }

    /// Returns what the process has of the run.
    pub(crate) fn known(&self) -> Known {
        let (id, state) = (self.id.clone(), self.state());
        Known { id, records: state.records(), live: state.seen_live, looks: state.wanted }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all updates so far, and whether more follow.
    pub(crate) fn so_far(&self) -> (Vec<Placed>, Rest) {
        Cursor::default().next(&self.state(), usize::MAX)
    }

    /// Returns whether more updates follow.
    pub(crate) fn rest(&self) -> Rest {
        self.state().rest()
    }

    /// Keeps the replies that are being written, although their drive ends, until the returned value is
    /// dropped: a person stops the run, and its record gets them.
    pub(crate) fn keeps_live(&self) -> impl Drop + Send + '_ {
        struct Keeps<'a>(&'a Watched);
        impl Drop for Keeps<'_> {
            fn drop(&mut self) {
                self.0.change(|state| {
                    state.stops -= 1;
                    if state.stops == 0 && !matches!(state.drive, Drive::Here | Drive::Elsewhere) {
                        state.live.clear();
                    }
                });
            }
        }
        self.state().stops += 1;
        Keeps(self)
    }

    /// Tells when the run has changed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(crate) fn has_readers(&self) -> bool {
        self.changed.receiver_count() > 0
    }

    /// Changes the state, and wakes the readers.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state());
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
        result
    }
}

impl State {
    /// Returns the number of records.
    pub(crate) fn records(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the position is one of this run, as far as it is.
    pub(crate) fn has(&self, position: Position) -> bool {
        position.entry <= self.entries.len()
    }

    /// Adds a record that a drive of this process has stored.
    pub(crate) fn add(&mut self, nth: usize, record: &Record) {
        self.heard = self.heard.max(nth + 1);
        if nth == self.entries.len() {
            self.push(record);
        }
    }

    /// Returns whether records may be missing. They are read from the home then.
    pub(crate) fn has_gap(&self) -> bool {
        self.heard > self.entries.len() || self.wanted != self.looked
    }

    /// Returns the number of records that drives of this process have stored, with the start of the run,
    /// which is not heard.
    pub(crate) fn stored(&self) -> usize {
        self.heard.max(self.entries.len()).max(1)
    }

    /// Wants the home to be looked at: something else than a drive of this process may have written
    /// records.
    pub(crate) fn want_look(&mut self) {
        self.wanted += 1;
    }

    /// Takes what is new in the home. Returns whether something is.
    pub(crate) fn take_news(&mut self, news: News, is_here: bool, left: Option<Left>) -> bool {
        let News { known, records, status, is_driven, error, drive, live } = news;
        let (before, drive_before) = (self.entries.len(), self.drive.clone());
        let mut is_new = false;
        if !is_here {
            if self.seen_live.0 != drive && self.stops == 0 {
                // What the drive before had written is void.
                self.seen_live = (drive, -1);
                is_new |= !self.live.is_empty();
                self.live.clear();
            }
            for (nth, text) in live {
                if nth > self.seen_live.1 {
                    self.seen_live.1 = nth;
                    let events: Vec<Event> = serde_json::from_str(&text).unwrap_or_default();
                    is_new |= !events.is_empty();
                    for event in &events {
                        self.hear(event);
                    }
                }
            }
        }
        for (nth, record) in (known.records..).zip(&records) {
            if nth == self.entries.len() {
                self.push(record);
            }
        }
        self.looked = known.looks;
        if !is_here {
            let nobody = |error| Drive::Nobody { error };
            self.drive = match (status, is_driven) {
                (RunStatus::Open, Some(true)) => Drive::Elsewhere,
                // It rests after an error, and a worker takes it later.
                (RunStatus::Open, Some(false)) if error.is_some() => {
                    nobody(error.map(|error| self.reader.shown(error)))
                }
                (RunStatus::Open, _) if self.is_resting() => nobody(None),
                (RunStatus::Open, None | Some(false))
                    if let Some(left) = &left
                        && self.entries.len() <= left.records =>
                {
                    nobody(Some(left.error.clone()))
                }
                (RunStatus::Open, _) => Drive::Elsewhere,
                _ => nobody(None),
            };
            if self.drive != Drive::Elsewhere {
                self.end_live();
            }
        }
        is_new || self.entries.len() != before || self.drive != drive_before
    }

    /// Returns whether the records say that nobody drives the run: it waits for a person, or a drive
    /// has failed.
    fn is_resting(&self) -> bool {
        !self.reader.open.is_empty() || self.has_stopped()
    }

    /// Returns whether the last record says that the run, or a drive of it, has stopped.
    pub(crate) fn has_stopped(&self) -> bool {
        matches!(self.last(), Some(UpdateKind::Stopped { .. }))
    }

    /// Returns whether the run stopped at an error and can be driven again.
    pub(crate) fn can_go_on(&self) -> bool {
        match (self.last(), &self.drive) {
            (Some(UpdateKind::Stopped { can_go_on, .. }), _) => *can_go_on,
            (_, Drive::Nobody { error }) => error.is_some(),
            _ => false,
        }
    }

    /// Returns the last update.
    fn last(&self) -> Option<&UpdateKind> {
        match self.entries.last()? {
            Entry::Updates(updates) => updates.last(),
            Entry::Reply(reply) => reply.after.last(),
        }
        .map(|update| &update.kind)
    }

    /// Adds the next record.
    pub(crate) fn push(&mut self, record: &Record) {
        let entry = self.reader.read(record);
        self.push_entry(entry);
        if matches!(record, Record::Finished { .. } | Record::Stopped { .. }) {
            self.live.clear();
        }
    }

    fn push_entry(&mut self, mut entry: Entry) {
        if let Entry::Reply(reply) = &mut entry
            && let Some(live) = self.live.remove(&reply.path)
        {
            // The readers of a reply that goes on as it began need not compare it.
            // Half a call or half a typed answer is taken back, if the reply was stopped.
            let is_stopped = |update: &Update| matches!(update.kind, UpdateKind::Stopped { .. });
            let is_half = !live.calls.is_empty() || !live.answer.is_empty();
            let is_void = is_half && reply.after.iter().any(is_stopped);
            if begins_with(&reply.pieces, &live.pieces) && !is_void {
                reply.continues = live.generation;
            }
        }
        self.entries.push(entry);
    }

    /// Adds an event of a drive. Returns whether readers see it.
    pub(crate) fn hear(&mut self, event: &Event) -> bool {
        // What was written until then is in the record of the stop.
        if self.stops > 0 {
            return false;
        }
        // A tool may have such a name too. Readers get its replies when they are whole.
        if event.path.iter().any(|call| BESIDE.contains(&&*call.tool)) {
            return false;
        }
        let generation = self.generation + 1;
        let reset = |live: &mut Live| *live = Live { generation, ..Live::default() };
        if matches!(event.kind, EventKind::Started { .. }) && event.path.is_empty() {
            // The start of the run is stored now, and what was decided before this drive.
            self.want_look();
        }
        match &event.kind {
            // What was written before was lost.
            EventKind::Started { .. }
            | EventKind::HookActed {
                tool: None, did: HookAct::Retried | HookAct::Answered, ..
            } => {
                self.generation = generation;
                return self.live.get_mut(&event.path).map(reset).is_some();
            }
            EventKind::TextDelta { .. }
            | EventKind::ReasoningDelta { .. }
            | EventKind::AnswerDelta { .. }
            | EventKind::CallDelta { .. } => {}
            _ => return false,
        }
        if !self.live.contains_key(&event.path) {
            self.generation = generation;
            let live = Live { generation, ..Live::default() };
            self.live.insert(event.path.clone(), live);
        }
        let Some(live) = self.live.get_mut(&event.path) else { return false };
        match &event.kind {
            EventKind::TextDelta { text } => recorded::push(&mut live.pieces, false, text),
            EventKind::ReasoningDelta { text } => recorded::push(&mut live.pieces, true, text),
            EventKind::AnswerDelta { at, text } => {
                // What readers have of it is void.
                live.answers += usize::from(*at < live.answer.len());
                live.answer.truncate(live.answer.floor_char_boundary(*at));
                live.answer.push_str(text);
            }
            EventKind::CallDelta { index, name, arguments } => {
                let (known, so_far) = live.calls.entry(*index).or_default();
                if !name.is_empty() {
                    known.clone_from(name);
                }
                so_far.push_str(arguments);
            }
            _ => {}
        }
        true
    }

    /// Drops the replies that are being written, because their drive has ended.
    pub(crate) fn end_live(&mut self) {
        if self.stops == 0 {
            self.live.clear();
        }
    }

    /// Returns what is known of the reply that the agent of the user was writing, if a reply was being
    /// written.
    pub(crate) fn unfinished_reply(&self) -> Option<Vec<ReplyPart>> {
        let is_begun = matches!(self.last(), Some(UpdateKind::Started { .. }));
        let live = self.live.get(&Path::new());
        let pieces = live.map(|live| &*live.pieces).unwrap_or_default();
        (is_begun || self.is_live()).then(|| recorded::parts(pieces))
    }

    /// Returns whether a reply is being written.
    pub(crate) fn is_live(&self) -> bool {
        !self.live.is_empty()
    }

    /// Returns whether the run has its answer.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.last(), Some(UpdateKind::Done { .. }))
    }

    /// Returns whether more updates follow.
    pub(crate) fn rest(&self) -> Rest {
        match (self.is_done(), &self.drive) {
            (true, _) => Rest::Over,
            (_, Drive::Nobody { .. }) if !self.reader.open.is_empty() => Rest::Waiting,
            (_, Drive::Nobody { .. }) => Rest::Over,
            _ => Rest::Open,
        }
    }
}

/// Returns whether pieces begin with others.
fn begins_with(pieces: &[Piece], others: &[Piece]) -> bool {
    let Some((last, before)) = others.split_last() else { return true };
    let Some((rest, same)) = pieces.get(before.len()).zip(pieces.get(..before.len())) else {
        return false;
    };
    let is_begun = rest.is_reasoning == last.is_reasoning && rest.text.starts_with(&last.text);
    same == before && is_begun
}

/// What a reader has of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cursor {
    /// The next entry, and the number of its updates that the reader has.
    entry: usize,
    within: usize,
    /// What the reader has of replies that are not whole.
    open: BTreeMap<Path, Has>,
    /// Whether the reader knows how a drive ended that left no record of it.
    knows_end: bool,
    /// The paths of which it is known what a reader has that came back, beside the agent that the user
    /// talks to. `None` for a reader that has everything from here.
    sure: Option<BTreeSet<Path>>,
}

/// What a reader has of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Prefix {
    /// Number of bytes of its pieces.
    bytes: usize,
    /// The hash of these bytes.
    hash: u64,
}

#[derive(Debug, Clone, Default)]
struct Has {
    /// The [generation](Live::generation), if it is known.
    generation: u64,
    pieces: Prefix,
    answer: usize,
    /// Which [answer](Live::answers) it is.
    answers: usize,
    calls: BTreeMap<usize, usize>,
}

impl Has {
    fn is_empty(&self) -> bool {
        self.pieces.bytes == 0 && self.answer == 0 && self.calls.is_empty()
    }
}

/// An update, and where a reader is that has it.
pub(crate) type Placed = (Update, Position);

impl Cursor {
    /// Returns the cursor of a reader who comes back.
    pub(crate) fn at(position: Position) -> Self {
        let Position { entry, within, .. } = position;
        let is_first = (entry, within) == (0, 0);
        let sure = (!is_first).then(|| BTreeSet::from([Path::new()]));
        let mut cursor = Self { entry, within, sure, ..Self::default() };
        if position.pieces.bytes > 0 {
            let has = Has { pieces: position.pieces, ..Has::default() };
            cursor.open.insert(Path::new(), has);
        }
        cursor
    }

    fn position(&self) -> Position {
        let pieces = self.open.get(&Path::new()).map(|has| has.pieces).unwrap_or_default();
        Position { entry: self.entry, within: self.within, pieces }
    }

    /// Returns the updates that the reader lacks, about as many as have `most` bytes, and whether more
    /// follow. Readers who are slow get what was written meanwhile in one piece.
    pub(crate) fn next(&mut self, state: &State, most: usize) -> (Vec<Placed>, Rest) {
        let mut out = Out { placed: Vec::new(), room: most };
        while let Some(entry) = state.entries.get(self.entry) {
            let (updates, of) = match entry {
                Entry::Updates(updates) => (updates, None),
                Entry::Reply(reply) => (&reply.after, Some(&reply.path)),
            };
            // Nothing follows the end of a run.
            let is_end = updates.iter().any(|update| {
                matches!(update.kind, UpdateKind::Stopped { .. } | UpdateKind::Done { .. })
            });
            if is_end {
                self.take_back(|path| Some(path) == of, &mut out);
            }
            match entry {
                Entry::Updates(updates) => self.updates(updates, &mut out),
                Entry::Reply(reply) => self.reply(reply, &mut out),
            }
            if out.room == 0 {
                return (out.placed, Rest::Open);
            }
            self.entry += 1;
            self.within = 0;
        }
        // The start of a run comes before what its model writes.
        if !state.entries.is_empty() {
            self.live(state, &mut out);
        }
        let mut rest = if out.room == 0 { Rest::Open } else { state.rest() };
        if let (Drive::Nobody { error: Some(error) }, Rest::Over | Rest::Waiting) =
            (&state.drive, rest)
        {
            let is_known = state.has_stopped();
            if !is_known && !self.knows_end {
                self.knows_end = true;
                let reason = error.clone();
                let kind = UpdateKind::Stopped { reason, can_go_on: true, by_person: false };
                let update = Update::new(kind);
                out.placed.push((update, self.position()));
                rest = Rest::Over;
            }
        }
        (out.placed, rest)
    }

    /// Takes back what a reader that came back may have of a reply of this path. A position says it of
    /// one path only.
    fn make_sure(&mut self, path: &Path, out: &mut Out) {
        let is_sure = |sure: &BTreeSet<Path>| sure.contains(path);
        if !self.sure.as_ref().is_none_or(is_sure) {
            if let Some(sure) = &mut self.sure {
                sure.insert(path.clone());
            }
            out.push(at(path, UpdateKind::Discarded), self.position());
        }
    }

    fn updates(&mut self, updates: &[Update], out: &mut Out) {
        for update in updates.get(self.within..).unwrap_or_default() {
            if out.room == 0 {
                return;
            }
            self.within += 1;
            out.push(update.clone(), self.position());
        }
    }

    fn reply(&mut self, reply: &Replied, out: &mut Out) {
        // The pieces are done if the reader has an update after them.
        if self.within == 0 {
            self.make_sure(&reply.path, out);
            let has = self.open.entry(reply.path.clone()).or_default();
            if has.generation != reply.continues || has.generation == 0 {
                let differs = hash(&reply.pieces, has.pieces.bytes) != Some(has.pieces.hash);
                // Without a generation, nothing but the pieces is known of what the reader has.
                let has_more = has.generation != 0 && (has.answer > 0 || !has.calls.is_empty());
                if has.pieces.bytes > 0 && differs || has_more && has.generation != reply.continues
                {
                    *has = Has::default();
                    out.push(at(&reply.path, UpdateKind::Discarded), self.position());
                }
            }
            self.pieces(&reply.path, &reply.pieces, out);
            if out.room == 0 {
                return;
            }
            self.open.remove(&reply.path);
        } else if let Some(sure) = &mut self.sure {
            sure.insert(reply.path.clone());
        }
        self.updates(&reply.after, out);
    }

    /// Gives the reader the pieces that it lacks.
    fn pieces(&mut self, path: &Path, pieces: &[Piece], out: &mut Out) {
        let Some(mut has) = self.open.get(path).map(|has| has.pieces) else { return };
        let mut skip = has.bytes;
        for piece in pieces {
            let Some(mut rest) = piece.text.get(skip.min(piece.text.len())..) else { return };
            skip = skip.saturating_sub(piece.text.len());
            while !rest.is_empty() && out.room > 0 {
                let (text, after) = rest.split_at(rest.floor_char_boundary(LONGEST_TEXT));
                rest = after;
                has = has.with(piece.is_reasoning, text);
                let text = text.to_owned();
                let kind = match piece.is_reasoning {
                    true => UpdateKind::Reasoning { text },
                    false => UpdateKind::Text { text },
                };
                if let Some(open) = self.open.get_mut(path) {
                    open.pieces = has;
                }
                out.push(at(path, kind), self.position());
            }
        }
    }

    /// Takes back what the reader has of replies that are not written any more.
    fn take_back(&mut self, stays: impl Fn(&Path) -> bool, out: &mut Out) {
        let gone: Vec<_> = self.open.keys().filter(|path| !stays(path)).cloned().collect();
        for path in gone {
            let is_empty = self.open.remove(&path).is_none_or(|has| has.is_empty());
            if !is_empty {
                out.push(at(&path, UpdateKind::Discarded), self.position());
            }
        }
    }

    fn live(&mut self, state: &State, out: &mut Out) {
        self.take_back(|path| state.live.contains_key(path), out);
        for (path, live) in &state.live {
            if out.room == 0 {
                return;
            }
            self.make_sure(path, out);
            let has = self.open.entry(path.clone()).or_default();
            if has.generation != live.generation {
                let is_same = has.generation == 0
                    && hash(&live.pieces, has.pieces.bytes) == Some(has.pieces.hash);
                if !is_same && !has.is_empty() {
                    *has = Has::default();
                    out.push(at(path, UpdateKind::Discarded), self.position());
                }
                if let Some(has) = self.open.get_mut(path) {
                    has.generation = live.generation;
                }
            }
            self.pieces(path, &live.pieces, out);
            let Some(has) = self.open.get_mut(path) else { continue };
            let mut kinds = Vec::new();
            if has.answers != live.answers {
                (has.answers, has.answer) = (live.answers, 0);
            }
            if let Some(text) = live.answer.get(has.answer.min(live.answer.len())..)
                && !text.is_empty()
            {
                kinds.push(UpdateKind::Answer { at: has.answer, text: text.to_owned() });
                has.answer = live.answer.len();
            }
            // The events have the places of the calls among all parts of the reply.
            for (place, (index, (name, arguments))) in live.calls.iter().enumerate() {
                let is_new = !has.calls.contains_key(index);
                let at = has.calls.entry(*index).or_default();
                let Some(rest) = arguments.get(*at..) else { continue };
                if is_new || !rest.is_empty() {
                    let (name, arguments) = (name.clone(), rest.to_owned());
                    kinds.push(UpdateKind::CallText { place, name, at: *at, arguments });
                    *at += rest.len();
                }
            }
            for kind in kinds {
                out.push(at(path, kind), self.position());
            }
        }
    }
}

/// The updates for a reader, and room for more.
struct Out {
    placed: Vec<Placed>,
    room: usize,
}

impl Out {
    fn push(&mut self, update: Update, position: Position) {
        // An update without a text has a size too.
        let size = 64
            + match &update.kind {
                UpdateKind::Text { text }
                | UpdateKind::Reasoning { text }
                | UpdateKind::Answer { text, .. }
                | UpdateKind::Result { text, .. } => text.len(),
                UpdateKind::Called { arguments, .. } | UpdateKind::CallText { arguments, .. } => {
                    arguments.len()
                }
                _ => 0,
            };
        self.room = self.room.saturating_sub(size);
        self.placed.push((update, position));
    }
}

impl Prefix {
    /// FNV-1a of the texts, with a byte that no text has before each change of the kind.
    fn with(self, is_reasoning: bool, text: &str) -> Self {
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let mut hash = if self.bytes == 0 { 0xcbf2_9ce4_8422_2325 } else { self.hash };
        // The kind of each byte counts, so that it does not matter where a text was split.
        let kind = if is_reasoning { 0xff } else { 0 };
        for byte in text.bytes() {
            hash = (hash ^ u64::from(byte ^ kind)).wrapping_mul(PRIME);
        }
        Self { bytes: self.bytes + text.len(), hash }
    }
}

/// Returns the hash of the first bytes of pieces, if they have as many.
fn hash(pieces: &[Piece], bytes: usize) -> Option<u64> {
    let mut prefix = Prefix::default();
    for piece in pieces {
        let most = (bytes - prefix.bytes).min(piece.text.len());
        prefix = prefix.with(piece.is_reasoning, piece.text.get(..most)?);
        if prefix.bytes == bytes {
            break;
        }
    }
    (prefix.bytes == bytes).then_some(prefix.hash)
}

/// Where a reader is: the id of a server-sent event.
///
/// It has the number of the record and of the update in it, and of a reply that is not whole the number
/// of bytes and their hash. So the reader can go on at any worker: if the reply was lost meanwhile and
/// is written anew, its bytes have another hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Position {
    entry: usize,
    within: usize,
    pieces: Prefix,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.entry, self.within)?;
        match self.pieces {
            Prefix { bytes: 0, .. } => Ok(()),
            Prefix { bytes, hash } => write!(f, ".{bytes}.{hash:x}"),
        }
    }
}

impl FromStr for Position {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('.');
        let mut number = || parts.next().map(|part| part.parse().map_err(drop)).transpose();
        let (entry, within) = (number()?.ok_or(())?, number()?.ok_or(())?);
        let pieces = match number()? {
            None => Prefix::default(),
            Some(bytes) => {
                let hash = parts.next().ok_or(())?;
                Prefix { bytes, hash: u64::from_str_radix(hash, 16).map_err(drop)? }
            }
        };
        match parts.next() {
            None => Ok(Self { entry, within, pieces }),
            Some(_) => Err(()),
        }
    }
}
