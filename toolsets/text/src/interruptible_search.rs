//! [`InterruptibleSearch`], which matches very long lines and checks the clock meanwhile.

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_syntax::hir::Hir;
use toolwright_module::error::Stage;
use toolwright_module::{Error, Result};

use crate::limited_call::LimitedCall;

/// Maximum number of steps of the normal matcher, which takes about a second for them.
///
/// A step is one state of the pattern at one byte of the text. The normal matcher cannot be
/// interrupted, and its worst case is all steps.
const MAX_STEPS: usize = 1 << 28;

/// Number of bytes between two checks of the clock, because each byte may take thousands of steps.
const STRIDE: usize = 1 << 10;

/// A search of lines that are so long that the clock must be checked during the search.
pub(crate) struct InterruptibleSearch {
    nfa: NFA,
    dfa: DFA,
    cache: Cache,
}

impl InterruptibleSearch {
    /// Compiles the pattern to an automaton that is run byte by byte.
    pub(crate) fn new(hir: &Hir, max_nfa_bytes: usize, cache_bytes: usize) -> Result<Self> {
        let config = thompson::Config::new()
            .utf8(false)
            .which_captures(WhichCaptures::None)
            .nfa_size_limit(Some(max_nfa_bytes));
        let nfa = thompson::Compiler::new().configure(config).build_from_hir(hir)?;
        // The automaton supports word boundaries beside ASCII characters only, and quits at others.
        let config = DFA::config()
            .unicode_word_boundary(true)
            .cache_capacity(cache_bytes)
            .skip_cache_capacity_check(true);
        let dfa = DFA::builder().configure(config).build_from_nfa(nfa.clone())?;
        let cache = dfa.create_cache();
        Ok(Self { nfa, dfa, cache })
    }

    /// Returns whether a line matches. The line has no line end.
    pub(crate) fn matches(
        &mut self,
        matcher: &RegexMatcher,
        line: &str,
        call: &LimitedCall<'_>,
    ) -> Result<bool> {
        if line.len().saturating_mul(self.nfa.states().len()) <= MAX_STEPS {
            return Ok(matcher.is_match(line.as_bytes())?);
        }
        self.run(line.as_bytes(), call)
    }

    fn run(&mut self, line: &[u8], call: &LimitedCall<'_>) -> Result<bool> {
        let Self { dfa, cache, .. } = self;
        let mut state = dfa.start_state_forward(cache, &Input::new(line))?;
        for (at, &byte) in line.iter().enumerate() {
            if at % STRIDE == 0 {
                call.check()?;
            }
            // The automaton reports a match one byte late.
            state = dfa.next_state(cache, state, byte)?;
            if state.is_match() {
                return Ok(true);
            }
            if state.is_quit() {
                return Err(unknown_boundary());
            }
            if byte == b'\r' {
                // No match includes a carriage return, so the search starts again after it.
                state = dfa.start_state_forward(cache, &Input::new(line).range(at + 1..))?;
            }
        }
        Ok(dfa.next_eoi_state(cache, state)?.is_match())
    }
}

fn unknown_boundary() -> Error {
    let text = "`pattern` has a word boundary, which is not supported beside letters that are not ASCII in a line of this length; use (?-u:\\b) instead of \\b, or split the line";
    Error::retry(text).at(Stage::Limit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use toolwright_module::Context;

    use super::InterruptibleSearch;
    use crate::limited_call::LimitedCall;
    use crate::limits::TextLimits;
    use crate::pattern::Pattern;

    /// Random combinations of parts of patterns.
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
        /// The search of long lines agrees with the search of other lines.
        #[test]
        fn the_interruptible_search_agrees_with_the_normal_one(
            pattern in pattern(),
            line in "[ab é\r]{1,12}",
            ignore_case: bool,
        ) {
            let pattern = Pattern::new(&pattern, ignore_case).unwrap();
            let cx = Context::default();
            let call = LimitedCall::start(&line, TextLimits::default(), &cx).unwrap();
            let mut long = InterruptibleSearch::new(pattern.hir(), 1 << 19, 1 << 20).unwrap();
            let interruptible = long.run(line.as_bytes(), &call).unwrap();
            let mut searched = false;
            let found = |_| { searched = true; Ok(()) };
            pattern.search(&line, &call, found).unwrap();
            prop_assert_eq!(interruptible, searched);
        }
    }
}
