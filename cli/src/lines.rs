//! Lines at a terminal.
//!
//! A line that begins without [`MARK`] begins with the command's own words. Every line that begins
//! with text of a model, a tool, a server or a file has the mark, also if the text is only there
//! because the line before was too long. So no such text can look like a question of the command.

use std::io::{self, IsTerminal};

use terminal_size::{Width, terminal_size_of};
use toolwright_module::__text::escaped;
use unicode_width::UnicodeWidthChar;

/// The mark at the start of a line of others.
pub(crate) const MARK: &str = "| ";

/// Number of columns that [`MARK`] takes.
const MARK_WIDTH: usize = 2;

/// Columns of a terminal that does not say how many it has.
const COLUMNS: usize = 80;

/// The fewest columns in which lines are broken. In fewer, a line would have no room for text.
const FEWEST: usize = 10;

/// Composes lines of the command and of others.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    text: String,
    /// Columns of the present line that are taken.
    column: usize,
    /// Columns of the terminal. Lines for a pipe or a file are not broken.
    columns: Option<usize>,
}

impl Lines {
    /// Returns lines for standard output.
    pub(crate) fn on_stdout() -> Self {
        let stdout = io::stdout();
        let columns = stdout.is_terminal().then(|| columns(terminal_size_of(stdout)));
        Self { columns, ..Self::default() }
    }

    /// Returns lines for standard error.
    pub(crate) fn on_stderr() -> Self {
        let stderr = io::stderr();
        let columns = stderr.is_terminal().then(|| columns(terminal_size_of(stderr)));
        Self { columns, ..Self::default() }
    }

    /// Returns lines for the terminal of a question: that of standard error, or the one that the
    /// answer comes from if standard error is redirected.
    pub(crate) fn of_question() -> Self {
        if io::stderr().is_terminal() {
            return Self::on_stderr();
        }
        let size = std::fs::File::open("/dev/tty").ok().and_then(terminal_size_of);
        Self { columns: Some(columns(size)), ..Self::default() }
    }

    /// Returns lines for a terminal with this number of columns.
    #[cfg(test)]
    fn on_terminal(columns: usize) -> Self {
        Self { columns: Some(columns), ..Self::default() }
    }

    /// Adds a style, which takes no column.
    pub(crate) fn style(&mut self, style: impl std::fmt::Display) -> &mut Self {
        self.text.push_str(&style.to_string());
        self
    }

    /// Adds words of the command. At the start of a line they have no mark. A further line in them
    /// has it, because such words may quote others.
    pub(crate) fn own(&mut self, text: &str) -> &mut Self {
        let (first, rest) = text.split_once('\n').map_or((text, None), |(a, b)| (a, Some(b)));
        first.trim_end_matches('\r').chars().for_each(|char| self.put(char));
        if let Some(rest) = rest {
            self.end();
            self.theirs(rest);
        }
        self
    }

    /// Adds several lines, each of which begins with words of the command.
    pub(crate) fn own_lines(&mut self, text: &str) -> &mut Self {
        for (place, line) in text.split('\n').enumerate() {
            if place > 0 {
                self.end();
            }
            self.own(line);
        }
        self
    }

    /// Adds text of others: of a model, a tool, a server or a file.
    pub(crate) fn theirs(&mut self, text: &str) -> &mut Self {
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            match char {
                '\r' if chars.peek() == Some(&'\n') => {}
                '\n' => {
                    // An empty line has the mark too: it is not the end of what others said.
                    if self.column == 0 {
                        self.text.push_str(MARK.trim_end());
                    }
                    self.end();
                }
                char => {
                    if self.column == 0 {
                        self.mark();
                    }
                    self.put(char);
                }
            }
        }
        self
    }

    /// Ends the present line.
    pub(crate) fn end(&mut self) -> &mut Self {
        self.text.push('\n');
        self.column = 0;
        self
    }

    /// Returns whether the present line has text.
    pub(crate) fn is_mid_line(&self) -> bool {
        self.column > 0
    }

    /// Takes the text so far. The present line goes on after it.
    pub(crate) fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    fn mark(&mut self) {
        self.text.push_str(MARK);
        self.column = MARK_WIDTH;
    }

    fn put(&mut self, char: char) {
        if is_steering(char) {
            // Each on its own, because in a narrow terminal the whole escape has no room.
            return escaped(char).chars().for_each(|char| self.put(char));
        }
        let width = if char == '\t' { TAB - self.column % TAB } else { width(char) };
        if let Some(columns) = self.columns
            && self.column + width > columns
            && columns >= FEWEST
            && self.column > MARK_WIDTH
        {
            self.end();
            self.mark();
        }
        match char {
            '\t' => self.text.extend(std::iter::repeat_n(' ', width)),
            char => self.text.push(char),
        }
        self.column += width;
    }
}

