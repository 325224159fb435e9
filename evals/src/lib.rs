//! Evals: does an agent do its job, in `cargo test` and in production?
//!
//! An [`Eval`] gives [`Case`]s to an agent or a module, and [graders] say of each [`Attempt`] what
//! they think of it. The [`Report`] has the figures, and a threshold fails a test.
//!
//! - A case is a typed value, from code or from a file.
//! - A grader is a module with the signature [`Attempt`]: code, or a language model ([`Judge`]).
//! - A [`World`] is the state that tools change. Each attempt has a copy of its own.
//! - The same eval runs live, over recordings (free, and the same every time), and over stored runs.
//!
//! ```
//! use serde_json::json;
//! use toolwright_evals::{Case, Eval, ExpectedCall, graders};
//! use toolwright_module::testing::Scripted;
//! use toolwright_module::{Context, Reply};
//! use toolwright_orchestrator::Agent;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let model = Scripted::new(|_| Ok(Reply::text("Hello, Ada!")));
//! let report = Eval::agent("greetings", Agent::new(model, [])?)
//!     .with_cases([Case::new("ada", "Greet Ada.").expecting("Ada")])
//!     .with_grader("names the user", graders::contains_expected())
//!     .with_grader("deletes nothing", graders::never_calls(["delete_user"]))
//!     .run(&Context::default())
//!     .await?;
//! report.assert_at_least(1.0);
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Map
//!
//! | file | content |
//! |---|---|
//! | `eval.rs`, `one_attempt.rs` | [`Eval`], and how it makes and grades each attempt |
//! | `case.rs` | [`Case`], from code or a file |
//! | `expected_calls.rs`, `expected_value.rs`, `matching.rs` | [`ExpectedCall`] and [`CallMatching`]: calls compared by contract |
//! | `attempt.rs` | [`Attempt`] and [`MadeCall`], from the events of a run |
//! | `stored.rs` | [`StoredRun`]: attempts from the records of a run |
//! | `grade.rs`, `graders.rs`, `judge.rs` | [`Grade`], ready graders, [`Judge`] |
//! | `pairs.rs` | [`PairJudge`]: the answers of two reports |
//! | `world.rs` | [`World`] |
//! | `tape.rs` | model calls, recorded and replayed |
//! | `telemetry.rs` | the spans of attempts and grades |
//! | `folder.rs` | what is left after a crash |
//! | `report.rs`, `stats.rs`, `compare.rs` | [`Report`], [`Mean`], [`Comparison`] |
//! | `page.rs`, `junit.rs` | the report as a page, and for CI servers |
//! | `error.rs` | [`EvalError`] |

mod attempt;
mod case;
mod compare;
mod error;
mod eval;
mod expected_calls;
mod expected_value;
mod folder;
mod grade;
pub mod graders;
mod judge;
mod junit;
mod matching;
mod one_attempt;
mod page;
mod pairs;
mod report;
mod stats;
mod stored;
mod tape;
mod telemetry;
mod world;

pub use attempt::{Attempt, MadeCall};
pub use case::{Case, CaseValue};
pub use compare::Comparison;
pub use error::EvalError;
pub use eval::Eval;
pub use expected_calls::{CallComparison, CallDifference, CallMatching, ExpectedCall};
pub use grade::{Grade, Verdict};
pub use judge::{Judge, JudgeAnswer, Judgement};
pub use pairs::{Better, Choice, ChooseAnswer, PairJudge, Preferences};
pub use report::{ChangedContract, GradedAttempt, LeftOut, Report};
pub use stats::Mean;
pub use stored::StoredRun;
pub use world::World;
