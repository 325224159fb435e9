use toolwright::tool;

type Outcome<T> = Result<T, String>;

/// Fail by an alias of another name.
#[tool]
fn fail() -> Outcome<String> {
    Err("no such city".to_owned())
}

fn main() {}
