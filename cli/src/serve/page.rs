//! The page: its text and the policy that lets only this text run in it.

use std::sync::LazyLock;

use toolwright_journal::__page::hash;

const SKELETON: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = concat!(
    include_str!("page/texts.js"),
    include_str!("page/run.js"),
    include_str!("page/page.js")
);

/// The page, which needs no other file.
pub(super) static PAGE: LazyLock<String> =
    LazyLock::new(|| SKELETON.replace("/*STYLE*/", STYLE).replace("/*SCRIPT*/", SCRIPT));

/// The content security policy of the page. `require-trusted-types-for` forbids the script to make HTML
/// of a text, such as one that a model wrote.
pub(super) static POLICY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
        hash(STYLE),
        hash(SCRIPT),
    )
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_no_other_style_and_script_and_asks_no_other_host() {
        assert_eq!(PAGE.matches("<script").count(), 1);
        assert_eq!(PAGE.matches("<style").count(), 1);
        assert!(PAGE.contains(&format!("<style>{STYLE}</style>")));
        assert!(PAGE.contains(&format!("<script>{SCRIPT}</script>")));
        assert!(!SCRIPT.contains("</script") && !STYLE.contains("</style"));
        let words = [
            "style=",
            "onclick",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "eval(",
            "src=\"http",
        ];
        for word in words {
            assert!(!PAGE.contains(word), "{word}");
        }
        let hosts = PAGE.match_indices("://").map(|(at, _)| &PAGE[at.saturating_sub(5)..]);
        for host in hosts {
            let text: String = host.chars().take(30).collect();
            assert!(
                text.contains("://)")
                    || text.contains("://\"")
                    || text.contains("://`")
                    || text.contains(":\\/\\/"),
                "{text}"
            );
        }
    }
}
