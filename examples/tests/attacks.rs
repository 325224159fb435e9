//! Every tool of every toolset, with every attack in every text that it takes.
//!
//! An attack is a line of `tests/attacks/*.jsonl`: a text, or `{"repeat": "a", "times": 3}`
//! for `aaa`. `{OUTSIDE}` stands for a folder that nobody may touch, `{OTHER}` and
//! `{OTHERHOST}` for a server that nobody may ask. A call gives a result, or an error in
//! words for the model.
//!
//! A long attack takes its time: each goes to every fourth tool, or to all of them with
//! `ATTACKS=all` in the environment.
#![cfg(test)]
#![allow(clippy::duplicate_mod, dead_code, reason = "programs in it run as processes")]

#[path = "../examples/api_client.rs"]
mod api_client;
#[path = "../examples/database.rs"]
mod database;
#[path = "toolsets/server.rs"]
mod server;

use std::alloc::System;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::{Map, Value, json};
use server::{Server, answer};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tempfile::TempDir;
use toolwright_cli::files;
use toolwright_github::GitHub;
use toolwright_memory::Memory;
use toolwright_module::error::{Audience, Stage};
use toolwright_module::{Context, Effect, Error, Tool, ToolOutput};
use toolwright_text::Text;

#[global_allocator]
static ALLOCATIONS: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Far above what a call may take, far below what it would without limits. It ends the test
/// program, for nobody can end a call that hangs.
const LONGEST: Duration = Duration::from_secs(60);
/// What a call of the examples may take.
const LIMIT: Duration = Duration::from_secs(2);
/// What a call may allocate beside its arguments, and for each byte of them. All that it
/// allocates counts, also what is free again.
const MOST: usize = 256 << 20;
const FOR_A_BYTE: usize = 64;
/// What the program may hold at any time, SQLite included.
#[cfg(target_os = "linux")]
const MOST_HELD: usize = 1 << 30;
/// More bytes than this make an attack a long one.
const LONG: usize = 400;
/// A text that stands outside, and in no result.
const SECRET: &str = "5ecret-0utside";

/// What is allocated and which children there are is known of the whole program only.
static ALONE: Mutex<()> = Mutex::new(());

/// The toolsets, what they work on, and what they may not touch.
struct World {
    above: TempDir,
    other: Server,
    server: Server,
    /// What the server says for a text.
    said: Arc<Mutex<String>>,
    tools: Vec<Tool>,
    before: BTreeMap<PathBuf, Vec<u8>>,
}

impl World {
    fn new() -> Self {
        let above = TempDir::new().unwrap();
        let path = |name: &str| above.path().join(name);
        fs::create_dir(path("outside")).unwrap();
        fs::write(path("outside/secret.txt"), SECRET).unwrap();
        fs::create_dir_all(path("root/inner")).unwrap();
        fs::write(path("root/inner.txt"), "Rain.").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("../outside", path("root/link")).unwrap();
        Connection::open(path("things.db"))
            .unwrap()
            .execute_batch(
                "CREATE TABLE things (name TEXT, size INTEGER);
                 INSERT INTO things VALUES ('umbrella', 1), ('coat', 2), ('hat', 3);",
            )
            .unwrap();
        let other = Server::start(|_| answer(200, "", "{}"));
        let said = Arc::new(Mutex::new("Rain".to_owned()));
        let text = Arc::clone(&said);
        let server = Server::start(move |_| {
            let text = text.lock().unwrap().clone();
            let item = json!({
                "number": 1, "title": text, "state": text, "html_url": text, "body": text,
                "labels": [{"name": text}], "assignees": [{"login": text}],
                "head": {"ref": text}, "base": {"ref": text}, "login": "kate",
                "count": 1, "uniques": 1, "items": [],
            });
            let mut all = item.clone();
            all["items"] = json!([item]);
            answer(200, "content-type: application/json\r\n", all.to_string())
        });
        let github = GitHub::new().unwrap().with_base_url(&server.url).unwrap();
        let github = github.with_repo("octocat/hello-world").unwrap().with_retries(0);
        let database = database::Database::new(&path("things.db"), LIMIT).unwrap().with_writes();
        let tools = [
            Memory::default().tools().unwrap(),
            Text::default().tools().unwrap(),
            github.with_timeout(LIMIT * 10).unwrap().tools().unwrap(),
            files::Files::new(&path("root")).unwrap().tools().unwrap(),
            api_client::Api::new(&format!("{}/v1", server.url), LIMIT * 10)
                .unwrap()
                .tools()
                .unwrap(),
            database.tools().unwrap(),
        ]
        .concat();
        let mut world = Self { above, other, server, said, tools, before: BTreeMap::new() };
        world.before = world.surroundings();
        world
    }

