//! Graders that are ready to use. Each is a module with the signature [`Attempt`].

use std::sync::Arc;
use std::time::Duration;

use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_module::error::Audience;
use toolwright_module::event::Ending;
use toolwright_module::{
    Context, Effect, Error, Module, Result, Tool, from_fn, from_fn_with, runner,
};
use toolwright_signature::Contract;

use crate::attempt::{Attempt, MadeCall};
use crate::case::{Case, CaseValue};
use crate::expected_calls::{CallMatching, ExpectedCall};
use crate::expected_value::{Rule, ValueDifference, differences};
use crate::grade::Grade;
use crate::world::World;

/// Returns a grader of outputs. An attempt without an output does not pass.
fn of_output<I: CaseValue, O: CaseValue>(
    grade: impl Fn(&O, &Attempt<I, O>) -> Grade + Send + Sync + 'static,
) -> impl Module<Signature = Attempt<I, O>> {
    of(move |attempt| match &attempt.output {
        Some(output) => grade(output, attempt),
        None => Grade::fail("there is no output"),
    })
}

/// Returns a grader that is a function of the attempt.
///
/// ```
/// use toolwright_evals::{Attempt, Grade, graders};
///
/// let brief = graders::of(|attempt: &Attempt| Grade::from(attempt.own_calls().count() <= 3));
/// # drop(brief);
/// ```
pub fn of<I: CaseValue, O: CaseValue>(
    grade: impl Fn(&Attempt<I, O>) -> Grade + Send + Sync + 'static,
) -> impl Module<Signature = Attempt<I, O>> {
    from_fn(move |attempt: Attempt<I, O>| std::future::ready(Ok(grade(&attempt))))
        .with_effect(Effect::Read)
}

/// Returns a grader that passes an output equal to the expected one. Both are values of a type, so the
/// order of fields, fields left out that have a default, and spaces in JSON make no difference. The reason
/// names each place that differs.
pub fn equals_expected<I: CaseValue, O: CaseValue>() -> impl Module<Signature = Attempt<I, O>> {
    of_output(|output, attempt: &Attempt<I, O>| {
        let Some(expected) = &attempt.case.expected else { return nothing_expected() };
        of_differences(&differences(&Rule::literal(&json(expected)), &json(output), None, None))
    })
}

fn of_differences(differing: &[ValueDifference]) -> Grade {
    match differing.is_empty() {
        true => Grade::pass(),
        false => {
            let lines: Vec<_> = differing.iter().map(ToString::to_string).collect();
            Grade::fail(lines.join("\n"))
        }
    }
}

/// Returns a grader that passes an output whose text contains this text. Upper and lower case make no
/// difference.
pub fn contains<I: CaseValue, O: CaseValue>(
    text: impl Into<String>,
) -> impl Module<Signature = Attempt<I, O>> {
    let text = text.into();
    of_output(move |output, _: &Attempt<I, O>| contains_text(output, &text))
}

/// Returns a grader that passes an output whose text contains that of the expected output. Upper and
/// lower case make no difference.
pub fn contains_expected<I: CaseValue, O: CaseValue>() -> impl Module<Signature = Attempt<I, O>> {
    of_output(|output, attempt: &Attempt<I, O>| match &attempt.case.expected {
        Some(expected) => contains_text(output, &text_of(expected)),
        None => nothing_expected(),
    })
}

fn contains_text(output: &impl CaseValue, text: &str) -> Grade {
    let output = text_of(output);
    match output.to_lowercase().contains(&text.to_lowercase()) {
        true => Grade::pass(),
        false => Grade::fail(format!("the output does not contain `{text}`: {output}")),
    }
}

