//! `github_traffic_views`: the number of views of a repository.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::{Context, Effect, Module, Result};
use toolwright_signature::Signature;

use crate::client::{Client, run};
use crate::failure::Prefixes;
use crate::github::GitHub;
use crate::traffic::{Per, Traffic};

/// Show how often a repository was viewed in the last 14 days.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GithubTrafficViews {
    /// Repository as owner/name.
    pub repo: String,
    /// Period of one data point. Default: one day.
    pub per: Option<Per>,
}

impl Signature for GithubTrafficViews {
    type Output = Traffic;

    fn render(traffic: &Traffic) -> Result<String, toolwright_signature::ContractError> {
        Ok(traffic.render("Views"))
    }
}

const PREFIXES: Prefixes = Prefixes {
    failed: "Failed to fetch traffic views",
    doing: "Error fetching traffic views",
    parsing: "Failed to parse traffic data",
};

/// Module of [`GithubTrafficViews`]: counts views. The token needs push access.
#[derive(Debug, Clone)]
pub struct GithubTrafficViewsModule {
    client: Client,
}

impl GithubTrafficViewsModule {
    /// Creates the module with the settings of `github`.
    #[must_use]
    pub fn new(github: &GitHub) -> Self {
        Self { client: github.client() }
    }
}

impl Module for GithubTrafficViewsModule {
    type Signature = GithubTrafficViews;

    async fn call(&self, input: GithubTrafficViews, cx: &Context) -> Result<Traffic> {
        let work = Traffic::request(&self.client, "views", &input.repo, input.per, cx);
        run(&PREFIXES, cx, work).await
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}
