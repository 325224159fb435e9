//! The example `durable_restate`, killed at random moments while it drives many runs at once. It
//! needs a Restate server, so it is not among the tests that always run.
#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The parts of a run, in order.
const PARTS: [&str; 5] = ["llm-0", "a", "b", "c", "llm-1"];

/// Number of runs that are driven at once.
const RUNS: usize = 64;

/// The longest time for the runs of a set after the last kill.
const PATIENCE: Duration = Duration::from_secs(120);

/// A Restate server, stopped with the test.
struct Server {
    folder: tempfile::TempDir,
    ingress: String,
    admin: String,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Self { folder, ingress: String::new(), admin: String::new() };
        server.run_script();
        let env = fs::read_to_string(server.folder.path().join("env")).unwrap();
        let value = |name: &str| {
            let line = env.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim_start_matches('=').to_owned()
        };
        server.ingress = value("RESTATE_INGRESS");
        server.admin = value("RESTATE_ADMIN");
        server
    }

    fn run_script(&self) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server.sh");
        let started = Command::new("bash").arg(script).arg(self.folder.path()).status();
        assert!(started.unwrap().success(), "the server does not start");
    }

    fn kill(&self) {
        let pid = fs::read_to_string(self.folder.path().join("restate.pid")).unwrap();
        assert!(Command::new("kill").args(["-9", pid.trim()]).status().unwrap().success());
    }

    fn restart(&self) {
        self.kill();
        self.run_script();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

struct Program {
    path: PathBuf,
    port: u16,
    log: PathBuf,
}

impl Program {
    fn new(log: PathBuf) -> Self {
        // Tests lie in target/…/deps, examples beside them in target/…/examples.
        let mut path = std::env::current_exe().unwrap();
        path.pop();
        path.pop();
        path.push("examples/durable_restate");
        assert!(path.exists(), "{} is not built", path.display());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { path, port, log }
    }

    fn spawn(&self) -> Child {
        let mut command = Command::new(&self.path);
        command.env("PORT", self.port.to_string()).env("EXEC_LOG", &self.log).env("STEP_MS", "2");
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }
}

async fn post(client: &reqwest::Client, url: String, body: &Value) -> Value {
    let reply = client.post(&url).json(body).send().await.unwrap();
    let status = reply.status();
    let text = reply.text().await.unwrap();
    assert!(status.is_success(), "{url}: {status} {text}");
    serde_json::from_str(&text).unwrap_or(Value::Null)
}

fn plan() -> Value {
    let call = |id: &str| json!({"id": id, "tool": "echo", "args": {"i": id}});
    json!([{"Tools": [call("a"), call("b"), call("c")]}, {"Answer": "Done."}])
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Kills the program at random moments while it drives 64 runs with every kind of effect. `KILLS`
/// sets how often. Default: 1,000. Each hundredth time the server is killed, too.
#[tokio::test]
#[ignore = "needs a Restate server and takes minutes"]
async fn heavy_runs_that_are_killed_at_random_moments_end_once_and_right() {
    let (kills, mut seed) = (number("KILLS", 1_000), number("SEED", 0x9e37_79b9_7f4a_7c15));
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start();
    // A kept connection would break when the server is killed.
    let client = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
    let mut program = Program::new(folder.path().join("log"));
    let mut child = program.spawn();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let uri = format!("http://127.0.0.1:{}", program.port);
    post(&client, format!("{}/deployments", server.admin), &json!({"uri": uri})).await;
    child.kill().unwrap();
    child.wait().unwrap();
    let (mut killed, mut servers, mut sets, began) = (0, 0, 0, Instant::now());
    while killed < kills {
        sets += 1;
        program.log = folder.path().join(format!("log-{sets}"));
        for number in 0..RUNS {
            let effect = ["read", "idempotent", "write"][number % 3];
            let input = json!({"plan": plan(), "effect": effect, "logs_id": true});
            let id = format!("r-{sets}-{number}");
            post(&client, format!("{}/Agent/{id}/run/send", server.ingress), &input).await;
        }
        let mut answers = BTreeMap::new();
        while killed < kills && answers.len() < RUNS {
            let mut child = program.spawn();
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            tokio::time::sleep(Duration::from_micros(seed % 400_000)).await;
            child.kill().unwrap();
            child.wait().unwrap();
            killed += 1;
            if killed % 100 == 0 {
                servers += 1;
                server.restart();
            }
            if killed % 10 == 0 {
                collect(&client, &server, sets, &mut answers).await;
            }
        }
        let mut child = program.spawn();
        let last = Instant::now();
        while answers.len() < RUNS {
            assert!(last.elapsed() < PATIENCE, "{} of {RUNS} runs ended", answers.len());
            tokio::time::sleep(Duration::from_millis(100)).await;
            collect(&client, &server, sets, &mut answers).await;
        }
        check(sets, &answers, &program.log);
        for number in 0..RUNS {
            check_events(&client, &server, &format!("r-{sets}-{number}")).await;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        println!("set {sets}: {killed} kills, {:.0?}", began.elapsed());
    }
    let time = began.elapsed();
    println!(
        "{killed} kills and {servers} of the server in {sets} sets of {RUNS} runs, {time:.0?}: every run ended once and right"
    );
}

/// Asks for the answers that are not there yet.
async fn collect(
    client: &reqwest::Client,
    server: &Server,
    set: u64,
    answers: &mut BTreeMap<String, String>,
) {
    for number in 0..RUNS {
        let id = format!("r-{set}-{number}");
        if answers.contains_key(&id) {
            continue;
        }
        let url = format!("{}/restate/workflow/Agent/{id}/output", server.ingress);
        let reply = client.get(url).send().await.unwrap();
        match reply.status().as_u16() {
            200 => drop(answers.insert(id, reply.json().await.unwrap())),
            // It has no answer yet, or the server has just started.
            470 | 503 => {}
            status => panic!("{id}: {status} {}", reply.text().await.unwrap()),
        }
    }
}

/// Checks that each run has its answer, and that nothing with a recorded outcome was done again.
fn check(set: u64, answers: &BTreeMap<String, String>, log: &Path) {
    let log = fs::read_to_string(log).unwrap();
    let (mut done, mut recorded) = (BTreeMap::<&str, usize>::new(), BTreeSet::new());
    let mut asked = BTreeMap::<&str, usize>::new();
    for line in log.lines() {
        if let Some(name) = line.strip_prefix("after:") {
            assert!(recorded.insert(name), "{name} was recorded twice");
        } else if let Some(name) = line.strip_prefix("asked:") {
            assert!(!recorded.contains(name), "{name} was asked about after it was recorded");
            *asked.entry(name).or_default() += 1;
        } else {
            assert!(!recorded.contains(line), "{line} was done after it was recorded");
            *done.entry(line).or_default() += 1;
        }
    }
    for number in 0..RUNS {
        let id = format!("r-{set}-{number}");
        assert_eq!(answers[&id], format!("{id}/Done."));
        for part in PARTS {
            let name = format!("{id}/{part}");
            let times = done.get(&*name).copied().unwrap_or(0);
            let questions = asked.get(&*name).copied().unwrap_or(0);
            assert!(times >= 1, "{name} was never done");
            let writes = number % 3 == 2 && !part.starts_with("llm");
            if writes {
                assert!(times <= 1 + questions, "{name}: {times} times, {questions} questions");
            } else {
                assert_eq!(questions, 0, "{name}");
            }
        }
    }
}

/// Checks that the events of a run are complete, and that each result is there once.
async fn check_events(client: &reqwest::Client, server: &Server, id: &str) {
    let (mut kinds, mut next) = (Vec::new(), 0);
    loop {
        let url = format!("{}/Agent/{id}/events", server.ingress);
        let page = post(client, url, &json!(next)).await;
        assert_eq!((&page["left_out"], &page["is_cut"]), (&json!(0), &json!(false)), "{id}");
        for event in page["events"].as_array().unwrap() {
            kinds.push(event["event"].as_str().unwrap().to_owned());
        }
        if page["is_ended"] == true {
            break;
        }
        assert!(page["next"].as_u64() > Some(next), "{id}: the events have no end");
        next = page["next"].as_u64().unwrap();
    }
    let count = |kind: &str| kinds.iter().filter(|found| *found == kind).count();
    assert_eq!(
        (count("model_replied"), count("done"), count("failed")),
        (2, 1, 0),
        "{id}: {kinds:?}"
    );
    assert!((3..=6).contains(&count("tool_finished")), "{id}: {kinds:?}");
    assert_eq!(kinds.first().map(String::as_str), Some("started"), "{id}");
    assert_eq!(kinds.last().map(String::as_str), Some("done"), "{id}");
}
