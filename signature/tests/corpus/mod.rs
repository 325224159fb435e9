//! The types of the corpus, and a reader for each.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use toolwright_signature::{Contract, Policy, Reading, Signature};

macro_rules! types {
    ($($name:ident { $($body:tt)* })*) => {
        $(
            #[derive(Serialize, Deserialize, JsonSchema)]
            struct $name { $($body)* }

            impl Signature for $name {
                type Output = ();
            }
        )*

        /// A reader for each type, by its name.
        pub(crate) fn readers() -> BTreeMap<&'static str, Reader> {
            BTreeMap::from([$((stringify!($name), reader::<$name>())),*])
        }
    };
}

types! {
    Count { n: i64 }
    Score { x: f64 }
    Flag { on: bool }
    Text { s: String }
    Task {
        title: String,
        priority: Priority,
        #[serde(default)]
        status: Status,
    }
    Opt { q: String, limit: Option<i64>, note: Option<String> }
    Tags { tags: Vec<String> }
    Nums { nums: Vec<i64> }
    Order { id: i64, item: Item }
    Counts { counts: BTreeMap<String, i64> }
    Shape { shape: AnyShape }
    When { at: Timestamp, day: Option<Date> }
    ValueOf { value: AnyValue }
    Empty {}
    Loose {
        limit: Option<i64>,
        #[serde(default)]
        tags: Vec<String>,
    }
    Ages { ages: BTreeMap<u32, String> }
    Plans { plans: BTreeMap<Level, u8> }
    Pair { pair: (String, u8) }
    Grid { grid: Vec<Vec<u8>> }
    Bounded {
        #[schemars(range(min = 1, max = 10))]
        stars: u8,
        #[schemars(length(min = 2, max = 5), regex(pattern = r"^[a-z]+$"))]
        code: String,
        #[schemars(range(min = 0.0, max = 1.0))]
        share: f64,
        #[serde(default)]
        #[schemars(length(max = 3))]
        tags: Vec<String>,
    }
    Single { x: f32 }
    Small { n: u8 }
    Large {
        #[serde(serialize_with = "digits")]
        n: u128,
    }
    EitherOf { either: Either }
    Rows { rows: Vec<Item> }
}

/// A JSON value of `serde_json` holds 64 bits.
fn digits<S: Serializer>(n: &u128, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(n)
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Priority {
    Low,
    Medium,
    High,
    Critical,
}

#[derive(Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "kebab-case")]
enum Status {
    #[default]
    Pending,
    InProgress,
    Completed,
}

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
enum Level {
    Low,
    InBetween,
    High,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Item {
    name: String,
    qty: i64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "_type")]
enum AnyShape {
    Circle { radius: f64 },
    Square { side: f64 },
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum AnyValue {
    Text(String),
    Integer(i64),
    Float(f64),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Either {
    Level(Level),
    File {
        file: String,
    },
    Page {
        url: String,
        #[serde(default)]
        depth: u8,
    },
}

/// The value of a text, as JSON.
pub(crate) type Reader = Box<dyn Fn(&str, Policy) -> Result<Reading<Value>, String>>;

fn reader<S: Signature>() -> Reader {
    let contract = Contract::of::<S>().unwrap();
    Box::new(move |text, policy| {
        let reading = contract.read_with::<S>(text, policy).map_err(|error| error.to_string())?;
        // Reading again as a value keeps the repairs beside it.
        let value = serde_json::to_value(&reading.value).unwrap();
        Ok(reading.map(|_| value))
    })
}

/// Whether two values are equal; numbers may be written differently.
pub(crate) fn same(one: &Value, two: &Value) -> bool {
    match (one, two) {
        (Value::Number(one), Value::Number(two)) => one == two || one.as_f64() == two.as_f64(),
        (Value::Array(one), Value::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| same(one, two))
        }
        (Value::Object(one), Value::Object(two)) => {
            one.len() == two.len()
                && one.iter().all(|(key, one)| two.get(key).is_some_and(|two| same(one, two)))
        }
        _ => one == two,
    }
}
