//! Logins of `McpClient` with OAuth.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::authorization::{Authorization, Odd};
use crate::support::cause;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use toolwright_mcp::{LoginFolder, LoginStore, McpClient, McpError, McpLogin, PendingLogin};
use toolwright_module::{Context, Result, Tool, ToolOutput};

const REDIRECT: &str = "http://127.0.0.1:1/callback";

/// The two servers, and a store.
struct World {
    at: Authorization,
    folder: TempDir,
}

impl World {
    async fn new() -> Self {
        Self { at: Authorization::start().await, folder: tempfile::tempdir().unwrap() }
    }

    /// A store as another process would open it.
    fn logins(&self) -> LoginFolder {
        LoginFolder::open(self.folder.path()).unwrap()
    }

    async fn begin(&self) -> Result<PendingLogin, McpError> {
        McpLogin::new(&self.at.server).unwrap().begin(REDIRECT, self.logins()).await
    }

    async fn log_in(&self) {
        let login = self.begin().await.unwrap();
        let address = self.at.browser(login.url()).await;
        login.finish(&address).await.unwrap();
    }

    async fn connect(&self) -> Result<McpClient, McpError> {
        McpClient::http(&self.at.server)
            .unwrap()
            .with_logins(self.logins())
            .unwrap()
            .connect()
            .await
    }

    /// A tool of a server whose user has logged in.
    async fn tool(&self) -> Tool {
        self.log_in().await;
        self.connect().await.unwrap().tools().remove(0)
    }

    /// The server rejects all access tokens from now on.
    fn end_access(&self) {
        self.at.known().access.clear();
    }
}

async fn call(tool: &Tool) -> Result<ToolOutput> {
    tool.call("{}", &Context::default()).await
}

/// The text of a failure with its causes. No secret of the two servers is in it.
fn said(error: &(impl Display + Debug)) -> String {
    let text = format!("{error:#}\n{error:?}");
    assert!(!text.contains("made-up"), "{text}");
    text
}

#[tokio::test]
async fn a_login_is_made_once_and_its_token_is_sent() {
    let world = World::new().await;
    let error = world.connect().await.unwrap_err();
    assert!(
        matches!(&error, McpError::LoginRequired { reason, .. } if reason == "there is no login")
    );
    assert!(said(&error).contains("log in with `McpLogin`"));

    let login = world.begin().await.unwrap();
    assert!(!format!("{login:?}").contains("state"), "{login:?}");
    let asked = reqwest::Url::parse(login.url()).unwrap();
    let field =
        |name: &str| asked.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned();
    assert_eq!(field("resource"), world.at.server);
    assert_eq!(field("code_challenge_method"), "S256");
    assert_eq!(field("scope"), "read offline_access");
    let address = world.at.browser(login.url()).await;
    assert!(login.is_answer(&address));
    login.finish(&format!(" {address}\n")).await.unwrap();

    let client = world.connect().await.unwrap();
    assert!(call(&client.tools()[0]).await.unwrap().text.contains("Hello!"));
    let known = world.at.known();
    assert_eq!((known.registrations, known.refreshes), (1, 0));
}

