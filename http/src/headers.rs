use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

/// Maximum length of a request's id, in bytes.
const MAX_ID: usize = 200;
/// A smaller number in a `reset` header is a number of seconds, a larger one a Unix time.
const FIRST_UNIX_TIME: u64 = 1_000_000_000;

/// The server's name for the request, which its support asks for.
///
/// It is read from `x-request-id`, `request-id`, `x-github-request-id` or
/// `x-amzn-requestid`.
#[must_use]
pub fn request_id(headers: &HeaderMap) -> Option<&str> {
    let names = ["x-request-id", "request-id", "x-github-request-id", "x-amzn-requestid"];
    let id = names.iter().find_map(|name| text(headers, name))?;
    // What `to_str` accepts is ASCII.
    Some(&id[..id.len().min(MAX_ID)]).filter(|id| !id.is_empty())
}

/// How long the server asks to wait before the next request.
///
/// It is read from `retry-after-ms` or `x-ms-retry-after-ms`, in milliseconds, or from
/// `retry-after`, in seconds, fractions included, or as a date. A date that is over means
/// no wait.
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

/// What is left of one of a server's limits, as its headers report it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RateLimit {
    /// What is limited, such as `requests` or `tokens`; empty if the server has one limit.
    pub resource: String,
    /// How many are allowed in one period.
    pub limit: Option<u64>,
    /// How many are left in this period.
    pub remaining: Option<u64>,
    /// When the next period begins.
    pub reset: Option<SystemTime>,
}

/// The rate limits that a server reports, in the order of their resources.
///
/// The headers are `x-ratelimit-remaining` and the like (GitHub),
/// `x-ratelimit-remaining-tokens` (OpenAI), `anthropic-ratelimit-tokens-remaining` and
/// `ratelimit-remaining`. A reset is a number of seconds, a Unix time or a text such as
/// `6m0.5s`; a reset in another form is `None`.
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

/// The moment of a reset, in any of its forms.
fn reset(value: &str) -> Option<SystemTime> {
    match value.parse::<u64>() {
        Ok(number) if number >= FIRST_UNIX_TIME => {
            SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(number))
        }
        _ => SystemTime::now().checked_add(time(value)?),
    }
}

/// A time such as `6m0.5s` or `20ms`; a number without a unit counts seconds.
fn time(value: &str) -> Option<Duration> {
    let (mut seconds, mut rest) = (0.0, value);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..end].parse().ok()?;
        // Milliseconds before minutes, which begin with the same letter.
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

/// A header's value as text, without white space around it.
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
    fn a_wait_is_read_in_each_form() {
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
    fn limits_are_read_in_the_forms_of_three_providers() {
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
        let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        assert_eq!((found[0].reset, found[2].reset), (Some(past), None));
        let found: Vec<_> =
            found.iter().map(|limit| (&*limit.resource, limit.limit, limit.remaining)).collect();
        assert_eq!(
            found,
            [("", None, Some(0)), ("requests", Some(60), Some(59)), ("tokens", None, Some(7)),],
        );
        assert_eq!(time("20ms"), Some(Duration::from_millis(20)));
        assert_eq!(time("1h2m3s"), Some(Duration::from_secs(3723)));
        assert_eq!(time("6m0.5s"), Some(Duration::from_millis(360_500)));
        assert_eq!(time("7"), Some(Duration::from_secs(7)));
        assert_eq!(["soon", "1ä", "", "1x", "s"].map(time), [None; 5]);
    }

    #[test]
    fn a_request_has_one_id() {
        assert_eq!(request_id(&headers(&[("request-id", "req_1")])), Some("req_1"));
        assert_eq!(request_id(&headers(&[("x-request-id", "")])), None);
        let long = "x".repeat(999);
        assert_eq!(request_id(&headers(&[("x-request-id", &long)])).unwrap().len(), MAX_ID);
    }
}
