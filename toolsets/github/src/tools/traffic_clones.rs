//! `github_traffic_clones`: the number of clones of a repository.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::client::{Client, run};
use crate::failure::Prefixes;
use crate::github::GitHub;
use crate::traffic::{Per, Traffic};

/// Show how often a repository was cloned in the last 14 days.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GithubTrafficClones {
    /// Repository as owner/name.
    pub repo: String,
    /// Period of one data point. Default: one day.
    pub per: Option<Per>,
}

impl Signature for GithubTrafficClones {
    type Output = Traffic;

    fn render(traffic: &Traffic) -> Result<String, toolwright_signature::ContractError> {
        Ok(traffic.render("Clones"))
    }
}

const PREFIXES: Prefixes = Prefixes {
    failed: "Failed to fetch traffic clones",
    doing: "Error fetching traffic clones",
    parsing: "Failed to parse traffic data",
};

/// Module of [`GithubTrafficClones`]: counts clones. The token needs push access.
#[derive(Debug, Clone)]
pub struct GithubTrafficClonesModule {
    client: Client,
}

impl GithubTrafficClonesModule {
    /// Creates the module with the settings of `github`.
    #[must_use]
    pub fn new(github: &GitHub) -> Self {
        Self { client: github.client() }
    }
}

impl Module for GithubTrafficClonesModule {
    type Signature = GithubTrafficClones;

    async fn call(&self, input: GithubTrafficClones, cx: &Context) -> Result<Traffic> {
        let work = Traffic::request(&self.client, "clones", &input.repo, input.per, cx);
        run(&PREFIXES, cx, work).await
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}
