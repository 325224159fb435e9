//! [`Redactor`]: secrets in plain and escaped form.

use toolwright_http::Redactor;

const KEY: &str = "sk-very/secret+\"ä%&0123456789";

fn shouted(escape: impl Fn(char) -> String) -> String {
    KEY.chars().map(escape).collect()
}

fn percent(char: char) -> String {
    char.to_string().bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[test]
fn a_secret_is_replaced_in_every_escaped_form() {
    let redactor = Redactor::default().with_secret("key", KEY);
    for form in [
        KEY.to_owned(),
        shouted(|c| if c == '/' { r"\/".to_owned() } else { c.to_string() }),
        shouted(|c| if c == '"' { r#"\\\""#.to_owned() } else { c.to_string() }),
        shouted(|c| format!(r"\u{:04x}", u32::from(c))),
        shouted(|c| format!(r"\\\\u{:04X}", u32::from(c))),
        shouted(percent),
        shouted(|c| percent(c).replace('%', "%25")),
        shouted(|c| percent(c).replace('%', "%2525").to_uppercase()),
        shouted(|c| if c.is_ascii_alphanumeric() { c.to_string() } else { percent(c) }),
        shouted(|c| format!("&#{};", u32::from(c))),
        shouted(|c| format!("&#x{:X};", u32::from(c))),
        KEY.replace('&', "&amp;").replace('"', "&quot;"),
    ] {
        let text = format!("before {form} after");
        assert_eq!(redactor.redact(&text), "before [key] after", "{form}");
    }
    for text in ["sk-very", "sk-very/secret", "\\", "&#", "%", "%2", "\\u00", "&#x+73;"] {
        assert!(!redactor.finds_secret(text), "{text}");
    }
}

#[test]
fn each_secret_is_replaced_with_its_own_name() {
    let redactor = Redactor::default()
        .with_secret("token", "abcd")
        .with_secret("key", "abcdef")
        .with_secret("short", "x");
    assert_eq!(redactor.redact("x abcd abcdef"), "x [token] [key]");
}

#[test]
fn a_text_of_escapes_only_is_redacted_in_linear_time() {
    let redactor = Redactor::default().with_secret("key", "\\\\\\\\\\\\\\\\");
    let started = std::time::Instant::now();
    for text in ["\\".repeat(1 << 20), "%25".repeat(1 << 18), "&".repeat(1 << 20)] {
        let _ = redactor.redact(&text);
    }
    assert!(started.elapsed().as_secs() < 5);
}
