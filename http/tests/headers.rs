//! Response headers that many servers share.

use std::time::{Duration, SystemTime};
use toolwright_http::reqwest::header::{HeaderMap, HeaderName};
use toolwright_http::{rate_limits, retry_after};

fn headers(all: &[(&str, &str)]) -> HeaderMap {
    let header = |(name, value): &(&str, &str)| {
        (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())
    };
    all.iter().map(header).collect()
}

#[test]
fn a_pause_is_read_in_each_form() {
    let in_an_hour = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(3600));
    for (name, value, least, most) in [
        ("retry-after", "7", 7000, 7000),
        ("retry-after", " 0.25 ", 250, 250),
        ("retry-after-ms", "1500", 1500, 1500),
        ("x-ms-retry-after-ms", "20", 20, 20),
        ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT", 0, 0),
        ("retry-after", &in_an_hour, 3_590_000, 3_600_000),
    ] {
        let wait = retry_after(&headers(&[(name, value)])).unwrap().as_millis();
        assert!((least..=most).contains(&wait), "{name}: {value}: {wait}");
    }
    let both = headers(&[("retry-after", "7"), ("retry-after-ms", "1")]);
    assert_eq!(retry_after(&both), Some(Duration::from_millis(1)));
    for odd in ["-1", "NaN", "inf", "soon", "", "1e300"] {
        assert_eq!(retry_after(&headers(&[("retry-after", odd)])), None, "{odd}");
    }
}

#[test]
fn rate_limits_are_read_from_the_headers_of_three_providers() {
    let found = rate_limits(&headers(&[
        ("x-ratelimit-limit-requests", "60"),
        ("x-ratelimit-remaining-requests", "59"),
        ("x-ratelimit-reset-requests", "1m0.5s"),
        ("anthropic-ratelimit-tokens-remaining", "7"),
        ("anthropic-ratelimit-tokens-reset", "2026-01-01T00:00:00Z"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1000000000"),
        ("x-ratelimit-resource", "core"),
    ]));
    let reset = found[1].reset.unwrap().duration_since(SystemTime::now()).unwrap();
    assert!((59.0..=60.5).contains(&reset.as_secs_f64()), "{reset:?}");
    let unix = |seconds| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    assert_eq!(found[0].reset, unix(1_000_000_000));
    assert_eq!(found[2].reset, unix(1_767_225_600));
    let found: Vec<_> =
        found.iter().map(|limit| (&*limit.resource, limit.limit, limit.remaining)).collect();
    assert_eq!(
        found,
        [("", None, Some(0)), ("requests", Some(60), Some(59)), ("tokens", None, Some(7)),],
    );
}

#[test]
fn a_reset_is_a_duration_a_unix_time_or_a_timestamp() {
    let reset = |value| rate_limits(&headers(&[("x-ratelimit-reset", value)])).first()?.reset;
    let now = SystemTime::now();
    for (value, wanted) in [("20ms", 20), ("1h2m3s", 3_723_000), ("6m0.5s", 360_500), ("7", 7000)] {
        let pause = reset(value).unwrap().duration_since(now).unwrap().as_millis();
        assert!((wanted..wanted + 1000).contains(&pause), "{value}: {pause}");
    }
    for other in ["soon", "1ä", "", "1x", "s", "2026-01-01T00:00:00"] {
        assert_eq!(reset(other), None, "{other}");
    }
    let timestamp = reset("2026-01-01T01:00:00.5+01:00");
    let since = timestamp.unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(since, Duration::from_millis(1_767_225_600_500));
}
