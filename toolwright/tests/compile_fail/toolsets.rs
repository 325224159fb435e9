#![allow(unused_variables)]

use toolwright::prelude::*;

#[derive(Clone)]
struct Notes;

#[toolset]
impl Notes {
    /// Changes.
    #[tool]
    fn change(&mut self) {}

    /// Moves.
    #[tool]
    fn take(self) -> Self {
        self
    }

    /// Is shared already.
    #[tool]
    fn shared(self: std::sync::Arc<Notes>) {}

    /// Lends a part of the toolset.
    #[tool]
    async fn lend(&self) -> &str {
        ""
    }

    /// Is generic.
    #[tool]
    fn generic<T>(
        &self,
        /// Some.
        some: T,
    ) {
    }

    /// Has the signature as its parameter.
    #[tool]
    fn other(
        &self,
        /// Others.
        others: Vec<Self>,
    ) {
    }
}

#[derive(Clone)]
struct Table<T>(T);

#[toolset]
impl<T> Table<T> {
    /// Get it.
    #[tool]
    fn get(&self) {}
}

trait Get {
    fn get(&self);
}

#[toolset]
impl Get for Notes {
    /// Get it.
    #[tool]
    fn get(&self) {}
}

#[toolset]
impl Notes {
    /// Forgotten.
    fn forgotten(&self) {}
}

fn main() {}
