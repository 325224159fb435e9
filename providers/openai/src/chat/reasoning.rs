//! The reasoning of a reply, and its place in later requests.
//!
//! Chat Completions has no field for reasoning, so servers have chosen their own. Some refuse a
//! conversation without the reasoning of earlier calls. It goes back in the field that it came in.

use serde_json::{Map, Value, json};
use toolwright_module::message::{Reasoning, ReplyPart};
use toolwright_provider::in_content;

/// The field of a message with the reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// DeepSeek's field, which most servers have.
    ReasoningContent,
    /// The field of Groq, Ollama, vLLM and others.
    Reasoning,
    /// OpenRouter's list of entries with signatures.
    Details,
    /// Mistral's pieces in `content`.
    Thinking,
}

impl Field {
    fn name(self) -> &'static str {
        match self {
            Self::ReasoningContent => "reasoning_content",
            Self::Reasoning => "reasoning",
            Self::Details => "reasoning_details",
            Self::Thinking => "thinking",
        }
    }

    /// Returns the field in which a part came.
    pub(super) fn of(reasoning: &Reasoning) -> Option<Self> {
        let name = reasoning.opaque.get("field")?.as_str()?;
        [Self::ReasoningContent, Self::Reasoning, Self::Details, Self::Thinking]
            .into_iter()
            .find(|field| field.name() == name)
    }
}

/// Returns the entries of `reasoning_details` of a part.
pub(super) fn details_of(reasoning: &Reasoning) -> &[Value] {
    reasoning.opaque.get("details").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The entries of `reasoning_details`.
#[derive(Debug, Default)]
pub(super) struct Details(Vec<Map<String, Value>>);

impl Details {
    /// Adds the entries of a whole reply, or of one event of a stream.
    pub(super) fn add(&mut self, entries: Vec<Map<String, Value>>, is_whole: bool) {
        for entry in entries {
            match self.0.iter_mut().rev().find(|known| !is_whole && continues(known, &entry)) {
                Some(known) => extend(known, entry),
                None => self.0.push(entry),
            }
        }
    }

    /// Returns whether an entry has more than its text, such as a signature.
    fn has_signature(&self) -> bool {
        let plain = ["type", "text", "summary", "index", "format", "id"];
        let is_more =
            |(name, value): (&String, &Value)| !plain.contains(&&**name) && !value.is_null();
        self.0.iter().any(|entry| entry.iter().any(is_more))
    }

    /// Adds to the reasoning of a reply where it came from. The entries go to the first part.
    pub(super) fn mark(self, field: Option<Field>, provider: &str, parts: &mut Vec<ReplyPart>) {
        let is_kept = self.has_signature() || field == Some(Field::Details);
        let mut details = is_kept.then(|| self.0.into_iter().map(Value::Object).collect());
        let Some(field) = (if is_kept { Some(Field::Details) } else { field }) else { return };
        let is_reasoning = |part: &ReplyPart| matches!(part, ReplyPart::Reasoning(reasoning) if in_content(reasoning, provider).is_none());
        if details.is_some() && !parts.iter().any(is_reasoning) {
            parts.insert(0, ReplyPart::Reasoning(Reasoning::new(provider, "", Value::Null)));
        }
        for part in parts {
            let ReplyPart::Reasoning(reasoning) = part else { continue };
            // Thoughts in the content go back there.
            if in_content(reasoning, provider).is_some() {
                continue;
            }
            reasoning.opaque = json!({"field": field.name()});
            if let Some(details) = details.take() {
                reasoning.opaque["details"] = Value::Array(details);
            }
        }
    }
}

/// Returns the text of entries, for people.
pub(super) fn text_of(entries: &[Map<String, Value>]) -> String {
    let text = |entry: &Map<String, Value>| {
        let text = ["text", "summary"].into_iter().find_map(|name| entry.get(name)?.as_str());
        text.unwrap_or_default().to_owned()
    };
    entries.iter().map(text).collect()
}

/// Returns whether an entry has more of a known one: no field but the text is another.
fn continues(known: &Map<String, Value>, entry: &Map<String, Value>) -> bool {
    let is_same = |name: &str| known.get(name) == entry.get(name);
    let fits = |(name, value): (&String, &Value)| {
        matches!(&**name, "text" | "summary")
            || value.is_null()
            || known.get(name).is_none_or(|known| known.is_null() || known == value)
    };
    is_same("index") && is_same("type") && entry.iter().all(fits)
}

fn extend(known: &mut Map<String, Value>, entry: Map<String, Value>) {
    for (name, value) in entry {
        match (known.get_mut(&name), value) {
            (Some(Value::String(text)), Value::String(more))
                if matches!(&*name, "text" | "summary") =>
            {
                text.push_str(&more);
            }
            (_, Value::Null) => {}
            (_, value) => {
                known.insert(name, value);
            }
        }
    }
}
