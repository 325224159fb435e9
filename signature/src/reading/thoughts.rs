//! A model's thoughts before its answer, where a server leaves them in the text.
//!
//! In: a text, whole or as far as it has arrived. Out: where its thoughts are, and where the answer
//! begins. [`lenient`](super::lenient) and [`Partial`](crate::Partial) read only the answer, and
//! providers make the thoughts the reasoning of the reply. All of them ask [`Thoughts`], so none
//! reads a draft that another one skips.
//!
//! Begin with [`Thoughts::scan`].

use std::ops::Range;

/// Names of the tags around thoughts, as in `<think>`. The second value is whether models are
/// trained to write the tag. The other tags are a habit of prompts.
const TAGS: [(&str, bool); 6] = [
    ("think", true),
    ("seed:think", true),
    ("thinking", false),
    ("thought", false),
    ("thoughts", false),
    ("reasoning", false),
];

/// The marks around thoughts that are not tags. Models are trained to write all of them.
const MARKS: [(&str, &str); 5] = [
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
];

/// Marks before an answer, without thoughts of their own.
const EMPTY: [&str; 3] =
    ["<|start|>assistant", "<|channel|>final<|message|>", "<|START_RESPONSE|>"];

/// Maximum number of bytes in the attributes of a tag.
const LONGEST_ATTRIBUTES: usize = 200;

/// Scanner for a model's thoughts at the beginning of a text: `<think>Maybe 4?</think>`.
///
/// Some servers do not separate the thoughts of a model from its answer. The thoughts end where the
/// mark is closed. There may be several blocks of them, with nothing but white space between. Tags
/// later in a text are a part of the answer.
///
/// ```
/// use toolwright_signature::Thoughts;
///
/// let text = "<think>Maybe 4?</think>\n5";
/// let mut thoughts = Thoughts::default();
/// thoughts.scan(&text[..9]);
/// assert_eq!(thoughts.answer(), None);
///
/// // The text has grown. What was scanned is not scanned again.
/// thoughts.scan(text);
/// let inside: Vec<&str> = thoughts.blocks().map(|block| &text[block]).collect();
/// assert_eq!(inside, ["Maybe 4?"]);
/// assert_eq!(thoughts.answer().map(|at| &text[at..]), Some("\n5"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Thoughts {
    /// The insides of the blocks so far.
    blocks: Vec<Range<usize>>,
    /// The end of the last block, which has not ended yet.
    open: Option<Close>,
    /// The end of the scanned text, without white space after the last mark.
    at: usize,
    /// The length of that white space.
    blank: usize,
    is_over: bool,
    /// Whether only marks count that models are trained to write.
    only_trained: bool,
}

