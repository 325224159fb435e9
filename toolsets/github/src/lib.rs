//! Toolset for GitHub: seven tools that read issues, pull requests, traffic and any other GET
//! of the REST API.
//!
//! [`GitHub`] has the settings, such as the token, and lists the tools. Each tool is a
//! method of it, so code can also call it without a language model. The tools use the
//! REST API of github.com or of an Enterprise Server. They do not need the `gh` program.
//!
//! | tool | method | signature |
//! |---|---|---|
//! | `github_list_issues` | [`GitHub::list_issues`] | [`GitHubListIssues`] |
//! | `github_list_prs` | [`GitHub::list_prs`] | [`GitHubListPrs`] |
//! | `github_get_issue` | [`GitHub::get_issue`] | [`GitHubGetIssue`] |
//! | `github_get_pr` | [`GitHub::get_pr`] | [`GitHubGetPr`] |
//! | `github_api_request` | [`GitHub::api_request`] | [`GitHubApiRequest`] |
//! | `github_traffic_views` | [`GitHub::traffic_views`] | [`GitHubTrafficViews`] |
//! | `github_traffic_clones` | [`GitHub::traffic_clones`] | [`GitHubTrafficClones`] |
//!
//! All tools have the effect [`Effect::Read`](toolwright_module::Effect::Read).
//!
//! ```
//! use toolwright_github::GitHub;
//! use toolwright_module::Context;
//!
//! # // A GitHub with one issue, for this page.
//! # use std::io::{Read, Write};
//! # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
//! # let address = format!("http://{}", listener.local_addr()?);
//! # std::thread::spawn(move || for socket in listener.incoming() {
//! #     let mut socket = socket.unwrap();
//! #     let mut head = [0; 4096];
//! #     let _ = socket.read(&mut head);
//! #     let body = r#"{"number": 7, "title": "It breaks", "state": "open", "labels": [{"name": "bug"}], "html_url": "https://github.com/octocat/hello-world/issues/7", "body": "Steps: …"}"#;
//! #     let length = body.len();
//! #     let _ = write!(socket, "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
//! # });
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! // `GitHub::from_env()` uses the token in GH_TOKEN or GITHUB_TOKEN.
//! let github = GitHub::new()?.with_repo("octocat/hello-world")?;
//! # let github = github.with_base_url(&address)?;
//!
//! // A call of a model: JSON in, text out.
//! let tools = github.tools()?;
//! let get_issue = tools.iter().find(|tool| tool.name() == "github_get_issue").unwrap();
//! let output = get_issue.call(r#"{"issue_number": 7}"#, &Context::default()).await?;
//! assert_eq!(
//!     output.text,
//!     "<untrusted_data>\n\
//!      Issue #7: It breaks\n\
//!      State: open\n\
//!      Labels: bug\n\
//!      URL: https://github.com/octocat/hello-world/issues/7\n\
//!      \n\
//!      Body:\n\
//!      Steps: …\n\
//!      </untrusted_data>"
//! );
//!
//! // A call from code: a method.
//! let issue = github.get_issue(7, None, &Context::default()).await?;
//! assert_eq!(issue.labels, ["bug"]);
//! # Ok::<(), toolwright_module::Error>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Read-only by construction
//!
//! The tools can only send GET requests to URLs below one base URL. The arguments of a model become
//! path segments and query parameters, which are checked and encoded. They cannot change the
//! method, the host or a header. A redirect, for example of a renamed repository, is followed only
//! to a URL below the base URL. The token is therefore never sent to another host.
//!
//! The tools can read everything that the token can read, in any repository. Use a token that
//! can read only what the model may see. [`GitHub::with_repo`] sets a default repository; it
//! does not restrict the tools.
//!
//! # Untrusted text
//!
//! Anyone who can open an issue can write to your model. Text that other people wrote is therefore
//! enclosed in `<untrusted_data>` and `</untrusted_data>`, and each tool's description says that
//! such text is data and never instructions. The text is changed only as follows:
//!
//! - If the text contains the name of the marks, the name is written with a hyphen, so that the
//!   text cannot end the data early. This also applies to other letter cases or widths, and to
//!   invisible characters inside the name.
//! - Titles, labels, logins and branch names are put on one line, so that they cannot imitate a
//!   line of the tool.
//! - Invisible characters are shown as `\u{…}`.
//! - Text of more than 64 KiB is cut, with a note after the end mark.
//!
//! Marks help, but they are not a protection: a model may still follow instructions in the data.
//! Do not give an agent that reads issues a tool that must not be misused.
//!
//! In the typed output these texts are [`Untrusted`]. [`as_str`](Untrusted::as_str) returns the
//! unchanged text for code. In JSON, such as in MCP's structured content and in stored runs, each
//! text has its own marks.
//!
//! # Failures
//!
//! Every failure is a [`toolwright_module::Error`] with a sentence for the model. Unless an
//! argument was wrong, it contains a [`CallError`] for code, which
//! [`downcast_ref`](toolwright_module::Error::downcast_ref) returns. The error's
//! [`raw`](toolwright_module::Error::raw) is the response or the connection error, without the
//! token. If the response cannot be read, the reason precedes the response. A sentence may quote
//! one line of GitHub's error message, without marks.
//!
//! | failure | sentence | stage, and whether the model may retry |
//! |---|---|---|
//! | a wrong argument | `Error listing issues: …` | arguments, model may retry |
//! | a method other than GET | `Error: Only GET requests are allowed for read-only access` | arguments, final |
//! | 404, 422 | `Failed to list issues: …` | provider, model may retry |
//! | 401, 403, other 4xx, a web page, a redirect to another address | `Failed to list issues: …` | provider, final |
//! | 408, 425, 5xx | `Failed to list issues: …` | provider, final, may succeed later |
//! | 429, or 403 for a rate limit | `…; try again after …`, or `in … seconds` | limit, final, may succeed later |
//! | no response, or an incomplete response | `Error listing issues: …` | transport, final, may succeed later |
//! | more than 16 MiB | `Error listing issues: …` | limit, model may retry |
//! | a response with unexpected JSON | `Failed to parse issues: …` | decoding, final |
//!
//! If a rate limit asks for a pause of up to a minute, and the call's deadline allows it, the
//! request is retried after the pause. The request is also retried after a lost connection and
//! after 408, 425 and 5xx. [`with_retries`](GitHub::with_retries) limits the number of retries.
//!
//! Responses are read leniently: unknown values, null and missing fields are not failures. Only the
//! number of an issue or pull request and the counts of traffic are required.

mod client;
mod endpoint;
mod error;
mod failure;
mod github;
mod item;
mod repo;
mod tools;
mod traffic;
mod untrusted;

pub use error::GitHubError;
pub use failure::CallError;
pub use github::GitHub;
pub use tools::api_request::ApiReply;
pub use tools::get_issue::Issue;
pub use tools::get_pr::{Mergeable, PullRequest};
pub use tools::list_issues::{IssueEntry, IssueState, Issues};
pub use tools::list_prs::{PrState, PullRequestEntry, PullRequests};
pub use tools::{
    GitHubApiRequest, GitHubGetIssue, GitHubGetPr, GitHubListIssues, GitHubListPrs,
    GitHubTrafficClones, GitHubTrafficViews,
};
pub use traffic::{Per, Traffic, TrafficPoint};
pub use untrusted::Untrusted;
