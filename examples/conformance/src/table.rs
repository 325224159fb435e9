//! The results as tables.

use std::fmt::Write as _;

use toolwright_module::model::{Capabilities, Setting};

use crate::suite::Played;
use crate::{PROVIDERS, Provider};

/// Returns a table of scripts and providers for a terminal.
pub(crate) fn results(played: &[Played]) -> String {
    let scripts = scripts(played);
    let wide = scripts.iter().map(|name| name.chars().count()).max().unwrap_or_default();
    let mut text = format!("{:wide$}", "script");
    for provider in PROVIDERS {
        let _ = write!(text, "  {}", provider.name);
    }
    for script in scripts {
        let _ = write!(text, "\n{script:wide$}");
        for provider in PROVIDERS {
            let cell = match found(played, script, provider) {
                None => "",
                Some(played) if !played.faults.is_empty() => "FAILED",
                Some(played) => played.lacks.map_or("ok", |_| "-"),
            };
            let _ = write!(text, "  {cell:0$}", provider.name.len());
        }
    }
    text
}

/// The rows of the table of abilities that are a script, with what the table calls them.
const ROWS: &[(&str, &str)] = &[
    ("one call", "tools"),
    ("parallel calls", "several calls in one reply"),
    ("a forced call", "a call can be forced"),
    ("a forced call of one tool", "a call of one tool can be forced"),
    ("output by schema", "typed output: the provider makes it fit the schema"),
    ("output by tool", "typed output: the arguments of a call"),
    ("output by prompt", "typed output: the schema is in the prompt"),
    ("an image", "images: bytes"),
    ("an image by address", "images: an address"),
    ("an image in a result", "images in a tool's result"),
    ("a PDF", "PDF: bytes"),
    ("a PDF by address", "PDF: an address"),
    ("a PDF in a result", "PDF in a tool's result"),
    ("a text document", "text documents"),
    ("audio", "audio"),
    ("reasoning", "reasoning is shown"),
    ("the round trip of reasoning", "reasoning goes back to its provider"),
    ("a pause", "a paused reply goes on"),
    ("refusal", "a refusal is known as one"),
    ("length", "a cut answer is known as one"),
];

/// Returns the Markdown table of what each provider can do.
pub(crate) fn abilities(played: &[Played]) -> String {
    let mut text = "| |".to_owned();
    for provider in PROVIDERS {
        let _ = write!(text, " {} |", provider.name);
    }
    text += "\n|---|";
    PROVIDERS.iter().for_each(|_| text += "---|");
    row(&mut text, "dialect of JSON Schema, by default", |provider| {
        capabilities(provider).map_or("?".to_owned(), |able| format!("`{:?}`", able.dialect))
    });
    for (script, name) in ROWS {
        row(&mut text, name, |provider| {
            match found(played, script, provider) {
                None => "not played",
                Some(played) if !played.faults.is_empty() => "FAILED",
                Some(played) => played.lacks.map_or("yes", |_| "-"),
            }
            .to_owned()
        });
    }
    for setting in Setting::ALL {
        row(&mut text, &format!("setting: {setting}"), |provider| {
            let has = capabilities(provider).is_some_and(|able| able.settings.has(*setting));
            if has { "yes" } else { "-" }.to_owned()
        });
    }
    text
}

fn row(text: &mut String, name: &str, cell: impl Fn(&Provider) -> String) {
    let _ = write!(text, "\n| {name} |");
    for provider in PROVIDERS {
        let _ = write!(text, " {} |", cell(provider));
    }
}

/// Returns the capabilities of a provider's default model.
fn capabilities(provider: &Provider) -> Option<Capabilities> {
    (provider.model)("http://127.0.0.1:9").ok().map(|model| model.capabilities())
}

fn found<'a>(played: &'a [Played], script: &str, provider: &Provider) -> Option<&'a Played> {
    played.iter().find(|played| played.script == script && played.provider == provider.name)
}

/// Returns the names of the scripts, in order.
fn scripts(played: &[Played]) -> Vec<&str> {
    let mut names: Vec<_> = played.iter().map(|played| &*played.script).collect();
    names.dedup();
    names
}
