//! Texts from outside.

use std::io::{self, Read};
use std::path::Path;

use toolwright_module::__files::{self, Link};

/// Maximum length of a file that is read as text, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Returns bytes as text. A wrong letter is worse than an error, so nothing is replaced. The byte
/// order mark that some editors write is not a part of the text.
///
/// # Errors
///
/// The bytes are not UTF-8: [`io::ErrorKind::InvalidData`], with the place of the first wrong byte.
pub(crate) fn from_utf8(bytes: Vec<u8>, what: &str) -> io::Result<String> {
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let byte = error.as_bytes()[at];
        let text = format!(
            "{what} is not UTF-8 text: byte {} is 0x{byte:02x}; convert it, for example with \
             `iconv -f LATIN1 -t UTF-8`",
            at + 1
        );
        io::Error::new(io::ErrorKind::InvalidData, text)
    })?;
    // In UTF-16, each letter of English has one. Text in UTF-8 has none.
    if let Some(at) = text.find('\0') {
        let text = format!(
            "{what} is not text: byte {} is 0x00; if it is UTF-16, convert it, for example with \
             `iconv -f UTF-16 -t UTF-8`",
            at + 1
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(match text.strip_prefix('\u{feff}') {
        Some(text) => text.to_owned(),
        None => text,
    })
}

/// Reads a text of a limited length, which `what` names in an error.
///
/// # Errors
///
/// It cannot be read, is longer than `most_bytes`, or is not UTF-8.
pub(crate) fn read_text(from: impl Read, most_bytes: u64, what: &str) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.take(most_bytes + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most_bytes {
        true => Err(io::Error::other(format!("{what} has more than {most_bytes} bytes"))),
        false => from_utf8(bytes, what),
    }
}

/// Reads a file as text.
///
/// # Errors
///
/// The file cannot be read, is not a regular file, is too large, or is not UTF-8.
pub(crate) fn read_file(path: &Path) -> io::Result<String> {
    from_utf8(__files::read(path, Link::Follow, MAX_BYTES)?, "the file")
}

/// What errors of the libraries say to programmers, and after ` => ` what it means here. `--mcp-` is
/// replaced with the prefix of the options.
const MEANINGS: &str = "\
set a longer timeout with `McpClientBuilder::with_start_time` => set a longer timeout with --mcp-start-time
set it with `McpClientBuilder::with_token` => name the variable with it in --mcp-token-env
`McpClientBuilder::with_header` => --mcp-header
log in with `McpLogin` => run `toolwright mcp login` with its URL
which `McpLogin::with_scopes` requests => which `toolwright mcp login --scope` requests
set it with `McpLogin::with_client` => name it in --client
use `with_token` or `with_header` => use --mcp-token-env or --mcp-header
set a token with `with_token` => set a token with --mcp-token-env
use `with_env` => use --mcp-env
`with_env` and `with_folder` are => --mcp-env is
`McpClient::lock` => `toolwright mcp lock`
call `McpClient::tools` again => start the command again
rename one with `Tool::named` => leave one of them out
rename the tool with `Tool::named` => leave the tool out with --mcp-without
give the agent a tool of this name (`Tool::named`), or drive the run with the agent that began it => resume the run with the tools that it was started with
resume the run with `Agent::resume` => resume it with the tools that it was started with
give it the one with the hash of `RunState::tool_set_hash` => resume it with the tools that it was started with
rename it with `RunState::with_renamed`, or start a run with its history => resume it with the tools that it was started with
change it with `RunState::with_open_calls`, or start a run with its history => resume it with the tools that it was started with
resume it with `Agent::resume` => resume it with its program
start it with a task of `ReAct::task` => resume it with its program
change the tool or the instructions, or raise `max_same_failures` => change the task, --system or the tools
, let the agent shorten the conversation with `Agent::with_compaction`, or => or
raise the maximum with `Settings::with_max_output_tokens` => raise the maximum with --max-output-tokens
allow more with `Settings::with_max_output_tokens` => allow more with --max-output-tokens
raise `max_time` => raise --max-time
raise `max_iterations` => raise --max-model-calls
raise them in its `Budget` => raise --max-model-calls
allow more time with `with_timeout` => allow more time with --timeout
allow more time with `with_max_time` => allow more time with --timeout
leave it out, or call `Settings::supported_by` to leave out all that it does not support => leave its option out
defer others with `Tool::deferred`, or put this one first => defer the tools of servers with --mcp-deferred
defer some in an agent (`Tool::deferred`), choose some for each request (`Agent::with_filter`), or give them to agents that are tools of this one => for example with --mcp-without
give one with `with_key`, or use `from_env` => name its variable in --key-env
set the key as a header with `with_key` => name the variable with the key in --key-env
or use `Api::Responses` => or use --api responses
decide `CallAgain`, `Happened` or `Deny` => decide with --call-again, --happened or --deny
decide `call_again`, `happened` or `deny` => decide with --call-again, --happened or --deny
record the decision with `decide` of the journal or database that has the run, or with `StepResult::decisions` in a run of your own, or give the context an approver; then drive the run again => decide with `toolwright runs decide`, then resume the run
record the decision with `decide` of the journal or database that has the run, or give the context an approver (`Context::with_approver`); then drive the run again => decide with `toolwright runs decide`, then resume the run
give the agent a tool with this name and input (`Tool::named`), finish the run with the previous version of the program, or delete it => resume it with the tools that it was started with, or delete it
decide `Approve`, `Edit` or `Deny` => decide with --approve, --edit or --deny
see `RunSummary::waiting` => see `toolwright runs show`
check the id, `runs` lists all of them => check the id, `toolwright runs list` shows all of them
; add one with `Context::with` => ; the program that started the run has to give it one
its `LanguageModel::stream` must end with `Delta::Done` or an error => the program of the model has to be fixed
set it with `Ledger::with_prices`, and pass the ledger with `Context::with_ledger` => name a file with it in --prices, or set it in the program that started the run
make it with `new(model)`, or call it with `Context::with_model(model)` => the program that started the run has to give it one
, or use `at` without `with_key` for a server that needs none => , or name a server that needs none with --base-url
use https, or call `with_plain_http` before the key is set if nobody else can read that network => use https
send the bytes with `Source::Bytes` => give the file itself
leave `with_citations` out, or get the answer as the arguments of a call with `with_structured_output(false)` => the program that started the run has to leave one of them out
use `Api::Chat` => use --api chat
or `OpenAi::at` => or name a server with --base-url
set the token with `with_token` => set the variable GH_TOKEN
, or use `GitHub::new` to read public data => 
with `with_hosts` => with --host";

/// Returns the text of an error with the options of this program in place of a library's functions.
/// `prefix` is that of the options for servers: `--mcp-`, or `--` in the commands of `mcp`.
#[must_use]
pub fn in_our_words(text: &str, prefix: &str) -> String {
    if !text.contains('`') {
        return text.to_owned();
    }
    let meanings = MEANINGS.lines().filter_map(|line| line.split_once(" => "));
    meanings.fold(text.to_owned(), |text, (theirs, ours)| match text.contains(theirs) {
        true => text.replace(theirs, &ours.replace("--mcp-", prefix)),
        false => text,
    })
}

/// Returns the text of a run's error, with the options of the commands that start and resume runs.
pub(crate) fn in_words_of_run(text: &str) -> String {
    in_our_words(text, "--mcp-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf_16_is_not_taken_for_text() {
        let utf_16: Vec<u8> = "hi".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let error = from_utf8(utf_16, "line 1").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let error = error.to_string();
        assert!(
            error.starts_with("line 1 is not text: byte 2 is 0x00; if it is UTF-16"),
            "{error}"
        );
    }

    #[test]
    fn a_byte_order_mark_is_not_a_part_of_a_text() {
        assert_eq!(from_utf8("\u{feff}{}".into(), "it").unwrap(), "{}");
        assert_eq!(from_utf8("{}\u{feff}".into(), "it").unwrap(), "{}\u{feff}");
    }
}
