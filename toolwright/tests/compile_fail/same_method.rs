use toolwright::prelude::*;

#[derive(Clone)]
struct Notes;

#[toolset]
impl Notes {
    /// Read.
    #[tool]
    fn read(&self) {}

    /// Read again.
    #[tool]
    fn read(&self) {}

    /// Read with the name of another tool.
    #[tool(name = "notes_read")]
    fn load(&self) {}

    /// Read with the same signature, but for the underscore.
    #[tool]
    fn get_2d(&self) {}

    /// Read the others.
    #[tool]
    fn get2d(&self) {}

    /// List them.
    fn tools(&self) {}

    /// Exclude each other.
    #[cfg(any())]
    #[tool]
    fn one(&self) {}

    /// Exclude each other.
    #[cfg(not(any()))]
    #[tool]
    fn one(&self) {}
}

fn main() {}
