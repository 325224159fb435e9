//! [`Endpoint`]: the check of the URL, and the headers of every request.

use toolwright_http::reqwest::header::HeaderName;
use toolwright_http::{Endpoint, ErrorKind, UrlFault};

fn fault(url: &str) -> Option<UrlFault> {
    let error = Endpoint::new(url).err()?;
    assert!(!format!("{error}{error:?}").contains("secret"));
    match error.kind() {
        ErrorKind::Url(fault) => Some(*fault),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_invalid_base_url_is_rejected_without_showing_it() {
    for (url, wanted) in [
        ("", UrlFault::NotAUrl),
        ("sk-very-secret", UrlFault::NotAUrl),
        ("localhost:8080", UrlFault::Scheme),
        ("file:///etc", UrlFault::Scheme),
        ("http://user:secret@127.0.0.1/v1", UrlFault::Credentials),
        ("http://secret@127.0.0.1/v1", UrlFault::Credentials),
        ("http://127.0.0.1/v1?key=secret", UrlFault::Query),
        ("http://127.0.0.1/v1#secret", UrlFault::Query),
    ] {
        assert_eq!(fault(url), Some(wanted), "{url}");
    }
    for (url, base) in [
        ("http://localhost:8080/v1/", "http://localhost:8080/v1"),
        ("https://[::1]/v1//", "https://[::1]/v1"),
        (" http://localhost:8080/v1/\n", "http://localhost:8080/v1"),
        ("https://example.com", "https://example.com"),
    ] {
        let endpoint = Endpoint::new(url).unwrap();
        assert_eq!(endpoint.base_url(), base);
        let models = endpoint.url(["models"], &[]).unwrap();
        assert_eq!(models.as_str(), format!("{base}/models"));
    }
    let exact = Endpoint::exact("https://example.com/mcp/?key=secret").unwrap();
    assert_eq!(exact.as_url().as_str(), "https://example.com/mcp/?key=secret");
    assert_eq!(exact.shown(), "https://example.com/mcp/");
    assert!(!format!("{exact:?}").contains("secret"));
}

#[test]
fn a_secret_is_allowed_over_plain_http_on_this_machine_only() {
    for url in [
        "http://localhost:1/v1",
        "http://127.9.9.9/v1",
        "http://[::1]/v1",
        "http://[::ffff:127.0.0.1]/v1",
        "https://api.example.com/v1",
    ] {
        let endpoint = Endpoint::new(url).unwrap();
        assert!(endpoint.with_bearer("key", "sk-made-up").unwrap().has_secret(), "{url}");
    }
    for url in ["http://192.168.0.7/", "http://[::2]/", "HTTP://localhost.example.com/"] {
        let endpoint = || Endpoint::new(url).unwrap();
        let name = HeaderName::from_static("x-api-key");
        for refused in [
            endpoint().with_bearer("key", "sk-made-up"),
            endpoint().with_header(name.clone(), "sk-made-up"),
            endpoint().with_secret_header("key", name, "sk-made-up"),
        ] {
            let error = refused.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Url(UrlFault::Plain)), "{url}");
            assert!(!format!("{error}{error:?}").contains("made-up"));
        }
        let other = HeaderName::from_static("x-title");
        assert!(!endpoint().with_header(other, "a title").unwrap().has_secret());
    }
}

#[test]
fn the_error_for_an_invalid_header_value_has_its_name_and_not_the_value() {
    let endpoint = Endpoint::new("https://example.com").unwrap();
    let error = endpoint.with_bearer("key", "secret\n").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Header { name } if name == "key"));
    assert!(!format!("{error}{error:?}").contains("secret"));
}

#[test]
fn a_path_segment_cannot_lead_out_of_the_base_url() {
    let endpoint = Endpoint::new("https://example.com/a/b").unwrap();
    for segment in ["..", ".", ""] {
        assert!(endpoint.url([segment], &[]).is_err(), "{segment}");
    }
    for (segment, path) in [("c/../..", "c%2F..%2F.."), ("%2e%2e", "%252e%252e"), ("?", "%3F")] {
        let url = endpoint.url([segment], &[]).unwrap();
        assert_eq!(url.path(), format!("/a/b/{path}"));
    }
}

#[test]
fn every_secret_of_the_endpoint_is_redacted() {
    let endpoint = Endpoint::new("https://example.com")
        .unwrap()
        .with_bearer("key", "sk-made-up")
        .unwrap()
        .with_header(HeaderName::from_static("api-key"), "another one")
        .unwrap();
    let text = "sk-made-up, Bearer sk-made-up, another one";
    assert_eq!(endpoint.redactor().redact(text), "[key], [key], [api-key]");
}

#[test]
fn a_url_is_shown_without_what_may_be_a_key() {
    let shown = |path: &str| {
        let endpoint = Endpoint::exact(&format!("https://example.com{path}")).unwrap();
        let shown = endpoint.shown();
        assert!(format!("{endpoint:?}").contains(&shown));
        shown.strip_prefix("https://example.com").unwrap().to_owned()
    };
    for plain in [
        "/",
        "/v1",
        "/openai/v1/",
        "/v1beta1/projects/my-project/locations/us-central1",
        "/api/v2/chat-completions.php",
        "/models/gemini-2.5-flash:generate",
        "/runs/2026/11",
    ] {
        assert_eq!(shown(plain), plain);
    }
    for (path, expected) in [
        ("/services/T000/B000/XXXX", "/services/[hidden]/[hidden]/[hidden]"),
        ("/s/123e4567-e89b-12d3-a456-426614174000/mcp", "/s/[hidden]/mcp"),
        ("/bot123456:ABC-DEF/send", "/[hidden]/send"),
        ("/api/webhooks/123456789012345678/aBcDeF", "/api/webhooks/[hidden]/[hidden]"),
        ("/u/sk-a1b2c3d4e5f6a7b8/sse", "/u/[hidden]/sse"),
        ("/u/abcdefghijklmnopqrst/sse", "/u/[hidden]/sse"),
        ("/u/s%65cret/sse", "/u/[hidden]/sse"),
        ("/mcp?token=x#y", "/mcp"),
    ] {
        assert_eq!(shown(path), expected);
    }
}
