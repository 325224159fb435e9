use toolwright::prelude::*;

/// An effect.
#[tool(effect = Reads)]
fn effect() {}

/// An effect.
#[tool(effect = "read")]
fn quoted() {}

/// A typo.
#[tool(efect = Read)]
fn unknown() {}

/// Twice.
#[tool(name = "a", name = "b")]
fn twice() {}

/// Not a name.
#[tool(name = "find it")]
fn named() {}

/// Of a toolset.
#[tool(prefix = "a")]
fn prefixed() {}

/// A namespace of its own.
#[tool(namespace = "legal")]
fn spaced() {}

/// Two names.
#[tool(namespace, name = "a")]
fn named_twice() {}

#[derive(Clone)]
struct Notes;

#[toolset(prefix = "my notes", name = "notes")]
impl Notes {
    /// A method.
    #[tool(crate = toolwright)]
    fn read(&self) {}

    /// A method.
    #[tool = "write"]
    fn write(&self) {}
}

#[data(derive(Copy))]
struct Point;

fn main() {}
