//! The traffic of a repository, which two tools share.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::Context;

use crate::failure::{Failure, Prefixes};
use crate::github::GitHub;

/// The texts of `github_traffic_views`.
pub(crate) const VIEWS: Prefixes = Prefixes {
    failed: "Failed to fetch traffic views",
    doing: "Error fetching traffic views",
    parsing: "Failed to parse traffic data",
};

/// The texts of `github_traffic_clones`.
pub(crate) const CLONES: Prefixes = Prefixes {
    failed: "Failed to fetch traffic clones",
    doing: "Error fetching traffic clones",
    parsing: "Failed to parse traffic data",
};

/// Period of one data point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// One day, from midnight UTC.
    Day,
    /// One week, from Monday.
    Week,
}

/// Views or clones of a repository in the last 14 days.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Traffic {
    /// Number of views or clones.
    pub count: u64,
    /// Number of different people who viewed or cloned it.
    pub uniques: u64,
    /// The same numbers for each day or week, oldest first.
    pub points: Vec<TrafficPoint>,
}

/// Traffic of one day or week.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrafficPoint {
    /// Start of the day or week in UTC, in the format of GitHub.
    pub timestamp: String,
    /// Number of views or clones.
    pub count: u64,
    /// Number of different people who viewed or cloned it.
    pub uniques: u64,
}

impl Traffic {
    /// Requests the traffic of one kind: `what` is `views` or `clones`.
    pub(crate) async fn request(
        github: &GitHub,
        what: &str,
        repo: &str,
        per: Option<Per>,
        cx: &Context,
    ) -> Result<Self, Failure> {
        #[derive(Deserialize)]
        struct Reply {
            count: u64,
            uniques: u64,
            #[serde(alias = "views", alias = "clones")]
            points: Option<Vec<TrafficPoint>>,
        }

        let repo = github.repo(Some(repo))?;
        let per = per.map(|per| match per {
            Per::Day => ("per", "day"),
            Per::Week => ("per", "week"),
        });
        let path = ["repos", &repo.owner, &repo.name, "traffic", what];
        let reply: Reply = github.get(&path, per.as_slice(), cx).await?.read()?;
        let mut points = reply.points.unwrap_or_default();
        for point in &mut points {
            // The text has no marks for untrusted data, so it must be a time.
            let known = |byte: u8| byte.is_ascii_alphanumeric() || b":.+-".contains(&byte);
            let is_one = (1..=40).contains(&point.timestamp.len());
            if !is_one || !point.timestamp.bytes().all(known) {
                "unknown".clone_into(&mut point.timestamp);
            }
        }
        Ok(Self { count: reply.count, uniques: reply.uniques, points })
    }

    /// Returns the text for the model. It has no marks, because it contains only numbers and
    /// times.
    pub(crate) fn render(&self, label: &str) -> String {
        let Self { count, uniques, points } = self;
        let over = points.len();
        let mut text =
            format!("{label}: {count} total ({uniques} unique) over the last {over} data points");
        for TrafficPoint { timestamp, count, uniques } in points {
            let _ = write!(text, "\n  {}: {count} ({uniques} unique)", timestamp);
        }
        text
    }
}
