use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use crate::error::Error;

/// Who asks for a longer wait than this is not asked again: the caller decides.
const LONGEST_ASKED: Duration = Duration::from_secs(60);
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(8);

/// How long to wait before a request is tried again after this error and `used` retries;
/// `None` if a retry is of no use.
///
/// Only before an answer began: half a reply is not thrown away silently.
pub(crate) fn wait(error: &Error, used: u32) -> Option<Duration> {
    match error {
        // Whoever waited this long once does not want to wait as long again.
        Error::Timeout { .. } => None,
        // An answer had begun.
        Error::Truncated { .. } => None,
        Error::Status { retry_after: Some(after), .. } if error.is_retryable() => {
            (*after <= LONGEST_ASKED).then_some(*after)
        }
        _ => error.is_retryable().then(|| backoff(used)),
    }
}

/// Twice as long each time, and up to a quarter shorter by chance, so that those who
/// failed together do not come back together.
fn backoff(used: u32) -> Duration {
    let wait = FIRST.saturating_mul(2_u32.saturating_pow(used)).min(LONGEST);
    // The standard library's only source of chance.
    let chance = RandomState::new().build_hasher().finish() % 256;
    wait - wait / 1024 * u32::try_from(chance).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, code: Option<&str>, retry_after: Option<u64>) -> Error {
        Error::Status {
            status,
            request_id: None,
            code: code.map(str::to_owned),
            message: String::new(),
            retry_after: retry_after.map(Duration::from_secs),
            body: String::new(),
        }
    }

    #[test]
    fn waits_grow_up_to_a_bound() {
        for (used, least, most) in
            [(0, 375, 500), (1, 750, 1000), (4, 6000, 8000), (99, 6000, 8000)]
        {
            let wait = backoff(used).as_millis();
            assert!((least..=most).contains(&wait), "{used}: {wait}");
        }
    }

    #[test]
    fn what_the_server_asks_for_is_kept_up_to_a_minute() {
        let wait = |error| wait(&error, 0).map(|wait| wait.as_secs());
        assert_eq!(wait(status(429, None, Some(7))), Some(7));
        assert_eq!(wait(status(503, None, Some(60))), Some(60));
        assert_eq!(wait(status(429, None, Some(61))), None);
    }

    #[test]
    fn only_what_may_pass_is_asked_again() {
        for code in [408, 409, 429, 500, 502, 503, 504, 529] {
            assert!(wait(&status(code, None, None), 0).is_some(), "{code}");
        }
        for code in [301, 400, 401, 403, 404, 422] {
            assert!(wait(&status(code, None, Some(1)), 0).is_none(), "{code}");
        }
        assert!(wait(&status(429, Some("insufficient_quota"), Some(1)), 0).is_none());
        let after = Duration::from_secs(1);
        assert!(wait(&Error::Timeout { after }, 0).is_none());
    }
}
