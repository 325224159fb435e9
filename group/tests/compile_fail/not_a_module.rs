//! A closure where a module is wanted.
use toolwright_module::Tool;

fn main() {
    let _ = Tool::new(|name: String| async move { format!("Hello {name}!") });
}
