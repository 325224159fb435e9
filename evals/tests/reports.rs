//! Reports as JUnit XML and as a page.

use std::fs;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_evals::{Attempt, Case, Eval, Grade, Report, graders};
use toolwright_module::budget::{Budget, Ledger, Price};
use toolwright_module::model::Usage;
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Context, Effect, Error, LanguageModel, Message, Reply, Request, Signature, Tool, ToolCall,
    from_fn,
};
use toolwright_orchestrator::Agent;

/// A text that leaves every place in which a page or XML may put it.
const HOSTILE: &str = "]]>\u{1b}[31m\u{0}\u{ffff}</failure></script><img src=x onerror=alert(1)>\
     \u{202e}<style>*{display:none}</style>&amp;\"'--><!--";

const STATES: [&str; 5] = ["on its way", "delivered", "cancelled", "not sent", "returned"];

/// Find an order by its number.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct GetOrder {
    id: usize,
}

impl Signature for GetOrder {
    type Output = Value;
}

fn get_order() -> Tool {
    let find = from_fn(async |GetOrder { id }| match id % 11 {
        5 => Err(Error::other(format!("there is no order {id}"))),
        _ => Ok(json!({
            "id": id, "state": STATES[id % 5], "items": ["hinge 40 mm", "wood glue"],
            "address": "1 Analytical Road", "note": "Leave it with the neighbours on the left.",
        })),
    });
    Tool::new(find.with_effect(Effect::Read)).unwrap()
}

/// Looks at the order of the task a few times, and says where it is. Sometimes it is wrong, but for other
/// orders with another number of looks.
fn model(looks: usize) -> impl LanguageModel {
    Scripted::new(move |request: &Request| {
        let text = serde_json::to_string(&request.messages).unwrap_or_default();
        let id: String = text.split("order ").nth(1).unwrap_or_default().chars().take(4).collect();
        let id: usize = id.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0);
        let looked =
            request.messages.iter().filter(|message| matches!(&***message, Message::Tool(_)));
        let looked = looked.count();
        if id % 17 == 9 && looked > 0 {
            return Err(Error::other("the server answered with 503: try again later"));
        }
        let state = if id % 7 == looks + 2 { STATES[(id + 1) % 5] } else { STATES[id % 5] };
        let reply = match looked {
            looked if looked < looks => {
                let arguments = json!({ "id": id }).to_string();
                Reply::calls([ToolCall::new(format!("c{looked}"), "get_order", arguments)])
            }
            _ => Reply::text(format!("Your order {id} is {state}.")),
        };
        let read = 300 + text.len() as u64 / 4;
        Ok(reply.with_usage(Usage::new(read, 25)))
    })
}

fn cases(count: usize) -> impl Iterator<Item = Case> {
    (1..=count).map(|id| {
        let mut case = Case::new(format!("order {id}"), format!("Where is order {id}, please?"))
            .expecting(STATES[id % 5]);
        case.metadata.insert("language".to_owned(), json!("en"));
        case
    })
}

fn orders(looks: usize) -> Eval {
    Eval::agent("Where is my order?", Agent::new(model(looks), [get_order()]).unwrap())
        .with_grader("right state", graders::contains_expected())
        .with_grader(
            "no failed calls",
            graders::of(|attempt: &Attempt| {
                let failed = attempt.calls.iter().filter(|call| call.failed).count();
                let score = 1.0 - failed as f64 / attempt.calls.len().max(1) as f64;
                Grade::scored(
                    score,
                    failed == 0,
                    if failed > 0 { format!("{failed} calls failed") } else { String::new() },
                )
            }),
        )
        .with_grader(
            "short",
            graders::of(|attempt: &Attempt| match &attempt.output {
                Some(text) => Grade::from(text.len() < 28),
                None => Grade::skip("there is no output"),
            }),
        )
}

