use std::rc::Rc;

use toolwright::prelude::*;

#[derive(Clone)]
struct Notes(Rc<Vec<String>>);

#[toolset]
impl Notes {
    /// Count the notes.
    #[tool]
    fn count(&self) -> usize {
        self.0.len()
    }
}

fn main() {}
