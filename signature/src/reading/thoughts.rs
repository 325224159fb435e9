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
const TAGS: [(&str, bool); 7] = [
    ("think", true),
    ("seed:think", true),
    ("longcat_think", true),
    ("thought", true),
    ("thinking", false),
    ("thoughts", false),
    ("reasoning", false),
];

/// The marks around thoughts that are not tags. Models are trained to write all of them.
const MARKS: [(&str, &str); 8] = [
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|channel|>analysis<|message|>", END),
    ("<|channel>thought", "<channel|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<unused94>", "<unused95>"),
];

/// The mark at the end of any message of one model, and so also of its thoughts.
const END: &str = "<|end|>";

/// Marks before an answer, and the mark at its end. An answer in a tag such as `<answer>` keeps it,
/// because prompts ask for such tags.
const ANSWERS: [(&str, Option<&str>); 4] = [
    ("<|start|>assistant", None),
    ("<|channel|>final<|message|>", None),
    ("<|START_RESPONSE|>", Some("<|END_RESPONSE|>")),
    ("<|begin_of_solution|>", Some("<|end_of_solution|>")),
];

/// Maximum number of bytes in the attributes of a tag.
const LONGEST_ATTRIBUTES: usize = 200;

/// Scanner for a model's thoughts at the beginning of a text: `<think>Maybe 4?</think>`.
///
/// Some servers do not separate the thoughts of a model from its answer. The thoughts end where the
/// mark is closed. There may be several blocks of them, with nothing but white space between. Tags
/// later in a text are a part of the answer. If the server's prompt began the thoughts, only their
/// end is in the text: [`lone_end`](Self::lone_end) finds it in a whole text.
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
    /// The mark at the end of the answer.
    answer_end: Option<&'static str>,
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
    /// A mark of this length, after which thoughts follow up to another mark.
    Thoughts(usize, Close),
    /// A mark of this length without thoughts after it, and the mark at the end of the answer.
    Empty(usize, Option<&'static str>),
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
                let length = match opening(trimmed, self.only_trained) {
                    Opening::Unknown => return,
                    Opening::Answer => {
                        self.is_over = true;
                        continue;
                    }
                    Opening::Thoughts(length, close) => {
                        self.open = Some(close);
                        length
                    }
                    Opening::Empty(length, end) => {
                        self.answer_end = end.or(self.answer_end);
                        length
                    }
                };
                self.at += self.blank + length;
                self.blank = 0;
                self.blocks.extend(self.open.map(|_| self.at..self.at));
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

    /// Returns the mark at the end of the answer, which is not a part of it. `None` if the answer has
    /// none.
    #[must_use]
    pub fn answer_end(&self) -> Option<&'static str> {
        self.answer_end
    }

    /// Returns the place of the mark at the end of thoughts that the server's prompt began, with the
    /// white space around it, in a whole text without thoughts at its beginning.
    ///
    /// The text may also be about such a mark. So the mark must be one that models are trained to
    /// write, it must be alone on its line or at the end of a paragraph, and no thoughts may begin
    /// before it.
    ///
    /// ```
    /// use toolwright_signature::Thoughts;
    ///
    /// let text = "Maybe 4?\n</think>\n\n5";
    /// let end = Thoughts::lone_end(text).unwrap();
    /// assert_eq!((&text[..end.start], &text[end.end..]), ("Maybe 4?", "5"));
    /// assert_eq!(Thoughts::lone_end("Write `</think>` at the end."), None);
    /// ```
    #[must_use]
    pub fn lone_end(text: &str) -> Option<Range<usize>> {
        if !text.contains(['<', '[', '◁']) {
            return None;
        }
        let marks = MARKS.iter().filter(|(_, close)| *close != END);
        let marks = marks.map(|(open, close)| ((*open).to_owned(), Close::Mark(close)));
        let all: Vec<_> =
            tags(true).map(|name| (format!("<{name}"), Close::Tag(name))).chain(marks).collect();
        let ends = all.iter().filter_map(|(_, close)| close.find(text).ok());
        let end = ends.min_by_key(|end| end.start)?;
        let (before, after) = (text.get(..end.start)?, text.get(end.end..)?);
        let line = |c: &char| *c == '\n';
        let breaks = |text: &str| {
            let rest = text.trim_start();
            let blank = text.len() - rest.len();
            let breaks = text.get(..blank).map_or(0, |blank| blank.chars().filter(line).count());
            if rest.is_empty() { breaks.max(1) } else { breaks }
        };
        let marked = after.trim_start();
        let is_marked = ANSWERS.iter().any(|(open, _)| marked.starts_with(open));
        let starts_line = before.trim_end_matches([' ', '\t']).ends_with('\n');
        let is_alone = is_marked || breaks(after) >= if starts_line { 1 } else { 2 };
        let in_fence = before.matches("```").count() % 2 == 1;
        let lower = before.to_ascii_lowercase();
        let begins = all.iter().any(|(open, _)| lower.contains(&open.to_ascii_lowercase()));
        if !is_alone || in_fence || begins || before.trim().is_empty() {
            return None;
        }
        let blank = after.len() - after.trim_start().len();
        Some(before.trim_end().len()..end.end + blank)
    }

    /// Returns the place after the last mark so far.
    #[must_use]
    pub fn end(&self) -> usize {
        self.at
    }
}

