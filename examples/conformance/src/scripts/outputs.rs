//! Typed output, in each mode.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_module::predict::{OutputMode, PredictEvent};
use toolwright_module::{Context, Predict, Signature};

use crate::Check;
use crate::script::{Saw, Script};
use crate::trial::{Mode, Trial, same};

/// Describe a city.
#[derive(Serialize, Deserialize, JsonSchema)]
struct DescribeCity {
    city: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct City {
    /// Name in its own language.
    name: String,
    population: u64,
    /// Height above the sea, in metres.
    height: Option<f64>,
    districts: Vec<District>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct District {
    name: String,
    kind: Kind,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Old,
    New,
}

impl Signature for DescribeCity {
    type Output = City;
}

fn oslo() -> Value {
    json!({"name": "Oslo", "population": 717_710, "height": null,
        "districts": [{"name": "Frogner", "kind": "old"}]})
}

/// A step that answers in a mode.
fn answer(mode: OutputMode, value: &Value) -> Value {
    match mode {
        OutputMode::Tool => json!({"calls": [{"name": "finish", "arguments": value}]}),
        _ => json!({"text": value.to_string()}),
    }
}

pub(crate) fn all() -> Vec<Script> {
    let modes = [
        (OutputMode::Schema, "by schema"),
        (OutputMode::Tool, "by tool"),
        (OutputMode::Prompted, "by prompt"),
    ];
    let scripts = modes.into_iter().flat_map(|(mode, name)| {
        let mut wrong = oslo();
        wrong["population"] = json!("many");
        [
            Script::new(format!("output {name}"), [answer(mode, &oslo())], move |trial| {
                predict(trial, mode)
            }),
            Script::new(
                format!("output {name}, corrected"),
                [answer(mode, &wrong), answer(mode, &oslo())],
                move |trial| predict(trial, mode),
            ),
        ]
    });
    scripts.collect()
}

async fn predict(trial: Trial, mode: OutputMode) -> Check<Saw> {
    let describe = Predict::<DescribeCity>::new(trial.model.clone())?.with_output_mode(mode)?;
    let (input, cx) = (DescribeCity { city: "Oslo".to_owned() }, Context::default());
    let city = match trial.mode {
        Mode::Whole => describe.answer(input, &cx).await?.value,
        Mode::Streamed => {
            let mut stream = describe.stream(input, &cx);
            let mut done = None;
            while let Some(event) = stream.next().await {
                if let PredictEvent::Done(city) = event? {
                    done = Some(city);
                }
            }
            done.ok_or("the stream has no output")?
        }
    };
    same("the output", city, serde_json::from_value::<City>(oslo())?)?;
    let able = trial.model.capabilities();
    match mode {
        OutputMode::Schema if !able.structured_output => Ok(Saw::Lacks("part of the prompt")),
        _ => Ok(Saw::Works),
    }
}
