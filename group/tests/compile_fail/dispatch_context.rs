//! A group that is handed another context than its own.
use toolwright_group::ToolGroup;
use toolwright_module::Context;

async fn dispatch(group: &ToolGroup<u64, ()>) {
    group.dispatch(&[], &"seven", &Context::default()).await;
}

fn main() {}
