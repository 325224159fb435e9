//! The error in a server's body: its code and message in any of the known forms, and the pause that
//! a server of Google asks for.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use toolwright_http::is_retryable_status;

use crate::lenient::{Str, is_set};

/// The fields with the message of an error, the first first.
const MESSAGES: [&str; 9] = [
    "message",
    "msg",
    "detail",
    "error",
    "errors",
    "error_description",
    "error_msg",
    "status_msg",
    "reason",
];

/// Codes of an account without credit. The last one is Zhipu's.
const NO_CREDIT: [&str; 7] = [
    "insufficient_quota",
    "exceeded_current_quota_error",
    "billing_hard_limit_reached",
    "billing_not_active",
    "insufficient_balance",
    "arrearage",
    "1113",
];

/// Codes of errors that may pass without a change.
const PASSING: [&str; 25] = [
    "server_error",
    "api_error",
    "internal",
    "internal_error",
    "internal_server_error",
    "bad_gateway",
    "gateway_timeout",
    "overloaded",
    "overloaded_error",
    "engine_overloaded_error",
    "server_overloaded",
    "service_unavailable",
    "service_unavailable_error",
    "unavailable",
    "unavailable_error",
    "rate_limit",
    "rate_limit_error",
    "rate_limit_exceeded",
    "rate_limit_reached_error",
    "resource_exhausted",
    "too_many_requests",
    "deadline_exceeded",
    "request_timeout",
    "timeout",
    "timeout_error",
];

/// Codes of errors of the key, the account or the model's name, which every request has.
const OF_ACCOUNT: [&str; 15] = [
    "access_denied",
    "authentication_error",
    "billing_error",
    "forbidden",
    "invalid_api_key",
    "invalid_authentication_error",
    "model_not_found",
    "not_found",
    "not_found_error",
    "permission_denied",
    "permission_denied_error",
    "permission_error",
    "permissiondeniederror",
    "unauthenticated",
    "unauthorized",
];

/// The error code and message of a server.
pub(super) struct ServerError {
    pub(super) code: Option<String>,
    pub(super) message: Option<String>,
}

impl ServerError {
    /// Reads OpenAI's `{"error": {"message", "type", "code"}}`, the same without its wrapper, in
    /// a list or as `errors`, `{"error": "text"}`, and `{"detail": …}` with a text or with
    /// the list of faults of FastAPI.
    pub(super) fn of(body: &Value) -> Self {
        let error = inner(body);
        let field = |name| error.get(name).and_then(text);
        // A number usually repeats the status, so a word is preferred.
        let number = || {
            let named = ["code", "status", "status_code", "error_code"].into_iter();
            named.filter_map(|name| error.get(name)).find(|code| code.is_number())
        };
        // The account's state decides, whatever number is beside it.
        let no_credit = field("type").filter(|kind| no_credit(Some(kind)));
        let word = || ["code", "type", "status"].into_iter().find_map(field);
        let code = no_credit.or_else(word).or_else(|| number().map(Value::to_string));
        Self { code, message: message_of(error) }
    }
}

/// Returns an error without what is around it.
pub(super) fn inner(body: &Value) -> &Value {
    let mut error = body;
    // Some servers wrap the error more than once.
    for _ in 0..4 {
        let names = ["error", "errors", "detail", "base_resp"];
        let inner = names.into_iter().find_map(|name| error.get(name));
        // MiniMax has `base_resp` in every reply, with a zero if there is no error.
        let inner = inner.filter(|inner| inner["status_code"] != 0);
        error = match (inner.filter(|inner| is_set(inner)), error) {
            (Some(inner), _) if inner.is_object() || inner.is_array() => inner,
            (None, Value::Array(list)) if list.len() == 1 => &list[0],
            _ => break,
        };
    }
    error
}

/// The fields of an error without the usual form.
#[derive(Default, Deserialize)]
#[serde(default)]
struct BareError<'e> {
    #[serde(borrow)]
    object: Str<'e>,
    error: Value,
    errors: Value,
    detail: Value,
    message: Value,
    msg: Value,
    error_msg: Value,
    status: Value,
    success: Value,
    ok: Value,
    /// MiniMax sends it in every reply. Its `status_code` is 0 if there is no error.
    base_resp: Value,
}

/// Returns whether the JSON of an event that has nothing of an API is an error without the usual field
/// `error`.
pub(crate) fn is_bare_error(json: &str) -> bool {
    serde_json::from_str::<BareError<'_>>(json).map_or(true, |error| {
        let messages = [&error.errors, &error.detail, &error.message, &error.msg, &error.error_msg];
        if is_set(&error.error) {
            return false;
        }
        &*error.object == "error"
            || [&error.success, &error.ok].into_iter().any(|is_good| *is_good == false)
            || error.status.as_str().is_some_and(|status| matches!(status, "error" | "failed"))
            || error.base_resp["status_code"].as_i64().is_some_and(|code| code != 0)
            || messages.into_iter().any(is_set)
    })
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Returns the message of an error, from any of its known fields.
fn message_of(error: &Value) -> Option<String> {
    if let Value::Array(several) = error {
        let several: Vec<_> = several.iter().filter_map(message_of).collect();
        return Some(several.join("; ")).filter(|text| !text.is_empty());
    }
    let field = |name| error.get(name).and_then(text);
    let message = MESSAGES.into_iter().find_map(field).or_else(|| text(error))?;
    // FastAPI adds the path of the faulty field.
    let Some(Value::Array(path)) = error.get("loc") else { return Some(message) };
    let path = path.iter().map(|step| text(step).unwrap_or_else(|| step.to_string()));
    Some(format!("{}: {message}", path.collect::<Vec<_>>().join(".")))
}

