//! Every program runs, and the lists of programs are complete.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use crate::common::{program, run};
use crate::server::Server;

#[test]
fn a_provider_of_ones_own_runs_an_agent_whole_and_streamed() {
    let ran = run(&mut program("own_provider"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let said = "whole: The tool says: Rain in Oslo.\nstreamed: The tool says: Rain in Oslo.\n";
    assert_eq!(ran.stdout, said);
}

const CALL: &str = r#"{"model":"small","choices":[{"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"memory_store","arguments":"{\"key\":\"color\",\"value\":\"blue\"}"}}]}}],"usage":{"prompt_tokens":50,"completion_tokens":10}}"#;
const ANSWER: &str = r#"{"model":"small","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"Stored.\u001b[2J"}}],"usage":{"prompt_tokens":70,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":40}}}"#;

#[cfg(target_os = "linux")]
#[test]
fn a_program_whose_output_nobody_reads_does_not_panic() {
    for name in ["tasks", "search", "by_hand"] {
        let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut child = program(name).stdout(full()).stderr(full()).spawn().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{name}");
    }
}

#[test]
fn a_loop_by_hand_stores_every_step_and_goes_on() {
    let ran = run(&mut program("by_hand"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    insta::assert_snapshot!(ran.stdout);
}

const LETTER: &str = "Dear Ada Obi, Your hinges are on their way.\n";

#[test]
fn a_typed_answer_in_a_conversation_is_shown_while_it_is_written_in_every_home() {
    let ran = run(&mut program("letter"));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), LETTER), "{}", ran.stderr);
    // The first letter has no lines, so the model writes another one.
    insta::assert_snapshot!(ran.stderr);

    let shown = ran.stderr;
    let folder = tempfile::tempdir().unwrap();
    let mut homes = vec![["folder".to_owned(), folder.path().to_str().unwrap().to_owned()]];
    if let Ok(server) = std::env::var("TOOLWRIGHT_POSTGRES") {
        homes.push(["postgres".to_owned(), server]);
    }
    for home in homes {
        let ran = run(program("letter").args(&home));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), LETTER), "{}", ran.stderr);
        assert_eq!(ran.stderr, shown, "{home:?}");
        // The answer is there, and no model is asked.
        let again = run(program("letter").args(&home));
        assert_eq!((again.code, again.stdout.as_str()), (Some(0), LETTER), "{}", again.stderr);
        assert_eq!(again.stderr, "", "{home:?}");
    }
}

#[test]
fn the_readme_shows_the_hello_program_and_the_program_runs() {
    let readme = include_str!("../../README.md");
    let shown = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    assert_eq!(shown, Some(include_str!("../examples/hello.rs")));

    let call = CALL
        .replace("memory_store", "get_weather")
        .replace(r#"{\"key\":\"color\",\"value\":\"blue\"}"#, r#"{\"city\":\"Oslo\"}"#);
    let server = Server::start(&[&call, ANSWER]);
    let ran = run(program("hello")
        .env("OPENAI_BASE_URL", &server.base_url)
        .env("OPENAI_API_KEY", "none"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("Stored."));
    let asked = server.asked();
    assert_eq!(asked[1]["messages"][2]["content"], "Rain in Oslo.");
}

#[test]
fn the_assistant_holds_a_conversation_with_a_memory() {
    let server = Server::start(&[CALL, ANSWER]);
    let mut assistant = program("assistant");
    assistant.env("OPENAI_BASE_URL", &server.base_url).env("OPENAI_API_KEY", "none");
    let lines = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&lines, "Store it.\nAnd now?\n").unwrap();
    let ran = run(assistant.stdin(lines.reopen().unwrap()));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("<- memory_store Stored memory 'color'"), "{}", ran.stderr);
    assert_eq!(server.asked()[2]["messages"][4]["content"], "And now?");
}

#[test]
fn the_list_of_programs_names_every_program_and_no_other() {
    let list = include_str!("../README.md");
    let programs = list.split("\n| folder |").next().unwrap();
    let rows = programs.lines().filter_map(|line| line.strip_prefix("| `")).skip(1);
    let named: BTreeSet<&str> = rows.filter_map(|row| row.split([' ', '`']).next()).collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    let files: Vec<String> = files.map(|name| name.into_string().unwrap()).collect();
    let there: BTreeSet<&str> = files.iter().filter_map(|name| name.strip_suffix(".rs")).collect();
    assert_eq!(named, there);
    there.into_iter().for_each(|name| drop(program(name)));
}

#[test]
fn the_seeds_tools_run_and_refuse_what_does_not_fit() {
    let ran = run(&mut program("tasks"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    insta::assert_snapshot!(ran.stdout);
}

#[test]
fn three_modules_answer_one_caller() {
    let ran = run(&mut program("search"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    insta::assert_snapshot!(ran.stdout);
}

#[test]
fn streaming_shows_fields_as_they_come_and_discards_a_wrong_answer() {
    let ran = run(&mut program("streaming"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stdout, "It is cold up there.\nTo the top: a warm coat, tea\n");
    let (wrong, right) = ran.stderr.split_once("(invalid reply: asking again)").unwrap();
    assert!(wrong.contains("It is cold  | "), "{wrong}");
    assert!(right.contains("To the top | a warm \n"), "{right}");
}

#[test]
fn three_tools_with_three_models_run() {
    let ran = run(&mut program("research"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let used = "tools used: search_documents, summarize_document, classify_document";
    assert!(ran.stdout.contains(used), "{}", ran.stdout);
}

#[test]
fn the_tools_of_an_agent_export_as_mcp_shows_them() {
    let ran = run(program("research").arg("--mcp"));
    insta::assert_snapshot!(ran.stdout);
}

/// The server only has to accept the request: Phoenix itself is asked by `examples/telemetry`.
#[test]
fn the_spans_of_a_run_are_sent_before_the_program_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let mut reader = BufReader::new(listener.accept().unwrap().0);
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            head += &line;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let ok = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        reader.get_mut().write_all(ok).unwrap();
        (head, body)
    });
    let ran = run(program("telemetry").env("OTEL_EXPORTER_OTLP_ENDPOINT", url));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("It rains."), "{}", ran.stdout);
    let (head, body) = server.join().unwrap();
    assert!(head.starts_with("POST /v1/traces "), "{head}");
    // Protobuf has texts as they are.
    let sent = String::from_utf8_lossy(&body);
    for name in
        ["invoke_agent concierge", "chat gpt-4.1", "execute_tool book_table", "closed at 15"]
    {
        assert!(sent.contains(name), "{name} is missing");
    }
}

#[test]
fn the_metrics_of_runs_are_served_for_prometheus() {
    let mut child = program("metrics").arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let url = lines.find(|line| line.starts_with("http://")).unwrap();
    let (address, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    let get = |path: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET /{path} HTTP/1.1\r\nhost: {address}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let (metrics, other) = (get(path), get("other"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(other.starts_with("HTTP/1.1 404 "), "{other}");
    let (head, metrics) = metrics.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\ncontent-type: text/plain"), "{head}");
    // Buckets and sums of durations differ from run to run.
    let is_stable = |line: &&str| {
        let is_time = line.contains("_seconds_sum") || line.contains("_bucket");
        line.starts_with("# TYPE") || !is_time && !line.contains("target_info")
    };
    let stable: Vec<&str> = metrics.lines().filter(is_stable).collect();
    insta::assert_snapshot!(stable.join("\n"));
    let buckets =
        metrics.lines().filter(|line| line.contains("_usage_bucket") && line.contains("\"input\""));
    assert_eq!(buckets.count(), 15);
}
