//! A group that is handed another context than its own.
use toolwright_module::{Context, ToolGroup};

async fn dispatch(group: &ToolGroup<u64, ()>) {
    group.dispatch(&[], &"seven", &Context::default()).await;
}

fn main() {}
