#![deny(deprecated)]

use toolwright::prelude::*;

/// Get the weather.
#[tool]
fn get_weather(city: String, days: u8) -> String {
    format!("{city} {days}")
}

#[tool]
fn silent() {}

/// Add a number.
#[tool]
fn add(number: &i64, sums: &Sums) {
    let _ = (number, sums);
}

#[data]
struct Sums;

#[tool]
#[allow(deprecated)]
fn allowed(city: String) -> String {
    city
}

#[derive(Clone)]
struct Notes;

#[toolset]
impl Notes {
    #[tool]
    fn read(&self, title: &str) -> String {
        title.to_owned()
    }
}

fn main() {}
