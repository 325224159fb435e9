//! Compares the tools with the programs of the same names. `tests/differential.sh` runs it.
//!
//! The crate's documentation lists the intended differences, which are not generated.

use std::collections::BTreeMap;
use std::env;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::{call, output};
use serde_json::{Value, json};

/// A pseudorandom generator, so that each run has the same numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % end
    }

    fn often(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn line(&mut self) -> String {
        const PIECES: [&str; 24] = [
            "a", "b", "ab", "A", "B", "aa", " ", "  ", "\t", "1", "23", "-", ".", "_", "é", "É",
            "日本", "ß", "λ", "foo", "Bar", "e\u{301}", "👋", "x*y",
        ];
        let length = if self.often(2) { 400 } else { self.below(7) };
        (0..length).map(|_| self.one(&PIECES)).collect()
    }

    /// Lines with these line ends. The last line may have no line end.
    fn text(&mut self, ends: &[&str]) -> String {
        let lines = if self.often(2) { 3000 } else { self.below(14) };
        let mut text: String = (0..lines).map(|_| self.line() + self.one(ends)).collect();
        if self.often(30) {
            text += &self.line();
        }
        text
    }

    /// A line that may start with a number in the syntax of `sort -n`.
    fn numbered(&mut self) -> String {
        let number = match self.below(6) {
            0 => String::new(),
            1 => format!("-{}", self.below(50)),
            2 => format!("{}.{}", self.below(20), self.below(100)),
            3 => format!(".{}", self.below(10)),
            _ => self.below(200).to_string(),
        };
        let blank = self.one(&["", "", " ", "\t"]);
        blank.to_owned() + &number + self.one(&["", " apples", " a", "x", " 7"])
    }

    /// A pattern in the common syntax. With `more`, also in the syntax of ripgrep only.
    fn pattern(&mut self, more: bool, depth: usize) -> String {
        const SHARED: [&str; 18] = [
            "a", "b", "A", "ab", "1", "é", "日", " ", ".", "[ab]", "[^a]", "[a-z]", r"\w", r"\W",
            r"\b", "foo", r"\.", "-",
        ];
        const MORE: [&str; 10] = [
            r"\d",
            r"\s",
            r"\S",
            r"\pL",
            r"\p{Greek}",
            r"\p{Lu}",
            "(?i:B)",
            r"[^\s\w]",
            r"\x61",
            "[[:alpha:]--a]",
        ];
        let parts = 1 + self.below(3);
        let mut pattern = String::new();
        if depth == 0 && self.often(15) {
            pattern.push('^');
        }
        for _ in 0..parts {
            if depth < 2 && self.often(25) {
                let (one, other) = (self.pattern(more, depth + 1), self.pattern(more, depth + 1));
                pattern += &format!("({one}|{other})");
            } else if more && self.often(30) {
                pattern += self.one(&MORE);
            } else {
                pattern += self.one(&SHARED);
            }
            if !pattern.ends_with(r"\b") && self.often(30) {
                pattern += self.one(&["*", "+", "?", "{2}", "{1,3}"]);
            }
        }
        if depth == 0 && self.often(15) {
            pattern.push('$');
        }
        pattern
    }
}

