use toolwright::prelude::*;

struct Point;

type Answer = Result<String>;

/// Return points.
#[tool]
fn make() -> Result<Vec<Point>> {
    Ok(Vec::new())
}

/// Return an answer. The attribute sees a name, not the `Result` behind it.
#[tool]
fn ask() -> Answer {
    Ok(String::new())
}

fn main() {}
