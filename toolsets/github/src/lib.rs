//! Seven tools that read from GitHub, and cannot do anything else.
//!
//! [`GitHub`] holds where to ask and with which token, and lists the tools. Each tool is
//! a signature and a module of its own, so each also works by itself, from code, without
//! a language model. They ask the REST API of github.com or of an Enterprise Server; no
//! program has to be there.
//!
//! | tool | signature, output | module |
//! |---|---|---|
//! | `github_list_issues` | [`GithubListIssues`], [`Issues`] | [`GithubListIssuesModule`] |
//! | `github_list_prs` | [`GithubListPrs`], [`PullRequests`] | [`GithubListPrsModule`] |
//! | `github_get_issue` | [`GithubGetIssue`], [`Issue`] | [`GithubGetIssueModule`] |
//! | `github_get_pr` | [`GithubGetPr`], [`PullRequest`] | [`GithubGetPrModule`] |
//! | `github_api_request` | [`GithubApiRequest`], [`ApiReply`] | [`GithubApiRequestModule`] |
//! | `github_traffic_views` | [`GithubTrafficViews`], [`Traffic`] | [`GithubTrafficViewsModule`] |
//! | `github_traffic_clones` | [`GithubTrafficClones`], [`Traffic`] | [`GithubTrafficClonesModule`] |
//!
//! The effect of all is [`Effect::Read`](toolwright_module::Effect::Read).
//!
//! ```
//! use toolwright_github::{GitHub, GithubGetIssue, GithubGetIssueModule};
//! use toolwright_module::{Context, Module};
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
//! // `GitHub::from_env()` takes the token from GH_TOKEN or GITHUB_TOKEN.
//! let github = GitHub::new()?.with_repo("octocat/hello-world")?;
//! # let github = github.with_base_url(&address)?;
//!
//! // As a model calls it: JSON in, text out.
//! let tools = github.tools()?;
//! let get_issue = tools.iter().find(|tool| tool.name() == "github_get_issue").unwrap();
//! let output = get_issue.call(r#"{"issue_number": 7}"#, &Context::default()).await?;
//! assert_eq!(
//!     output.text(),
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
//! // From code: types in, types out.
//! let input = GithubGetIssue { issue_number: 7, repo: None };
//! let issue = GithubGetIssueModule::new(&github).call(input, &Context::default()).await?;
//! assert_eq!(issue.labels, ["bug"]);
//! # Ok::<(), toolwright_module::Error>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Read-only by construction
//!
//! There is one way out, and it sends GET below one base URL. What a model writes becomes
//! segments of a path and pairs of a query, each checked and encoded; none of it becomes
//! a method, a host or a header. Redirects are followed on the same host below the same
//! path only, as for a repository that moved; the token goes nowhere else.
//!
//! The tools read what the token can read, in any repository: give one that may read what
//! the model should see. [`GitHub::with_repo`] is a default and no wall.
//!
//! # What others wrote
//!
//! Whoever can open an issue can write to your model. So what others wrote stands between
//! `<untrusted_data>` and `</untrusted_data>`, and each tool's description says that this
//! is data and never instructions. The text cannot end itself early: the marks' word is
//! written with a hyphen wherever it occurs in it, in any case, width, or with invisible
//! characters inside. Titles, labels, logins and branches are on one line, so that none
//! looks like a line of ours; what cannot be seen is shown as `\u{…}`; what is longer
//! than 64 KiB is cut, with a note behind the end mark. Otherwise the text is as it was.
//!
//! A mark is help, not protection: a model may still believe what it reads. Do not give
//! an agent that reads issues a tool whose misuse you could not bear.
//!
//! The typed output has such texts as [`Untrusted`]: [`as_str`](Untrusted::as_str) gives the
//! text as it is to code. Its JSON form, and with it MCP's structured content and whatever
//! is stored, has each text between marks of its own.
//!
//! # Failures
//!
//! Every failure is a [`toolwright_module::Error`] with a sentence for the model. For code
//! there is a [`CallError`], by
//! [`downcast_ref`](toolwright_module::Error::downcast_ref), except where an argument was
//! at fault. What came, without the token, is its [`raw`](toolwright_module::Error::raw):
//! the reply, behind what is wrong with it if it could not be read, or what the connection
//! failed with. Sentences may repeat a line of what GitHub says, outside the marks.
//!
//! | what happened | sentence | stage, who |
//! |---|---|---|
//! | an argument cannot be | `GitHubError listing issues: …` | arguments, model may retry |
//! | a method other than GET | `GitHubError: Only GET requests are allowed for read-only access` | arguments, final |
//! | 404, 422 | `Failed to list issues: …` | provider, model may retry |
//! | 401, 403, other 4xx, a page, a redirect elsewhere | `Failed to list issues: …` | provider, final |
//! | 5xx | `Failed to list issues: …` | provider, final, may succeed later |
//! | 429, or 403 for a rate limit | `…; ask again after …`, or `in … seconds` | limit, final, may succeed later |
//! | no answer, or half of one | `GitHubError listing issues: …` | transport, final, may succeed later |
//! | more than 16 MiB | `GitHubError listing issues: …` | limit, model may retry |
//! | not what GitHub answers | `Failed to parse issues: …` | decoding, final |
//!
//! A rate limit that asks for a pause of up to a minute is waited for, where the call's
//! deadline allows it; a lost connection and 5xx are asked again soon. Both at most
//! [`with_retries`](GitHub::with_retries) times.
//!
//! Reading is lenient: a word that nobody knew, null and what is missing are no failure,
//! but for a number or a count, which nothing can stand for.

mod client;
mod error;
mod failure;
mod github;
mod repo;
mod route;
mod tools;
mod traffic;
mod untrusted;
mod wire;

pub use error::GitHubError;
pub use failure::CallError;
pub use github::GitHub;
pub use tools::api_request::{ApiReply, GithubApiRequest, GithubApiRequestModule};
pub use tools::get_issue::{GithubGetIssue, GithubGetIssueModule, Issue};
pub use tools::get_pr::{GithubGetPr, GithubGetPrModule, Mergeable, PullRequest};
pub use tools::list_issues::{
    GithubListIssues, GithubListIssuesModule, IssueEntry, IssueState, Issues,
};
pub use tools::list_prs::{
    GithubListPrs, GithubListPrsModule, PrState, PullRequestEntry, PullRequests,
};
pub use tools::traffic_clones::{GithubTrafficClones, GithubTrafficClonesModule};
pub use tools::traffic_views::{GithubTrafficViews, GithubTrafficViewsModule};
pub use traffic::{Per, Traffic, TrafficPoint};
pub use untrusted::Untrusted;