    /// Takes away what earlier attacks left behind, which later ones would be slower for.
    fn clear_up(&self) {
        let db = Connection::open(self.path("things.db")).unwrap();
        db.execute("DELETE FROM things WHERE name NOT IN ('umbrella', 'coat', 'hat')", []).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.above.path().join(name)
    }

    fn tool(&self, name: &str) -> &Tool {
        self.tools.iter().find(|tool| tool.name() == name).unwrap()
    }

    /// An attack with its places filled in.
    fn aimed(&self, attack: &Value) -> String {
        let text = match attack {
            Value::String(text) => text.clone(),
            repeated => {
                let times = usize::try_from(repeated["times"].as_u64().unwrap()).unwrap();
                repeated["repeat"].as_str().unwrap().repeat(times)
            }
        };
        let host = self.other.url.strip_prefix("http://").unwrap();
        text.replace("{OUTSIDE}", self.path("outside").to_str().unwrap())
            .replace("{OTHERHOST}", host)
            .replace("{OTHER}", &self.other.url)
    }

    fn attacks(&self) -> Vec<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attacks");
        let mut files: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let lines = files.iter().map(|file| fs::read_to_string(file).unwrap());
        let all: Vec<String> = lines
            .flat_map(|text| {
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
            })
            .map(|attack| self.aimed(&attack))
            .collect();
        assert!(all.iter().collect::<BTreeSet<_>>().len() >= 150, "{}", all.len());
        all
    }

    /// All that is around what the tools work on: its names and what they hold.
    fn surroundings(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let here = std::env::current_dir().unwrap();
        for folder in [self.above.path().to_owned(), self.path("outside"), here] {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let held = if path.is_file() && path != self.path("things.db") {
                    fs::read(&path).unwrap()
                } else {
                    Vec::new()
                };
                found.insert(path, held);
            }
        }
        found
    }

    /// Nothing outside was touched, nobody else was asked, and no process was started.
    fn check(&self, what: &str) {
        assert!(self.surroundings() == self.before, "{what}: something outside changed");
        assert_eq!(self.other.take(), Vec::<String>::new(), "{what}");
        assert_eq!(children(), (0, String::new()), "{what}");
    }

    /// What the server was asked stayed below the addresses that the tools were made for.
    fn check_asked(&self, tool: &Tool, what: &str) {
        for head in self.server.take() {
            let first = head.lines().next().unwrap();
            let [method, path, version] = first.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{what}: {first}");
            };
            assert_eq!(version, "HTTP/1.1", "{what}");
            assert!(path.bytes().all(|byte| byte.is_ascii_graphic()), "{what}: {path}");
            let path = path.split('?').next().unwrap();
            assert!(!path.split('/').any(|part| part == ".."), "{what}: {path}");
            let api = tool.name().strip_prefix("api_").map(str::to_ascii_uppercase);
            assert!(api.is_none() || path.starts_with("/v1/"), "{what}: {path}");
            assert_eq!(method, api.as_deref().unwrap_or("GET"), "{what}");
            let head = head.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
            assert!(!head.contains("\nx-injected"), "{what}: {head}");
            assert_eq!(head.matches("\nhost: 127.0.0.1:").count(), 1, "{what}: {head}");
        }
    }
}

/// How many pages children that are gone have used, and the children that are there: a
/// process that was ever started shows in one of them.
fn children() -> (u64, String) {
    #[cfg(target_os = "linux")]
    {
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        // Behind the name of the program, which may hold anything.
        let after = stat.rsplit_once(") ").unwrap().1;
        let faults = after.split(' ').nth(8).unwrap().parse().unwrap();
        let tasks = fs::read_dir("/proc/self/task").unwrap();
        let each = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("children")));
        (faults, each.map(Result::unwrap_or_default).collect())
    }
    #[cfg(not(target_os = "linux"))]
    (0, String::new())
}