/// The output of a program for a text. An exit status of 2 or above fails the test.
fn run(program: &str, arguments: &[&str], locale: &str, text: &str) -> String {
    let mut child = Command::new(program)
        .args(arguments)
        .env("LC_ALL", locale)
        .env_remove("RIPGREP_CONFIG_PATH")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}; run tests/differential.sh"));
    let mut input = child.stdin.take().unwrap();
    let text = text.to_owned();
    let writer = std::thread::spawn(move || drop(input.write_all(text.as_bytes())));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let failed = output.status.code().is_none_or(|code| code > 1) || !output.stderr.is_empty();
    assert!(!failed, "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn ended(mut text: String) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// The number of comparisons of each tool.
#[derive(Default)]
struct Compared(BTreeMap<String, usize>);

impl Compared {
    fn same(&mut self, what: &str, ours: &str, theirs: &str, arguments: &Value) {
        if ours != theirs {
            let pairs = ours.split_inclusive('\n').zip(theirs.split_inclusive('\n'));
            let at = pairs.take_while(|(a, b)| a == b).count();
            let line = |text: &str| text.split_inclusive('\n').nth(at).map(str::to_owned);
            let mut given = arguments.clone();
            if given["text"].as_str().is_some_and(|text| text.len() > 1000) {
                given["text"] = json!("… (long)");
            }
            let (ours, theirs) = (line(ours), line(theirs));
            panic!("{what}, line {at}: ours {ours:?}, theirs {theirs:?}; {given}");
        }
        *self.0.entry(what.to_owned()).or_default() += 1;
    }
}

const UTF_8: &str = "C.UTF-8";

#[test]
#[ignore = "needs the programs: run tests/differential.sh"]
fn the_tools_agree_with_the_programs() {
    let number = |name: &str, or: u64| env::var(name).map_or(or, |text| text.parse().unwrap());
    let cases = number("DIFFERENTIAL_CASES", 1000);
    let mut dice = Dice(number("DIFFERENTIAL_SEED", 20_260_101).max(1));
    let mut compared = Compared::default();
    for _ in 0..cases {
        grep(&mut dice, &mut compared);
        rg(&mut dice, &mut compared);
        lines(&mut dice, &mut compared);
        counts(&mut dice, &mut compared);
    }
    for (what, times) in &compared.0 {
        println!("{what:<44}{times:>7}");
    }
    println!("{:<44}{:>7}", "all the same", compared.0.values().sum::<usize>());
}

/// The lines that a tool finds, or `None` if the pattern is too large for the tool.
fn found(name: &str, arguments: &Value) -> Option<Value> {
    match call(name, arguments.clone()) {
        Ok(output) => output.value().unwrap(),
        Err(error) if error.for_model().starts_with("`pattern` is too large") => None,
        Err(error) => panic!("{arguments}: {error}"),
    }
}

fn grep(dice: &mut Dice, compared: &mut Compared) {
    // For grep, a combining mark is not part of a word.
    let text = dice.text(&["\n"]).replace('\u{301}', "");
    let pattern = dice.pattern(false, 0);
    let ignore_case = dice.often(50);
    let arguments = json!({"text": text, "pattern": pattern, "ignore_case": ignore_case});
    let case = if ignore_case { "-i" } else { "--no-ignore-case" };
    let program = |more: &[&str]| {
        run("grep", &[&["-a", "-E", case, "-e", &pattern], more].concat(), UTF_8, &text)
    };
    let Some(ours) = found("text_grep", &arguments) else { return };
    compared.same("text_grep, grep -E", ours["lines"].as_str().unwrap(), &program(&[]), &arguments);

    let mut count_only = arguments.clone();
    count_only["count_only"] = json!(true);
    let theirs = format!("Found {} matches for pattern '{pattern}'", program(&["-c"]).trim_end());
    compared.same(
        "text_grep count_only, grep -c",
        &output("text_grep", count_only),
        &theirs,
        &arguments,
    );

    if ignore_case {
        for (invert, option) in [(false, "-e"), (true, "-ve")] {
            let arguments = json!({"text": text, "pattern": pattern, "invert": invert});
            let ours = ended(output("text_filter_lines", arguments.clone()));
            let theirs = run("grep", &["-a", "-E", "-i", option, &pattern], UTF_8, &text);
            compared.same("text_filter_lines, grep -i and -iv", &ours, &theirs, &arguments);
        }
    }
}

fn rg(dice: &mut Dice, compared: &mut Compared) {
    let text = match dice.often(50) {
        true => dice.text(&["\n"]),
        // In a text with both line ends, rg adds `\r\n` to a last line without a line end.
        false => ended(dice.text(&["\n", "\r\n"])),
    };
    let (pattern, context) = (dice.pattern(true, 0), dice.below(4));
    let arguments = json!({"text": text, "pattern": pattern, "context": context});
    let Some(ours) = found("text_rg", &arguments) else { return };
    let context = context.to_string();
    let options = ["--no-config", "--text", "--encoding=none", "--no-filename", "--no-line-number"];
    let crlf = if text.contains('\r') { "--crlf" } else { "--no-crlf" };
    let options = [&options[..], &[crlf, "-C", &context, "-e", &pattern, "-"]].concat();
    let theirs = run("rg", &options, UTF_8, &text);
    // With --crlf, its separators end in `\r\n` too.
    let plain = |text: &str| text.replace("\n--\r\n", "\n--\n");
    let ours = plain(ours["lines"].as_str().unwrap());
    compared.same("text_rg, rg -C", &ours, &plain(&theirs), &arguments);
}

fn lines(dice: &mut Dice, compared: &mut Compared) {
    let text = dice.text(&["\n"]);
    for (reverse, option) in [(false, "--stable"), (true, "-r")] {
        let arguments = json!({"text": text, "reverse": reverse});
        let theirs = run("sort", &[option], "C", &text);
        compared.same(
            "text_sort_lines, sort",
            &output("text_sort_lines", arguments.clone()),
            &theirs,
            &arguments,
        );
    }
    let count = dice.below(12);
    let numbers: String = (0..count).map(|_| dice.numbered() + "\n").collect();
    for (reverse, option) in [(false, "-n"), (true, "-nr")] {
        let arguments = json!({"text": numbers, "reverse": reverse, "numeric": true});
        let theirs = run("sort", &["-s", option], "C", &numbers);
        compared.same(
            "text_sort_lines numeric, sort -s -n",
            &output("text_sort_lines", arguments.clone()),
            &theirs,
            &arguments,
        );
    }
    let arguments = json!({"text": text, "preserve_order": false});
    let ours = output("text_unique_lines", arguments.clone());
    compared.same(
        "text_unique_lines sorted, sort -u",
        &ours,
        &run("sort", &["-u"], "C", &text),
        &arguments,
    );
    let sorted = run("sort", &[], "C", &text);
    let arguments = json!({"text": sorted});
    let ours = output("text_unique_lines", arguments.clone());
    compared.same("text_unique_lines, uniq", &ours, &run("uniq", &[], "C", &sorted), &arguments);

    let start = 1 + dice.below(16);
    let end = start + dice.below(16);
    let arguments = json!({"text": text, "start_line": start, "end_line": end});
    let ours = output("text_extract_lines", arguments.clone());
    let theirs = run("sed", &["-n", &format!("{start},{end}p")], UTF_8, &text);
    compared.same("text_extract_lines, sed -n", &ours, &theirs, &arguments);
}

fn counts(dice: &mut Dice, compared: &mut Compared) {
    // Text after the last newline is a line for the tool, but not for the program.
    let text = ended(dice.text(&["\n"]));
    let arguments = json!({"text": text});
    let theirs = run("wc", &["-l", "-w", "-m"], UTF_8, &text);
    let theirs: Vec<&str> = theirs.split_whitespace().collect();
    let theirs = format!("Lines: {}, Words: {}, Characters: {}", theirs[0], theirs[1], theirs[2]);
    compared.same("text_wc, wc", &output("text_wc", arguments.clone()), &theirs, &arguments);
}
