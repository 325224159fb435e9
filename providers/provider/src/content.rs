//! The thoughts of a model in the content of its reply, and their place in later requests.

use std::borrow::Cow;

use serde_json::{Value, json};
use toolwright_signature::Thoughts;

use crate::Deltas;
use toolwright_module::message::{Reasoning, ReplyPart};
use toolwright_module::model::Delta;

/// The name of the field of thoughts that were in the content, in [`Reasoning::opaque`].
const FIELD: &str = "content";

/// The content of a reply, which may begin with thoughts.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// It has thoughts so far, or is too short to tell.
    Beginning { text: String, thoughts: Thoughts, blocks: Vec<Block> },
    /// It began with its answer. With the provider, that may have the end of thoughts.
    Plain(Option<String>),
    /// The mark at the end of the answer, and the end of the answer so far that may be this mark.
    Marked(&'static str, String),
    /// All that follows is text.
    Text,
}

impl Default for Content {
    fn default() -> Self {
        Self::Beginning { text: String::new(), thoughts: Thoughts::trained(), blocks: Vec::new() }
    }
}

/// A block of thoughts so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    /// The index of its part in the reply.
    part: usize,
    /// The place of the text in that part.
    start: usize,
    end: usize,
}

impl Content {
    /// Adds a piece of the content. Returns the answer's text in it.
    pub(crate) fn add<'p>(
        &mut self,
        provider: &str,
        piece: &'p str,
        parts: &mut Vec<ReplyPart>,
        deltas: &mut Deltas,
    ) -> Cow<'p, str> {
        match self {
            Self::Text => Cow::Borrowed(piece),
            Self::Plain(watched) => {
                if watched.is_none() && piece.contains(['<', '[', '◁']) {
                    *watched = Some(provider.to_owned());
                }
                Cow::Borrowed(piece)
            }
            Self::Marked(mark, held) => Cow::Owned(held_back(mark, held, piece)),
            Self::Beginning { text, thoughts, blocks } => {
                text.push_str(piece);
                thoughts.scan(text);
                show(text, thoughts, blocks, provider, parts, deltas);
                let Some(at) = thoughts.answer() else { return Cow::default() };
                let (mark, answer) = (thoughts.answer_end(), self.begin_answer(at, parts));
                if let Some(mark) = mark {
                    *self = Self::Marked(mark, String::new());
                }
                // The piece is of the answer now.
                Cow::Owned(self.add(provider, &answer, parts, deltas).into_owned())
            }
        }
    }

    /// Ends the thoughts at this place, and returns the answer after them.
    fn begin_answer(&mut self, at: usize, parts: &mut [ReplyPart]) -> String {
        let Self::Beginning { text, .. } = self else { return String::new() };
        let answer = text.get(at..).unwrap_or_default();
        // The white space after the thoughts goes with them.
        let answer = if at == 0 { answer } else { answer.trim_start() }.to_owned();
        self.close(answer.len(), parts);
        if at == 0 {
            *self = Self::Plain(None);
        }
        answer
    }

    /// Ends what is undecided, and returns its text. Thoughts that have begun go on.
    pub(crate) fn end(&mut self, parts: &mut [ReplyPart]) -> Option<String> {
        let rest = match self {
            Self::Marked(mark, held) => {
                let held = std::mem::take(held);
                Some(held).filter(|held| held.trim_end() != *mark)
            }
            Self::Beginning { text, thoughts, .. } if !text.is_empty() && !thoughts.is_open() => {
                let at = thoughts.end();
                Some(self.begin_answer(at, parts))
            }
            _ => None,
        };
        rest.filter(|rest| !rest.is_empty())
    }

    /// Returns the thoughts at the beginning of the first text, if the server's prompt began them: the
    /// index of the text, the thoughts, and the rest of the text.
    ///
    /// A stream has shown them as text, because only their end tells them from an answer.
    pub(crate) fn unopened(&self, parts: &[ReplyPart]) -> Option<(usize, Reasoning, String)> {
        let Self::Plain(Some(provider)) = self else { return None };
        let first = parts.iter().enumerate().find_map(|(at, part)| match part {
            ReplyPart::Text(text) => Some((at, text)),
            _ => None,
        });
        let (at, text) = first.filter(|(_, text)| text.opaque.is_none())?;
        let text = &*text.text;
        let end = Thoughts::lone_end(text)?;
        let begin = end.start - text.get(..end.start)?.trim_start().len();
        let around = [text.get(..begin)?, text.get(end.clone())?];
        let opaque = json!({"field": FIELD, "before": around[0], "after": around[1]});
        let thoughts = Reasoning::new(&**provider, text.get(begin..end.start)?, opaque);
        Some((at, thoughts, text.get(end.end..)?.to_owned()))
    }

    /// Ends the thoughts too, if any content was added.
    pub(crate) fn end_thoughts(&mut self, parts: &mut [ReplyPart]) {
        if self.has_begun() {
            self.close(0, parts);
        }
    }

    /// Makes all further content text.
    pub(crate) fn skip(&mut self) {
        if let Self::Beginning { .. } = self {
            *self = Self::Text;
        }
    }

    /// Returns whether a piece of content was added.
    pub(crate) fn has_begun(&self) -> bool {
        !matches!(self, Self::Beginning { text, .. } if text.is_empty())
    }

    /// Ends the beginning: the last `rest` bytes are text. Each part gets what was around it.
    fn close(&mut self, rest: usize, parts: &mut [ReplyPart]) {
        let Self::Beginning { text, blocks, .. } = self else { return };
        let (mut from, last) = (0, blocks.len().saturating_sub(1));
        for (index, Block { part, start, end }) in blocks.iter().copied().enumerate() {
            let after = if index == last { end..text.len() - rest } else { end..end };
            let around = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
            if let Some(ReplyPart::Reasoning(reasoning)) = parts.get_mut(part) {
                let (before, after) = (around(from..start), around(after));
                reasoning.opaque = json!({"field": FIELD, "before": before, "after": after});
            }
            from = end;
        }
        *self = Self::Text;
    }
}

