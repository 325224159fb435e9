//! [`RetryPolicy`]: the pauses between attempts.

use std::time::Duration;
use toolwright_http::{Deadline, Retry, RetryPolicy};

fn asked(seconds: u64) -> Option<u64> {
    let retry = Retry::After(Duration::from_secs(seconds));
    let pause = RetryPolicy::default().pause(retry, 0, Deadline::never());
    pause.map(|pause| pause.as_secs())
}

#[test]
fn pauses_double_up_to_the_longest() {
    let policy = RetryPolicy { retries: 1000, ..RetryPolicy::default() };
    for (used, least, most) in [(0, 375, 500), (1, 750, 1000), (4, 6000, 8000), (99, 6000, 8000)] {
        let pause = policy.pause(Retry::Backoff, used, Deadline::never()).unwrap();
        assert!((least..=most).contains(&pause.as_millis()), "{used}: {pause:?}");
    }
}

#[test]
fn a_pause_that_the_server_asks_for_may_take_up_to_a_minute() {
    assert_eq!([asked(0), asked(7), asked(60)], [Some(0), Some(7), Some(60)]);
    assert_eq!([asked(61), asked(u64::MAX)], [None, None]);
}

#[test]
fn there_is_no_pause_that_would_end_after_the_deadline() {
    let policy = RetryPolicy::default();
    let deadline = Deadline::after(Duration::from_secs(30));
    let pause =
        |seconds| policy.pause(Retry::After(Duration::from_secs(seconds)), 0, deadline).is_some();
    assert_eq!([pause(20), pause(31)], [true, false]);
    let over = Deadline::after(Duration::ZERO);
    assert_eq!(policy.pause(Retry::Backoff, 0, over), None);
}

#[test]
fn a_response_that_began_is_retried_only_if_the_policy_allows_it() {
    let policy = RetryPolicy::default();
    let never = Deadline::never();
    assert_eq!(policy.pause(Retry::AnswerBegan, 0, never), None);
    let policy = RetryPolicy { begun_answers: true, ..policy };
    assert!(policy.pause(Retry::AnswerBegan, 0, never).is_some());
    assert_eq!(policy.pause(Retry::Never, 0, never), None);
    assert_eq!(policy.pause(Retry::Backoff, 2, never), None);
}
