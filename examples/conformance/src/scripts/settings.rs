//! The settings: each alone and all together.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolwright_module::model::{Effort, Setting, SettingSet, Settings};
use toolwright_module::{Signature, Tool, from_fn};
use toolwright_provider::ProviderError;

use super::{hi, reply};
use crate::Check;
use crate::script::{Saw, Script};
use crate::trial::{Trial, own, same};

/// Do nothing.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Rest {
    minutes: u8,
}

impl Signature for Rest {
    type Output = String;
}

/// Returns all settings, each with a value.
fn full() -> Settings {
    Settings::default()
        .with_temperature(0.5)
        .with_top_p(0.9)
        .with_seed(7)
        .with_stop(vec!["END".to_owned()])
        .with_effort(Effort::Low)
        .with_max_output_tokens(2048)
        .with_parallel_calls(false)
        .with_cache(true)
        .with_user("user-1".to_owned())
        .with_metadata(BTreeMap::from([("team".to_owned(), "crabs".to_owned())]))
}

/// Returns the settings with only this one.
fn only(setting: Setting) -> Settings {
    full().supported_by(SettingSet::NONE.with(setting)).0
}

pub(crate) fn all() -> Vec<Script> {
    let one = |setting: Setting| {
        Script::new(format!("setting: {setting}"), [json!({"text": "ok"})], move |trial| {
            send(trial, setting)
        })
        .leaving_steps()
    };
    let efforts =
        [Effort::Off, Effort::Minimal, Effort::Low, Effort::Medium, Effort::High, Effort::Max];
    let mut scripts: Vec<_> = Setting::ALL.iter().copied().map(one).collect();
    let every = || efforts.map(|_| json!({"text": "ok"}));
    scripts.push(
        Script::new("every reasoning effort", every(), move |trial| async move {
            if !trial.model.capabilities().settings.has(Setting::Effort) {
                return Ok(Saw::Lacks("a typed error"));
            }
            for effort in efforts {
                reply(&trial, hi().with_settings(Settings::default().with_effort(effort))).await?;
            }
            Ok(Saw::Works)
        })
        .leaving_steps(),
    );
    scripts
}

/// Sends a request with one setting. It must arrive, or be a typed error that names it.
async fn send(trial: Trial, setting: Setting) -> Check<Saw> {
    let rest = Tool::new(from_fn(async |_: Rest| Ok(String::new())))?;
    let request = hi().with_tools([Arc::clone(rest.contract())]).with_settings(only(setting));
    let has = trial.model.capabilities().settings.has(setting);
    match trial.ask(request).await? {
        Ok(_) if !has => Err(format!("the model drops the setting `{setting}`").into()),
        Ok(_) => Ok(Saw::Works),
        Err(error) => match own(&error)? {
            ProviderError::Setting(unsupported) if !has => {
                same("the setting of the error", unsupported.setting, setting)?;
                Ok(Saw::Lacks("a typed error"))
            }
            _ => Err(error.into()),
        },
    }
}
