//! The toolsets of the example programs, held to what they promise.

use crate::api_client;
use crate::database;
use std::fs;
use std::time::Duration;

use crate::api_client::Api;
use crate::common::{program, run};
use crate::database::Database;
use crate::toolset_server::{Server, answer};
use crate::toolset_support::{LONGEST, call, cities, said};
use serde_json::{Value, json};
use tempfile::TempDir;
use toolwright_cli::files::{self, Files};
use toolwright_module::Tool;
use toolwright_module::error::{Audience, Stage};
use toolwright_signature::Dialect;

/// For calls that would never end.
const SOON: Duration = Duration::from_millis(300);

/// What the model reads of a call that fails.
async fn told(tools: &[Tool], name: &str, arguments: Value) -> String {
    let error = call(tools, name, arguments.clone()).await.expect_err(&arguments.to_string());
    let audience = error.audience();
    let for_model = matches!(audience, Audience::ModelMayRetry | Audience::ModelFinal);
    assert!(for_model, "{arguments}: {error:#}");
    error.for_model().into_owned()
}

#[test]
fn the_api_program_posts_gets_puts_and_deletes() {
    let ran = run(&mut program("api_client"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    insta::assert_snapshot!(ran.stdout, @r#"
    -> api_post {"path": "things", "body": "{\"name\": \"umbrella\"}"}
    <- {"status":201,"body":"{\"path\": \"things/1\"}"}
    -> api_get {"path": "things/1"}
    <- {"status":200,"body":"{\"name\": \"umbrella\"}"}
    -> api_put {"path": "things/1", "body": "{\"name\": \"coat\"}"}
    <- {"status":200,"body":"{\"name\": \"coat\"}"}
    -> api_get {"path": "things/1", "query": {"page": "1"}}
    <- {"status":200,"body":"{\"name\": \"coat\"}"}
    -> api_get {"path": "../admin"}
    <- failed: `path` must be names separated by /, without .., \ and //
    -> api_delete {"path": "things/1"}
    <- {"status":204,"body":""}
    -> api_get {"path": "things/1"}
    <- {"status":404,"body":"{\"message\": \"there is nothing here\"}"}
    "#);
}

#[test]
fn the_database_program_queries_inserts_updates_and_deletes() {
    let ran = run(&mut program("database"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    insta::assert_snapshot!(ran.stdout, @r#"
    -> db_query {"sql": "SELECT name FROM cities WHERE weather = ?", "values": ["sun"]}
    <- {"columns":["name"],"rows":[["Rome"]],"more":false}
    -> db_insert {"table": "cities", "values": {"name": "Bergen", "weather": "rain"}}
    <- {"rows":1}
    -> db_update {"table": "cities", "values": {"weather": "fog"}, "rows": {"name": "Oslo"}}
    <- {"rows":1}
    -> db_delete {"table": "cities", "rows": {"name": "Rome"}}
    <- {"rows":1}
    -> db_query {"sql": "SELECT * FROM cities ORDER BY name"}
    <- {"columns":["name","weather"],"rows":[["Bergen","rain"],["Oslo","fog"]],"more":false}
    -> db_query {"sql": "DROP TABLE cities"}
    <- failed: A query can only read; use one SELECT.
    -> db_insert {"table": "cities; --", "values": {"name": "Nowhere"}}
    <- failed: `table` must be one of these: cities
    "#);
}

#[test]
fn the_three_say_what_their_calls_do_and_every_provider_takes_them() {
    let folder = TempDir::new().unwrap();
    let tools = [
        Files::new(folder.path()).unwrap().tools().unwrap(),
        Api::new("http://127.0.0.1:9", LONGEST).unwrap().tools().unwrap(),
        cities(&folder).with_writes().tools().unwrap(),
    ]
    .concat();
    let effects: Vec<_> =
        tools.iter().map(|tool| format!("{} {:?}", tool.name(), tool.effect())).collect();
    insta::assert_snapshot!(effects.join("\n"), @r"
    file_read Read
    file_write Idempotent
    file_list Read
    file_delete Irreversible
    api_get Read
    api_post Write
    api_put Idempotent
    api_delete Irreversible
    db_query Read
    db_insert Write
    db_update Idempotent
    db_delete Irreversible
    ");
    for dialect in [
        Dialect::JsonSchema2020,
        Dialect::OpenAiStrict,
        Dialect::OpenAiLoose,
        Dialect::Anthropic,
        Dialect::Gemini,
        Dialect::Mcp,
    ] {
        for tool in &tools {
            tool.contract().lower(dialect).unwrap();
        }
    }
}

/// A folder with a file beside it that nobody may touch.
struct Fenced {
    above: TempDir,
    tools: Vec<Tool>,
}

impl Fenced {
    fn new() -> Self {
        let above = TempDir::new().unwrap();
        fs::create_dir_all(above.path().join("root/notes")).unwrap();
        fs::create_dir(above.path().join("outside")).unwrap();
        fs::write(above.path().join("outside/secret.txt"), "secret").unwrap();
        let tools = Files::new(&above.path().join("root")).unwrap().tools().unwrap();
        Self { above, tools }
    }

    fn root(&self) -> std::path::PathBuf {
        self.above.path().join("root")
    }

    fn check(&self) {
        let outside = self.above.path().join("outside");
        assert_eq!(fs::read_to_string(outside.join("secret.txt")).unwrap(), "secret");
        assert_eq!(fs::read_dir(outside).unwrap().count(), 1);
        assert_eq!(fs::read_dir(self.above.path()).unwrap().count(), 2);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn no_path_and_no_link_leads_out_of_the_folder() {
    use std::os::unix::fs::symlink;

    let fenced = Fenced::new();
    let (root, tools) = (fenced.root(), &fenced.tools);
    let secret = fenced.above.path().join("outside/secret.txt");
    symlink(&secret, root.join("absolute")).unwrap();
    symlink("../outside/secret.txt", root.join("relative")).unwrap();
    symlink("../outside", root.join("folder")).unwrap();
    symlink("../outside/new.txt", root.join("dangling")).unwrap();
    symlink("circle", root.join("circle")).unwrap();
    symlink("/dev/zero", root.join("zero")).unwrap();
    let secret = secret.to_str().unwrap();
    for path in [
        "../outside/secret.txt",
        "notes/../../outside/secret.txt",
        secret,
        "/etc/passwd",
        "absolute",
        "relative",
        "folder/secret.txt",
        "folder/../secret.txt",
        "dangling",
        "zero",
        "",
        "a\0b",
    ] {
        told(tools, "file_read", json!({ "path": path })).await;
        told(tools, "file_write", json!({ "path": path, "text": "owned" })).await;
        fenced.check();
    }
    for path in ["..", "/", "folder", "notes/../..", "../outside"] {
        told(tools, "file_list", json!({ "path": path })).await;
    }
    told(tools, "file_delete", json!({"path": "../outside/secret.txt"})).await;
    told(tools, "file_delete", json!({"path": "folder/secret.txt"})).await;
    call(tools, "file_read", json!({"path": "circle"})).await.unwrap_err();
    let listed = said(tools, "file_list", json!({})).await;
    assert_eq!(listed.matches(r#""kind":"link""#).count(), 6, "{listed}");

    // A link is deleted, never what it leads to.
    said(tools, "file_delete", json!({"path": "absolute"})).await;
    said(tools, "file_delete", json!({"path": "folder"})).await;
    fenced.check();

    // A file that has a second name outside is replaced, not written into.
    fs::hard_link(secret, root.join("twin")).unwrap();
    said(tools, "file_write", json!({"path": "twin", "text": "owned"})).await;
    assert_eq!(said(tools, "file_read", json!({"path": "twin"})).await, "owned");
    fenced.check();
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_inside_the_folder_is_followed_by_reading_only() {
    let fenced = Fenced::new();
    fs::write(fenced.root().join("notes/a.txt"), "Rain.").unwrap();
    std::os::unix::fs::symlink("notes/a.txt", fenced.root().join("link")).unwrap();
    assert_eq!(said(&fenced.tools, "file_read", json!({"path": "link"})).await, "Rain.");
    let text = told(&fenced.tools, "file_write", json!({"path": "link", "text": ""})).await;
    assert_eq!(text, "This is a link; name the file it leads to.");
}

#[cfg(unix)]
/// Whoever could run or read a file can do so after it was written, and nobody else.
#[cfg(unix)]
#[tokio::test]
async fn a_file_that_is_replaced_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;

    let world = Fenced::new();
    let file = world.root().join("run.sh");
    for mode in [0o755, 0o600, 0o444, 0o4755] {
        std::fs::write(&file, "old").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        said(&world.tools, "file_write", json!({"path": "run.sh", "text": "new"})).await;
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        let now = std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777;
        // A program that a model wrote runs as nobody else.
        assert_eq!(now, mode & 0o777, "{mode:o}");
        std::fs::remove_file(&file).unwrap();
    }
}

#[tokio::test]
async fn what_cannot_be_written_leaves_nothing_behind() {
    let world = Fenced::new();
    let before = below(&world.root());
    let long = "x".repeat(255);
    for path in ["new/", "new/.", "new/./", "./new/", &format!("{long}/"), &format!("{long}x")] {
        let error = call(&world.tools, "file_write", json!({"path": path, "text": "a"})).await;
        assert!(error.is_err(), "{path}");
        assert_eq!(below(&world.root()), before, "{path}");
    }
    // A name as long as one may be is no longer on the way there.
    said(&world.tools, "file_write", json!({"path": long, "text": "a"})).await;
}

/// Everything below a folder.
fn below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(below(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

#[tokio::test]
async fn pipes_sockets_and_devices_are_no_files_and_hang_nobody() {
    use std::process::Command;

    let fenced = Fenced::new();
    let path = |name: &str| fenced.root().join(name);
    assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
    let _listening = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    let mut names = vec!["pipe", "socket", "notes"];
    // Only an administrator may make one.
    let device = Command::new("mknod").arg(path("device")).args(["c", "1", "5"]).output().unwrap();
    if device.status.success() {
        names.push("device");
    }
    for name in names {
        let text = told(&fenced.tools, "file_read", json!({ "path": name })).await;
        assert!(text.starts_with("This is "), "{name}: {text}");
        told(&fenced.tools, "file_write", json!({ "path": name, "text": "x" })).await;
        told(&fenced.tools, "file_delete", json!({ "path": name })).await;
        assert!(path(name).exists());
    }
}

#[tokio::test]
async fn what_is_too_long_or_no_text_is_refused_whole() {
    let fenced = Fenced::new();
    let (root, tools) = (fenced.root(), &fenced.tools);
    fs::File::create(root.join("huge")).unwrap().set_len(1 << 40).unwrap();
    fs::write(root.join("most"), vec![b'x'; files::MOST_BYTES]).unwrap();
    fs::write(root.join("binary"), [0xff, 0xfe, 0, 1]).unwrap();
    let text = told(tools, "file_read", json!({"path": "huge"})).await;
    assert_eq!(text, "The file has more than 1048576 bytes.");
    assert_eq!(said(tools, "file_read", json!({"path": "most"})).await.len(), files::MOST_BYTES);
    let text = told(tools, "file_read", json!({"path": "binary"})).await;
    assert_eq!(text, "The file is not UTF-8 text.");
    let long = "x".repeat(files::MOST_BYTES + 1);
    told(tools, "file_write", json!({"path": "most", "text": long})).await;
    said(tools, "file_write", json!({"path": "most", "text": "short"})).await;
    assert_eq!(said(tools, "file_read", json!({"path": "most"})).await, "short");
    // Names that no disk takes.
    for path in ["x".repeat(300), "x".repeat(5000), "most/below".to_owned()] {
        told(tools, "file_write", json!({"path": path, "text": ""})).await;
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_listing_has_an_end_and_counts_what_it_cannot_name() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let fenced = Fenced::new();
    let notes = fenced.root().join("notes");
    fs::write(notes.join(OsStr::from_bytes(b"caf\xe9")), "").unwrap();
    fs::write(notes.join("two\nlines"), "").unwrap();
    for number in 0..1500 {
        fs::write(notes.join(format!("{number:04}")), "").unwrap();
    }
    let listed = said(&fenced.tools, "file_list", json!({"path": "notes"})).await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&listed["left_out"], &listed["unnamed"]), (&json!(500), &json!(2)));
    assert_eq!(listed["entries"].as_array().unwrap().len(), files::MOST_ENTRIES);
    assert_eq!(listed["entries"][999]["name"], "0999");
}

fn api(server: &Server, longest: Duration) -> Vec<Tool> {
    Api::new(&format!("{}/v1", server.url), longest).unwrap().tools().unwrap()
}

#[tokio::test]
async fn a_redirect_is_followed_below_the_address_only() {
    let other = Server::start(|_| answer(200, "", "other"));
    let elsewhere = other.url.clone();
    let server = Server::start(move |head| {
        let to = |to: &str| answer(307, &format!("location: {to}\r\n"), "");
        match head.split(' ').nth(1).unwrap() {
            "/v1/near" => to("/v1/there"),
            "/v1/up" => to("/admin"),
            "/v1/beside" => to("/v10"),
            "/v1/user" => to(&elsewhere.replace("//", "//kate:pass@")),
            "/v1/other" => to(&elsewhere),
            "/v1/file" => to("file:///etc/passwd"),
            "/v1/circle" => to("/v1/circle"),
            "/v1/lost" => answer(302, "", ""),
            "/v1/there" => answer(200, "", "there"),
            other => answer(404, "", other),
        }
    });
    let tools = api(&server, LONGEST);
    let near = said(&tools, "api_get", json!({"path": "near"})).await;
    assert_eq!(near, r#"{"status":200,"body":"there"}"#);
    for path in ["up", "beside", "user", "other", "file", "circle", "lost"] {
        for (name, body) in [("api_get", Value::Null), ("api_post", json!("{}"))] {
            let arguments = json!({ "path": path, "body": body });
            let arguments = if body.is_null() { json!({ "path": path }) } else { arguments };
            let text = told(&tools, name, arguments).await;
            assert_eq!(
                text,
                "The server redirects to another address, which the tool may not request."
            );
        }
    }
    assert!(other.take().is_empty());
    let asked = server.take();
    assert!(asked.iter().all(|head| head.split(' ').nth(1).unwrap().starts_with("/v1/")));
}

#[tokio::test]
async fn whatever_a_path_says_it_is_asked_for_below_the_address() {
    let server = Server::start(|_| answer(200, "", "{}"));
    let tools = api(&server, LONGEST);
    for (path, asked) in [
        ("things/7", "/v1/things/7"),
        ("/things", "/v1/things"),
        ("%2e%2e/admin", "/v1/%252e%252e/admin"),
        ("a?admin=1#x", "/v1/a%3Fadmin=1%23x"),
        ("http:", "/v1/http:"),
        ("@evil.invalid", "/v1/@evil.invalid"),
        ("é", "/v1/%C3%A9"),
    ] {
        said(&tools, "api_get", json!({ "path": path })).await;
        assert_eq!(server.take()[0].split(' ').nth(1).unwrap(), asked);
    }
    for path in ["", "/", "..", "a/../..", "a//b", "http://evil.invalid", "a\\b", "a\r\nx: y"] {
        told(&tools, "api_get", json!({ "path": path })).await;
    }
    let fields = json!({"path": "a", "query": {"q&r": "1=2#3", "é": " "}});
    said(&tools, "api_get", fields).await;
    assert!(server.take()[0].starts_with("GET /v1/a?q%26r=1%3D2%233&%C3%A9=+ HTTP/1.1\r\n"));
    told(&tools, "api_put", json!({"path": "a", "body": "{oops"})).await;
    assert!(server.take().is_empty());
}

#[tokio::test]
async fn an_answer_has_an_end_in_size_and_in_time() {
    let server = Server::start(|head| match head.split(' ').nth(1).unwrap() {
        "/v1/most" => answer(200, "", vec![b'x'; api_client::MOST_BYTES]),
        "/v1/long" => answer(200, "", vec![b'x'; api_client::MOST_BYTES + 1]),
        "/v1/binary" => answer(200, "", [0xff]),
        "/v1/cut" => b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_vec(),
        "/v1/noise" => b"\x16\x03\x01\x02\x00".to_vec(),
        _ => {
            std::thread::sleep(LONGEST);
            Vec::new()
        }
    });
    let tools = api(&server, LONGEST);
    said(&tools, "api_get", json!({"path": "most"})).await;
    let text = told(&tools, "api_get", json!({"path": "long"})).await;
    assert_eq!(text, "The response has more than 262144 bytes; request less data.");
    told(&tools, "api_get", json!({"path": "binary"})).await;
    for path in ["cut", "noise"] {
        let error = call(&tools, "api_get", json!({ "path": path })).await.unwrap_err();
        assert_eq!((error.stage(), error.audience()), (Stage::Transport, Audience::User));
        assert!(!format!("{error:#}").contains("127.0.0.1"), "{error:#}");
    }
    let text = told(&api(&server, SOON), "api_get", json!({"path": "never"})).await;
    assert_eq!(text, "The server took too long; request less data, or try again later.");
}

#[tokio::test]
async fn a_database_is_read_and_nothing_else_unless_it_is_asked_for() {
    let folder = TempDir::new().unwrap();
    let tools = cities(&folder).tools().unwrap();
    assert_eq!(tools.iter().map(Tool::name).collect::<Vec<_>>(), ["db_query"]);
    let file = folder.path().join("cities.db");
    let before = fs::read(&file).unwrap();
    let beside = folder.path().join("beside.db").display().to_string();
    // With the writing tools listed, a query still only reads.
    for tools in [tools, cities_again(&folder).with_writes().tools().unwrap()] {
        for sql in [
            format!("ATTACH '{beside}' AS b"),
            format!("VACUUM INTO '{beside}'"),
            format!("SELECT writefile('{beside}', 'x')"),
            "SELECT readfile('/etc/passwd')".to_owned(),
            "SELECT load_extension('/tmp/x.so')".to_owned(),
            "SELECT fts3_tokenizer('simple')".to_owned(),
            "SELECT 1; DELETE FROM cities".to_owned(),
            "SELECT 1; SELECT 2".to_owned(),
            "DELETE FROM cities".to_owned(),
            "DELETE FROM cities RETURNING name".to_owned(),
            "INSERT INTO cities (name) VALUES ('x')".to_owned(),
            "WITH x AS (SELECT 1) UPDATE cities SET size = 1".to_owned(),
            "DROP TABLE cities".to_owned(),
            "CREATE TEMP TABLE x (y)".to_owned(),
            "CREATE VIRTUAL TABLE x USING fts5(y)".to_owned(),
            "PRAGMA query_only = 0".to_owned(),
            "PRAGMA journal_mode = WAL".to_owned(),
            "SELECT * FROM pragma_database_list".to_owned(),
            "BEGIN EXCLUSIVE".to_owned(),
            "REINDEX".to_owned(),
            "ANALYZE".to_owned(),
            "VACUUM".to_owned(),
            "DETACH main".to_owned(),
            "SAVEPOINT x".to_owned(),
            "".to_owned(),
            ";;;".to_owned(),
            "-- nothing".to_owned(),
            "SELECT \0".to_owned(),
            "SELECT ?".to_owned(),
            "SELECT * FROM nowhere".to_owned(),
            "SELECT 1;".repeat(1700),
            ";".repeat(16_000),
            "(".repeat(16_000),
            format!("SELECT {}1", "-".repeat(5000).replace("--", "- ")),
            format!("SELECT {}", "1 UNION SELECT ".repeat(900)),
        ] {
            told(&tools, "db_query", json!({ "sql": sql })).await;
        }
    }
    assert_eq!(fs::read(&file).unwrap(), before);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

fn cities_again(folder: &TempDir) -> Database {
    Database::new(&folder.path().join("cities.db"), LONGEST).unwrap()
}

#[tokio::test]
async fn a_query_has_an_end_in_rows_bytes_and_time() {
    let folder = TempDir::new().unwrap();
    let tools = cities(&folder).tools().unwrap();
    let counted = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)";
    let rows = said(&tools, "db_query", json!({"sql": format!("{counted} SELECT x FROM n")})).await;
    let rows: Value = serde_json::from_str(&rows).unwrap();
    assert_eq!((rows["rows"].as_array().unwrap().len(), &rows["more"]), (200, &json!(true)));
    let letters = "x".repeat(10_000);
    let wide = json!({"sql": format!("{counted} SELECT ? FROM n"), "values": [letters]});
    let rows = said(&tools, "db_query", wide).await;
    assert!(rows.len() < database::MOST_BYTES + 1000);
    let bound = json!({"sql": "SELECT ? || ?", "values": [letters.repeat(4), letters.repeat(4)]});
    let text = told(&tools, "db_query", bound).await;
    assert_eq!(text, "a row has more than 65536 bytes; use substr()");
    let letters = letters.repeat(100);
    for arguments in [
        json!({"sql": "SELECT ? || ?", "values": [letters, letters]}),
        json!({"sql": "SELECT zeroblob(2000000000)"}),
        json!({"sql": "SELECT printf('%2000000000d', 1)"}),
        json!({"sql": "SELECT trim(?, ?)", "values": [letters, letters]}),
        json!({"sql": "SELECT instr(?, ?)", "values": [letters, letters]}),
        json!({"sql": "SELECT ? LIKE ?", "values": [letters, "%a".repeat(1000)]}),
    ] {
        told(&tools, "db_query", arguments).await;
    }

    let file = folder.path().join("cities.db");
    let tools = Database::new(&file, SOON).unwrap().tools().unwrap();
    for sql in [
        format!("{counted} SELECT count(*) FROM n"),
        format!("{counted} SELECT x FROM n ORDER BY -x"),
        format!("{counted} SELECT group_concat(x) FROM n"),
    ] {
        let text = told(&tools, "db_query", json!({ "sql": sql })).await;
        assert!(text.ends_with("request less data."), "{sql}: {text}");
    }
}

/// What does not fit the memory that queries may take is an error, and no file on a disk.
#[tokio::test]
async fn a_query_that_sorts_without_end_is_ended_and_writes_nothing() {
    let folder = TempDir::new().unwrap();
    let tools = cities(&folder).tools().unwrap();
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    let text = "x".repeat(1000);
    let before = written();
    for rest in [
        format!("SELECT '{text}' || i FROM n ORDER BY 1 LIMIT 10 OFFSET 100000000"),
        format!("SELECT DISTINCT '{text}' || i AS t FROM n GROUP BY t LIMIT 10 OFFSET 100000000"),
        format!("SELECT count(*) FROM (SELECT DISTINCT '{text}' || i FROM n)"),
    ] {
        let sql = format!("{numbers} {rest}");
        let error = call(&tools, "db_query", json!({"sql": sql})).await.unwrap_err();
        assert!(error.for_model().contains("need more than 64 MiB"), "{}", error.for_model());
    }
    assert!(written() - before < 20 << 20, "{before} {}", written());
    // The next one has what it needs.
    said(&tools, "db_query", json!({"sql": "SELECT name FROM cities ORDER BY size"})).await;
}

/// How many bytes this process has written to files so far.
fn written() -> u64 {
    let Ok(counts) = std::fs::read_to_string("/proc/self/io") else { return 0 };
    let line = counts.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn names_are_those_of_the_schema_and_values_are_only_values() {
    let folder = TempDir::new().unwrap();
    let tools = cities(&folder).with_writes().tools().unwrap();
    let attack = "x'); DROP TABLE cities; --";
    let row = json!({"name": attack, "weather": null, "size": 2.5});
    said(&tools, "db_insert", json!({"table": "cities", "values": row})).await;
    let again = told(&tools, "db_insert", json!({"table": "cities", "values": row})).await;
    assert_eq!(again, "The database says: UNIQUE constraint failed: cities.name");
    // A null is found as one.
    let rows = json!({"weather": null, "name": attack});
    let update = json!({"table": "cities", "values": {"weather": "sun"}, "rows": rows});
    assert_eq!(said(&tools, "db_update", update.clone()).await, r#"{"rows":1}"#);
    assert_eq!(said(&tools, "db_update", update).await, r#"{"rows":0}"#);
    let odd = json!({"table": "odd\"; DROP TABLE cities; --", "values": {"a b": "c"}});
    assert_eq!(said(&tools, "db_insert", odd).await, r#"{"rows":1}"#);

    for table in
        ["sqlite_schema", "sqlite_master", "Cities", "main.cities", "", "\"cities\"", attack]
    {
        let text = told(&tools, "db_delete", json!({"table": table, "rows": {"name": "x"}})).await;
        assert!(text.starts_with("`table` must be one of these: cities, "), "{text}");
    }
    for row in [json!({}), json!({"rowid": 1}), json!({"name\" = name --": 1}), json!({"1": 1})] {
        for name in ["db_insert", "db_update", "db_delete"] {
            let arguments = match name {
                "db_insert" => json!({"table": "cities", "values": row}),
                "db_update" => json!({"table": "cities", "values": row, "rows": {"name": "Oslo"}}),
                _ => json!({"table": "cities", "rows": row}),
            };
            let text = told(&tools, name, arguments).await;
            assert!(
                text.ends_with("must name some of these columns: name, weather, size"),
                "{text}"
            );
        }
    }
    let all = said(&tools, "db_query", json!({"sql": "SELECT * FROM cities ORDER BY name"})).await;
    assert_eq!(
        serde_json::from_str::<Value>(&all).unwrap()["rows"],
        json!([["Oslo", "rain", 7], ["Rome", null, 28], [attack, "sun", 2.5]])
    );
    let deleted = said(&tools, "db_delete", json!({"table": "cities", "rows": {"name": attack}}));
    assert_eq!(deleted.await, r#"{"rows":1}"#);
}
