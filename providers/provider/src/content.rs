//! The thoughts of a model in the content of its reply, and their place in later requests.

use serde_json::{Value, json};
use toolwright_signature::Thoughts;

use crate::Deltas;
use toolwright_module::message::{Reasoning, ReplyPart};
use toolwright_module::model::Delta;

/// The name of the field of thoughts that were in the content, in [`Reasoning::opaque`].
const FIELD: &str = "content";

/// The beginning of a content, until the answer begins.
#[derive(Debug, Clone, Default)]
pub(crate) struct Beginning {
    /// The content so far. Empty after the answer has begun.
    text: String,
    /// `None` before the content.
    thoughts: Option<Thoughts>,
    is_over: bool,
    blocks: Vec<Block>,
}

/// A block of thoughts so far.
#[derive(Debug, Clone, Copy)]
struct Block {
    /// The index of its part in the reply.
    part: usize,
    /// The place of the text in that part.
    start: usize,
    end: usize,
}

impl Beginning {
    /// Adds a piece of the content. Returns the answer's text in it.
    pub(crate) fn add(
        &mut self,
        provider: &str,
        piece: &str,
        parts: &mut Vec<ReplyPart>,
        deltas: &mut Deltas,
    ) -> Option<String> {
        self.text.push_str(piece);
        let mut thoughts = self.thoughts.take().unwrap_or_else(Thoughts::trained);
        thoughts.scan(&self.text);
        self.show(&thoughts, provider, parts, deltas);
        let answer = thoughts.answer();
        self.thoughts = Some(thoughts);
        let answer = self.text.get(answer?..).unwrap_or_default();
        let answer = match self.text.len() == answer.len() {
            true => answer.to_owned(),
            // The white space after the thoughts goes with them.
            false => answer.trim_start().to_owned(),
        };
        self.close(answer.len(), parts);
        Some(answer)
    }

    /// Ends what is undecided, and returns its text. Thoughts that have begun go on.
    pub(crate) fn end(&mut self, parts: &mut [ReplyPart]) -> Option<String> {
        let thoughts = self.thoughts.as_ref().filter(|thoughts| !thoughts.is_open())?;
        if self.is_over {
            return None;
        }
        let rest = self.text.get(thoughts.end()..).unwrap_or_default();
        // The white space after thoughts goes with them.
        let rest = if self.blocks.is_empty() { rest } else { rest.trim_start() }.to_owned();
        self.close(rest.len(), parts);
        (!rest.is_empty()).then_some(rest)
    }

    /// Ends the thoughts too.
    pub(crate) fn end_thoughts(&mut self, parts: &mut [ReplyPart]) {
        if self.thoughts.is_some() && !self.is_over {
            self.close(0, parts);
        }
    }

    /// Makes all further content text.
    pub(crate) fn skip(&mut self) {
        self.is_over = true;
    }

    /// Returns whether all further content is text.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns whether a piece of content was added.
    pub(crate) fn has_begun(&self) -> bool {
        self.is_over || !self.text.is_empty()
    }

    /// Adds the new thoughts, without the white space around them, to one part for each block.
    fn show(
        &mut self,
        thoughts: &Thoughts,
        provider: &str,
        parts: &mut Vec<ReplyPart>,
        deltas: &mut Deltas,
    ) {
        for (index, block) in thoughts.blocks().enumerate() {
            let inside = self.text.get(block.clone()).unwrap_or_default();
            let start = block.start + inside.len() - inside.trim_start().len();
            let end = block.start + inside.trim_end().len();
            if index == self.blocks.len() {
                self.blocks.push(Block { part: parts.len(), start, end: start });
                // The field keeps other reasoning out of the part.
                let reasoning = Reasoning::new(provider, "", json!({"field": FIELD}));
                parts.push(ReplyPart::Reasoning(reasoning));
            }
            let Some(known) = self.blocks.get_mut(index) else { continue };
            if known.start == known.end {
                (known.start, known.end) = (start, start);
            }
            let piece = self.text.get(known.end..end).filter(|piece| !piece.is_empty());
            let Some(piece) = piece else { continue };
            known.end = end;
            deltas.push(|| Delta::Reasoning(piece.to_owned()));
            if let Some(ReplyPart::Reasoning(reasoning)) = parts.get_mut(known.part) {
                reasoning.text.push_str(piece);
            }
        }
    }

