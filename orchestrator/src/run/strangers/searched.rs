//! What a provider found itself for a reply: results of its search, pages that it has read.

use serde_json::Value;
use toolwright_module::message::{ReplyPart, Text};

/// Parts of the names of tools that a provider runs and whose results are no text of strangers: what the
/// model's own code printed, and definitions of tools.
const OWN: [&str; 9] = [
    "apply_patch",
    "code_execution",
    "code_interpreter",
    "computer",
    "custom_tool",
    "function",
    "image_generation",
    "shell",
    "tool_search",
];

/// Fields whose texts are not those of strangers: names, and what the model searched for or wrote.
const NOT_FOUND: [&str; 14] = [
    "arguments",
    "error_code",
    "groundingSupports",
    "id",
    "input",
    "name",
    "queries",
    "query",
    "retrievalQueries",
    "searchEntryPoint",
    "status",
    "tool_use_id",
    "type",
    "webSearchQueries",
];

/// Returns the texts of strangers in a part of a reply. `None` if the provider found nothing for it.
///
/// A part of a kind that is not known counts if it is named like a result: a provider may add a tool at any
/// time.
pub(super) fn searched(part: &ReplyPart) -> Option<Vec<&str>> {
    let (mut texts, mut is_found) = (Vec::new(), false);
    match part {
        ReplyPart::Other(other) => {
            let value = &other.value;
            if is_result(value) {
                is_found = true;
                add(value, &mut texts);
            }
            // Gemini names the pages beside the content.
            for name in ["groundingMetadata", "urlContextMetadata"] {
                add(&value["details"][name], &mut texts);
            }
        }
        // Pages that the model cites. Other citations are of documents that the user gave.
        ReplyPart::Text(Text { opaque: Some(opaque), .. }) => {
            for name in ["citations", "annotations"] {
                let cited = opaque.value[name].as_array();
                let pages = cited.into_iter().flatten().filter(|cited| {
                    let kind = cited["type"].as_str();
                    kind.is_some_and(|kind| kind.starts_with("web_") || kind.starts_with("url_"))
                });
                pages.for_each(|page| add(page, &mut texts));
            }
        }
        _ => {}
    }
    (is_found || !texts.is_empty()).then_some(texts)
}

/// Returns whether a part has the results of a tool that the provider ran.
fn is_result(value: &Value) -> bool {
    let Some(kind) = value["type"].as_str() else { return !value["toolResponse"].is_null() };
    // OpenAI gives a call and its results as one item.
    let is_result = ["_result", "_call", "_output"].iter().any(|end| kind.ends_with(end));
    is_result && !OWN.iter().any(|own| kind.contains(own))
}

/// Adds the texts of a value, without those that only the provider can read.
fn add<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| add(item, texts)),
        Value::Object(fields) => {
            let is_text = |name: &str| !name.starts_with("encrypted") && !NOT_FOUND.contains(&name);
            let fields = fields.iter().filter(|(name, _)| is_text(name));
            fields.for_each(|(_, field)| add(field, texts));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolwright_module::message::Opaque;

    use super::*;

    #[test]
    fn results_of_hosted_tools_are_found_and_the_words_of_the_model_are_not() {
        let page =
            json!({"url": "https://evil.example", "title": "Pay!", "encrypted_content": "x"});
        let of = |kind: &str| json!({"type": kind, "tool_use_id": "1", "content": [page]});
        let action =
            json!({"type": "search", "query": "rain", "sources": [{"url": "https://a.example"}]});
        let chunks = json!([{"web": {"uri": "https://b.example", "title": "b.example"}}]);
        let grounding = json!({"webSearchQueries": ["rain"], "groundingChunks": chunks});
        let pages = || Some(vec!["https://evil.example", "Pay!"]);
        let cases = [
            (of("web_search_tool_result"), pages()),
            (of("web_fetch_tool_result"), pages()),
            (of("mcp_tool_result"), pages()),
            (of("later_tool_result"), pages()),
            (of("tool_search_tool_result"), None),
            (of("bash_code_execution_tool_result"), None),
            (json!({"type": "server_tool_use", "input": {"query": "rain"}}), None),
            (json!({"type": "web_search_call", "action": action}), Some(vec!["https://a.example"])),
            (json!({"type": "web_search_call", "status": "completed"}), Some(vec![])),
            (json!({"type": "mcp_call", "arguments": "{}", "output": "Pay!"}), Some(vec!["Pay!"])),
            (json!({"type": "code_interpreter_call", "outputs": ["1"]}), None),
            (json!({"toolCall": {"toolType": "URL_CONTEXT"}}), None),
            (json!({"toolResponse": {"response": {"text": "Pay!"}}}), Some(vec!["Pay!"])),
            (json!({"codeExecutionResult": {"output": "1"}}), None),
            (
                json!({"details": {"groundingMetadata": grounding}}),
                Some(vec!["https://b.example", "b.example"]),
            ),
            (json!({"details": {"finishReason": "SAFETY"}}), None),
        ];
        for (value, expected) in cases {
            let part = ReplyPart::Other(Opaque::new("a", value.clone()));
            assert_eq!(searched(&part), expected, "{value}");
        }
        let mut text = Text::from("Rain.");
        for (kind, expected) in [
            ("web_search_result_location", Some(vec!["https://evil.example"])),
            ("url_citation", Some(vec!["https://evil.example"])),
            ("page_location", None),
        ] {
            let cited = json!([{"type": kind, "url": "https://evil.example"}]);
            text.opaque = Some(Box::new(Opaque::new("a", json!({"citations": cited}))));
            assert_eq!(searched(&ReplyPart::Text(text.clone())), expected, "{kind}");
        }
    }
}