/// The mark at the end of thoughts.
#[derive(Debug, Clone, Copy)]
enum Close {
    Tag(&'static str),
    Mark(&'static str),
}

/// What a text begins with.
enum Opening {
    /// The text is too short to decide.
    Unknown,
    /// A mark, which has this length.
    Mark(usize, Option<Close>),
    Answer,
}

impl Thoughts {
    /// Creates a scanner for the marks that models are trained to write, such as `<think>`, and not
    /// for `<thinking>`. A prompt can ask for such a tag, and its program wants to read it.
    #[must_use]
    pub fn trained() -> Self {
        Self { only_trained: true, ..Self::default() }
    }

    /// Scans the text. It begins with the text of the call before.
    pub fn scan(&mut self, text: &str) {
        while !self.is_over {
            let Some(close) = self.open else {
                let rest = text.get(self.at + self.blank..).unwrap_or_default();
                let trimmed =
                    rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
                self.blank += rest.len() - trimmed.len();
                match opening(trimmed, self.only_trained) {
                    Opening::Unknown => return,
                    Opening::Answer => self.is_over = true,
                    Opening::Mark(length, close) => {
                        self.at += self.blank + length;
                        self.blank = 0;
                        self.open = close;
                        self.blocks.extend(close.map(|_| self.at..self.at));
                    }
                }
                continue;
            };
            let rest = text.get(self.at..).unwrap_or_default();
            let end = close.find(rest);
            let inside = self.at + end.as_ref().map_or_else(|safe| *safe, |end| end.start);
            if let Some(block) = self.blocks.last_mut() {
                block.end = inside;
            }
            let Ok(end) = end else {
                self.at = inside;
                return;
            };
            self.at += end.end;
            self.open = None;
        }
    }

    /// Returns the places of the thoughts so far. The last one may grow.
    pub fn blocks(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.blocks.iter().cloned()
    }

    /// Returns whether the thoughts have begun and not ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns the place where the answer begins. `None` if it has not begun, or if the text is too
    /// short to tell.
    #[must_use]
    pub fn answer(&self) -> Option<usize> {
        self.is_over.then_some(self.at)
    }

    /// Returns the place after the last mark so far.
    #[must_use]
    pub fn end(&self) -> usize {
        self.at
    }
}

/// Whether a mark at the end of thoughts is in a text.
pub(crate) fn closes(text: &str) -> bool {
    let tags = TAGS.iter().map(|(name, _)| Close::Tag(name));
    let mut all = tags.chain(MARKS.iter().map(|(_, close)| Close::Mark(close)));
    text.contains(['<', '[', '◁']) && all.any(|close| close.find(text).is_ok())
}

impl Close {
    /// Returns the place of the mark. Otherwise returns the length of the text that cannot be a
    /// part of it.
    fn find(self, text: &str) -> Result<Range<usize>, usize> {
        let mark = match self {
            Self::Mark(mark) => mark,
            Self::Tag(_) => "</",
        };
        let mut from = 0;
        while let Some(found) = text.get(from..).and_then(|rest| rest.find(mark)) {
            let start = from + found;
            from = start + mark.len();
            let rest = text.get(from..).unwrap_or_default();
            let Self::Tag(name) = self else {
                return Ok(start..from);
            };
            match after_name(rest, name) {
                Some(after) if after.starts_with('>') => {
                    return Ok(start..text.len() - after.len() + 1);
                }
                // The tag has not ended.
                Some("") => return Err(start),
                None if is_start(rest, name) => return Err(start),
                _ => {}
            }
        }
        // The text may end with the beginning of the mark.
        let starts = |at: &usize| text.get(*at..).is_some_and(|end| mark.starts_with(end));
        let earliest = text.len().saturating_sub(mark.len() - 1);
        Err((earliest..text.len()).find(starts).unwrap_or(text.len()))
    }
}

/// Returns what a text begins with.
fn opening(text: &str, only_trained: bool) -> Opening {
    if text.is_empty() {
        return Opening::Unknown;
    }
    let marks = MARKS.iter().map(|(open, close)| (*open, Some(Close::Mark(close))));
    let mut is_unknown = false;
    for (open, close) in marks.chain(EMPTY.map(|open| (open, None))) {
        if text.starts_with(open) {
            return Opening::Mark(open.len(), close);
        }
        is_unknown |= open.starts_with(text);
    }
    let Some(inside) = text.strip_prefix('<') else {
        return if is_unknown { Opening::Unknown } else { Opening::Answer };
    };
    for (name, _) in TAGS.iter().filter(|(_, is_trained)| *is_trained || !only_trained) {
        let Some(after) = after_name(inside, name) else {
            is_unknown |= is_start(inside, name);
            continue;
        };
        match after.find(['>', '<']) {
            Some(end) if end <= LONGEST_ATTRIBUTES && after.get(end..=end) == Some(">") => {
                let is_empty = after.get(..end).is_some_and(|inside| inside.ends_with('/'));
                let length = text.len() - after.len() + end + 1;
                return Opening::Mark(length, (!is_empty).then_some(Close::Tag(name)));
            }
            None if after.len() <= LONGEST_ATTRIBUTES => is_unknown = true,
            _ => {}
        }
    }
    if is_unknown { Opening::Unknown } else { Opening::Answer }
}

/// Returns the text after the name of a tag and white space. `None` if it has another name.
fn after_name<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (head, rest) = text.split_at_checked(name.len())?;
    let is_whole = rest.chars().next().is_none_or(|c| c.is_whitespace() || matches!(c, '>' | '/'));
    (head.eq_ignore_ascii_case(name) && is_whole).then(|| rest.trim_start())
}

/// Whether a text is the beginning of a name.
fn is_start(text: &str, name: &str) -> bool {
    name.get(..text.len()).is_some_and(|start| start.eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The thoughts and the answer of a text in pieces of `size` bytes.
    fn scanned(text: &str, size: usize) -> (Vec<&str>, Option<&str>) {
        let mut thoughts = Thoughts::default();
        for end in (0..=text.len()).step_by(size).chain([text.len()]) {
            if text.is_char_boundary(end) {
                thoughts.scan(&text[..end]);
            }
        }
        let inside = thoughts.blocks().map(|block| &text[block]).collect();
        (inside, thoughts.answer().map(|at| &text[at..]))
    }

    #[test]
    fn thoughts_end_at_their_mark_in_pieces_of_any_size() {
        for (text, inside, answer) in [
            ("<think>a</think>b", vec!["a"], Some("b")),
            ("\u{feff}\n<think>\na\n</think>\n\nb", vec!["\na\n"], Some("\n\nb")),
            ("<think></think>b", vec![""], Some("b")),
            ("<think>a</think> <think>b</think>c", vec!["a", "b"], Some("c")),
            ("<think budget=\"3\">a</think>b", vec!["a"], Some("b")),
            ("<Think>a</THINK >b", vec!["a"], Some("b")),
            ("<think/>b", vec![], Some("b")),
            ("<thinking>a</think></thinking>b", vec!["a</think>"], Some("b")),
            ("<think>a</thinking></think>b", vec!["a</thinking>"], Some("b")),
            ("<seed:think>a</seed:think>b", vec!["a"], Some("b")),
            ("[THINK]a[/THINK]b", vec!["a"], Some("b")),
            ("◁think▷a◁/think▷b", vec!["a"], Some("b")),
            (
                "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
                vec!["a"],
                Some("b"),
            ),
            ("<think>a", vec!["a"], None),
            ("<think>a</thin", vec!["a"], None),
            ("<thin", vec![], None),
            ("  ", vec![], None),
            ("a</think>b", vec![], Some("a</think>b")),
            ("a <think>b</think>", vec![], Some("a <think>b</think>")),
            ("<thinker>a</thinker>", vec![], Some("<thinker>a</thinker>")),
            ("<html>", vec![], Some("<html>")),
            ("[1, 2]", vec![], Some("[1, 2]")),
        ] {
            for size in [1, 2, 3, 100] {
                let expected = (inside.clone(), answer);
                assert_eq!(scanned(text, size), expected, "{text} in pieces of {size}");
            }
        }
    }
}
