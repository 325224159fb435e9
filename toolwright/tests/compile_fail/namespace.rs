use toolwright::prelude::*;

/// At the root of the crate.
#[tool(namespace)]
fn rootless() {}

mod legal {
    use toolwright::prelude::*;

    /// In a module.
    #[tool(namespace)]
    pub fn search() {}
}

fn main() {}