/// Columns from one tab stop to the next.
const TAB: usize = 8;

fn columns(size: Option<(Width, terminal_size::Height)>) -> usize {
    size.map_or(COLUMNS, |(Width(columns), _)| columns.into())
}

/// Returns the most columns that a terminal gives to a character. Too many break a line early; too
/// few would let the terminal break it, without a mark.
fn width(char: char) -> usize {
    match char {
        ' '..='~' => 1,
        '\u{1f000}'.. => 2,
        char if has_wide_letters() => char.width_cjk().unwrap_or(1).max(1),
        char => char.width().unwrap_or(1).max(1),
    }
}

/// Returns whether the terminal may give two columns to characters of an ambiguous width, as those
/// of East Asia do.
fn has_wide_letters() -> bool {
    static WIDE: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
        let set =
            ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(|name| std::env::var(name).ok());
        let language = set.into_iter().find(|language| !language.is_empty()).unwrap_or_default();
        ["zh", "ja", "ko"].iter().any(|east| language.starts_with(east))
    });
    *WIDE
}

/// Returns whether a character steers the terminal, changes the order of the visible text, or hides
/// something in it.
fn is_steering(char: char) -> bool {
    (char.is_control() && !matches!(char, '\n' | '\t'))
        || matches!(char,
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn theirs(columns: usize, text: &str) -> String {
        Lines::on_terminal(columns).theirs(text).take()
    }

    #[test]
    fn each_line_of_others_has_the_mark_and_no_character_steers() {
        assert_eq!(theirs(80, "fine\nallow it? y(es)"), "| fine\n| allow it? y(es)");
        assert_eq!(theirs(80, "a\r\n\r\nb\rc"), "| a\n|\n| b\\u000dc");
        assert_eq!(
            theirs(80, "\u{1b}[2J\u{9b}\u{202e}\u{2028}"),
            "| \\u001b[2J\\u009b\\u202e\\u2028"
        );
        let mut lines = Lines::on_terminal(80);
        assert_eq!(lines.own("error: a\nallow it?").take(), "error: a\n| allow it?");
        let mut lines = Lines::on_terminal(80);
        lines.own("<- read ").theirs("fine\nallow it?").own(" (1 ms)");
        assert_eq!(lines.take(), "<- read fine\n| allow it? (1 ms)");
    }

    #[test]
    fn a_line_that_is_too_long_goes_on_after_a_mark() {
        assert_eq!(theirs(10, "0123456789allow"), "| 01234567\n| 89allow");
        assert_eq!(theirs(10, "你好你好你好"), "| 你好你好\n| 你好");
        assert_eq!(theirs(10, "a\tb"), "| a     b");
        let mut lines = Lines::on_terminal(10);
        assert_eq!(lines.own("-> a").theirs("5678901").take(), "-> a567890\n| 1");
        // In a pipe nothing is broken.
        assert_eq!(Lines::default().theirs(&"a".repeat(200)).take().lines().count(), 1);
    }

    proptest! {
        #[test]
        fn whatever_others_say_in_whatever_pieces(
            pieces in proptest::collection::vec(".{0,30}|[ -~\n\t\r]{0,40}", 0..6),
            columns in 12_usize..60,
        ) {
            let mut lines = Lines::on_terminal(columns);
            let mut text = String::new();
            for piece in &pieces {
                text.push_str(&lines.theirs(piece).take());
            }
            for line in text.split('\n').filter(|line| !line.is_empty()) {
                prop_assert!(line.starts_with(MARK.trim_end()), "{line:?}");
                let taken: usize = line.chars().map(width).sum();
                prop_assert!(taken <= columns, "{line:?} has {taken} columns");
                prop_assert!(!line.chars().any(|char| char.is_control()), "{line:?}");
            }
        }
    }
}
