use toolwright::prelude::*;

struct Db;

#[derive(Clone)]
struct Tables;

#[toolset]
impl Tables {
    /// Count the rows.
    #[tool]
    fn count(&self, db: &Db) -> usize {
        std::mem::size_of_val(db)
    }
}

fn main() {}
