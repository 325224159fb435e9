//! `mcp login` and `mcp logout`: a login in a browser, which is used by later commands.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use crate::authorization::Authorization;
use crate::common::{Ran, program, run};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The two servers, and a home folder.
struct World {
    runtime: Runtime,
    at: Authorization,
    home: TempDir,
}

impl World {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let at = runtime.block_on(Authorization::start());
        Self { runtime, at, home: tempfile::tempdir().unwrap() }
    }

    fn mcp(&self, arguments: &[&str]) -> Command {
        let mut mcp = program("mcp");
        mcp.env("XDG_DATA_HOME", self.home.path()).args(arguments);
        mcp
    }

    /// Begins a login. Returns the process and the address for the browser.
    fn begin(&self, arguments: &[&str]) -> (Child, String) {
        let mut login =
            self.mcp(&[&["login", &*self.at.server, "--no-browser"], arguments].concat());
        login.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut login = login.spawn().unwrap();
        let mut lines = BufReader::new(login.stderr.as_mut().unwrap()).lines();
        let address = lines.by_ref().find_map(|line| {
            let line = line.unwrap();
            line.starts_with("http").then_some(line)
        });
        // The last line before it waits.
        assert!(lines.next().unwrap().unwrap().contains("paste the address"));
        (login, address.unwrap())
    }

    /// The address to which the authorization server sends the browser.
    fn answer(&self, address: &str) -> String {
        self.runtime.block_on(self.at.browser(address))
    }

    fn get(&self, address: &str) -> (u16, String) {
        self.runtime.block_on(async {
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            let response = client.get(address).send().await.unwrap();
            (response.status().as_u16(), response.text().await.unwrap())
        })
    }

    fn log_in(&self, arguments: &[&str]) {
        let (mut login, address) = self.begin(arguments);
        let (status, said) = self.get(&self.answer(&address));
        assert_eq!((status, said.contains("close this page")), (200, true), "{said}");
        assert!(login.wait().unwrap().success());
    }

    fn call(&self) -> Ran {
        run(&mut self.mcp(&["call", &self.at.server, "hello"]))
    }
}

/// Fails if the text of a process has a secret.
fn harmless(ran: &Ran) {
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(!said.contains("made-up"), "{said}");
}

#[test]
fn a_login_in_a_browser_is_used_by_later_commands_until_the_logout() {
    let world = World::new();
    let before = world.call();
    assert!(before.stderr.contains("run `toolwright mcp login` with its URL"), "{}", before.stderr);
    assert!(world.home.path().read_dir().unwrap().next().is_none());
    world.log_in(&[]);
    let called = world.call();
    assert!(called.stdout.contains("Hello!"), "{}", called.stderr);
    world.at.known().access.clear();
    let called = world.call();
    assert!(called.stdout.contains("Hello!"), "{}", called.stderr);
    harmless(&called);
    assert_eq!(world.at.known().refreshes, 1);

    world.at.known().access.clear();
    world.at.known().refresh.clear();
    let ended = world.call();
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("the login has expired or was revoked"), "{}", ended.stderr);
    assert!(ended.stderr.contains("run `toolwright mcp login`"), "{}", ended.stderr);
    harmless(&ended);
    world.log_in(&["--scope", "write"]);
    assert_eq!(world.call().code, Some(0));
    assert!(run(&mut world.mcp(&["logout", &world.at.server])).stderr.contains("logged out"));
    assert_eq!(world.call().code, Some(1));
    let again = run(&mut world.mcp(&["logout", &world.at.server]));
    assert!(again.stderr.contains("there was no login"), "{}", again.stderr);
}

#[test]
fn an_address_is_pasted_if_the_browser_is_on_another_machine() {
    let world = World::new();
    let (mut login, address) = world.begin(&[]);
    let answer = world.answer(&address);
    let mut stdin = login.stdin.take().unwrap();
    writeln!(stdin, "what?\n\n  {answer} ").unwrap();
    let mut said = String::new();
    login.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(login.wait().unwrap().success(), "{said}");
    assert!(said.contains("That is not the address") && said.contains("logged in: "), "{said}");
    assert!(!said.contains("made-up"), "{said}");
    assert_eq!(world.call().code, Some(0));
}

#[test]
fn requests_of_other_pages_end_no_login() {
    let world = World::new();
    let (mut login, address) = world.begin(&[]);
    let answer = world.answer(&address);
    let origin = answer.split("/callback").next().unwrap();
    for other in ["/", "/callback", "/callback?code=x&state=x", "/callback?error=no&state=x"] {
        assert_eq!(world.get(&format!("{origin}{other}")).0, 404, "{other}");
    }
    assert_eq!(world.get(&answer.replace("/callback", "/other")).0, 404);
    assert_eq!(world.get(&answer.replace("code=", "error=access_denied&no=")).0, 200);
    let mut said = String::new();
    login.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(login.wait().unwrap().code(), Some(1));
    assert!(said.contains("answered `access_denied`"), "{said}");
}

#[test]
fn many_processes_renew_a_login_once() {
    let world = World::new();
    world.log_in(&[]);
    world.at.known().access.clear();
    let call = || {
        let mut call = world.mcp(&["call", &world.at.server, "hello"]);
        call.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let calls: Vec<Child> = (0..8).map(|_| call()).collect();
    for call in calls {
        let ended = call.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    assert_eq!(world.at.known().refreshes, 1);
}

#[test]
fn a_server_without_logins_and_a_command_are_errors() {
    let home = tempfile::tempdir().unwrap();
    let login = |server: &str| {
        let mut login = program("mcp");
        login.env("XDG_DATA_HOME", home.path());
        run(login.args(["login", server, "--no-browser"]))
    };
    for (server, said) in [
        ("npx server", "a login is for a server with a URL"),
        ("http://192.0.2.1/mcp", "https://"),
        ("http://127.0.0.1:1/mcp", "the login at http://127.0.0.1:1/mcp failed"),
    ] {
        let ran = login(server);
        assert_eq!(ran.code, Some(1), "{server}");
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
}
