//! 1,000 replayed cases of five rounds: seconds and memory.
//!
//! `cargo bench -p toolwright-evals`. Env: `CASES`. `with_pydantic_evals.py` beside this file does the same work
//! with pydantic-evals and its `TestModel`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolwright_evals::{Case, Eval, ExpectedCall, Report, graders};
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Context, Effect, LanguageModel, Message, Reply, Request, Result, Signature, Tool, ToolCall,
    from_fn,
};
use toolwright_orchestrator::Agent;

/// Rounds with a call. The last one has the answer.
const CALLS: usize = 4;

/// Look up one step of an order.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct LookUp {
    /// Number of the order.
    order: u64,
    /// Number of the step.
    step: u64,
}

impl Signature for LookUp {
    type Output = String;
}

fn look_up() -> Tool {
    let module =
        from_fn(async |LookUp { order, step }| Ok(format!("step {step} of {order} is done")));
    Tool::new(module.with_effect(Effect::Read)).expect("a valid contract")
}

fn model() -> impl LanguageModel {
    Scripted::new(|request: &Request| {
        let text = request.messages.iter().find_map(|message| match &**message {
            Message::User { .. } => Some(format!("{message:?}")),
            _ => None,
        });
        let digits = |char: &char| char.is_ascii_digit();
        let text = text.unwrap_or_default();
        let order: String =
            text.chars().skip_while(|char| !digits(char)).take_while(digits).collect();
        let done = request.messages.iter().filter(|one| matches!(***one, Message::Tool(_))).count();
        Ok(match done {
            CALLS => Reply::text(format!("Order {order} is done.")),
            step => {
                let arguments = format!(r#"{{"order": {order}, "step": {step}}}"#);
                Reply::calls([ToolCall::new(format!("call-{step}"), "look_up", arguments)])
            }
        })
    })
}

fn eval(model: impl LanguageModel, cases: u64) -> Eval {
    let cases = (0..cases).map(|order| {
        let calls = (0..CALLS)
            .map(|step| ExpectedCall::new("look_up", json!({"order": order, "step": step})));
        Case::new(format!("case {order}"), format!("Is order {order} done?"))
            .expecting(format!("Order {order} is done."))
            .expecting_calls(calls)
    });
    Eval::agent("orders", Agent::new(model, [look_up()]).expect("a valid agent"))
        .with_cases(cases)
        .with_grader("answer", graders::equals_expected())
        .with_grader("calls", graders::rounds_at_most(5))
}

/// The largest memory of this process, in MB.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
    kb.unwrap_or(f64::NAN) / 1024.0
}

fn main() -> Result<()> {
    let cases = std::env::var("CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000);
    let cx = Context::default();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let report = |report: Report, what: &str, began: Instant| {
        report.assert_at_least(1.0);
        println!(
            "{what}: {cases} cases, {:.3} s, peak {:.1} MB",
            began.elapsed().as_secs_f64(),
            peak()
        );
    };
    match std::env::args().nth(1).as_deref() {
        Some("--recordings") => {
            let folder = std::env::args().nth(2).unwrap_or_default();
            let asked =
                Scripted::new(|_: &Request| -> Result<Reply> { panic!("the model was asked") });
            let began = Instant::now();
            let eval = eval(asked, cases).with_recordings(folder);
            report(runtime.block_on(eval.run(&cx))?, "replayed", began);
        }
        _ => {
            let began = Instant::now();
            let live = eval(model(), cases);
            report(runtime.block_on(live.run(&cx))?, "scripted model", began);
            let folder = tempfile::tempdir()?;
            let recorded = eval(model(), cases).with_new_recordings(folder.path());
            runtime.block_on(recorded.run(&cx))?;
            // A process of its own, so that its memory is that of the replay.
            let mut replay = std::process::Command::new(std::env::current_exe()?);
            let ended =
                replay.arg("--recordings").arg(folder.path()).env("CASES", cases.to_string());
            assert!(ended.status()?.success());
        }
    }
    Ok(())
}
