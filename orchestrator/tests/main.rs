//! The tests of this crate, in one program: see `README.md` beside this file.
//!
//! A new test goes into the module of its subject, or into a new module listed here.
#![cfg(test)]

// What tests share.
mod support;

// Tests by subject.
mod answering;
mod approval;
mod cancellation;
mod compaction;
mod conversations;
mod deadlines;
mod deploys;
mod find_tools;
mod hooks;
mod incomplete;
mod journal;
mod limits;
mod many_calls;
mod misuse;
mod offered;
mod perform;
mod policies;
mod properties;
mod react;
mod read_result;
mod run;
mod selector;
mod shown_answers;
mod simulation;
mod stream;
mod the_loop;
mod tool_index;
mod unbegun;
mod untrusted;
mod waiting;
