//! Runs that two versions of a program drive: the old one begins them and is cut off, and the new one
//! continues.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;
use toolwright_journal::Journal;

use crate::common::{Ran, program, run};

/// When the old version ends: after a call that reads, during it, and during a call that writes.
const MOMENTS: [&str; 3] = ["after find", "during find", "during send"];

const DEPLOYS: [&str; 12] = [
    "nothing",
    "the instructions are reworded",
    "texts of the tools are reworded",
    "an optional field is added",
    "a required field is added to both tools",
    "a tool is added",
    "both tools are removed",
    "both tools are renamed",
    "both are renamed, and also there under the old names",
    "the effects change",
    "each call needs an approval",
    "the model and its provider change",
];

const OUTPUT: &str = "the output of a typed run changes";

/// Begins a run with the old version, which ends at this moment.
fn begin(folder: &Path, moment: &str, kind: &str) {
    let mut old = program("deploys_old");
    old.arg(folder).arg(kind).env("END_AT", moment);
    let ran = run(&mut old);
    let expected = if moment.is_empty() { Some(0) } else { Some(137) };
    assert_eq!(ran.code, expected, "{moment}: {}", ran.stderr);
}

fn go_on(folder: &Path, deploy: &str) -> Ran {
    run(program("deploys_new").arg(folder).arg(deploy))
}

/// A row of the table, with its numbered errors.
#[derive(Default)]
struct Table {
    rows: String,
    errors: Vec<String>,
}

impl Table {
    /// Begins a run with the old version at each moment, goes on with the new one, and writes a row.
    fn row(&mut self, deploy: &str, kind: &str) {
        let (mut row, mut reported) = (format!("| {deploy} |"), Vec::new());
        for moment in MOMENTS {
            let folder = tempfile::tempdir().unwrap();
            begin(folder.path(), moment, kind);
            let ran = go_on(folder.path(), deploy);
            check(moment, &ran);
            let _ = write!(row, " {} |", self.cell(&ran));
            for line in ran.stdout.lines() {
                if let Some(change) = line.strip_prefix("change: ")
                    && !reported.iter().any(|known| known == change)
                {
                    reported.push(change.to_owned());
                }
            }
        }
        let _ = writeln!(self.rows, "{row} {} |", reported.join("; "));
    }

    fn cell(&mut self, ran: &Ran) -> String {
        let lines = ran.stdout.lines();
        let asked: Vec<String> = lines
            .filter_map(|line| line.strip_prefix("asked about: "))
            .map(|tool| format!("`{tool}`"))
            .collect();
        let asks = match asked.as_slice() {
            [] => String::new(),
            asked => format!("asks about {}, then ", asked.join(" and ")),
        };
        if ran.code == Some(0) {
            return format!("{asks}continues");
        }
        let error = ran.stderr.lines().find_map(|line| line.strip_prefix("Error: ")).unwrap();
        let known = self.errors.iter().position(|known| known == error);
        let number = known.unwrap_or_else(|| {
            self.errors.push(error.to_owned());
            self.errors.len() - 1
        });
        format!("{asks}stops ({})", number + 1)
    }
}

/// Checks that nothing with a result was done again, and that the new version asked the model only
/// for what was not said before.
fn check(moment: &str, ran: &Ran) {
    let done = |line: &str| ran.stderr.lines().any(|other| other == line);
    assert!(!done("asked: 0"), "{moment}: {}", ran.stderr);
    let has_found = moment != "during find";
    assert!(!(has_found && done("effect: find")), "{moment}: {}", ran.stderr);
    let asked = ran.stdout.contains("asked about: send");
    assert!(moment != "during send" || asked, "{moment}: {}", ran.stdout);
}

