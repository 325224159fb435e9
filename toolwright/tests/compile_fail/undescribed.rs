#![deny(deprecated)]

use toolwright::prelude::*;

/// Get the weather.
#[tool]
fn get_weather(city: String, days: u8) -> String {
    format!("{city} {days}")
}

#[tool]
fn silent() {}

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