fn cx() -> Context {
    let prices = [("scripted", Price::per_million(2.5, 10.0))];
    Context::default().with_ledger(Ledger::new(Budget::default()).with_prices(prices))
}

/// An eval in which every text is hostile.
async fn hostile(folder: Option<&Path>) -> Report {
    let model = Scripted::new(|request: &Request| {
        Ok(match request.messages.last().map(|last| &**last) {
            Some(Message::Tool(_)) => Reply::text(HOSTILE),
            _ => Reply::calls([ToolCall::new(HOSTILE, HOSTILE, HOSTILE)]),
        })
    });
    let mut case = Case::new(HOSTILE, HOSTILE).expecting(HOSTILE.repeat(2));
    case.metadata.insert(HOSTILE.to_owned(), json!({ HOSTILE: [HOSTILE] }));
    let eval = Eval::agent(HOSTILE, Agent::new(model, [get_order()]).unwrap())
        .with_cases([case])
        .with_grader(HOSTILE, graders::of(|_: &Attempt| Grade::fail(HOSTILE)))
        .with_grader("breaks", graders::of(|_: &Attempt| panic!("{HOSTILE}")));
    let eval = match folder {
        Some(folder) => eval.with_folder(folder),
        None => eval,
    };
    eval.run(&Context::default()).await.unwrap()
}

/// Makes the reports for the test in a browser. See `CONTRIBUTING.md`.
#[tokio::test]
#[ignore = "makes reports for the browser, in the folder REPORTS"]
async fn give_reports() {
    let folder = PathBuf::from(std::env::var_os("REPORTS").expect("REPORTS names a folder"));
    let small = |looks| orders(looks).with_cases(cases(24)).with_repeats(2);
    small(1).with_folder(folder.join("small")).run(&cx()).await.unwrap();
    // The second time, there is a report to compare with.
    let worse = orders(2).with_cases(cases(24).skip(1)).with_repeats(2);
    worse.with_folder(folder.join("small")).run(&cx()).await.unwrap();
    let report = hostile(Some(&folder.join("hostile"))).await;
    fs::write(folder.join("hostile.xml"), report.to_junit()).unwrap();
    fs::write(folder.join("hostile.json"), serde_json::to_string(&report).unwrap()).unwrap();
    let long = orders(5).with_cases(cases(250)).with_repeats(4).run(&cx()).await.unwrap();
    fs::create_dir_all(folder.join("long")).unwrap();
    fs::write(folder.join("long/report.html"), long.to_html(None)).unwrap();
    fs::write(folder.join("long.xml"), long.to_junit()).unwrap();
}

