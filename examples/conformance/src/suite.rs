//! [`play`]: all scripts on all providers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use futures_util::stream::{self, StreamExt};
use tokio::time::{Instant, sleep, timeout};

use crate::script::{Saw, Script};
use crate::server::{ContractServer, Seen};
use crate::trial::{Mode, Trial};
use crate::{Check, PROVIDERS, Provider, table};

/// Maximum time of one script.
const LONGEST: Duration = Duration::from_secs(15);
/// Providers and parts of names of scripts that are not played: the server does not know what they
/// send. Its description of Gemini has no `thinkingLevel`.
const LEFT_OUT: &[(&str, &str)] = &[("Gemini 3", "reasoning effort")];
/// Number of scripts at once. Most of them wait.
const AT_ONCE: usize = 4;

/// One script on one provider.
#[derive(Debug)]
pub struct Played {
    /// The name of the script.
    pub script: String,
    /// The name of the provider.
    pub provider: &'static str,
    /// What is wrong, whole and streamed. Empty if nothing is.
    pub faults: Vec<String>,
    /// The reason why it does not work, if that is as it should be.
    pub lacks: Option<&'static str>,
    /// Number of requests that the server checked.
    pub requests: usize,
    /// The time of the slower mode.
    pub took: Duration,
}

/// The results of all scripts.
#[derive(Debug)]
pub struct Results {
    /// In the order of the scripts, and for each in the order of the providers.
    pub played: Vec<Played>,
}

/// Plays the scripts whose name contains `filter` on all providers, and calls `each` after each one.
///
/// `server` is the path of the contract server. A server is started for each script.
pub async fn play(server: &Path, filter: &str, mut each: impl FnMut(&Played)) -> Results {
    let scripts = Script::all();
    let chosen = scripts.iter().filter(|script| script.name.contains(filter));
    let pairs = chosen.flat_map(|script| PROVIDERS.iter().map(move |provider| (script, provider)));
    let is_left_out = |script: &Script, provider: &Provider| {
        LEFT_OUT.iter().any(|(name, part)| provider.name == *name && script.name.contains(part))
    };
    let pairs = pairs.filter(|(script, provider)| !is_left_out(script, provider));
    let plays = pairs.map(|(script, provider)| play_one(server, script, provider));
    let played = stream::iter(plays).buffered(AT_ONCE).inspect(|played| each(played));
    Results { played: played.collect().await }
}

impl Results {
    /// Returns whether everything is as it should be, and something was played.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        !self.played.is_empty() && self.played.iter().all(|played| played.faults.is_empty())
    }

    /// Returns the table of scripts and providers.
    #[must_use]
    pub fn to_text(&self) -> String {
        table::results(&self.played)
    }

    /// Returns the Markdown table of what each provider can do.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        table::abilities(&self.played)
    }
}

/// Plays a script whole and streamed at the same time.
async fn play_one(server: &Path, script: &Script, provider: &Provider) -> Played {
    let began = Instant::now();
    let whole = in_mode(server, script, provider, Mode::Whole);
    let streamed = in_mode(server, script, provider, Mode::Streamed);
    let (whole, streamed) = join(whole, streamed).await;
    let mut played = Played {
        script: script.name.clone(),
        provider: provider.name,
        faults: Vec::new(),
        lacks: None,
        requests: 0,
        took: began.elapsed(),
    };
    for (mode, outcome) in [("whole", whole), ("streamed", streamed)] {
        match outcome {
            Ok((saw, requests, faults)) => {
                played.faults.extend(faults.into_iter().map(|fault| format!("{mode}: {fault}")));
                played.requests += requests;
                if let Saw::Lacks(reason) = saw {
                    played.lacks = Some(reason);
                }
            }
            Err(error) => played.faults.push(format!("{mode}: {error}")),
        }
    }
    played
}

/// Plays a script in one mode. Returns what it saw, the number of requests, and the faults that the
/// server found.
async fn in_mode(
    server: &Path,
    script: &Script,
    provider: &Provider,
    mode: Mode,
) -> Check<(Saw, usize, Vec<String>)> {
    let steps = script.steps(provider.wire, mode);
    let count = steps.len();
    let server = Arc::new(ContractServer::start(server, &steps).await?);
    let outcome = match Trial::new(provider, mode, &server) {
        Ok(trial) => timeout(LONGEST, script.play(trial)).await,
        Err(error) => Ok(Err(error)),
    };
    // The server writes the line of a request after its answer.
    if !script.may_leave_steps {
        let until = Instant::now() + Duration::from_secs(1);
        while server.seen()?.len() < count && Instant::now() < until {
            sleep(Duration::from_millis(10)).await;
        }
    }
    sleep(Duration::from_millis(30)).await;
    let seen = server.seen()?;
    if let Some(server) = Arc::into_inner(server) {
        server.stop().await?;
    }
    let mut faults = violations(&seen);
    if !script.may_leave_steps && seen.len() < count {
        faults.push(format!("{} requests for {count} steps", seen.len()));
    }
    if seen.iter().any(|seen| seen.step.is_none()) {
        faults.push(format!("{} requests for {count} steps", seen.len()));
    }
    let saw = match outcome {
        Ok(Ok(saw)) => saw,
        Ok(Err(error)) => {
            faults.push(format!("{error:#}"));
            Saw::Works
        }
        Err(_) => {
            faults.push(format!("it took longer than {LONGEST:?}"));
            Saw::Works
        }
    };
    Ok((saw, seen.len(), faults))
}

fn violations(seen: &[Seen]) -> Vec<String> {
    let all = seen.iter().enumerate().flat_map(|(number, seen)| {
        let errors = seen.violations.iter().filter(|violation| violation.level == "error");
        errors.map(move |violation| {
            format!("request {number}: {} at {}: {}", violation.rule, violation.path, violation.msg)
        })
    });
    all.collect()
}
