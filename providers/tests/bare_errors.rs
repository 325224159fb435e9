//! Errors in another form than that of an API, as a server or a proxy before it sends them.

/// The JSON, the words that the error must have, and whether another try may succeed.
pub(crate) const FORMS: [(&str, &str, bool); 8] = [
    (r#"{"detail":"Not Found"}"#, "Not Found", false),
    (r#"{"message":"Too many requests"}"#, "Too many requests", false),
    (r#"{"errors":[{"code":"429","message":"busy"}]}"#, "busy", true),
    (r#"{"success":false,"message":"busy"}"#, "busy", false),
    (r#"{"code":500,"msg":"busy"}"#, "busy", true),
    (r#"{"ok":false,"reason":"busy"}"#, "busy", false),
    (r#"{"object":"error","error_msg":"busy"}"#, "busy", false),
    (
        r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[]}}"#,
        "no reason given",
        true,
    ),
];