#[tokio::test]
async fn a_ci_server_gets_failures_with_their_reasons_and_errors() {
    // It is spent after the first attempts.
    let budget = Budget { model_calls: Some(9), ..Budget::default() };
    let cases = [3, 9, 2].map(|id| cases(9).nth(id - 1).unwrap());
    let report =
        orders(1).with_cases(cases).with_concurrency(1).with_budget(budget).with_repeats(2);
    let xml = report.run(&Context::default()).await.unwrap().to_junit();
    let times = regex::Regex::new(r#"time="[0-9.]+""#).unwrap();
    insta::assert_snapshot!(times.replace_all(&xml, "time=TIME").replace("><", ">\n<"));
}

#[tokio::test]
async fn hostile_texts_are_texts_in_xml_and_on_the_page() {
    let report = hostile(None).await;
    let xml = report.to_junit();
    let forbidden = |c: char| {
        (c.is_control() && c != '\n') || matches!(c, '\u{fffe}' | '\u{ffff}' | '\u{202e}')
    };
    assert!(!xml.contains(forbidden) && !xml.contains("]]>") && !xml.contains("<img"), "{xml}");
    assert!(xml.contains(r"]]&gt;\u001b[31m\u0000\uffff&lt;/failure&gt;"), "{xml}");
    assert_eq!(xml.matches("</failure>").count() + xml.matches("</error>").count(), 1);

    let page = report.to_html(None);
    assert_eq!((page.matches("<script>").count(), page.matches("</script>").count()), (1, 1));
    assert!(!page.contains("<img") && page.matches("<style>").count() == 1);
    assert!(!page.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
    assert!(!page.contains("://") && page.contains("default-src 'none'"), "no other host");

    let text = report.to_string();
    assert!(!text.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}'), "{text}");
}

#[tokio::test]
async fn keys_are_masked() {
    let folder = tempfile::tempdir().unwrap();
    let key = "sk-0123456789abcdefghij";
    let says = Scripted::new(move |_| Ok(Reply::text(format!("It is {key}."))));
    let report = Eval::agent("keys", Agent::new(says, []).unwrap())
        .with_cases([Case::new(format!("one {key}"), format!("Say {key}."))
            .with_metadata("account", json!({"x-api-key": "hunter22", "name": "Ada"}))])
        .with_grader(
            "says no key",
            graders::of(move |_: &Attempt| Grade::fail(format!("it says {key}"))),
        )
        .with_folder(folder.path());
    let report = report.run(&Context::default()).await.unwrap();
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let files = ["attempts.jsonl", "report.json", "report.html"].map(read);
    let texts = [report.to_html(None), report.to_junit(), report.to_string()];
    for text in texts.iter().chain(&files) {
        assert!(!text.contains(key) && text.contains("[secret]"), "{text}");
        assert!(!text.contains("hunter22"), "{text}");
    }
    // A program gets the texts as they are.
    assert_eq!(report.outcomes[0].output, format!("It is {key}."));
    let saved = Report::load(folder.path().join("report.json")).unwrap();
    assert_eq!(saved.outcomes[0].output, "It is [secret].");
}

#[tokio::test]
async fn a_folder_has_the_page_of_the_report_and_those_of_the_runs_that_fail() {
    let folder = tempfile::tempdir().unwrap();
    let page = || fs::read_to_string(folder.path().join("report.html")).unwrap();
    let pages = || {
        let files = fs::read_dir(folder.path().join("failed")).unwrap();
        let mut names: Vec<_> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let eval =
        |looks, from| orders(looks).with_cases(cases(5).skip(from)).with_folder(folder.path());
    let report = eval(1, 0).run(&cx()).await.unwrap();
    // The third answer is wrong, and the fifth call fails.
    assert_eq!(
        report.failed().map(|attempt| &*attempt.case).collect::<Vec<_>>(),
        ["order 3", "order 5"]
    );
    assert_eq!(pages(), ["3.html", "5.html"]);
    let found = page();
    assert!(found.contains(r#"href="failed/3.html""#) && found.contains(r#"href="failed/5.html""#));
    assert_eq!(found.matches("The page of the run").count(), 2);
    assert!(!found.contains("Compared with"));
    let run = fs::read_to_string(folder.path().join("failed/5.html")).unwrap();
    assert!(run.contains("there is no order 5") && run.contains("Where is order 5, please?"));

    // The next report is compared with this one, and has no pages of runs that are not its own.
    eval(2, 3).run(&cx()).await.unwrap();
    assert_eq!(pages(), ["1.html", "2.html"]);
    assert!(page().contains("Compared with the other report"));
}

#[tokio::test]
async fn a_module_has_no_page_of_its_run() {
    let folder = tempfile::tempdir().unwrap();
    let report = Eval::module("lookup", from_fn(async |GetOrder { id }| Ok(json!(id))))
        .with_cases([Case::new("one", GetOrder { id: 1 })])
        .with_grader("never", graders::of(|_: &Attempt<GetOrder, Value>| Grade::from(false)))
        .with_folder(folder.path())
        .run(&Context::default())
        .await
        .unwrap();
    assert_eq!(report.failed().count(), 1);
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("lookup") && !page.contains("The page of the run"));
}
