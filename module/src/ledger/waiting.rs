//! Reservations that wait until others are released.
//!
//! The waiting calls of a ledger and of all ledgers below it are in one queue, in the topmost
//! ledger. Each release tries them in order. A call may pass an earlier one only if the earlier one
//! would still fit beside it, so that small calls cannot keep a large one waiting.

use std::collections::{BTreeMap, VecDeque};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Exhausted, Id, Ledger, Reservation};
use crate::budget::{Budget, Spent};

/// Time that a call waits for reservations that may never be released.
const PATIENCE: Duration = Duration::from_secs(60);

/// The kind of a reservation's holder, which decides how long others wait for it.
///
/// A call of a model ends by itself, so others wait for it without a limit. Three kinds of holders may
/// need others to end first: a program with a reservation of its own, a tool call with one, and a
/// stream that the program reads, which goes on only while it is read. They have a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holder(Option<u64>);

impl Holder {
    /// A program, or a stream without calls below it.
    pub(crate) const PROGRAM: Self = Self(Some(0));

    /// A model call inside of these streams, the outermost one first.
    pub(crate) fn in_streams(streams: &[u64]) -> Self {
        Self(streams.last().copied())
    }

    /// A tool call or a stream with this number.
    pub(super) fn numbered(number: u64) -> Self {
        Self(Some(number))
    }

    /// Returns a number that no other holder has.
    pub(crate) fn new_number() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn number(self) -> Option<u64> {
        self.0
    }
}

/// The reason why a call got no reservation.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The call would not fit even if all others released their reservations.
    Exhausted(Exhausted),
    /// The deadline passed while the call waited.
    Late,
}

/// The amounts of the calls that wait ahead of another one, by ledger.
#[derive(Default)]
pub(super) struct Ahead(BTreeMap<u64, Spent>);

impl Ahead {
    pub(super) fn of(&self, ledger: Id) -> Spent {
        self.0.get(&ledger.0).copied().unwrap_or_default()
    }

    fn add(&mut self, waits: &Waits) {
        let limited = |ledger: &&Ledger| ledger.account.budget != Budget::default();
        for ledger in waits.ledger.chain().filter(limited) {
            *self.0.entry(ledger.account.id.0).or_default() += waits.most;
        }
    }
}

/// The calls that wait, the oldest first.
#[derive(Default)]
pub(super) struct Queue(VecDeque<Entry>);

struct Entry {
    number: u64,
    waits: Waits,
    answer: oneshot::Sender<Result<Granted, Exhausted>>,
}

/// A call that waits.
#[derive(Clone)]
struct Waits {
    ledger: Ledger,
    most: Spent,
    holder: Holder,
    /// The streams around the call. The call may wait for the calls inside them, because its caller
    /// polls them too.
    streams: Vec<u64>,
    /// Whether the wait for a numbered holder can be limited. If not, the call does not wait.
    has_timer: bool,
}

/// A reservation for a call that was not sent yet. If the call is gone, it is released.
pub(crate) struct Granted(Option<Reservation>);

impl Granted {
    pub(crate) fn new(reservation: Reservation) -> Self {
        Self(Some(reservation))
    }

    /// Returns the reservation, for a call that is sent now.
    pub(crate) fn take(mut self) -> Option<Reservation> {
        self.0.take()
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        if let Some(reservation) = self.0.take() {
            reservation.cancel();
        }
    }
}

/// A waiting call in the queue. Dropping it leaves the queue.
struct Queued {
    top: Ledger,
    number: u64,
}

impl Drop for Queued {
    fn drop(&mut self) {
        let mut queue = self.top.queue();
        let Some(place) = queue.0.iter().position(|entry| entry.number == self.number) else {
            return;
        };
        let entry = queue.0.remove(place);
        drop(queue);
        drop(entry);
        // Calls behind it may fit now.
        self.top.serve();
    }
}

/// The result of entering the queue.
enum Entered {
    Reserved(Reservation),
    Refused(Exhausted),
    Waits(oneshot::Receiver<Result<Granted, Exhausted>>, Queued),
}

impl Ledger {
    /// Reserves the largest possible cost of a model call, here and in every ledger above. If it
    /// does not fit beside the other calls in progress, it waits until they release theirs.
    ///
    /// **Order.** First come, first served. A later call passes only if the earlier ones would
    /// still fit beside it.
    ///
    /// **Refusal.** A call is refused as soon as it would not fit even if every other reservation
    /// were released in full. Numbers of calls are never released, because a call that was made
    /// counts, so no call waits for them. Unknown costs are never released either.
    ///
    /// **Deadlocks.** A model call holds its reservation only while its model works, and waits for
    /// no other reservation meanwhile. A tool call holds only its number, for which nobody waits. An
    /// agent therefore never waits for the calls around it, at any depth. Two holders may need the
    /// waiting call to end first: a program with a reservation of its own
    /// ([`reserve`](Self::reserve)), and a stream that nobody reads meanwhile. If a call needs the
    /// reservation of such a holder, it waits at most a minute or two, and not at all without tokio's
    /// timer. Calls inside of one stream wait for each other without a limit. A tool call with a
    /// reservation of its own releases it only after the calls below it. If one of these needs that
    /// reservation, it is refused at once.
    ///
    /// **Cancellation.** The future may be dropped at any time. It leaves the queue, and gives back
    /// what it was given.
    pub(crate) async fn reserve_or_wait(
        &self,
        most: Spent,
        streams: &[u64],
        holder: Holder,
        deadline: Option<std::time::Instant>,
    ) -> Result<Reservation, Refused> {
        if let Some(reservation) = self.reserve_now(most, holder) {
            return Ok(reservation);
        }
        self.wait(most, streams, holder, deadline).await
    }