/// Returns a grader that passes an output whose text contains each of the case's facts: the texts in its
/// [data](Case::with_metadata) of this name. The score is the share of the facts that it contains. Upper and
/// lower case make no difference.
///
/// ```
/// use serde_json::json;
/// use toolwright_evals::{Attempt, Case, graders};
/// use toolwright_module::Module;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let case = Case::new("order 7", "Where is order 7?")
///     .with_metadata("facts", json!(["on its way", "Friday"]));
/// let attempt: Attempt = Attempt::new(case, "It is on its way.");
/// let grade = graders::contains_all("facts").call(attempt, &Default::default()).await?;
/// assert_eq!(grade.score, Some(0.5));
/// assert!(grade.reason.contains("`Friday`"));
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn contains_all<I: CaseValue, O: CaseValue>(
    data: impl Into<String>,
) -> impl Module<Signature = Attempt<I, O>> {
    let data = data.into();
    of(move |attempt: &Attempt<I, O>| {
        let Some(facts) = attempt.case.metadata.get(&data) else {
            return Grade::skip(format!("the case has no data `{data}`"));
        };
        let Ok(facts) = Vec::<String>::deserialize(facts) else {
            return Grade::error(format!("the data `{data}` of the case is not a list of texts"));
        };
        let Some(output) = &attempt.output else { return Grade::fail("there is no output") };
        let (text, count) = (text_of(output), facts.len().max(1) as f64);
        let lower = text.to_lowercase();
        let missing: Vec<_> = facts
            .iter()
            .filter(|fact| !lower.contains(&fact.to_lowercase()))
            .map(|fact| format!("`{fact}`"))
            .collect();
        match missing.is_empty() {
            true => Grade::pass(),
            false => {
                let reason = format!("the output does not contain {}: {text}", missing.join(", "));
                Grade::scored(1.0 - missing.len() as f64 / count, false, reason)
            }
        }
    })
}

/// Returns a grader that passes an output whose text has a match of this pattern.
///
/// # Errors
///
/// The pattern is not a regular expression.
pub fn matches<I: CaseValue, O: CaseValue>(
    pattern: &str,
) -> Result<impl Module<Signature = Attempt<I, O>>> {
    let pattern = Regex::new(pattern)?;
    Ok(of_output(move |output, _: &Attempt<I, O>| {
        let output = text_of(output);
        match pattern.is_match(&output) {
            true => Grade::pass(),
            false => Grade::fail(format!("the output does not match `{pattern}`: {output}")),
        }
    }))
}

/// Returns a grader that passes an output whose text reads as an output of this contract, for agents
/// whose answer is JSON by a schema that is known only at run time.
pub fn fits<I: CaseValue, O: CaseValue>(
    contract: Contract,
) -> impl Module<Signature = Attempt<I, O>> {
    of_output(move |output, _: &Attempt<I, O>| {
        match contract.read_output::<Value>(&text_of(output)) {
            Ok(_) => Grade::pass(),
            Err(error) => Grade::fail(error.to_string()),
        }
    })
}

/// Returns a grader of a number in the output. It passes if the number differs from that of the expected
/// output by at most `distance`. The score falls from 1 to 0 over twice this distance.
pub fn near_expected<I: CaseValue, O: CaseValue>(
    number: impl Fn(&O) -> f64 + Send + Sync + 'static,
    distance: f64,
) -> impl Module<Signature = Attempt<I, O>> {
    of_output(move |output, attempt: &Attempt<I, O>| {
        let Some(expected) = &attempt.case.expected else { return nothing_expected() };
        let (output, expected) = (number(output), number(expected));
        let off = (output - expected).abs();
        let score = if off == 0.0 { 1.0 } else { 1.0 - off / (2.0 * distance) };
        let reason = format!("expected {expected}, got {output}");
        // A number that is not one is near to nothing.
        Grade::scored(score, off <= distance, reason)
    })
}

/// Returns a grader that passes an attempt whose own calls are those that the case expects. It reports what
/// differs, and its score is the share of calls that fit.
///
/// A case without [`calls`](crate::Case::calls) expects nothing, and the grader skips it. An empty list
/// expects that no tool is called.
///
/// ```
/// use serde_json::json;
/// use toolwright_evals::{Attempt, CallMatching, Case, ExpectedCall, MadeCall, graders};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let grader = graders::makes_expected_calls(CallMatching::new().in_order());
///
/// let order = ExpectedCall::new("get_order", json!({"id": 7}));
/// let case = Case::<String, String>::new("one order", "Where is order 7?").expecting_calls([order]);
/// let mut attempt = Attempt::new(case, "On its way.");
/// attempt.calls.push(MadeCall::new("get_order", json!({"id": 17})));
/// # use toolwright_module::Module;
/// let grade = grader.call(attempt, &Default::default()).await?;
/// assert_eq!(grade.reason, "get_order (call 1): $.id: expected 7, got 17");
/// # Ok::<(), toolwright_module::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn makes_expected_calls<I: CaseValue, O: CaseValue>(
    matching: CallMatching,
) -> impl Module<Signature = Attempt<I, O>> {
    from_fn(move |attempt: Attempt<I, O>| {
        let grade = match &attempt.case.calls {
            None => Ok(Grade::skip("the case expects no calls")),
            Some(expected) => matching
                .compare(expected, attempt.own_calls())
                .map_err(Into::into)
                .map(|compared| {
                    let reasons: Vec<_> =
                        compared.differences.iter().map(ToString::to_string).collect();
                    Grade::scored(compared.score(), reasons.is_empty(), reasons.join("\n"))
                }),
        };
        std::future::ready(grade)
    })
    .with_effect(Effect::Read)
}

