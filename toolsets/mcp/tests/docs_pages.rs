//! The tests that the pages on MCP name exist.

use std::fs;
use std::path::Path;

#[test]
fn every_test_that_a_docs_page_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources: String = ["tests", "src"]
        .iter()
        .flat_map(|folder| fs::read_dir(root.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    for page in ["mcp.md", "mcp-client.md"] {
        let page = fs::read_to_string(root.join("../../docs").join(page)).unwrap();
        let table = page.split("## Point by point").nth(1).unwrap();
        let rows = table.lines().filter_map(|line| line.strip_suffix(" |")?.rsplit_once(" | "));
        let names: Vec<&str> = rows
            .flat_map(|(_, tests)| tests.split('`'))
            .filter(|name| name.matches('_').count() > 2)
            .collect();
        assert!(names.len() > 12, "{names:?}");
        for name in names {
            assert!(sources.contains(&format!("fn {name}(")), "there is no test `{name}`");
        }
    }
}