/// Returns whether the account has no credit, so that a retry does not help.
pub(super) fn no_credit(code: Option<&str>) -> bool {
    code.is_some_and(|code| NO_CREDIT.iter().any(|word| code.eq_ignore_ascii_case(word)))
}

/// Returns whether an error with this code is about the key, the account or the model's name.
pub(super) fn is_of_account(code: &str) -> bool {
    OF_ACCOUNT.iter().any(|word| code.eq_ignore_ascii_case(word))
}

/// Returns whether an error with this code may pass without a change: a status, or a server's word
/// for one.
pub(super) fn passes(code: &str) -> bool {
    if let Ok(status) = code.parse() {
        return is_retryable_status(status);
    }
    let code = code.to_ascii_lowercase();
    // Bedrock's and DashScope's words go on after it.
    code.starts_with("throttling") || PASSING.contains(&&*code)
}

/// Returns the pause of the `google.rpc.RetryInfo` in an error's details, with or without the field
/// `error` around it:
///
/// ```text
/// {"error": {"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"}]}}
/// ```
pub(super) fn retry_info(body: &Value) -> Option<Duration> {
    // A stream without events is a list.
    let body = body.get(0).unwrap_or(body);
    let details = body.get("error").unwrap_or(body).get("details")?.as_array()?;
    let is_retry_info = |detail: &&Value| {
        detail["@type"].as_str().is_some_and(|kind| kind.ends_with("google.rpc.RetryInfo"))
    };
    let delay = details.iter().find(is_retry_info)?.get("retryDelay")?.as_str()?;
    Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolwright_module::model::Usage;

    use super::*;
    use crate::ProviderError;

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
            let error = json!({"code": 429, "details": details});
            let body = json!({"error": error});
            for body in [json!([body]), body, error] {
                assert_eq!(retry_info(&body), pause, "{delay}");
            }
        }
        assert_eq!(retry_info(&json!({"error": {"code": 429}})), None);
    }

    /// A request that is refused for what it contains, and one that fails for another reason.
    #[test]
    fn a_refusal_of_one_request_is_not_one_of_the_key_the_account_or_the_server() {
        let schema = "Invalid schema for response_format";
        let refused = [
            (400, json!({"error": {"message": schema, "type": "invalid_request_error"}})),
            (400, json!({"error": {"code": 400, "message": schema, "status": "INVALID_ARGUMENT"}})),
            (
                400,
                json!({"type": "error", "error": {"type": "invalid_request_error", "message": schema}}),
            ),
            (400, json!({"error": schema})),
            (400, json!({"error": {"code": "content_filter", "message": "It was filtered."}})),
            (
                413,
                json!({"error": {"code": "rate_limit_exceeded", "message": "Request too large"}}),
            ),
            (
                422,
                json!({"detail": [{"loc": ["body", "tools"], "msg": "extra fields not permitted"}]}),
            ),
        ];
        let others = [
            (400, json!({"error": {"message": "API key not valid", "status": "INVALID_ARGUMENT"}})),
            (400, json!({"error": {"message": "Pay.", "code": "insufficient_quota"}})),
            (400, json!({"type": "error", "error": {"type": "billing_error", "message": "Pay."}})),
            (401, json!({"error": {"message": "Incorrect key", "code": "invalid_api_key"}})),
            (402, json!({"error": {"message": "Insufficient credits", "code": 402}})),
            (403, json!({"error": {"type": "permission_error", "message": "Not for you."}})),
            (404, json!({"error": {"message": "No such model", "code": "model_not_found"}})),
            (408, json!({})),
            (429, json!({"error": {"message": "Pay.", "code": "insufficient_quota"}})),
            (429, json!({"error": {"message": "Slower.", "code": "rate_limit_exceeded"}})),
            (500, json!({"error": {"message": "Failed.", "type": "server_error"}})),
            (301, json!({})),
        ];
        let all = refused.map(|it| (it, true)).into_iter().chain(others.map(|it| (it, false)));
        for ((status, body), is_refused) in all {
            let ServerError { code, message } = ServerError::of(&body);
            let (request_id, retry_after, message) = (None, None, message.unwrap_or_default());
            let shown = body.to_string();
            let refusal = ProviderError::Status {
                status,
                request_id,
                code,
                message,
                retry_after,
                body: body.to_string(),
            };
            assert_eq!(refusal.into_error().is_request_refused(), is_refused, "{status} {shown}");
        }
        // Within a reply that began with a success.
        for (error, is_refused) in [
            (json!({"code": "invalid_request_error", "message": schema}), true),
            (json!({"code": 400, "message": schema}), true),
            (json!({"code": 402, "message": "Insufficient credits"}), false),
            (json!({"code": 502, "message": "Bad gateway"}), false),
            (json!({"type": "authentication_error", "message": "Wrong."}), false),
            (json!({"message": "It failed."}), false),
        ] {
            let reported = ProviderError::reported(&error, Usage::unknown()).into_error();
            assert_eq!(reported.is_request_refused(), is_refused, "{error}");
        }
    }
}
