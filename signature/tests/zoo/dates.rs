//! Dates, durations and other texts and numbers with a type of their own.

use std::time::{Duration, SystemTime};

use rust_decimal::Decimal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;
use uuid::Uuid;

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Chrono {
    at: chrono::DateTime<chrono::Utc>,
    zoned: chrono::DateTime<chrono::FixedOffset>,
    day: chrono::NaiveDate,
    local: chrono::NaiveDateTime,
    time: chrono::NaiveTime,
    weekday: chrono::Weekday,
    maybe: Option<chrono::NaiveDate>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Jiff {
    at: jiff::Timestamp,
    day: jiff::civil::Date,
    local: jiff::civil::DateTime,
    time: jiff::civil::Time,
    span: jiff::SignedDuration,
    maybe: Option<jiff::Timestamp>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct StandardTimes {
    wait: Duration,
    since: SystemTime,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Identified {
    id: Uuid,
    home: Url,
    version: semver::Version,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Price {
    amount: Decimal,
    discount: Option<Decimal>,
}