/// Adds the new thoughts, without the white space around them, to one part for each block.
fn show(
    text: &str,
    thoughts: &Thoughts,
    blocks: &mut Vec<Block>,
    provider: &str,
    parts: &mut Vec<ReplyPart>,
    deltas: &mut Deltas,
) {
    for (index, block) in thoughts.blocks().enumerate() {
        let inside = text.get(block.clone()).unwrap_or_default();
        let start = block.start + inside.len() - inside.trim_start().len();
        let end = block.start + inside.trim_end().len();
        if index == blocks.len() {
            blocks.push(Block { part: parts.len(), start, end: start });
            // The field keeps other reasoning out of the part.
            let reasoning = Reasoning::new(provider, "", json!({"field": FIELD}));
            parts.push(ReplyPart::Reasoning(reasoning));
        }
        let Some(known) = blocks.get_mut(index) else { continue };
        if known.start == known.end {
            (known.start, known.end) = (start, start);
        }
        let piece = text.get(known.end..end).filter(|piece| !piece.is_empty());
        let Some(piece) = piece else { continue };
        known.end = end;
        deltas.push(|| Delta::Reasoning(piece.to_owned()));
        if let Some(ReplyPart::Reasoning(reasoning)) = parts.get_mut(known.part) {
            reasoning.text.push_str(piece);
        }
    }
}

/// Adds a piece of the answer to what is held back, and returns what cannot be the mark at its end.
fn held_back(mark: &str, held: &mut String, piece: &str) -> String {
    held.push_str(piece);
    let may_be_mark = |at: &usize| {
        let end = held.get(*at..).unwrap_or_default();
        mark.starts_with(end) || end.trim_end() == mark
    };
    let mut starts = held.match_indices('<').map(|(at, _)| at);
    let at = starts.find(may_be_mark).unwrap_or(held.len());
    let kept = held.split_off(at);
    std::mem::replace(held, kept)
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