    /// Ends the beginning: the last `rest` bytes are text. Each part gets what was around it.
    fn close(&mut self, rest: usize, parts: &mut [ReplyPart]) {
        let text = std::mem::take(&mut self.text);
        let (mut from, last) = (0, self.blocks.len().saturating_sub(1));
        for (index, block) in std::mem::take(&mut self.blocks).into_iter().enumerate() {
            let Block { part, start, end } = block;
            let after = if index == last { end..text.len() - rest } else { end..end };
            let around = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
            let opaque =
                json!({"field": FIELD, "before": around(from..start), "after": around(after)});
            from = end;
            if let Some(ReplyPart::Reasoning(reasoning)) = parts.get_mut(part) {
                reasoning.opaque = opaque;
            }
        }
        self.is_over = true;
    }
}

/// Returns the texts to send back for thoughts that came in the content: as they came. `None` for
/// other reasoning, and for that of another provider.
///
/// Models that think between their calls need their thoughts again, and a server that left them in
/// the content expects them there. It knows where its model wants none.
///
/// ```
/// use toolwright_module::message::ReplyPart;
/// use toolwright_provider::{Deltas, ReplyParts, in_content};
///
/// let mut parts = ReplyParts::default();
/// parts.content("my-server", "<think>\nMaybe 4?\n</think>\n\n5", &mut Deltas::discarded());
/// let parts = parts.take();
/// let ReplyPart::Reasoning(reasoning) = &parts[0] else { panic!() };
/// assert_eq!(reasoning.text, "Maybe 4?");
/// assert_eq!(parts[1], ReplyPart::text("5"));
/// let back = in_content(reasoning, "my-server").unwrap();
/// assert_eq!(back.concat(), "<think>\nMaybe 4?\n</think>\n\n");
/// ```
#[must_use]
pub fn in_content<'r>(reasoning: &'r Reasoning, provider: &str) -> Option<[&'r str; 3]> {
    let field = |name| reasoning.opaque.get(name).and_then(Value::as_str);
    let is_own = reasoning.provider == provider && field("field") == Some(FIELD);
    is_own.then(|| {
        let around = |name| field(name).unwrap_or_default();
        [around("before"), &*reasoning.text, around("after")]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReplyParts;

    fn content(pieces: &[&str]) -> Vec<ReplyPart> {
        let (mut parts, deltas) = (ReplyParts::default(), &mut Deltas::discarded());
        for piece in pieces {
            match *piece {
                "CALL" => _ = parts.begin_call(),
                piece => parts.content("p", piece, deltas),
            }
        }
        parts.end_content(deltas);
        parts.take()
    }

    fn thoughts(part: &ReplyPart) -> &str {
        match part {
            ReplyPart::Reasoning(reasoning) => &reasoning.text,
            part => panic!("{part:?}"),
        }
    }

    #[test]
    fn an_answer_that_looks_like_the_beginning_of_a_mark_is_text() {
        for answer in ["<", "<thin", "["] {
            let parts = content(&["<think>Less.</think>\n\n", answer]);
            assert_eq!(thoughts(&parts[0]), "Less.");
            assert_eq!(parts[1..], [ReplyPart::text(answer)]);
        }
    }

    #[test]
    fn a_call_between_two_blocks_of_thoughts_loses_none_of_them() {
        let parts = content(&["<think>a</think>", "CALL", "<think>b</think>c"]);
        let [first, ReplyPart::Call(_), second, ReplyPart::Text(text)] = &*parts else {
            panic!("{parts:?}");
        };
        assert_eq!((thoughts(first), thoughts(second), &*text.text), ("a", "b", "c"));
    }
}