/// Arguments that fit a schema, with an attack in one of its texts.
struct Filling<'a> {
    tool: &'a str,
    root: &'a Value,
    attack: &'a str,
    /// The text that gets it; all of them, if it is none.
    site: Option<usize>,
    /// How many texts there were so far.
    seen: usize,
}

impl Filling<'_> {
    fn text(&mut self, harmless: &str) -> String {
        let hit = self.site.is_none_or(|site| site == self.seen);
        self.seen += 1;
        if hit { self.attack } else { harmless }.to_owned()
    }

    fn fill(&mut self, schema: &Value, name: &str) -> Value {
        if let Some(to) = schema["$ref"].as_str() {
            let to = self.root.pointer(to.strip_prefix('#').unwrap()).unwrap();
            return self.fill(to, name);
        }
        if let Some(members) = schema["anyOf"].as_array() {
            // The last that is not null: of a value of many kinds, its text.
            let member = members.iter().rfind(|member| member["type"] != "null").unwrap();
            return self.fill(member, name);
        }
        let known = schema["enum"][0].as_str().or(schema["oneOf"][0]["const"].as_str());
        if let Some(known) = known {
            return self.text(known).into();
        }
        let kind = schema["type"].as_str().or(schema["type"][0].as_str()).unwrap_or("string");
        match kind {
            "object" => {
                let mut fields = Map::new();
                for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
                    fields.insert(name.clone(), self.fill(schema, name));
                }
                if let Some(values) = schema.get("additionalProperties").filter(|it| it.is_object())
                {
                    let key = self.text("name");
                    fields.insert(key, self.fill(values, "value"));
                }
                fields.into()
            }
            "array" => json!([self.fill(&schema["items"], "item")]),
            "integer" | "number" => schema["minimum"].as_i64().unwrap_or(1).max(1).into(),
            "boolean" => false.into(),
            _ => self.text(harmless(self.tool, name)).into(),
        }
    }
}

/// A text that a tool takes under this name.
fn harmless(tool: &str, name: &str) -> &'static str {
    match name {
        "path" if tool == "file_list" => "inner",
        "path" => "inner.txt",
        "repo" => "octocat/hello-world",
        "endpoint" => "user",
        "method" => "GET",
        "table" => "things",
        "sql" => "SELECT ?",
        "body" => r#"{"a": 1}"#,
        "text" => "ab ab\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\nb\n",
        _ => "a",
    }
}

/// The arguments with this attack in each text by itself, in all of them, and as a whole.
fn arguments(tool: &Tool, attack: &str) -> Vec<String> {
    let root = tool.contract().input();
    let filled = |site| {
        let mut filling = Filling { tool: tool.name(), root, attack, site, seen: 0 };
        (filling.fill(root, ""), filling.seen)
    };
    let (all, sites) = filled(None);
    let mut arguments: Vec<String> =
        (0..sites).map(|site| filled(Some(site)).0.to_string()).collect();
    if sites > 1 {
        arguments.push(all.to_string());
    }
    arguments.push(attack.to_owned());
    arguments
}

/// Calls a tool under the clock, and counts what it allocates.
fn call(runtime: &tokio::runtime::Runtime, tool: &Tool, arguments: &str) -> Called {
    let (region, started) = (Region::new(ALLOCATIONS), Instant::now());
    let (tool, text) = (tool.clone(), arguments.to_owned());
    let name = tool.name().to_owned();
    // On a thread of its own: some work without ever waiting.
    let task = runtime.spawn(async move { tool.call(&text, &Context::default()).await });
    let result = runtime.block_on(async { tokio::time::timeout(LONGEST, task).await });
    let Ok(result) = result else {
        eprintln!("{name} hangs on {:.200}", arguments.escape_debug());
        std::process::exit(101);
    };
    let (allocated, elapsed) = (region.change().bytes_allocated, started.elapsed());
    Called { result: result.unwrap(), allocated, elapsed }
}

