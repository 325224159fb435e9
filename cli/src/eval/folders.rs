//! The folders and files of an eval with several models.

use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use toolwright_evals::Report;

/// Returns the folder of a model.
pub(super) fn of(folder: &Path, model: &str) -> PathBuf {
    folder.join(part(model))
}

/// Returns the file of a model: its name is before the ending.
pub(super) fn file_of(path: &Path, model: &str) -> PathBuf {
    let mut name = OsString::from(path.file_stem().unwrap_or_default());
    name.push(".");
    name.push(part(model));
    if let Some(ending) = path.extension() {
        name.push(".");
        name.push(ending);
    }
    path.with_file_name(name)
}

/// Returns whether two models have the same folder and files, also where upper and lower case are the same.
pub(super) fn are_same(model: &str, other: &str) -> bool {
    part(model).eq_ignore_ascii_case(&part(other))
}

/// Returns the name of a model as a part of a path.
fn part(model: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = model.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    // Not `..`, and not a hidden file.
    name.trim_start_matches('.').to_owned()
}

/// Prepares the folders of the models. The eval of a folder begins anew if it has made all attempts. But if
/// attempts of another model are missing, the command was killed or left attempts out, and the models that
/// have ended keep theirs.
pub(super) fn begin(folders: &[PathBuf]) -> Result<(), Box<dyn Error>> {
    let has_ended = |folder: &PathBuf| {
        let report = folder.join("report.json");
        // A report of another version is one of an eval that has ended.
        report.exists() && !Report::load(&report).is_ok_and(|report| !report.left_out.is_empty())
    };
    let all = folders.iter().all(has_ended);
    for folder in folders.iter().filter(|folder| has_ended(folder)) {
        let failed = |error| format!("--folder {}: {error}", folder.display());
        let attempts = folder.join("attempts.jsonl");
        // First, so that a crash here leaves an eval that begins anew.
        if all && attempts.exists() {
            fs::remove_file(&attempts).map_err(failed)?;
        }
        fs::rename(folder.join("report.json"), folder.join("previous.json")).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_a_folder_and_a_file_of_its_own() {
        let model = "groq:openai/gpt-oss-120b";
        assert_eq!(of(Path::new("a"), model), Path::new("a/groq-openai-gpt-oss-120b"));
        let file = file_of(Path::new("a/report.json"), model);
        assert_eq!(file, Path::new("a/report.groq-openai-gpt-oss-120b.json"));
        assert_eq!(of(Path::new("a"), ".."), Path::new("a"));
    }

    #[test]
    fn models_with_the_same_folder_are_found() {
        assert!(are_same("ollama:llama3.2:1b", "ollama:llama3.2-1B"));
        assert!(!are_same("small", "large"));
    }

    #[test]
    fn models_that_have_ended_keep_their_attempts_until_all_have_ended() {
        let folder = tempfile::tempdir().unwrap();
        let folders = ["a", "b"].map(|name| folder.path().join(name));
        for folder in &folders {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("attempts.jsonl"), "").unwrap();
        }
        let [a, b] = &folders;
        let is_there = |folder: &PathBuf, file: &str| folder.join(file).exists();
        fs::write(a.join("report.json"), "").unwrap();
        begin(&folders).unwrap();
        assert!(is_there(a, "attempts.jsonl") && !is_there(a, "report.json"));
        for folder in &folders {
            fs::write(folder.join("report.json"), "").unwrap();
        }
        begin(&folders).unwrap();
        assert!(!is_there(a, "attempts.jsonl") && !is_there(b, "attempts.jsonl"));
        assert!(!is_there(a, "report.json") && is_there(b, "previous.json"));
    }
}
