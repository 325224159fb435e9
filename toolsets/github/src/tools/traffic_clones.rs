use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::client::{Client, told};
use crate::failure::Words;
use crate::github::GitHub;
use crate::traffic::{Per, Traffic};

/// Say how often a repository was cloned in the last 14 days.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GithubTrafficClones {
    /// Repository as owner/name.
    pub repo: String,
    /// What one data point covers; a day unless said.
    pub per: Option<Per>,
}

impl Signature for GithubTrafficClones {
    type Output = Traffic;

    fn render(traffic: &Traffic) -> toolwright_signature::Result<String> {
        Ok(traffic.said("Clones"))
    }
}

const WORDS: Words = Words {
    failed: "Failed to fetch traffic clones",
    doing: "Error fetching traffic clones",
    parsing: "Failed to parse traffic data",
};

/// Counts clones: fulfils [`GithubTrafficClones`]. GitHub tells it to those who may push.
#[derive(Debug, Clone)]
pub struct GithubTrafficClonesModule {
    client: Client,
}

impl GithubTrafficClonesModule {
    /// Asks as `github` says.
    #[must_use]
    pub fn new(github: &GitHub) -> Self {
        Self { client: github.client() }
    }
}

impl Module for GithubTrafficClonesModule {
    type Signature = GithubTrafficClones;

    async fn call(&self, input: GithubTrafficClones, cx: &Context) -> Result<Traffic> {
        let work = Traffic::ask(&self.client, "clones", &input.repo, input.per, cx);
        told(&WORDS, cx, work).await
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}