struct Called {
    result: Result<ToolOutput, Error>,
    allocated: usize,
    elapsed: Duration,
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A result keeps its form, whatever stands in it.
fn check_form(tool: &Tool, text: &str, what: &str) {
    assert!(!text.contains(SECRET), "{what}: {text:.200}");
    let name = tool.name();
    if name.starts_with("github_") {
        let marks = text.matches("untrusted_data>").count();
        assert!(marks == 0 || marks == 2, "{what}: {text:.500}");
        let odd = |char: char| char.is_control() && !matches!(char, '\n' | '\t');
        assert!(!text.chars().any(odd), "{what}: {text:.500}");
    }
    if name.starts_with("api_") || name.starts_with("db_") || name == "file_list" {
        let value: Value = serde_json::from_str(text).unwrap();
        assert!(value.is_object() && !text.contains('\n'), "{what}: {text:.200}");
    }
}

#[test]
fn every_attack_on_every_tool_gives_a_result_or_an_error_that_says_what_to_do() {
    let _alone = ALONE.lock();
    let (world, runtime) = (World::new(), runtime());
    let attacks = world.attacks();
    let mut told = BTreeSet::new();
    let (mut calls, mut slowest, mut largest) = (0, (Duration::ZERO, ""), (0, ""));
    let all = std::env::var("ATTACKS").is_ok_and(|which| which == "all");
    for (place, tool) in world.tools.iter().enumerate() {
        let name = tool.name();
        world.clear_up();
        let (mut done, mut refused, started) = (0, 0, Instant::now());
        for (number, attack) in attacks.iter().enumerate() {
            if attack.len() > LONG && !all && !(number + place).is_multiple_of(4) {
                continue;
            }
            for arguments in arguments(tool, attack) {
                fs::write(world.path("root/inner.txt"), "Rain.").unwrap();
                let Called { result, allocated, elapsed } = call(&runtime, tool, &arguments);
                let what = format!("{name} {number} {:.300}", arguments.escape_debug());
                let most = MOST + FOR_A_BYTE * arguments.len();
                assert!(allocated <= most, "{allocated} bytes for {}: {what}", arguments.len());
                slowest = slowest.max((elapsed, name));
                largest = largest.max((allocated, name));
                match result {
                    Ok(output) => {
                        done += 1;
                        check_form(tool, &output.text, &what);
                    }
                    Err(error) => {
                        refused += 1;
                        assert_ne!(error.stage(), Stage::Panic, "{what}: {error:#}");
                        let audience = error.audience();
                        assert!(
                            matches!(audience, Audience::ModelMayRetry | Audience::ModelFinal),
                            "{what}: {error:#}"
                        );
                        let text = error.for_model();
                        assert!(text.len() >= 10 && text.len() < 4096, "{what}: {text}");
                        assert!(!text.contains(SECRET), "{what}: {text}");
                        told.insert(format!("{name}: {:.110}", text.replace('\n', " ")));
                    }
                }
                world.check_asked(tool, &what);
            }
            world.check(name);
        }
        calls += done + refused;
        println!("{name}: {done} done, {refused} refused, {:.1?}", started.elapsed());
    }
    println!(
        "{} attacks, {} tools, {calls} calls; slowest {slowest:?}, most allocated {largest:?}",
        attacks.len(),
        world.tools.len(),
    );
    if std::env::var_os("SHOW_TOLD").is_some() {
        println!("{}", told.into_iter().collect::<Vec<_>>().join("\n"));
    }
    // The schema and the rows that nobody named are as they were.
    let db = Connection::open(world.path("things.db")).unwrap();
    let schema: String =
        db.query_row("SELECT group_concat(sql) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
    assert_eq!(schema, "CREATE TABLE things (name TEXT, size INTEGER)");
    let coat = "SELECT count(*) FROM things WHERE name = 'coat' AND size = 2";
    assert_eq!(db.query_row(coat, [], |row| row.get::<_, i64>(0)).unwrap(), 1);
    #[cfg(target_os = "linux")]
    {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let most: usize = most.trim().trim_end_matches(" kB").parse().unwrap();
        println!("{} MiB held at most", most >> 10);
        assert!(most << 10 < MOST_HELD, "{most} KiB");
    }
}

#[test]
fn what_others_wrote_comes_back_as_a_result_and_does_nothing() {
    let _alone = ALONE.lock();
    let (world, runtime) = (World::new(), runtime());
    let call = |name: &str, arguments: Value| {
        let Called { result, .. } = call(&runtime, world.tool(name), &arguments.to_string());
        let output = result.unwrap_or_else(|error| panic!("{name}: {error:#}"));
        check_form(world.tool(name), &output.text, name);
        output.text
    };
    let db = Connection::open(world.path("things.db")).unwrap();
    // What is longer is cut or refused by some, which is another matter.
    for attack in world.attacks().iter().filter(|attack| attack.len() < 4000) {
        // From a memory, a file and a database it comes back as it is.
        call("memory_store", json!({"key": "note", "value": attack}));
        assert_eq!(call("memory_retrieve", json!({"key": "note"})), *attack);
        let found = call("memory_search", json!({"pattern": "note", "in_values": false}));
        assert_eq!(serde_json::from_str::<Value>(&found).unwrap()[0]["value"], **attack);
        fs::write(world.path("root/inner.txt"), attack).unwrap();
        assert_eq!(call("file_read", json!({"path": "inner.txt"})), *attack);
        db.execute("INSERT INTO things VALUES (?, 9)", [attack]).unwrap();
        let found = call("db_query", json!({"sql": "SELECT name FROM things WHERE size = 9"}));
        assert_eq!(
            serde_json::from_str::<Value>(&found).unwrap()["rows"],
            json!([[attack.as_str()]])
        );
        db.execute("DELETE FROM things WHERE size = 9", []).unwrap();
        // From a server it stands in a JSON text, or between marks that it cannot write.
        *world.said.lock().unwrap() = attack.clone();
        let got: Value = serde_json::from_str(&call("api_get", json!({"path": "things"}))).unwrap();
        let body: Value = serde_json::from_str(got["body"].as_str().unwrap()).unwrap();
        assert_eq!(body["title"], **attack);
        for (name, arguments) in [
            ("github_get_issue", json!({"issue_number": 1})),
            ("github_get_pr", json!({"pr_number": 1})),
            ("github_list_issues", json!({"limit": 1})),
            ("github_list_prs", json!({"limit": 1})),
            ("github_api_request", json!({"endpoint": "user"})),
        ] {
            let text = call(name, arguments);
            let inside = text.strip_prefix("<untrusted_data>\n").expect(&text);
            assert!(inside.ends_with("\n</untrusted_data>"), "{name}: {text}");
        }
        world.check(attack);
    }
}

/// What the toolsets are made of starts no process.
#[test]
fn no_toolset_knows_how_to_start_a_process() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = vec![];
    for folder in ["memory/src", "text/src", "github/src"] {
        let mut folders = vec![here.join("../toolsets").join(folder)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { folders.push(path) } else { sources.push(path) }
            }
        }
    }
    sources.push(here.join("../cli/src/files.rs"));
    for name in ["api_client", "database", "common/calls", "common/shelf"] {
        sources.push(here.join(format!("examples/{name}.rs")));
    }
    assert!(sources.len() > 40, "{}", sources.len());
    for path in sources {
        let text = fs::read_to_string(&path).unwrap();
        for word in ["process::Command", "Command::new", "fork(", "libc::", "unsafe "] {
            assert!(!text.contains(word), "{}: {word}", path.display());
        }
    }
}

