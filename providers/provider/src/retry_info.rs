//! The pause that a server of Google asks for, which is in the body of an error.

use std::time::Duration;

use serde_json::Value;

/// Returns the pause of the `google.rpc.RetryInfo` in an error's details:
///
/// ```text
/// {"error": {"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"}]}}
/// ```
pub(crate) fn retry_info(body: &Value) -> Option<Duration> {
    // A stream without events is a list.
    let body = body.get(0).unwrap_or(body);
    let details = body.get("error")?.get("details")?.as_array()?;
    let is_retry_info = |detail: &&Value| {
        detail["@type"].as_str().is_some_and(|kind| kind.ends_with("google.rpc.RetryInfo"))
    };
    let delay = details.iter().find(is_retry_info)?.get("retryDelay")?.as_str()?;
    Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_pause_is_read_from_the_details() {
        let kind = "type.googleapis.com/google.rpc.RetryInfo";
        for (delay, pause) in [
            (json!("39s"), Some(Duration::from_secs(39))),
            (json!("0.25s"), Some(Duration::from_millis(250))),
            (json!("-1s"), None),
            (json!("soon"), None),
            (json!(7), None),
        ] {
            let help = json!({"@type": "type.googleapis.com/google.rpc.Help", "links": []});
            let details = json!([help, {"@type": kind, "retryDelay": delay}]);
            let body = json!({"error": {"code": 429, "details": details}});
            assert_eq!(retry_info(&body), pause, "{delay}");
            assert_eq!(retry_info(&json!([body])), pause, "{delay}");
        }
        assert_eq!(retry_info(&json!({"error": {"code": 429}})), None);
    }
}
