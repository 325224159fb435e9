use toolwright::prelude::*;

struct Search;

/// Search.
#[tool]
fn search() {}

fn main() {}