/// The corpus reaches each text that a tool takes, those in lists and maps included, and
/// what stands beside an attack is what the tool takes.
#[test]
fn an_attack_goes_into_every_text_of_a_schema() {
    let _alone = ALONE.lock();
    let (world, runtime) = (World::new(), runtime());
    for tool in &world.tools {
        let root = tool.contract().input();
        let mut filling =
            Filling { tool: tool.name(), root, attack: "", site: Some(usize::MAX), seen: 0 };
        let arguments = filling.fill(root, "").to_string();
        let Called { result, .. } = call(&runtime, tool, &arguments);
        result.unwrap_or_else(|error| panic!("{} {arguments}: {error:#}", tool.name()));
    }
    let sites = |name: &str| arguments(world.tool(name), "!").len() - 1;
    // Key, value and a tag, and all of them.
    assert_eq!(sites("memory_store"), 4);
    assert_eq!(sites("memory_count"), 0);
    // Table, a column, its value, another, its value, and all.
    assert_eq!(sites("db_update"), 6);
    // State, a label, an assignee, a repository, and all.
    assert_eq!(sites("github_list_issues"), 5);
    let known = world.tools.iter().filter(|tool| tool.effect() <= Effect::Irreversible).count();
    assert_eq!(known, 9 + 8 + 7 + 4 + 4 + 4);
}