    /// Reserves if nobody waits and the call fits.
    fn reserve_now(&self, most: Spent, holder: Holder) -> Option<Reservation> {
        let queue = self.top().queue();
        if !queue.0.is_empty() {
            return None;
        }
        self.hold(most, holder, &Ahead::default()).ok()?;
        Some(Reservation { ledger: self.clone(), most: Some(most), holder })
    }

    async fn wait(
        &self,
        most: Spent,
        streams: &[u64],
        holder: Holder,
        deadline: Option<std::time::Instant>,
    ) -> Result<Reservation, Refused> {
        let streams = streams.to_vec();
        let mut waits = Waits { ledger: self.clone(), most, holder, streams, has_timer: true };
        // Most calls that do not fit are refused, and need no timer.
        if let Some(exhausted) = waits.hopeless(true) {
            return Err(Refused::Exhausted(exhausted));
        }
        waits.has_timer = has_timer();
        let (mut answer, place) = match waits.enter() {
            Entered::Reserved(reservation) => return Ok(reservation),
            Entered::Refused(exhausted) => return Err(Refused::Exhausted(exhausted)),
            Entered::Waits(answer, place) => (answer, place),
        };
        let deadline = deadline.map(Instant::from);
        let answer = loop {
            if !waits.has_timer {
                break (&mut answer).await;
            }
            let patient = Instant::now() + PATIENCE;
            let until = deadline.map_or(patient, |deadline| deadline.min(patient));
            if let Ok(answer) = tokio::time::timeout_at(until, &mut answer).await {
                break answer;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(Refused::Late);
            }
            if let Some(exhausted) = waits.hopeless(false) {
                return Err(Refused::Exhausted(exhausted));
            }
        };
        drop(place);
        match answer {
            Ok(Ok(granted)) => match granted.take() {
                Some(reservation) => Ok(reservation),
                None => self.reserve(most).map_err(Refused::Exhausted),
            },
            Ok(Err(exhausted)) => Err(Refused::Exhausted(exhausted)),
            // Not reached: an entry is dropped with its answer, or by its own place.
            Err(_) => self.reserve(most).map_err(Refused::Exhausted),
        }
    }

    /// Tries the waiting calls again, after a release.
    pub(super) fn serve(&self) {
        let top = self.top();
        let mut answers = Vec::new();
        {
            let mut queue = top.queue();
            if queue.0.is_empty() {
                return;
            }
            let (mut ahead, mut left) = (Ahead::default(), VecDeque::new());
            for entry in queue.0.drain(..) {
                match entry.waits.hold(&ahead) {
                    Ok(reservation) => {
                        answers.push((entry.answer, Ok(Granted::new(reservation))));
                    }
                    Err(_) => match entry.waits.hopeless(entry.waits.has_timer) {
                        Some(exhausted) => answers.push((entry.answer, Err(exhausted))),
                        None => {
                            ahead.add(&entry.waits);
                            left.push_back(entry);
                        }
                    },
                }
            }
            queue.0 = left;
        }
        // Outside of the lock, because a waker is foreign code, and because what cannot be
        // delivered is released.
        for (sender, answer) in answers {
            drop(sender.send(answer));
        }
    }

    fn top(&self) -> &Self {
        self.chain().last().unwrap_or(self)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.account.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waits {
    fn hold(&self, ahead: &Ahead) -> Result<Reservation, Exhausted> {
        self.ledger.hold(self.most, self.holder, ahead)?;
        Ok(Reservation { ledger: self.ledger.clone(), most: Some(self.most), holder: self.holder })
    }

    /// Enters the queue, unless there is an answer now.
    fn enter(&self) -> Entered {
        let top = self.ledger.top();
        let mut queue = top.queue();
        let mut ahead = Ahead::default();
        queue.0.iter().for_each(|entry| ahead.add(&entry.waits));
        if let Ok(reservation) = self.hold(&ahead) {
            return Entered::Reserved(reservation);
        }
        if let Some(exhausted) = self.hopeless(self.has_timer) {
            return Entered::Refused(exhausted);
        }
        let (number, (sender, answer)) = (Holder::new_number(), oneshot::channel());
        queue.0.push_back(Entry { number, waits: self.clone(), answer: sender });
        Entered::Waits(answer, Queued { top: top.clone(), number })
    }

    /// Returns the ledger that cannot allow the call even if others release their reservations.
    /// `of_all` is whether these are all others, or only those that end by themselves.
    /// The reservations of the tool calls around the call are never among them.
    fn hopeless(&self, of_all: bool) -> Option<Exhausted> {
        let around: Vec<u64> = self.ledger.chain().filter_map(|ledger| ledger.call).collect();
        self.ledger.chain().filter(|ledger| ledger.account.budget != Budget::default()).find_map(
            |ledger| {
                let book = ledger.book();
                // Calls that are in progress count in any case.
                let mut least = book.spent + book.kept + book.held.calls();
                for (number, held) in &book.numbered {
                    if around.contains(number) || !(of_all || self.is_in(*number)) {
                        least += held.costs();
                    }
                }
                let least = book.with_last_calls(least);
                ledger.account.budget.refuses(least, self.most)?;
                let taken = book.with_last_calls(book.spent + book.kept + book.held);
                ledger.check(taken, self.most).err()
            },
        )
    }

    fn is_in(&self, number: u64) -> bool {
        self.streams.contains(&number)
    }
}

/// Returns whether tokio's timer is available, which deadlines and time limits need. There is no way
/// to ask, so this tries to use it.
#[must_use]
pub fn has_timer() -> bool {
    catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok()
}
