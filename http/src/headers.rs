//! Response headers that many servers share: request ids, pauses and rate limits.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

/// Maximum length of a request's id, in bytes.
const MAX_ID: usize = 200;
/// The smallest number in a `reset` header that is a Unix time. Smaller numbers are seconds
/// from now.
const FIRST_UNIX_TIME: u64 = 1_000_000_000;

/// Returns the server's id of the request, which its support asks for.
///
/// It is the first of the headers `x-request-id`, `request-id`, `x-github-request-id` and
/// `x-amzn-requestid`, cut to 200 bytes.
#[must_use]
pub fn request_id(headers: &HeaderMap) -> Option<&str> {
    let names = ["x-request-id", "request-id", "x-github-request-id", "x-amzn-requestid"];
    let id = names.iter().find_map(|name| text(headers, name))?;
    // `to_str` accepts only ASCII, so any byte is a character.
    Some(&id[..id.len().min(MAX_ID)]).filter(|id| !id.is_empty())
}

/// Returns the pause that the server asks for before the next request.
///
/// The headers `retry-after-ms` and `x-ms-retry-after-ms` hold milliseconds. The header
/// `retry-after` holds seconds, which may have a fraction, or an HTTP date. A date in the past
/// means no pause. Other values are ignored.
///
/// ```
/// use std::time::Duration;
/// use reqwest::header::{HeaderMap, RETRY_AFTER};
///
/// let mut headers = HeaderMap::new();
/// assert_eq!(toolwright_http::retry_after(&headers), None);
/// headers.insert(RETRY_AFTER, "1.5".parse()?);
/// assert_eq!(toolwright_http::retry_after(&headers), Some(Duration::from_millis(1500)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name, unit: f64| {
        let wait: f64 = text(headers, name)?.parse().ok()?;
        Duration::try_from_secs_f64(wait * unit).ok()
    };
    let date = || {
        let date = httpdate::parse_http_date(text(headers, "retry-after")?).ok()?;
        Some(date.duration_since(SystemTime::now()).unwrap_or_default())
    };
    number("retry-after-ms", 0.001)
        .or_else(|| number("x-ms-retry-after-ms", 0.001))
        .or_else(|| number("retry-after", 1.0))
        .or_else(date)
}

/// State of one rate limit, as the server's headers report it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RateLimit {
    /// The limited resource, such as `requests` or `tokens`; empty if the headers name no
    /// resource.
    pub resource: String,
    /// The number that is allowed in one period.
    pub limit: Option<u64>,
    /// The number that is left in this period.
    pub remaining: Option<u64>,
    /// The beginning of the next period.
    pub reset: Option<SystemTime>,
}

/// Returns the rate limits that a server reports, ordered by resource.
///
/// It reads the headers of GitHub (`x-ratelimit-remaining`), OpenAI
/// (`x-ratelimit-remaining-tokens`), Anthropic (`anthropic-ratelimit-tokens-remaining`) and
/// servers without a prefix (`ratelimit-remaining`), and the same with `limit` and `reset`. A
/// reset is a number of seconds, a Unix time, a duration such as `6m0.5s` or a timestamp of
/// RFC 3339 such as `2026-01-31T12:00:00Z`. A value in another form is `None`.
///
/// ```
/// use reqwest::header::HeaderMap;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("x-ratelimit-remaining-tokens", "149984".parse()?);
/// headers.insert("x-ratelimit-reset-tokens", "6m0s".parse()?);
/// let limits = toolwright_http::rate_limits(&headers);
/// assert_eq!(limits[0].resource, "tokens");
/// assert_eq!(limits[0].remaining, Some(149_984));
/// assert!(limits[0].reset > Some(std::time::SystemTime::now()));
///
/// headers.insert("x-ratelimit-reset-tokens", "1970-01-01T00:01:00Z".parse()?);
/// let reset = toolwright_http::rate_limits(&headers)[0].reset;
/// assert_eq!(reset, Some(std::time::UNIX_EPOCH + std::time::Duration::from_secs(60)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn rate_limits(headers: &HeaderMap) -> Vec<RateLimit> {
    let mut limits: Vec<RateLimit> = Vec::new();
    for name in headers.keys() {
        let Some((_, rest)) = name.as_str().split_once("ratelimit-") else { continue };
        let Some(value) = text(headers, name.as_str()) else { continue };
        let (fields, resource): (Vec<_>, Vec<_>) =
            rest.split('-').partition(|part| matches!(*part, "limit" | "remaining" | "reset"));
        let ([field], resource) = (&fields[..], resource.join("-")) else { continue };
        let at = limits.iter().position(|limit| limit.resource == resource);
        let at = at.unwrap_or_else(|| {
            limits.push(RateLimit { resource, ..RateLimit::default() });
            limits.len() - 1
        });
        match *field {
            "limit" => limits[at].limit = value.parse().ok(),
            "remaining" => limits[at].remaining = value.parse().ok(),
            _ => limits[at].reset = reset(value),
        }
    }
    limits.sort_by(|a, b| a.resource.cmp(&b.resource));
    limits
}

/// Parses the moment of a reset: a Unix time, a duration from now or a timestamp.
fn reset(value: &str) -> Option<SystemTime> {
    match value.parse::<u64>() {
        Ok(number) if number >= FIRST_UNIX_TIME => {
            SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(number))
        }
        _ => match duration(value) {
            Some(duration) => SystemTime::now().checked_add(duration),
            None => value.parse::<jiff::Timestamp>().ok().map(SystemTime::from),
        },
    }
}

/// Parses a duration such as `6m0.5s` or `20ms`. A number without a unit is in seconds.
fn duration(value: &str) -> Option<Duration> {
    let (mut seconds, mut rest) = (0.0, value);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..end].parse().ok()?;
        // `ms` comes before `m`, which is a prefix of it.
        let units = [("ms", 0.001), ("d", 86_400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0)];
        let unit = |&(unit, length): &(&str, f64)| Some((rest[end..].strip_prefix(unit)?, length));
        let (after, length) = match &rest[end..] {
            "" => ("", 1.0),
            _ => units.iter().find_map(unit)?,
        };
        seconds += number * length;
        rest = after;
    }
    Duration::try_from_secs_f64(seconds).ok().filter(|_| !value.is_empty())
}

/// Returns a header's value as text, without white space around it.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    Some(headers.get(name)?.to_str().ok()?.trim())
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderName;

    use super::*;

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
        assert_eq!(duration("20ms"), Some(Duration::from_millis(20)));
        assert_eq!(duration("1h2m3s"), Some(Duration::from_secs(3723)));
        assert_eq!(duration("6m0.5s"), Some(Duration::from_millis(360_500)));
        assert_eq!(duration("7"), Some(Duration::from_secs(7)));
        let other = ["soon", "1ä", "", "1x", "s", "2026-01-01T00:00:00"];
        assert_eq!(other.map(duration), [None; 6]);
        assert_eq!(other.map(reset), [None; 6]);
        let timestamp = reset("2026-01-01T01:00:00.5+01:00");
        let since = timestamp.unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(since, Duration::from_millis(1_767_225_600_500));
    }

    #[test]
    fn the_id_of_a_request_is_read_and_cut() {
        assert_eq!(request_id(&headers(&[("request-id", "req_1")])), Some("req_1"));
        assert_eq!(request_id(&headers(&[("x-request-id", "")])), None);
        let long = "x".repeat(999);
        assert_eq!(request_id(&headers(&[("x-request-id", &long)])).unwrap().len(), MAX_ID);
    }
}