/// Returns a grader that passes an attempt that called none of these tools, at any depth.
pub fn never_calls<I: CaseValue, O: CaseValue>(
    tools: impl IntoIterator<Item = impl Into<String>>,
) -> impl Module<Signature = Attempt<I, O>> {
    let tools: Vec<String> = tools.into_iter().map(Into::into).collect();
    of(move |attempt: &Attempt<I, O>| no_call(attempt, |call| tools.contains(&call.tool)))
}

/// Returns a grader that passes an attempt that made no call with this effect or a stronger one, unless a
/// person was asked. A call whose effect is not known counts as one with the strongest effect, if it was
/// made.
pub fn asks_before<I: CaseValue, O: CaseValue>(
    effect: Effect,
) -> impl Module<Signature = Attempt<I, O>> {
    of(move |attempt: &Attempt<I, O>| {
        no_call(attempt, |call| {
            let unknown = if call.failed { Effect::Read } else { Effect::Irreversible };
            !call.asked && call.effect.unwrap_or(unknown) >= effect
        })
    })
}

fn no_call<I, O>(attempt: &Attempt<I, O>, is_bad: impl Fn(&MadeCall) -> bool) -> Grade {
    let bad: Vec<_> = attempt.calls.iter().filter(|call| is_bad(call)).map(shown).collect();
    match bad.is_empty() {
        true => Grade::pass(),
        false => Grade::fail(format!("called {}", bad.join(", "))),
    }
}

fn shown(call: &MadeCall) -> String {
    format!("{}({})", call.tool, call.arguments)
}

/// Returns a grader of the world at the end of an attempt.
///
/// ```
/// use toolwright_evals::{Attempt, Grade, graders};
///
/// #[derive(Clone)]
/// struct Shop {
///     open_orders: u32,
/// }
///
/// let all_closed = graders::end_state(|shop: &Shop, _: &Attempt| Grade::from(shop.open_orders == 0));
/// # drop(all_closed);
/// ```
pub fn end_state<W: Send + Sync + 'static, I: CaseValue, O: CaseValue>(
    grade: impl Fn(&W, &Attempt<I, O>) -> Grade + Send + Sync + 'static,
) -> impl Module<Signature = Attempt<I, O>> {
    from_fn_with(move |attempt: Attempt<I, O>, cx: Context| {
        let world = World::<W>::of(&cx);
        std::future::ready(world.map(|world| world.read(|state| grade(state, &attempt))))
    })
    .with_effect(Effect::Read)
}

/// Returns a grader that passes an attempt that left the world as the case's expected calls leave it: in any
/// way that has the same result. The reason names each place that differs.
///
/// It makes the expected calls with these tools, one after the other, in a world of its own that begins with
/// the state that `start` returns for the case. It is that of [`with_world`](crate::Eval::with_world). The
/// states are compared as JSON. A call that the tool refuses counts as made. A case without
/// [`calls`](Case::calls) is skipped, and one with an empty list expects that nothing changes.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use serde::Serialize;
/// use toolwright_evals::{Attempt, graders};
/// # use toolwright_module::{Signature, Tool, from_fn};
/// # #[derive(serde::Deserialize, Serialize, schemars::JsonSchema)]
/// # struct CancelOrder {}
/// # impl Signature for CancelOrder { type Output = String; }
///
/// #[derive(Clone, Default, Serialize)]
/// struct Shop {
///     cancelled: BTreeMap<u32, String>,
/// }
///
/// # let cancel_order = Tool::new(from_fn(async |_: CancelOrder| Ok("Done.".to_owned())))?;
/// let grader = graders::ends_as_expected(|_| Shop::default(), [cancel_order]);
/// # fn is_grader(_: impl toolwright_module::Module<Signature = Attempt>) {}
/// # is_grader(grader);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The grade is an error if there is no world of this type, or if an expected call cannot be made: there is
/// no such tool, its arguments do not fit or have a rule that accepts several values, or it fails.
pub fn ends_as_expected<W: Serialize + Send + Sync + 'static, I: CaseValue, O: CaseValue>(
    start: impl Fn(&Case<I, O>) -> W + Send + Sync + 'static,
    tools: impl IntoIterator<Item = Tool>,
) -> impl Module<Signature = Attempt<I, O>> {
    let (start, tools) = (Arc::new(start), tools.into_iter().collect::<Arc<[Tool]>>());
    from_fn_with(move |attempt: Attempt<I, O>, cx: Context| {
        let (start, tools) = (Arc::clone(&start), Arc::clone(&tools));
        async move {
            let Some(expected) = &attempt.case.calls else {
                return Ok(Grade::skip("the case expects no calls"));
            };
            let got = World::<W>::of(&cx)?.read(|state| serde_json::to_value(state))?;
            let cx = cx.with(World::new(start(&attempt.case)));
            for call in expected {
                make(call, &tools, &cx).await?;
            }
            let wanted = World::<W>::of(&cx)?.read(|state| serde_json::to_value(state))?;
            Ok(of_differences(&differences(&Rule::literal(&wanted), &got, None, None)))
        }
    })
    .with_effect(Effect::Read)
}

