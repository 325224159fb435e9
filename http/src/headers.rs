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
pub(crate) fn request_id(headers: &HeaderMap) -> Option<&str> {
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

    fn header(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(HeaderName::from_static(name), value.parse().unwrap())])
    }

    #[test]
    fn the_id_of_a_request_is_read_and_cut() {
        assert_eq!(request_id(&header("request-id", "req_1")), Some("req_1"));
        assert_eq!(request_id(&header("x-request-id", "")), None);
        let long = "x".repeat(999);
        assert_eq!(request_id(&header("x-request-id", &long)).unwrap().len(), 200);
    }
}
