use std::rc::Rc;

use toolwright::prelude::*;

/// Wait.
#[tool]
async fn wait() -> usize {
    let text = Rc::new(String::new());
    std::future::ready(()).await;
    text.len()
}

fn main() {}