/// Makes an expected call.
async fn make(expected: &ExpectedCall, tools: &[Tool], cx: &Context) -> Result<()> {
    let name = &expected.tool;
    let fault = |reason: &str| {
        Err(Error::other(format!("the expected call of `{name}` cannot be made: {reason}")))
    };
    let Some(tool) = tools.iter().find(|tool| tool.name() == *name) else {
        return fault("the grader has no such tool");
    };
    let rule = match Rule::parse(&expected.arguments) {
        Ok(rule) => rule,
        Err(reason) => return fault(&reason),
    };
    let Some(arguments) = rule.value() else {
        return fault("its arguments have a rule that accepts several values; write the values");
    };
    match tool.call(&arguments.to_string(), cx).await {
        Err(error) if runner::is_of_arguments(&error) => fault(&error.to_string()),
        // A call may be expected although its tool refuses it.
        Err(error) if matches!(error.audience(), Audience::User | Audience::Run) => {
            fault(&format!("{error:#}"))
        }
        _ => Ok(()),
    }
}

/// Returns a grader that passes an attempt whose models cost at most this many US dollars. If the cost is
/// not known as a whole, the attempt does not pass.
pub fn costs_at_most<I: CaseValue, O: CaseValue>(
    dollars: f64,
) -> impl Module<Signature = Attempt<I, O>> {
    of(move |attempt: &Attempt<I, O>| match (attempt.dollars, attempt.cost_is_known) {
        (Some(cost), _) if cost > dollars => {
            Grade::fail(format!("it cost {cost} USD, more than {dollars}"))
        }
        (Some(_), true) => Grade::pass(),
        _ => Grade::fail("the cost of a model call is not known; set its price in the ledger"),
    })
}

/// Returns a grader that passes an attempt that took at most this long.
pub fn takes_at_most<I: CaseValue, O: CaseValue>(
    time: Duration,
) -> impl Module<Signature = Attempt<I, O>> {
    let most = time.as_secs_f64();
    of(move |attempt: &Attempt<I, O>| match attempt.seconds <= most {
        true => Grade::pass(),
        false => Grade::fail(format!("it took {:.3} s, more than {most:.3}", attempt.seconds)),
    })
}

/// Returns a grader that passes an attempt whose model replied at most this often.
pub fn rounds_at_most<I: CaseValue, O: CaseValue>(
    rounds: u64,
) -> impl Module<Signature = Attempt<I, O>> {
    of(move |attempt: &Attempt<I, O>| match attempt.rounds <= rounds {
        true => Grade::pass(),
        false => {
            Grade::fail(format!("the model replied {} times, more than {rounds}", attempt.rounds))
        }
    })
}

/// Returns a grader that passes an attempt in which the model refused, for cases that an agent must not
/// do.
pub fn refuses<I: CaseValue, O: CaseValue>() -> impl Module<Signature = Attempt<I, O>> {
    of(|attempt: &Attempt<I, O>| match attempt.ending {
        Some(Ending::Refused) => Grade::pass(),
        _ => Grade::fail("the model did not refuse"),
    })
}

fn nothing_expected() -> Grade {
    Grade::skip("the case expects no output")
}

fn json(value: &impl CaseValue) -> Value {
    // A value that cannot be JSON equals nothing but the text of its error.
    serde_json::to_value(value).unwrap_or_else(|error| Value::String(error.to_string()))
}

/// Returns the text of a value: a string as it is, anything else as JSON.
pub(crate) fn text_of(value: &impl CaseValue) -> String {
    match json(value) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}