/// Returns the names of tags: all, or those that models are trained to write.
fn tags(only_trained: bool) -> impl Iterator<Item = &'static str> {
    let tags = TAGS.iter().filter(move |(_, is_trained)| *is_trained || !only_trained);
    tags.map(|(name, _)| *name)
}

/// Whether a mark at the end of thoughts is in a text.
pub(crate) fn closes(text: &str) -> bool {
    let marks = MARKS.iter().map(|(_, close)| Close::Mark(close));
    let mut all = tags(false).map(Close::Tag).chain(marks);
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
            match closing(rest, name) {
                Ok(length) => return Ok(start..from + length),
                Err(true) => return Err(start),
                Err(false) => {}
            }
        }
        // The text may end with the beginning of the mark.
        let starts = |at: &usize| text.get(*at..).is_some_and(|end| mark.starts_with(end));
        let earliest = text.len().saturating_sub(mark.len() - 1);
        Err((earliest..text.len()).find(starts).unwrap_or(text.len()))
    }
}

/// Returns the length of a closing tag after its `</`; an error says whether the text is the beginning
/// of one.
fn closing(rest: &str, name: &str) -> Result<usize, bool> {
    match after_name(rest, name) {
        Some(after) if after.starts_with('>') => Ok(rest.len() - after.len() + 1),
        Some(after) => Err(after.is_empty()),
        None => Err(is_start(rest, name)),
    }
}

/// Returns what a text begins with.
fn opening(text: &str, only_trained: bool) -> Opening {
    if text.is_empty() {
        return Opening::Unknown;
    }
    let mut is_unknown = false;
    let mut begins = |mark: &str| {
        is_unknown |= mark.starts_with(text);
        text.starts_with(mark)
    };
    for (open, close) in MARKS {
        if begins(open) {
            return Opening::Thoughts(open.len(), Close::Mark(close));
        }
        // The server's prompt began and ended the thoughts, and the model ended them again.
        if close != END && begins(close) {
            return Opening::Empty(close.len(), None);
        }
    }
    for (open, end) in ANSWERS {
        if begins(open) {
            return Opening::Empty(open.len(), end);
        }
    }
    let Some(inside) = text.strip_prefix('<') else {
        return if is_unknown { Opening::Unknown } else { Opening::Answer };
    };
    for (name, is_trained) in TAGS.iter().filter(|(_, is_trained)| *is_trained || !only_trained) {
        if *is_trained && let Some(inside) = inside.strip_prefix('/') {
            match closing(inside, name) {
                Ok(length) => return Opening::Empty(length + 2, None),
                Err(may_be) => is_unknown |= may_be,
            }
        }
        let Some(after) = after_name(inside, name) else {
            is_unknown |= is_start(inside, name);
            continue;
        };
        match after.find(['>', '<']) {
            Some(end) if end <= LONGEST_ATTRIBUTES && after.get(end..=end) == Some(">") => {
                let is_empty = after.get(..end).is_some_and(|inside| inside.ends_with('/'));
                let length = text.len() - after.len() + end + 1;
                return match is_empty {
                    true => Opening::Empty(length, None),
                    false => Opening::Thoughts(length, Close::Tag(name)),
                };
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
