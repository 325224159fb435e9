//! The URL of a database.

use std::error::Error as _;

use tokio_postgres::Config;
use toolwright_module::__text::database_url_fault;

/// Reads the URL of a database, or returns what is wrong with it, without a part of the password.
pub(crate) fn config(url: &str) -> Result<Config, String> {
    url.parse().map_err(|error: tokio_postgres::Error| {
        let fault = error.source().map(ToString::to_string).unwrap_or_default();
        database_url_fault(url, &fault)
    })
}

#[cfg(test)]
mod tests {
    use super::config;

    #[test]
    fn a_wrong_parameter_of_a_url_is_named_and_no_password() {
        let cases = [
            ("postgres://u:secret@h/d?sslmode=verify-full", "`sslmode=verify-full`"),
            ("postgres://u:secret@h/d?connect_timeout=3&sslmode=verify-ca", "`sslmode=require`"),
            ("postgres://u:secret@h/d?sslmode=secret", "an invalid value for option `sslmode`"),
            ("postgres://u:secret@h/d?pool_size=secret", "an unknown option `pool_size`"),
            (
                "postgres://u:secret@h/d?connect_timeout=soon",
                "an invalid value for option `connect_timeout`",
            ),
            (
                "postgres://u:secret@h/d?target_session_attrs=x",
                "an invalid value for option `target_",
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
