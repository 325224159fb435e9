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
    /// The mark at the end of the answer, and the end of the answer so far that may be this mark.
    tail: Option<(&'static str, String)>,
    /// Whether the content began with its answer.
    is_plain: bool,
    /// The provider of a content that began with its answer and may have the end of thoughts.
    provider: String,
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
        if self.is_over {
            return Some(self.hold(piece));
        }
        self.text.push_str(piece);
        let mut thoughts = self.thoughts.take().unwrap_or_else(Thoughts::trained);
        thoughts.scan(&self.text);
        self.show(&thoughts, provider, parts, deltas);
        let answer = thoughts.answer();
        self.tail = thoughts.answer_end().map(|mark| (mark, String::new()));
        self.thoughts = Some(thoughts);
        let answer = self.answer_from(answer?);
        self.close(answer.len(), parts);
        self.watch(provider, &answer);
        Some(self.hold(&answer))
    }

    /// Returns the answer that begins at this place.
    fn answer_from(&mut self, at: usize) -> String {
        self.is_plain = at == 0;
        let answer = self.text.get(at..).unwrap_or_default();
        // The white space after the thoughts goes with them.
        if self.is_plain { answer } else { answer.trim_start() }.to_owned()
    }

    /// Notes that a piece of the answer may have the end of thoughts.
    pub(crate) fn watch(&mut self, provider: &str, piece: &str) {
        if self.is_plain && self.provider.is_empty() && piece.contains(['<', '[', '◁']) {
            provider.clone_into(&mut self.provider);
        }
    }

    /// Adds a piece of the answer, and returns what cannot be the mark at its end.
    fn hold(&mut self, piece: &str) -> String {
        let Some((mark, held)) = &mut self.tail else { return piece.to_owned() };
        held.push_str(piece);
        let may_be_mark = |at: &usize| {
            let end = held.get(*at..).unwrap_or_default();
            mark.starts_with(end) || end.trim_end() == *mark
        };
        let mut starts = held.match_indices('<').map(|(at, _)| at);
        let at = starts.find(may_be_mark).unwrap_or(held.len());
        let kept = held.split_off(at);
        std::mem::replace(held, kept)
    }

    /// Returns whether the answer may have a mark at its end.
    pub(crate) fn holds(&self) -> bool {
        self.tail.is_some()
    }

    /// Ends what is undecided, and returns its text. Thoughts that have begun go on.
    pub(crate) fn end(&mut self, parts: &mut [ReplyPart]) -> Option<String> {
        if self.is_over {
            let (mark, held) = self.tail.as_mut()?;
            let held = std::mem::take(held);
            return Some(held).filter(|held| !held.is_empty() && held.trim_end() != *mark);
        }
        let thoughts = self.thoughts.as_ref().filter(|thoughts| !thoughts.is_open())?;
        let at = thoughts.end();
        let rest = self.answer_from(at);
        self.close(rest.len(), parts);
        (!rest.is_empty()).then_some(rest)
    }

    /// Returns the thoughts at the beginning of the first text, if the server's prompt began them: the
    /// index of the text, the thoughts, and the rest of the text.
    ///
    /// A stream has shown them as text, because only their end tells them from an answer.
    pub(crate) fn unopened(&self, parts: &[ReplyPart]) -> Option<(usize, Reasoning, String)> {
        if self.provider.is_empty() {
            return None;
        }
        let at = parts.iter().position(|part| matches!(part, ReplyPart::Text(_)))?;
        let Some(ReplyPart::Text(text)) = parts.get(at) else { return None };
        if text.opaque.is_some() {
            return None;
        }
        let text = &*text.text;
        let end = Thoughts::lone_end(text)?;
        let begin = end.start - text.get(..end.start)?.trim_start().len();
        let around = [text.get(..begin)?, text.get(end.clone())?];
        let opaque = json!({"field": FIELD, "before": around[0], "after": around[1]});
        let thoughts = Reasoning::new(&*self.provider, text.get(begin..end.start)?, opaque);
        Some((at, thoughts, text.get(end.end..)?.to_owned()))
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

    /// The prompt of a server may begin the thoughts, so that only their end is in the reply.
    #[test]
    fn thoughts_whose_beginning_is_in_the_prompt_end_at_a_mark_on_its_own() {
        for (text, inside, after) in [
            ("Maybe 4?\n</think>\n\n5", "Maybe 4?", "\n</think>\n\n"),
            ("Maybe 4? \u{1f642}</think>\n\n5", "Maybe 4? \u{1f642}", "</think>\n\n"),
            ("A\n</THOUGHT >\n5", "A", "\n</THOUGHT >\n"),
            ("A\n[/THINK]\n5", "A", "\n[/THINK]\n"),
            ("A\n</think>\n5\n</think>\n", "A", "\n</think>\n"),
        ] {
            for pieces in [&[text][..], &[&text[..1], &text[1..]]] {
                let parts = content(pieces);
                let [ReplyPart::Reasoning(reasoning), ReplyPart::Text(answer)] = &*parts else {
                    panic!("{parts:?}");
                };
                assert_eq!(reasoning.text, inside);
                assert_eq!(in_content(reasoning, "p").unwrap(), ["", inside, after]);
                assert!(answer.text.starts_with('5'), "{answer:?}");
            }
        }
        // All of it is thoughts.
        assert_eq!(thoughts(&content(&["Maybe 4?\n</think>"])[0]), "Maybe 4?");
        // A mark that the text is about.
        for text in [
            "Write `</think>` at the end.",
            "The mark is </think>",
            "Close it with </think>\nand go on.",
            "First <think>\nand then\n</think>\n5",
            "```\na\n</think>\n```",
            "5 </think> 6",
            "5\n</thinking>\n6",
            "5\n<|end|>\n6",
        ] {
            assert_eq!(content(&[text]), [ReplyPart::text(text)]);
        }
        // Not the first content.
        let parts = content(&["5", "CALL", "6\n</think>\n\n7"]);
        assert_eq!(parts[2], ReplyPart::text("6\n</think>\n\n7"));
    }

    #[test]
    fn the_marks_around_an_answer_are_not_part_of_it() {
        for (text, answer) in [
            ("<|START_RESPONSE|>5<|END_RESPONSE|>", "5"),
            (
                "<|START_THINKING|>4<|END_THINKING|>\n<|START_RESPONSE|>5 < 6<|END_RESPONSE|>\n",
                "5 < 6",
            ),
            (
                "<|begin_of_thought|>4<|end_of_thought|>\n<|begin_of_solution|>\n5\n<|end_of_solution|>",
                "5\n",
            ),
            ("<|START_RESPONSE|>5<|END_RESPONSE|> 6", "5<|END_RESPONSE|> 6"),
            ("<|START_RESPONSE|>5<|END", "5<|END"),
            ("5<|END_RESPONSE|>", "5<|END_RESPONSE|>"),
            ("<think>4</think><answer>5</answer>", "<answer>5</answer>"),
        ] {
            let letters: Vec<String> = text.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            for pieces in [&[text][..], &letters] {
                let parts = content(pieces);
                assert_eq!(parts.last(), Some(&ReplyPart::text(answer)), "{text}");
            }
        }
    }
}
