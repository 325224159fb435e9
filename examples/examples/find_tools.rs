//! Finds the tools that each query needs, with a `ToolIndex`, one JSON line each.
//!
//! Input: the tools, `{"name", "description", "schema"}` each, and then the queries, `{"id", "query"}`
//! each. Output: `{"id", "found"}` for each query. `found` has the places of the tools, the best
//! first; the first tool has place 0.
//!
//! Names may repeat, and a schema may be of any form. A line that is not a JSON object is reported
//! with its number: on stderr if it stands among the tools, where it keeps its place, and as
//! `{"id": null, "error"}` if it stands among the queries.
//!
//! `cargo run -p toolwright-examples --example find_tools -- --top 20 < tools_and_queries.jsonl`

use std::error::Error;
use std::io::{self, BufRead, BufWriter, ErrorKind, Write};

use clap::Parser;
use serde_json::{Map, Value, json};
use toolwright_orchestrator::{IndexedTool, ToolIndex};
use toolwright_signature::Contract;

/// Finds the tools that queries need: tools and then queries on stdin, one JSON line each.
#[derive(Parser)]
struct Args {
    /// Maximum number of tools to find for a query
    #[arg(long, default_value_t = 20)]
    top: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let out = BufWriter::new(io::stdout().lock());
    match answer_all(args.top, &lenient()?, io::stdin().lock(), out) {
        // The reader has closed the output.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

fn answer_all(
    top: usize,
    lenient: &Contract,
    mut lines: impl BufRead,
    mut out: impl Write,
) -> io::Result<()> {
    let (mut tools, mut index, mut has_queries) = (Vec::new(), None, false);
    let mut line = Vec::new();
    let mut number = 0_u64;
    while lines.read_until(b'\n', &mut line)? > 0 {
        number += 1;
        let text = String::from_utf8_lossy(&line);
        if text.trim().is_empty() {
            line.clear();
            continue;
        }
        let answer = match object(&text, lenient) {
            Ok(object) if is_query(&object) => {
                has_queries = true;
                let index = index.get_or_insert_with(|| index_of(&tools));
                let found = index.find(&text_at(&object, "query"), top);
                let found: Vec<usize> = found.iter().map(|found| found.place).collect();
                Some(json!({"id": object.get("id"), "found": found}))
            }
            Ok(object) => {
                tools.push(object);
                index = None;
                None
            }
            Err(error) if has_queries => {
                Some(json!({"id": null, "error": format!("line {number}: {error}")}))
            }
            Err(error) => {
                eprintln!("line {number}: {error}");
                // The tools behind it keep their places.
                tools.push(Map::new());
                None
            }
        };
        if let Some(answer) = answer {
            serde_json::to_writer(&mut out, &answer)?;
            out.write_all(b"\n")?;
            // The caller may wait for this answer before it sends the next line.
            out.flush()?;
        }
        line.clear();
    }
    Ok(())
}

/// Returns the contract that reads a line with typical mistakes: comments, single quotes.
fn lenient() -> Result<Contract, Box<dyn Error>> {
    Ok(Contract::dynamic("line", "A line of the input.", json!({"type": "object"}), None)?)
}

fn object(line: &str, lenient: &Contract) -> Result<Map<String, Value>, String> {
    // A byte order mark may stand before the first line.
    let line = line.trim_start_matches('\u{feff}');
    let value = match serde_json::from_str(line) {
        Ok(value) => value,
        // Python writes floats that JSON does not have.
        Err(error) => serde_json::from_str(
            &line.replace("-Infinity", "null").replace("Infinity", "null").replace("NaN", "null"),
        )
        .or_else(|_| lenient.read(line))
        .map_err(|_| format!("this is not JSON: {error}; write one JSON object on each line"))?,
    };
    match value {
        Value::Object(object) => Ok(object),
        _ => Err("this is not a JSON object; write a tool or a query".to_owned()),
    }
}

fn is_query(line: &Map<String, Value>) -> bool {
    let has = |key| line.contains_key(key);
    (has("query") || has("id")) && !has("name") && !has("description") && !has("schema")
}

fn index_of(tools: &[Map<String, Value>]) -> ToolIndex {
    let texts: Vec<[String; 2]> =
        tools.iter().map(|tool| [text_at(tool, "name"), text_at(tool, "description")]).collect();
    // The names of the field in other formats.
    let schema_keys = ["schema", "parameters", "inputSchema", "input_schema"];
    ToolIndex::new(tools.iter().zip(&texts).map(|(tool, [name, description])| {
        let schema = schema_keys.iter().find_map(|key| tool.get(*key)).unwrap_or(&Value::Null);
        IndexedTool::new(name, description, schema)
    }))
}

/// Returns a field as text: nothing if it is missing, and JSON if it is not a string.
fn text_at(object: &Map<String, Value>, key: &str) -> String {
    match object.get(key) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
