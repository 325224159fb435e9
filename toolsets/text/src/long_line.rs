use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_syntax::hir::Hir;
use toolwright_module::error::Stage;
use toolwright_module::{Error, Result};

use crate::work::Work;

/// How many steps the engine may take at once: about a second.
///
/// A step is a state of the pattern at a byte of the text. The engine of the other lines
/// cannot be stopped, and takes at worst all of them.
const STEPS: usize = 1 << 28;

/// Bytes between two looks at the clock, when every byte may take thousands of steps.
const STRIDE: usize = 1 << 10;

/// Searches lines that are too long to be searched without looking at the clock.
pub(crate) struct LongLine {
    nfa: NFA,
    dfa: DFA,
    cache: Cache,
}

impl LongLine {
    /// The same pattern, as an automaton that is walked byte by byte.
    pub(crate) fn new(hir: &Hir, largest: usize, cache: usize) -> Result<Self> {
        let config = thompson::Config::new()
            .utf8(false)
            .which_captures(WhichCaptures::None)
            .nfa_size_limit(Some(largest));
        let nfa = thompson::Compiler::new().configure(config).build_from_hir(hir)?;
        // Word boundaries between ASCII letters are known; elsewhere it gives up.
        let config = DFA::config()
            .unicode_word_boundary(true)
            .cache_capacity(cache)
            .skip_cache_capacity_check(true);
        let dfa = DFA::builder().configure(config).build_from_nfa(nfa.clone())?;
        let cache = dfa.create_cache();
        Ok(Self { nfa, dfa, cache })
    }

    /// Whether a line matches, without its end.
    pub(crate) fn matches(
        &mut self,
        matcher: &RegexMatcher,
        line: &str,
        work: &Work<'_>,
    ) -> Result<bool> {
        if line.len().saturating_mul(self.nfa.states().len()) <= STEPS {
            return Ok(matcher.is_match(line.as_bytes())?);
        }
        self.walk(line.as_bytes(), work)
    }

    fn walk(&mut self, line: &[u8], work: &Work<'_>) -> Result<bool> {
        let Self { dfa, cache, .. } = self;
        let mut state = dfa.start_state_forward(cache, &Input::new(line))?;
        for (at, &byte) in line.iter().enumerate() {
            if at % STRIDE == 0 {
                work.check()?;
            }
            // A match is told one byte late.
            state = dfa.next_state(cache, state, byte)?;
            if state.is_match() {
                return Ok(true);
            }
            if state.is_quit() {
                return Err(unknown_boundary());
            }
            if byte == b'\r' {
                // No match goes across it: the next starts anew.
                state = dfa.start_state_forward(cache, &Input::new(line).range(at + 1..))?;
            }
        }
        Ok(dfa.next_eoi_state(cache, state)?.is_match())
    }
}

fn unknown_boundary() -> Error {
    let text = "`pattern` has a word boundary, and a line of `text` is too long to look for one beside letters that are not ASCII; use (?-u:\\b) in place of \\b, or break the line";
    Error::retry(text).at(Stage::Limit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use toolwright_module::Context;

    use super::LongLine;
    use crate::limits::Limits;
    use crate::pattern::Pattern;
    use crate::work::Work;

    /// Pieces of patterns, put together in any way.
    fn pattern() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            "[ab.é]",
            Just("^".to_owned()),
            Just("$".to_owned()),
            Just(r"\A".to_owned()),
            Just(r"\z".to_owned()),
            Just(r"\s".to_owned()),
            Just("[^a]".to_owned()),
            Just(r"(?-u:\b)".to_owned()),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("(?:{a}|{b})")),
                (inner, "[*+?]|\\{2\\}").prop_map(|(a, times)| format!("(?:{a}){times}")),
            ]
        })
    }

    proptest! {
        /// What walks long lines agrees with what searches all others.
        #[test]
        fn a_long_line_matches_what_a_short_one_does(
            pattern in pattern(),
            line in "[ab é\r]{1,12}",
            ignore_case: bool,
        ) {
            let pattern = Pattern::new(&pattern, ignore_case).unwrap();
            let cx = Context::default();
            let work = Work::on(&line, Limits::default(), &cx).unwrap();
            let mut long = LongLine::new(pattern.hir(), 1 << 19, 1 << 20).unwrap();
            let walked = long.walk(line.as_bytes(), &work).unwrap();
            let mut searched = false;
            let found = |_| { searched = true; Ok(()) };
            pattern.search(&line, &work, found).unwrap();
            prop_assert_eq!(walked, searched);
        }
    }
}