#[cfg(unix)]
#[tokio::test]
async fn only_its_owner_can_read_a_stored_login() {
    use std::fs::{Permissions, metadata, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    let above = tempfile::tempdir().unwrap();
    let folder = above.path().join("a/b");
    let logins = LoginFolder::open(&folder).unwrap();
    let mode = |path: &std::path::Path| metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for text in ["first", "second"] {
        logins.save("https://a.example/mcp", text.into()).await.unwrap();
    }
    let files: Vec<_> = folder.read_dir().unwrap().map(|file| file.unwrap().path()).collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    assert_eq!((mode(file), std::fs::read_to_string(file).unwrap().as_str()), (0o600, "second"));

    set_permissions(file, Permissions::from_mode(0o640)).unwrap();
    let error = logins.load("https://a.example/mcp").await.unwrap_err();
    assert!(error.to_string().contains("run: chmod 600 "), "{error}");
    assert!(logins.save("https://a.example/mcp", "third".into()).await.is_err());
    set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    assert!(LoginFolder::open(&folder).is_err());
}

#[tokio::test]
async fn a_token_is_renewed_before_its_end_and_after_the_server_rejects_it() {
    let world = World::new().await;
    world.at.known().lifetimes = vec![0];
    let hello = world.tool().await;
    call(&hello).await.unwrap();
    assert_eq!(world.at.known().refreshes, 1);
    world.end_access();
    call(&hello).await.unwrap();
    assert_eq!(world.at.known().refreshes, 2);
    let asked = world.at.asked("/token");
    assert!(asked.iter().all(|asked| asked.fields["resource"] == world.at.server), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_calls_of_two_processes_renew_a_login_once() {
    let world = World::new().await;
    let hello = world.tool().await;
    let other = world.connect().await.unwrap().tools().remove(0);
    world.end_access();
    let calls = (0..50).map(|number| {
        let tool = if number % 2 == 0 { hello.clone() } else { other.clone() };
        tokio::spawn(async move { call(&tool).await.map(|output| output.text) })
    });
    for call in calls.collect::<Vec<_>>() {
        assert!(call.await.unwrap().unwrap().contains("Hello!"));
    }
    assert_eq!(world.at.known().refreshes, 1);
}

#[tokio::test]
async fn a_call_that_is_dropped_during_a_renewal_loses_no_token() {
    let world = World::new().await;
    let hello = world.tool().await;
    for time in [1, 5, 10, 20, 40] {
        world.end_access();
        let _ = tokio::time::timeout(Duration::from_millis(time), call(&hello)).await;
    }
    call(&hello).await.unwrap();
}

#[tokio::test]
async fn after_a_revoked_login_the_same_call_succeeds_once_the_user_has_logged_in_again() {
    let world = World::new().await;
    let hello = world.tool().await;
    world.end_access();
    world.at.known().refresh.clear();
    for reason in ["the login has expired or was revoked", "there is no login"] {
        let error = call(&hello).await.unwrap_err();
        let text = said(&error);
        assert!(text.contains(reason) && text.contains("log in with `McpLogin`"), "{text}");
        let not_run = cause(&error);
        assert!(matches!(not_run, McpError::NotRun { .. }), "{not_run}");
    }
    assert_eq!(world.at.known().refreshes, 1);
    world.log_in().await;
    call(&hello).await.unwrap();
}

#[tokio::test]
async fn a_login_stays_if_the_authorization_server_is_unavailable() {
    let world = World::new().await;
    let hello = world.tool().await;
    world.end_access();
    world.at.set_odd("/token", Odd::Text(503, "not now".to_owned()));
    let error = call(&hello).await.unwrap_err();
    let text = said(&error);
    assert!(text.contains("the login could not be renewed: "), "{text}");
    assert!(world.at.asked("/token").len() <= 5, "{}", world.at.asked("/token").len());
    world.at.known().odd.clear();
    tokio::time::sleep(Duration::from_secs(2)).await;
    call(&hello).await.unwrap();
}

#[tokio::test]
async fn a_server_that_rejects_the_renewed_token_is_asked_twice_for_each_call() {
    let world = World::new().await;
    let hello = world.tool().await;
    let before = world.at.asked("/mcp").len();
    world.at.set_odd("/mcp", Odd::Text(401, String::new()));
    let error = call(&hello).await.unwrap_err();
    assert!(said(&error).contains("the server rejected the login"), "{}", said(&error));
    assert!(world.at.asked("/mcp").len() - before <= 3);
}

#[tokio::test]
async fn a_client_secret_is_sent_with_a_renewal_too() {
    let world = World::new().await;
    world.at.known().has_secrets = true;
    let hello = world.tool().await;
    world.end_access();
    call(&hello).await.unwrap();
    assert_eq!(world.at.known().refreshes, 1);
}

#[tokio::test]
async fn a_missing_scope_is_named_and_a_second_login_requests_it_too() {
    let world = World::new().await;
    let hello = world.tool().await;
    world.at.known().needed = Some("write".to_owned());
    let error = call(&hello).await.unwrap_err();
    let text = said(&error);
    assert!(text.contains("lacks the scopes `write`"), "{text}");
    let login = McpLogin::new(&world.at.server).unwrap().with_scopes(["write"]);
    let login = login.begin(REDIRECT, world.logins()).await.unwrap();
    assert!(login.url().contains("scope=read+offline_access+write"), "{}", login.url());
    login.finish(&world.at.browser(login.url()).await).await.unwrap();
    call(&hello).await.unwrap();
    // The scopes stay with the next login.
    assert!(world.begin().await.unwrap().url().contains("write"));
}

#[tokio::test]
async fn an_address_ends_one_login_once() {
    let world = World::new().await;
    let login = world.begin().await.unwrap();
    let address = world.at.browser(login.url()).await;
    let other = world.begin().await.unwrap();
    assert!(!other.is_answer(&address));
    for wrong in [&*address, "", "nothing", REDIRECT, &format!("{REDIRECT}?code=x&state=x")] {
        let error = other.finish(wrong).await.unwrap_err();
        assert!(said(&error).contains("is not the answer to this login"), "{error}");
    }
    login.finish(&address).await.unwrap();
    let error = login.finish(&address).await.unwrap_err();
    assert!(said(&error).contains("the address was used before"), "{error}");
    // It ends the right one still.
    other.finish(&world.at.browser(other.url()).await).await.unwrap();
}

#[tokio::test]
async fn the_answer_of_another_issuer_and_a_refusal_end_nothing() {
    let world = World::new().await;
    let login = world.begin().await.unwrap();
    let address = world.at.browser(login.url()).await;
    let issuer: String =
        reqwest::Url::parse(&address).unwrap().query_pairs().last().unwrap().1.into();
    let encoded = address.rsplit("iss=").next().unwrap().to_owned();
    assert_eq!(issuer, world.at.issuer);
    for (wrong, reason) in [
        (address.replace(&encoded, "https%3A%2F%2Fevil.example"), "issuer mismatch"),
        (address.replace(&format!("&iss={encoded}"), ""), "missing required issuer"),
        (address.replace("code=", "error=access_denied&x="), "answered `access_denied`"),
    ] {
        let error = login.finish(&wrong).await.unwrap_err();
        assert!(said(&error).contains(reason), "{error}");
    }
    assert!(world.at.asked("/token").is_empty());
    login.finish(&address).await.unwrap();
}

#[tokio::test]
async fn metadata_of_another_server_or_issuer_begins_no_login() {
    for (changed, reason) in [
        (json!({"issuer": "https://evil.example"}), "issuer mismatch"),
        (json!({"issuer": null}), "missing required issuer"),
        (json!({"resource": "https://evil.example/mcp"}), "resource mismatch"),
        (json!({"code_challenge_methods_supported": ["plain"]}), "S256"),
        (json!({"authorization_servers": ["http://169.254.169.254"]}), "none published"),
        (json!({"authorization_servers": ["http://192.168.0.1", "file:///etc"]}), "none published"),
        (json!({"token_endpoint": "http://evil.example/token"}), "not https"),
        (json!({"token_endpoint": "https://10.0.0.1/token"}), "private network"),
        (json!({"authorization_endpoint": "file:///etc/passwd"}), "not https"),
        (json!({"authorization_endpoint": "javascript:alert(1)"}), "not https"),
        (json!({"registration_endpoint": "http://[::ffff:10.0.0.1]/"}), "private network"),
        (json!({"registration_endpoint": null}), "`McpLogin::with_client`"),
    ] {
        let world = World::new().await;
        world.at.known().changed = changed.clone();
        let error = world.begin().await.unwrap_err();
        assert!(said(&error).contains(reason), "{changed}: {error}");
        assert!(world.at.asked("/register").is_empty(), "{changed}");
    }
}

#[tokio::test]
async fn a_login_ends_if_its_server_names_another_issuer_later() {
    let world = World::new().await;
    let hello = world.tool().await;
    let other = Authorization::start().await;
    world.at.known().changed = json!({"authorization_servers": [other.issuer]});
    world.end_access();
    let error = call(&hello).await.unwrap_err();
    assert!(said(&error).contains("names another authorization server"), "{error}");
    assert!(other.asked("/token").is_empty());
    // The login is still there.
    world.at.known().changed = json!({});
    call(&hello).await.unwrap();
}

#[tokio::test]
async fn metadata_that_is_huge_or_garbage_or_elsewhere_is_an_error() {
    const AT: &str = "/.well-known/oauth-authorization-server";
    const OF: &str = "/.well-known/oauth-protected-resource/mcp";
    let other = Authorization::start().await;
    let elsewhere = |path: &str| Odd::Redirect(302, format!("{}{path}", other.issuer));
    for (path, odd, reason) in [
        (AT, Odd::Text(200, "[".repeat(3 << 20)), "exceeds 1048576 bytes"),
        (OF, Odd::Text(200, "x".repeat(3 << 20)), "exceeds 1048576 bytes"),
        (AT, Odd::Text(200, "<html>".to_owned()), "none published"),
        (OF, Odd::Text(200, "{}".to_owned()), "neither"),
        (AT, Odd::Text(500, "no".to_owned()), "HTTP status 500"),
        (AT, elsewhere(AT), "redirect"),
        (OF, elsewhere(OF), "redirect"),
        ("/register", Odd::Text(400, "y".repeat(9999)), "HTTP 400"),
        ("/register", Odd::Text(200, "{".to_owned()), "EOF"),
    ] {
        let world = World::new().await;
        world.at.set_odd(path, odd);
        let error = world.begin().await.unwrap_err();
        let text = said(&error);
        assert!(text.contains(reason) && text.len() < 3000, "{path}: {text}");
    }
    let world = World::new().await;
    world.at.set_odd("/mcp", Odd::Text(200, "{}".to_owned()));
    world.at.set_odd(OF, Odd::Text(404, String::new()));
    let error = world.begin().await.unwrap_err();
    assert!(said(&error).contains("does not say where to log in"), "{error}");
    assert!(other.known().asked.is_empty());
}

#[tokio::test]
async fn a_slow_authorization_server_is_not_waited_for_without_end() {
    let world = World::new().await;
    let path = "/.well-known/oauth-authorization-server";
    world.at.set_odd(path, Odd::Silent);
    let silent = Arc::clone(&world.at.silent);
    let login = McpLogin::new(&world.at.server).unwrap();
    let logins = world.logins();
    let beginning = tokio::spawn(async move { login.begin(REDIRECT, logins).await });
    silent.notified().await;
    tokio::time::pause();
    let error = beginning.await.unwrap().unwrap_err();
    assert!(matches!(error, McpError::Login { .. }), "{error}");
}

#[tokio::test]
async fn a_token_goes_to_its_server_only() {
    let world = World::new().await;
    let hello = world.tool().await;
    let other = Authorization::start().await;
    // The same store, another server.
    let logins = world.logins();
    let client = McpClient::http(&other.server).unwrap().with_logins(logins).unwrap();
    let error = client.connect().await.unwrap_err();
    assert!(matches!(error, McpError::LoginRequired { .. }), "{error}");
    // A redirect of the server, of the authorization server, and of a renewal.
    world.at.set_odd("/mcp", Odd::Redirect(307, other.server.clone()));
    call(&hello).await.unwrap_err();
    world.at.known().odd.clear();
    world.end_access();
    world.at.set_odd("/token", Odd::Redirect(307, format!("{}/token", other.issuer)));
    let error = call(&hello).await.unwrap_err();
    said(&error);
    let login = world.begin().await.unwrap();
    let address = world.at.browser(login.url()).await;
    said(&login.finish(&address).await.unwrap_err());
    let known = other.known();
    assert!(known.asked.iter().all(|asked| asked.path == "/mcp"), "{:?}", known.asked);
    assert!(known.asked.iter().all(|asked| !asked.headers.contains_key("authorization")));
}

#[tokio::test]
async fn a_stored_text_of_another_server_is_not_sent() {
    let world = World::new().await;
    world.log_in().await;
    let stolen = world.logins().load(&world.at.server).await.unwrap().unwrap();
    let other = World::new().await;
    for text in [stolen, "{}".into(), "\0".into()] {
        other.logins().save(&other.at.server, text).await.unwrap();
        let error = other.connect().await.unwrap_err();
        assert!(said(&error).contains("is not a login at this server"), "{error}");
    }
    let asked = other.at.asked("/mcp");
    assert!(asked.iter().all(|asked| !asked.headers.contains_key("authorization")), "{asked:?}");
}

#[tokio::test]
async fn a_logout_deletes_the_login() {
    let world = World::new().await;
    let hello = world.tool().await;
    let login = McpLogin::new(&world.at.server).unwrap();
    assert!(login.log_out(&world.logins()).await.unwrap());
    assert!(!login.log_out(&world.logins()).await.unwrap());
    let error = call(&hello).await.unwrap_err();
    assert!(said(&error).contains("there is no login"), "{error}");
}

#[test]
fn a_login_is_not_sent_without_tls_or_beside_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let logins = || LoginFolder::open(folder.path()).unwrap();
    let plain = McpClient::http("http://mcp.example.com/mcp").unwrap().with_logins(logins());
    assert!(plain.err().unwrap().to_string().contains("use https://"));
    assert!(McpLogin::new("http://10.0.0.1/mcp").is_err());
    assert!(McpLogin::new("https://user:word@mcp.example.com/").is_err());
    let both =
        McpClient::http("https://mcp.example.com/mcp").unwrap().with_token("made-up").unwrap();
    assert!(both.with_logins(logins()).is_err());
}

/// A writer that keeps all that it gets.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_log_of_a_login_and_a_renewal_has_a_secret() {
    let kept = Kept::default();
    let writer = kept.clone();
    let log =
        tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::TRACE);
    let log = log.with_writer(move || writer.clone()).finish();
    let _log = tracing::subscriber::set_default(log);
    let world = World::new().await;
    let hello = world.tool().await;
    world.end_access();
    call(&hello).await.unwrap();
    world.at.known().refresh.clear();
    world.end_access();
    call(&hello).await.unwrap_err();
    let log = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("a login was renewed"), "{log}");
    let line = log.lines().find(|line| line.contains("made-up"));
    assert!(line.is_none(), "{}", line.unwrap_or_default());
}

