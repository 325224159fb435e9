//! Calls of a list of tools, and a database to call them on, for the tests of toolsets.

use std::time::Duration;

use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;
use toolwright_module::{Context, Error, Tool};

use crate::database::Database;

/// Long enough for any call here, and short enough to wait for.
pub(crate) const LONGEST: Duration = Duration::from_secs(20);

pub(crate) async fn call(tools: &[Tool], name: &str, arguments: Value) -> Result<String, Error> {
    let tool = tools.iter().find(|tool| tool.name() == name).unwrap();
    let (arguments, cx) = (arguments.to_string(), Context::default());
    let called = tool.call(&arguments, &cx);
    let output = tokio::time::timeout(LONGEST, called).await.expect("the call ends");
    Ok(output?.text)
}

pub(crate) async fn said(tools: &[Tool], name: &str, arguments: Value) -> String {
    call(tools, name, arguments).await.unwrap()
}

pub(crate) fn cities(folder: &TempDir) -> Database {
    let file = folder.path().join("cities.db");
    let db = Connection::open(&file).unwrap();
    db.execute_batch(
        "CREATE TABLE cities (name TEXT PRIMARY KEY, weather TEXT, size INTEGER);
         CREATE TABLE \"odd\"\"; DROP TABLE cities; --\" (\"a b\" TEXT);
         INSERT INTO cities VALUES ('Oslo', 'rain', 7), ('Rome', NULL, 28);",
    )
    .unwrap();
    Database::new(&file, LONGEST).unwrap()
}
