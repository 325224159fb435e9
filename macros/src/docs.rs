//! The description in a doc comment.

use syn::{Attribute, Error, Expr, ExprLit, Lit, LitStr, Meta, parse_quote_spanned};

/// Returns the lines of a doc comment.
///
/// # Errors
///
/// The text is an expression, such as `include_str!(…)`, whose value a macro does not know.
/// `instead` says what to write.
pub(crate) fn lines(attributes: &[Attribute], instead: &str) -> Result<Vec<LitStr>, Error> {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        // `#[doc(hidden)]` and the like are not text.
        let Meta::NameValue(doc) = &attribute.meta else { continue };
        match &doc.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => lines.push(text.clone()),
            other => {
                let text = format!("this text is not known to the macro: {instead}");
                return Err(Error::new_spanned(other, text));
            }
        }
    }
    Ok(lines)
}

/// Returns the part of a doc comment that describes the tool to a model: up to the first heading.
///
/// Sections such as `# Errors` are for people.
pub(crate) fn description(lines: Vec<LitStr>) -> Vec<LitStr> {
    let mut description = Vec::new();
    let mut code = false;
    'lines: for line in lines {
        let text = line.value();
        // A block comment is one text of several lines.
        let mut kept = 0;
        for part in text.split_inclusive('\n') {
            code ^= part.trim_start().starts_with("```");
            if !code && is_heading(part) {
                description.push(LitStr::new(&text[..kept], line.span()));
                break 'lines;
            }
            kept += part.len();
        }
        description.push(line);
    }
    while description.pop_if(|line| line.value().trim().is_empty()).is_some() {}
    description
}

fn is_heading(line: &str) -> bool {
    let text = line.trim_start();
    let after = text.trim_start_matches('#');
    after.len() < text.len() && after.starts_with(' ')
}

/// Returns lines as attributes.
pub(crate) fn attributes(lines: &[LitStr]) -> Vec<Attribute> {
    lines.iter().map(|line| parse_quote_spanned!(line.span()=> #[doc = #line])).collect()
}
