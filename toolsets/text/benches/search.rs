//! The cost of a search in 100 MB, compared with the program `rg` on the same text.
//!
//! `cargo bench -p toolwright-text`; without `rg` in the PATH, only the tool is measured.
//!
//! The program starts, reads a file from the page cache and writes to a pipe, on one thread. The tool
//! gets its text, which is copied before the clock starts. The results are checked to be equal.
//! `allocated` is the number of all allocated bytes, including freed ones, so it is an upper bound of
//! the memory in use without the text. A result may need a sixteenth more than its size, and the
//! matcher's cache some megabytes.

// A benchmark may panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::alloc::System;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use toolwright_module::{Context, Module};
use toolwright_text::{Text, TextGrep, TextLimits, TextRg};

#[global_allocator]
static ALLOCATIONS: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const SIZE: usize = 100_000_000;

/// How often each search is run: what others do on the machine only adds.
const ROUNDS: u32 = 20;

/// Name, pattern, whether case is ignored.
const SEARCHES: [(&str, &str, bool); 6] = [
    ("a word that is rare", "needle", false),
    ("a word, any case", "needle", true),
    ("a word in every line", "request", false),
    ("a class", r"\d{3}-\d{4}", false),
    ("words of letters", r"\w+ \w+ needle", false),
    ("no literal at all", r"[0-9a-f]{8}[g-z]", false),
];

/// Lines of a log, one in a thousand with the word.
fn text() -> String {
    const WORDS: [&str; 12] = [
        "request", "served", "from", "cache", "in", "über", "alpha", "user", "error", "GET",
        "日本", "id",
    ];
    let mut seed = 88_172_645_463_325_252_u64;
    let mut below = |end: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed >> 11).unwrap() % end
    };
    let mut text = String::with_capacity(SIZE + 200);
    while text.len() < SIZE {
        text += "2026-01-02T03:04:05Z request ";
        for _ in 0..4 + below(10) {
            text += WORDS[below(WORDS.len())];
            text.push(' ');
        }
        if below(1000) == 0 {
            text += "a Needle or needle 555-1234 ";
        }
        text += &format!("{:08x}\n", below(1 << 32));
    }
    text
}

/// User and system time of this process' children that have ended.
fn children() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    // `man proc`: fields 16 and 17, in ticks of a hundredth of a second.
    let ticks = fields.split_whitespace().skip(13).take(2);
    Duration::from_millis(ticks.map(|ticks| ticks.parse::<u64>().unwrap() * 10).sum())
}

struct Cost {
    wall: Duration,
    cpu: Duration,
    allocated: usize,
    result: String,
}

/// The shortest time, the mean of the processor's time (a child's is only known in
/// hundredths of a second) and the most memory.
fn best(mut run: impl FnMut() -> Cost) -> Cost {
    let mut best = run();
    for _ in 1..ROUNDS {
        let next = run();
        assert!(next.result == best.result);
        best.wall = best.wall.min(next.wall);
        best.cpu += next.cpu;
        best.allocated = best.allocated.max(next.allocated);
    }
    best.cpu /= ROUNDS;
    best
}

fn main() {
    let text = text();
    let path = std::env::temp_dir().join(format!("toolwright-text-{}", std::process::id()));
    fs::write(&path, &text).unwrap();
    let rg = Command::new("rg").arg("--version").output().is_ok();
    let limits = TextLimits {
        max_input: usize::MAX,
        max_output: usize::MAX,
        max_time: Duration::from_secs(600),
    };
    let tools = Text::default().with_limits(limits);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();

    println!("{} MB, {} lines, {ROUNDS} rounds\n", text.len() / 1_000_000, text.lines().count());
    println!(
        "{:<24}{:>10}{:>10}{:>10}{:>10}{:>8}{:>8}{:>12}{:>12}",
        "", "ours ms", "cpu", "rg ms", "cpu", "wall x", "cpu x", "result B", "allocated B"
    );
    for count_only in [true, false] {
        println!("{}", if count_only { "counted" } else { "lines" });
        for (name, pattern, ignore_case) in SEARCHES {
            let grep = TextGrep::module(&tools);
            let ours = best(|| {
                let pattern = pattern.to_owned();
                let input = TextGrep { text: text.clone(), pattern, ignore_case, count_only };
                let (region, wall, cpu) =
                    (Region::new(ALLOCATIONS), Instant::now(), ProcessTime::now());
                let found = runtime.block_on(grep.call(input, &Context::default())).unwrap();
                let (wall, cpu) = (wall.elapsed(), cpu.elapsed());
                let allocated = region.change().bytes_allocated;
                let result = found.lines.unwrap_or_else(|| format!("{}\n", found.count));
                Cost { wall, cpu, allocated, result }
            });
            let theirs = rg.then(|| {
                best(|| {
                    let mut command = Command::new("rg");
                    command.args(["--no-config", "--no-filename", "--no-line-number", "-j1"]);
                    command.args(ignore_case.then_some("-i")).args(count_only.then_some("-c"));
                    let (before, wall) = (children(), Instant::now());
                    let output = command
                        .args(["-e", pattern])
                        .arg(&path)
                        .stderr(Stdio::null())
                        .output()
                        .unwrap();
                    let wall = wall.elapsed();
                    let result = String::from_utf8(output.stdout).unwrap();
                    // Without a match, `rg` writes nothing.
                    let result =
                        if result.is_empty() && count_only { "0\n".to_owned() } else { result };
                    Cost { wall, cpu: children() - before, allocated: 0, result }
                })
            });
            let ms = |time: Duration| time.as_secs_f64() * 1000.0;
            print!("{name:<24}{:>10.1}{:>10.1}", ms(ours.wall), ms(ours.cpu));
            match theirs {
                Some(theirs) => {
                    assert!(ours.result == theirs.result, "{pattern}: not the same lines");
                    let wall = ms(ours.wall) / ms(theirs.wall);
                    let cpu = ms(ours.cpu) / ms(theirs.cpu).max(0.5);
                    print!(
                        "{:>10.1}{:>10.1}{wall:>8.2}{cpu:>8.2}",
                        ms(theirs.wall),
                        ms(theirs.cpu)
                    );
                }
                None => print!("{:>36}", "no rg"),
            }
            println!(
                "{:>12}{:>12}",
                if count_only { 0 } else { ours.result.len() },
                ours.allocated
            );
        }
    }

    // Lines around each match: the other tool, for its memory.
    let rg = TextRg::module(&tools);
    let input = TextRg { text: text.clone(), pattern: "needle".to_owned(), context: 3 };
    let region = Region::new(ALLOCATIONS);
    let found = runtime.block_on(rg.call(input, &Context::default())).unwrap();
    let allocated = region.change().bytes_allocated;
    println!(
        "\ntext_rg, context 3: result {} B, allocated {allocated} B",
        found.lines.unwrap().len()
    );

    // As a model calls it, the arguments are read from JSON first, which copies the text.
    let tool = TextGrep::tool(&tools).unwrap();
    let arguments = json!({"text": text, "pattern": "needle", "ignore_case": false}).to_string();
    let (region, wall) = (Region::new(ALLOCATIONS), Instant::now());
    let output = runtime.block_on(tool.call(&arguments, &Context::default())).unwrap();
    println!(
        "as a tool, from JSON: {:.1} ms, result {} B, allocated {} B",
        wall.elapsed().as_secs_f64() * 1000.0,
        output.text.len(),
        region.change().bytes_allocated
    );
    fs::remove_file(&path).unwrap();
}
