//! The URL of a database.

use tokio_postgres::Config;

/// Reads a URL, or returns what is wrong with it. The text has no part of the password.
pub(crate) fn config(url: &str) -> Result<Config, String> {
    // The error of the parser is dropped, because it may contain a part of the password.
    url.parse().map_err(|_| fault(url))
}

fn fault(url: &str) -> String {
    // After a `?` that is not percent-encoded in a password, the rest of the URL looks like
    // parameters.
    let parameters = url.rsplit_once('?').map(|(_, all)| all).filter(|all| !all.contains('@'));
    let is_wrong = |one: &&str| format!("postgres://host/?{one}").parse::<Config>().is_err();
    let wrong = parameters.into_iter().flat_map(|all| all.split('&')).find(is_wrong);
    let Some((name, value)) = wrong.and_then(|wrong| wrong.split_once('=')) else {
        return "needs the form `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with special characters percent-encoded".to_owned();
    };
    if name == "sslmode" && ["allow", "verify-ca", "verify-full"].contains(&value) {
        return format!(
            "has `sslmode={value}`, which this driver does not know; set `sslmode=require`, and connect with a TLS connector that verifies certificates"
        );
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.len() > 40 || !name.chars().all(is_plain) {
        return "has a parameter that is not known; remove it".to_owned();
    }
    // With a value that no parameter refuses, to see whether the name is known.
    let known = ["1", "require", "any", "postgres", "auto", "read-write"];
    let is_known = |value| format!("postgres://host/?{name}={value}").parse::<Config>().is_ok();
    match known.iter().any(is_known) {
        true => format!("has a wrong value for the parameter `{name}`; change or remove it"),
        false => format!("has the unknown parameter `{name}`; remove it"),
    }
}

#[cfg(test)]
mod tests {
    use super::config;

    #[test]
    fn a_wrong_parameter_of_a_url_is_named_and_no_password() {
        let cases = [
            ("postgres://u:secret@h/d?sslmode=verify-full", "`sslmode=verify-full`"),
            ("postgres://u:secret@h/d?connect_timeout=3&sslmode=verify-ca", "`sslmode=verify-ca`"),
            ("postgres://u:secret@h/d?sslmode=secret", "wrong value for the parameter `sslmode`"),
            ("postgres://u:secret@h/d?pool_size=secret", "unknown parameter `pool_size`"),
            (
                "postgres://u:secret@h/d?connect_timeout=soon",
                "wrong value for the parameter `connect_timeout`",
            ),
            (
                "postgres://u:secret@h/d?target_session_attrs=x",
                "wrong value for the parameter `target_",
            ),
            ("postgres://u:secret@h:port/d", "the form"),
            ("mysql://u:secret@h/d", "the form"),
        ];
        for (url, expected) in cases {
            let fault = config(url).unwrap_err();
            assert!(fault.contains(expected) && !fault.contains("secret"), "{url}: {fault}");
        }
        assert!(config("postgres://u:secret@h/d?sslmode=require").is_ok());
    }
}
