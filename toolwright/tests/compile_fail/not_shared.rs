use std::sync::Mutex;

use toolwright::prelude::*;

struct Notes(Mutex<Vec<String>>);

#[toolset]
impl Notes {
    /// Count the notes.
    #[tool]
    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Remove all notes.
    #[tool]
    fn clear(&self) {
        self.0.lock().unwrap().clear();
    }
}

fn main() {}
