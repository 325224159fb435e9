//! The example `endless` against the example `counting_server`, also killed and started again.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{program, run};
use crate::counting_server::{CountingServer, Options, Replies, Summaries};

/// What the program printed.
type Lines = BTreeMap<String, String>;

fn lines(stdout: &str) -> Lines {
    let pair = |line: &str| line.split_once(": ").map(|(name, value)| (name.into(), value.into()));
    stdout.lines().filter_map(pair).collect()
}

fn number(lines: &Lines, name: &str) -> u64 {
    lines[name].parse().unwrap_or_else(|_| panic!("{name}: {lines:#?}"))
}

fn endless(server: &CountingServer, rounds: u64, arguments: &[&str]) -> Command {
    let mut command = program("endless");
    command.args(["--base-url", &server.base_url, "--rounds", &rounds.to_string()]);
    command.args(arguments);
    command
}

/// Checks what was printed, and what the server counted.
fn check(server: &CountingServer, lines: &Lines, rounds: u64, window: u64) {
    let counts = server.counts();
    assert_eq!(counts.faults, [""; 0], "{lines:#?}");
    assert!(counts.largest <= window, "{counts:#?}");
    assert_eq!(number(lines, "rounds"), rounds);
    assert_eq!(number(lines, "lost facts"), 0, "{lines:#?}");
    assert_eq!(lines["refused twice in a row"], "false");
    let last = counts.last.back().unwrap().to_string();
    for round in (1..rounds).filter(|round| round % 10 == 0) {
        let fact = format!("the code of box {round} is ");
        assert!(last.contains(&fact), "{fact}: {last}");
    }
}

#[test]
fn a_conversation_that_is_longer_than_the_window_ends_against_every_kind_of_server() {
    let server = |summaries, replies| Options {
        window: 12_000,
        summaries,
        replies,
        strict_order: true,
        ..Options::default()
    };
    let good = || server(Summaries::Good, Replies::Mixed);
    let cases = [
        ("a good summary", good(), 12_000),
        ("a useless summary", server(Summaries::Dumb, Replies::Mixed), 12_000),
        ("a summary that only fits", server(Summaries::Schema, Replies::Mixed), 12_000),
        ("no value of a schema", server(Summaries::Refuse, Replies::Mixed), 12_000),
        ("only texts", server(Summaries::Good, Replies::Text), 12_000),
        ("only calls", server(Summaries::Good, Replies::Calls), 12_000),
        ("no usage", Options { no_usage: true, ..good() }, 12_000),
        ("a smaller window", good(), 32_000),
        ("a smaller window without numbers", Options { no_numbers: true, ..good() }, 32_000),
    ];
    for (case, options, window) in cases {
        let (real, replies) = (options.window, options.replies);
        let server = CountingServer::start(options).unwrap();
        let mut command = endless(&server, 60, &["--window", &window.to_string()]);
        if case == "a smaller window" {
            command.arg("--stream");
        }
        let ran = run(&mut command);
        assert_eq!(ran.code, Some(0), "{case}: {}\n{}", ran.stdout, ran.stderr);
        let lines = lines(&ran.stdout);
        check(&server, &lines, 60, real);
        assert!(number(&lines, "compactions") > 0, "{case}: {lines:#?}");
        if replies != Replies::Calls {
            assert_eq!(lines["answered facts"], "5", "{case}");
        }
        if window == real {
            assert_eq!(server.counts().too_long, 0, "{case}: {lines:#?}");
        }
    }
}

#[test]
fn facts_that_are_lost_or_a_request_that_never_fits_make_the_exit_code_1() {
    // The longest reply, and a little for the conversation.
    let options = Options { window: 4_500, ..Options::default() };
    let server = CountingServer::start(options).unwrap();
    let ran = run(&mut endless(&server, 30, &[]));
    assert_eq!(ran.code, Some(1), "{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(lines(&ran.stdout)["refused twice in a row"], "true");
}

/// Kills the program again and again after random numbers of requests, and starts it again.
fn kill(
    server: &CountingServer,
    rounds: u64,
    kills: u64,
    seed: u64,
    arguments: &[&str],
) -> (u64, Lines) {
    let (mut killed, mut seed) = (0, seed);
    // About two requests a round.
    let most = (rounds * 2 / kills).max(2);
    loop {
        let mut command = endless(server, rounds, arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let began = server.counts().requests;
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        if killed < kills {
            while server.counts().requests < began + 1 + seed % most
                && child.try_wait().unwrap().is_none()
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_micros(seed % 8_000));
            // The program may have ended before.
            let _ = child.kill();
        }
        let output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.code() {
            None => killed += 1,
            Some(code) => {
                assert_eq!(code, 0, "{}\n{}", text(&output.stdout), text(&output.stderr));
                return (killed, lines(&text(&output.stdout)));
            }
        }
    }
}

#[test]
fn a_conversation_that_is_killed_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("runs");
    let options = Options { window: 12_000, strict_order: true, ..Options::default() };
    let server = CountingServer::start(options).unwrap();
    let arguments = ["--window", "12000", "--journal", journal.to_str().unwrap()];
    let (killed, lines) = kill(&server, 60, 5, 0x9e37_79b9_7f4a_7c15, &arguments);
    check(&server, &lines, 60, 12_000);
    assert_eq!(killed, 5);
    // A request is repeated only if its reply was not recorded.
    let counts = server.counts();
    assert_eq!(counts.too_long, 0);
    assert!(counts.requests <= number(&lines, "requests") + killed, "{lines:#?} {counts:#?}");
}

fn of_variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// Holds a conversation of `ROUNDS` rounds (2,000) in 32,000 tokens, killed `KILLS` times (100) at
/// random moments.
fn heavy(arguments: &[&str]) {
    let (rounds, kills) = (of_variable("ROUNDS", 2_000), of_variable("KILLS", 100));
    let began = Instant::now();
    let options = Options { strict_order: true, ..Options::default() };
    let server = CountingServer::start(options).unwrap();
    let seed = of_variable("SEED", 0x9e37_79b9_7f4a_7c15);
    let (killed, lines) = kill(&server, rounds, kills, seed, arguments);
    check(&server, &lines, rounds, 32_000);
    let counts = server.counts();
    assert_eq!(counts.too_long, 0);
    assert!(counts.requests <= number(&lines, "requests") + killed, "{lines:#?} {counts:#?}");
    let tenth = |name| number(&lines, &format!("mean request tokens of the {name} tenth"));
    let (middle, last) = (tenth("middle"), tenth("last"));
    assert!(last < middle * 3 / 2, "the requests grow: {lines:#?}");
    println!("{killed} kills in {:.0?}: {lines:#?}", began.elapsed());
}

#[test]
#[ignore = "takes minutes"]
fn heavy_conversation_in_a_folder_that_is_killed_keeps_every_fact() {
    let folder = tempfile::tempdir().unwrap();
    heavy(&["--journal", folder.path().join("runs").to_str().unwrap()]);
}

#[test]
#[ignore = "takes minutes, and needs a database: see durable/postgres/tests/server.sh"]
fn heavy_conversation_in_a_database_that_is_killed_keeps_every_fact() {
    let Ok(url) = std::env::var("TOOLWRIGHT_POSTGRES") else {
        println!("skipped: run durable/postgres/tests/server.sh");
        return;
    };
    heavy(&["--postgres", &url]);
}
