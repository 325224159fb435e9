//! Lowers schemas of any origin to the form that one provider accepts, one JSON line each.
//!
//! Input: `{"id", "name", "description", "schema"}`. Output: `{"id", "tool", "losses"}` with the
//! tool in the provider's form, or `{"id", "error"}`.
//!
//! With `--round-trip`, the input is `{"id", "schema", "value"}`. The output is `{"id", "value"}`
//! with the value after lowering it to the provider's form and reading it back.
//!
//! `cargo run -p toolwright-examples --example lower -- --dialect anthropic < schemas.jsonl`

use std::error::Error;
use std::io::{self, BufRead, BufWriter, ErrorKind, Write};

use clap::Parser;
use serde_json::{Value, json};
use toolwright_signature::{Contract, Dialect};

/// Lowers schemas on stdin, one JSON line each, to the form that one provider accepts.
#[derive(Parser)]
struct Args {
    /// json-schema, openai-strict, openai-loose, anthropic, gemini or mcp
    #[arg(long)]
    dialect: Dialect,

    /// Lower a value to the provider's form and read it back
    #[arg(long)]
    round_trip: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    match answer_all(&args, io::stdin().lock(), BufWriter::new(io::stdout().lock())) {
        // The reader has closed the output.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

fn answer_all(args: &Args, mut lines: impl BufRead, mut out: impl Write) -> io::Result<()> {
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        if !line.trim_ascii().is_empty() {
            serde_json::to_writer(&mut out, &answer(args, &line))?;
            out.write_all(b"\n")?;
            // The caller may wait for this answer before it sends the next line.
            out.flush()?;
        }
        line.clear();
    }
    Ok(())
}

fn answer(args: &Args, line: &[u8]) -> Value {
    let mut line: Value = match serde_json::from_slice(line) {
        Ok(line) => line,
        Err(error) => return json!({"id": null, "error": format!("not a line of JSON: {error}")}),
    };
    let id = line.get_mut("id").map(Value::take).unwrap_or_default();
    let answered = if args.round_trip {
        there_and_back(args.dialect, &mut line).map(|value| json!({"id": id, "value": value}))
    } else {
        lowered(args.dialect, &mut line)
            .map(|(tool, losses)| json!({"id": id, "tool": tool, "losses": losses}))
    };
    answered.unwrap_or_else(|error| json!({"id": id, "error": error.to_string()}))
}

fn lowered(dialect: Dialect, line: &mut Value) -> Result<(Value, Vec<Value>), Box<dyn Error>> {
    let contract = contract(line)?;
    let tool = contract.tool(dialect)?;
    let losses = contract
        .lower(dialect)?
        .losses
        .iter()
        .map(|loss| json!({"path": loss.path, "keyword": loss.keyword, "why": loss.why}));
    Ok((tool, losses.collect()))
}

fn there_and_back(dialect: Dialect, line: &mut Value) -> Result<Value, Box<dyn Error>> {
    let contract = contract(line)?;
    let value = line.get("value").ok_or("the line has no `value`")?;
    let wire = contract.lower_value(dialect, value)?;
    Ok(contract.read(&wire.to_string())?)
}

fn contract(line: &mut Value) -> Result<Contract, Box<dyn Error>> {
    let schema = line.get_mut("schema").map(Value::take).ok_or("the line has no `schema`")?;
    let text = |field, otherwise: &'static str| match line.get(field) {
        None | Some(Value::Null) => Ok(otherwise.to_owned()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!("`{field}` is not a text")),
    };
    Ok(Contract::dynamic(&text("name", "tool")?, &text("description", "")?, schema, None)?)
}
