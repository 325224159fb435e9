//! An executor of DBOS with one workflow of two steps: `ask`, and `send`, which takes three seconds
//! or fails. A line for each step goes to the file `LOG`.
//!
//! Arguments: the id of the executor, the version of the program, and `start ID`, `fail ID` or
//! `wait SECONDS`. `run.sh` plays the cases of ADR 0023.

use std::fmt;
use std::io::Write;
use std::time::Duration;

use dbos::{Config, DBOS, Error, StartOptions, step};

#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Fails(String);

impl fmt::Display for Fails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fails {}

fn log(line: &str) {
    let path = std::env::var("LOG").unwrap();
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

#[tokio::main]
async fn main() {
    let [executor, version, mode, value] = [1, 2, 3, 4].map(|n| std::env::args().nth(n).unwrap());
    let me = format!("{executor}, process {}", std::process::id());
    let config = Config {
        app_version: Some(version),
        executor_id: Some(executor),
        ..Config::new("probe-app", std::env::var("DBOS_DATABASE_URL").unwrap())
    };
    let dbos = DBOS::new(config);
    let by = me.clone();
    let letter = move |fails: bool| {
        let by = by.clone();
        async move {
            let asks = || async {
                log(&format!("ask by {by}"));
                dbos::Result::<i32, Fails>::Ok(1)
            };
            step("ask", asks).await?;
            let sends = || async {
                log(&format!("send by {by}"));
                if fails {
                    return Err(Error::Application(Fails("503".to_owned())));
                }
                tokio::time::sleep(Duration::from_secs(3)).await;
                dbos::Result::<i32, Fails>::Ok(2)
            };
            step("send", sends).await
        }
    };
    let workflow = dbos.register_workflow("letter", letter).unwrap();
    dbos.launch().await.unwrap();
    if mode == "wait" {
        tokio::time::sleep(Duration::from_secs(value.parse().unwrap())).await;
    } else {
        let options = StartOptions { workflow_id: Some(&value), ..Default::default() };
        let handle = workflow.start_with(mode == "fail", options).await.unwrap();
        println!("{me}: {:?}", handle.result().await);
    }
    dbos.shutdown().await;
}
