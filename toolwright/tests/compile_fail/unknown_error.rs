use toolwright::prelude::*;

struct Silent;

/// Fail.
#[tool]
fn fail() -> Result<String, Silent> {
    Err(Silent)
}

fn main() {}
