//! Limits of one response, and the deadline of a call.

use std::time::Duration;

use tokio::time::Instant;

/// Limits of time and size for one attempt.
///
/// The total time of a call is a [`Deadline`], because it includes retries.
///
/// ```
/// use std::time::Duration;
/// use toolwright_http::HttpLimits;
///
/// let limits = HttpLimits { silence: Duration::from_secs(30), body: 1 << 20, ..HttpLimits::default() };
/// assert_eq!(limits.body, 1 << 20);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpLimits {
    /// Maximum time to connect. Default: 10 seconds.
    pub connect: Duration,
    /// Maximum time without a byte, before the response and within. Default: 10 minutes,
    /// because a reasoning model may think for minutes before its first word.
    pub silence: Duration,
    /// Maximum size of one body, in bytes. Default: 64 MiB.
    pub body: usize,
    /// Maximum size of the body that [`Refusal`](crate::Refusal) keeps, in bytes.
    /// Default: 64 KiB.
    pub refusal: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            silence: Duration::from_secs(600),
            body: 64 << 20,
            refusal: 64 << 10,
        }
    }
}

/// Moment at which a call has to end, with its retries and pauses.
///
/// ```
/// use std::time::Duration;
/// use toolwright_http::Deadline;
///
/// let deadline = Deadline::after(Duration::from_secs(60));
/// assert_ne!(deadline, Deadline::never());
/// // A limit too large for the clock means no limit.
/// assert_eq!(Deadline::after(Duration::MAX), Deadline::never());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(Option<(Instant, Duration)>);

impl Deadline {
    /// Returns the absence of a deadline: the call may take any time.
    #[must_use]
    pub fn never() -> Self {
        Self(None)
    }

    /// Returns the deadline that is `time` from now.
    ///
    /// A time too large for [`Instant`] means no deadline.
    #[must_use]
    pub fn after(time: Duration) -> Self {
        Self(Instant::now().checked_add(time).map(|at| (at, time)))
    }

    /// Returns the deadline at this moment.
    #[must_use]
    pub fn at(moment: std::time::Instant) -> Self {
        let at = Instant::from_std(moment);
        Self(Some((at, at.saturating_duration_since(Instant::now()))))
    }

    /// Returns the earlier of two deadlines.
    pub(crate) fn or_earlier(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some((a, _)), Some((b, _))) if b < a => other,
            (None, Some(_)) => other,
            _ => self,
        }
    }

    /// Returns the moment, or `None` if there is no deadline.
    pub(crate) fn instant(self) -> Option<Instant> {
        self.0.map(|(at, _)| at)
    }

    /// Returns the time between the creation of the deadline and its moment.
    pub(crate) fn allowed(self) -> Option<Duration> {
        self.0.map(|(_, time)| time)
    }

    /// Returns whether the moment has passed.
    pub(crate) fn has_passed(self) -> bool {
        self.instant().is_some_and(|at| Instant::now() >= at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_of_two_deadlines_is_kept() {
        let [soon, late] = [1, 2].map(|hours| Deadline::after(Duration::from_secs(3600 * hours)));
        let never = Deadline::never();
        assert_eq!([soon.or_earlier(late), late.or_earlier(soon)], [soon, soon]);
        assert_eq!([soon.or_earlier(never), never.or_earlier(soon)], [soon, soon]);
        assert_eq!(never.or_earlier(never), never);
        assert!(Deadline::at(std::time::Instant::now()).has_passed());
    }
}