/// Writes the version of the run's state into a file, as an older or a newer library does.
fn with_version(file: &Path, version: u32) {
    let text = fs::read_to_string(file).unwrap();
    let mut lines = text.lines();
    let head = lines.next().unwrap();
    let (mut written, mut checksum) = (format!("{head}\n"), crc32fast::hash(head.as_bytes()));
    for line in lines {
        let mut record: Value = serde_json::from_str(line.splitn(3, ' ').nth(2).unwrap()).unwrap();
        if let Some(stored) = record.pointer_mut("/record/started/run/version") {
            *stored = version.into();
        }
        let json = record.to_string();
        let mut hasher = crc32fast::Hasher::new_with_initial(checksum);
        hasher.update(json.as_bytes());
        checksum = hasher.finalize();
        let _ = writeln!(written, "{checksum:08x} {} {json}", json.len());
    }
    fs::write(file, written).unwrap();
}

#[test]
fn the_table_of_deploys_is_what_two_programs_do() {
    let mut table = Table::default();
    for deploy in DEPLOYS {
        table.row(deploy, "untyped");
    }
    table.row(OUTPUT, "typed");
    let head = "| since the run began | its calls have ended | a call that reads is open | a call that writes is open | reported |\n|---|---|---|---|---|\n";
    let mut text = format!("{head}{}\n", table.rows);
    for (number, error) in table.errors.iter().enumerate() {
        let _ = writeln!(text, "{}. {error}", number + 1);
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/durable-runs.md");
    let (start, end) = ("<!-- deploys -->\n", "<!-- end -->");
    let before = fs::read_to_string(&page).unwrap();
    let (above, rest) = before.split_once(start).unwrap();
    let below = rest.split_once(end).unwrap().1;
    let now = format!("{above}{start}\n{text}\n{end}{below}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&page, &now).unwrap();
    }
    let shown = fs::read_to_string(&page).unwrap();
    assert!(shown == now, "the page shows another table of deploys; run it with UPDATE_DOCS=1");
}

#[test]
fn a_finished_typed_run_with_another_output_stops_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    begin(folder.path(), "", "typed");
    let ran = go_on(folder.path(), OUTPUT);
    let text = "Error: the run `typed` has finished, but its output does not fit the output type of the agent: missing field `cost`; read it with the previous version of the program, or delete the run and start it again";
    assert_eq!(ran.stderr.lines().next(), Some(text));
}

#[test]
fn a_run_of_this_library_goes_on_and_one_of_another_stops() {
    for (version, ends) in [(1, Some("Done.")), (99, None)] {
        let folder = tempfile::tempdir().unwrap();
        begin(folder.path(), "during send", "untyped");
        with_version(&folder.path().join("untyped.journal"), version);
        let ran = go_on(folder.path(), "nothing");
        match ends {
            Some(answer) => assert_eq!(ran.stdout.lines().last(), Some(answer), "{}", ran.stderr),
            None => {
                let error = "Error: a record of the run `untyped` cannot be converted: ";
                assert!(ran.stderr.starts_with(error), "{}", ran.stderr);
                assert!(ran.stderr.contains("99"), "{}", ran.stderr);
            }
        }
    }
    // A later format of the file.
    let folder = tempfile::tempdir().unwrap();
    begin(folder.path(), "during send", "untyped");
    let file = folder.path().join("untyped.journal");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("toolwright-journal 1", "toolwright-journal 99", 1)).unwrap();
    let ran = go_on(folder.path(), "nothing");
    assert!(ran.stderr.contains("has the format `toolwright-journal 99`"), "{}", ran.stderr);
    assert!(ran.stderr.contains("use the program that wrote it"), "{}", ran.stderr);
}

#[test]
fn the_old_program_can_finish_what_the_new_one_cannot() {
    let folder = tempfile::tempdir().unwrap();
    begin(folder.path(), "during find", "untyped");
    assert_ne!(go_on(folder.path(), "both tools are removed").code, Some(0));
    begin(folder.path(), "", "untyped");
    let journal = Journal::open(folder.path()).unwrap();
    assert!(journal.run("untyped").unwrap().status.is_ended());
    journal.delete("untyped").unwrap();
}
