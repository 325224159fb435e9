//! [`Deadline`].

use std::time::Duration;
use toolwright_http::Deadline;

#[test]
fn the_earlier_of_two_deadlines_is_kept() {
    let [soon, late] = [1, 2].map(|hours| Deadline::after(Duration::from_secs(3600 * hours)));
    let never = Deadline::never();
    assert_eq!([soon.or_earlier(late), late.or_earlier(soon)], [soon, soon]);
    assert_eq!([soon.or_earlier(never), never.or_earlier(soon)], [soon, soon]);
    assert_eq!(never.or_earlier(never), never);
    assert!(Deadline::at(std::time::Instant::now()).has_passed());
}