#[tokio::test]
async fn a_lock_is_held_by_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = [(); 2].map(|()| LoginFolder::open(folder.path()).unwrap());
    let lock = one.lock("https://a.example/").await.unwrap();
    let second = two.lock("https://a.example/");
    let _another = two.lock("https://b.example/").await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(100), second).await.is_err());
    drop(lock);
    two.lock("https://a.example/").await.unwrap();
}

/// Follows the redirects of an authorization server as a browser does, with its cookies.
async fn browse(url: &str) -> String {
    let browser = reqwest::Client::builder().no_proxy();
    let browser = browser.redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let (mut url, mut cookies) = (reqwest::Url::parse(url).unwrap(), BTreeMap::new());
    while !url.as_str().starts_with(REDIRECT) {
        let sent: Vec<String> =
            cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let response = browser.get(url.clone()).header("cookie", sent.join("; ")).send();
        let response = response.await.unwrap();
        for set in response.headers().get_all("set-cookie") {
            let (name, value) = set.to_str().unwrap().split_once('=').unwrap();
            cookies.insert(name.to_owned(), value.split(';').next().unwrap().to_owned());
        }
        let status = response.status();
        let Some(to) = response.headers().get("location").cloned() else {
            panic!("{url}: {status} {}", response.text().await.unwrap());
        };
        url = url.join(to.to_str().unwrap()).unwrap();
    }
    url.into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the identity provider of tests/logins.sh"]
async fn a_real_identity_provider_issues_renews_and_revokes_a_login() {
    let command = std::env::var("MCP_LOGINS").unwrap();
    let words: Vec<&str> = command.split(' ').collect();
    let mut process = tokio::process::Command::new(words[0])
        .args(&words[1..])
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let server = lines.next_line().await.unwrap().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let logins = || LoginFolder::open(folder.path()).unwrap();
    let log_in = async || {
        let login = McpLogin::new(&server).unwrap().with_scopes(["write"]);
        let login = login.begin(REDIRECT, logins()).await.unwrap();
        let address = browse(login.url()).await;
        login.finish(&address).await.unwrap();
        let again = login.finish(&address).await.unwrap_err();
        assert!(again.to_string().contains("was used before"), "{again}");
    };
    let control = async |path: &str| {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        client.post(server.replace("/mcp", path)).send().await.unwrap().error_for_status().unwrap();
    };
    log_in().await;
    let connect = || McpClient::http(&server).unwrap().with_logins(logins()).unwrap().connect();
    let hello = connect().await.unwrap().tools().remove(0);
    call(&hello).await.unwrap();
    // A refresh token that is used twice ends the whole grant there, so each renewal is one.
    for _ in 0..3 {
        control("/end-access").await;
        let calls = (0..50).map(|_| {
            let hello = hello.clone();
            tokio::spawn(async move { call(&hello).await.map(|output| output.text) })
        });
        for call in calls.collect::<Vec<_>>() {
            assert!(call.await.unwrap().unwrap().contains("Hello!"));
        }
    }
    control("/revoke").await;
    let error = call(&hello).await.unwrap_err();
    assert!(format!("{error:#}").contains("the login has expired or was revoked"), "{error:#}");
    log_in().await;
    call(&hello).await.unwrap();
}
