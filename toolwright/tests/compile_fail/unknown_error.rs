use toolwright::prelude::*;

struct Silent;

/// Fail.
#[tool]
fn fail() -> Result<String, Silent> {
    Err(Silent)
}

type Failing<T> = std::result::Result<T, Silent>;

mod alias {
    pub type Result<T> = super::Failing<T>;
}

/// Fail by an alias.
#[tool]
fn fail_by_alias() -> alias::Result<String> {
    Err(Silent)
}

fn main() {}
