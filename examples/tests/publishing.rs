//! The book, and the packages of the published crates.

use std::collections::BTreeSet;
use std::fs;

use crate::documents::{root, text};

/// The pages of the index, in its order: the title and the file of each.
fn pages(index: &str) -> Vec<(&str, &str)> {
    let rows = index
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | [")?.1.split_once("]("));
    rows.map(|(title, rest)| (title, rest.split(')').next().unwrap()))
        .filter(|(_, file)| !file.starts_with('#'))
        .collect()
}

/// The rows of a table whose first cell is a link: the link's text, its target, the next cell.
fn rows(page: &str) -> Vec<(&str, &str, &str)> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ["));
    rows.map(|row| {
        let (title, rest) = row.split_once("](").unwrap();
        let (file, rest) = rest.split_once(") | ").unwrap();
        (title, file, rest.split(" | ").next().unwrap().trim_end_matches(" |"))
    })
    .collect()
}

/// The table of contents of the book: the pages in the order of the index, then the reference.
fn summary() -> String {
    let (index, decisions) = (text("docs/README.md"), text("docs/adr/README.md"));
    let mut summary = "# Summary\n\n[Pages](README.md)\n\n# Concepts\n\n".to_owned();
    for (title, file) in pages(&index) {
        summary += &format!("- [{title}]({file})\n");
    }
    summary += "\n# Reference\n\n- [Dialects](dialects.md)\n- [Decisions](adr/README.md)\n";
    for (number, file, title) in rows(&decisions) {
        summary += &format!("  - [{number}: {title}](adr/{file})\n");
    }
    summary + "- [Checklist](checklist.md)\n"
}

#[test]
fn the_book_has_every_page_of_the_index() {
    let expected = summary();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(root().join("docs/SUMMARY.md"), &expected).unwrap();
    }
    let update = "run it with UPDATE_DOCS=1 and read the difference";
    assert!(text("docs/SUMMARY.md") == expected, "docs/SUMMARY.md is out of date; {update}");
    let mut listed = BTreeSet::from(["SUMMARY.md".to_owned()]);
    listed.extend(expected.split("](").skip(1).map(|link| link.split(')').next().unwrap().into()));
    for (folder, prefix) in [("docs", ""), ("docs/adr", "adr/")] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                let file = format!("{prefix}{name}");
                assert!(listed.contains(&file), "docs/{file} is in no list");
            }
        }
    }
}

/// The book contains only `docs`: a link out of this folder works in the repository, not in the book.
#[test]
fn no_page_of_the_book_links_out_of_it() {
    for (file, up) in summary().split("](").skip(1).map(|link| {
        let file = link.split(')').next().unwrap().to_owned();
        let up = if file.starts_with("adr/") { "../../" } else { "../" };
        (file, up)
    }) {
        let page = text(&format!("docs/{file}"));
        let out = page.split("](").skip(1).find(|link| link.starts_with(up));
        assert!(out.is_none(), "docs/{file} links out of the book: {}", out.unwrap_or_default());
    }
}

/// The folders of the crates that are published.
fn published() -> Vec<String> {
    let workspace = text("Cargo.toml");
    let members = workspace.split("members = [").nth(1).unwrap().split(']').next().unwrap();
    let members = members.split('"').skip(1).step_by(2).map(str::to_owned);
    let published =
        members.filter(|member| !text(&format!("{member}/Cargo.toml")).contains("publish = false"));
    published.collect()
}

#[test]
fn each_published_crate_has_what_a_package_needs() {
    let crates = published();
    assert!(crates.len() >= 19, "{crates:?}");
    let workspace = text("Cargo.toml");
    let keywords = workspace.lines().find(|line| line.starts_with("keywords = ")).unwrap();
    assert!(keywords.matches('"').count() / 2 <= 5, "{keywords}");
    for member in crates {
        let manifest = text(&format!("{member}/Cargo.toml"));
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = "));
        let name = name.unwrap().trim_matches('"');
        for key in ["version", "edition", "rust-version", "license", "authors", "keywords"] {
            assert!(manifest.contains(&format!("\n{key}.workspace = true\n")), "{member}: {key}");
        }
        for key in ["description = \"", "categories", "readme = \"README.md\""] {
            assert!(manifest.contains(&format!("\n{key}")), "{member}: {key}");
        }
        assert!(manifest.contains("\n[lints]\nworkspace = true\n"), "{member}: lints");
        // A crate with files beside its sources excludes its tests; all others include few folders.
        assert!(
            manifest.contains("\ninclude.workspace = true\n")
                || manifest.contains("\nexclude = [\"/tests\"]\n"),
            "{member}: include or exclude"
        );
        assert!(
            manifest.contains("[package.metadata.docs.rs]\nall-features = true"),
            "{member}: docs.rs"
        );
        let readme = text(&format!("{member}/README.md"));
        assert!(readme.starts_with(&format!("# {name}\n")), "{member}/README.md");
        assert!(readme.ends_with("MIT or Apache-2.0, at your option.\n"), "{member}/README.md");
        // `cargo package` follows the links.
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            assert_eq!(text(&format!("{member}/{licence}")), text(licence), "{member}");
        }
    }
}
