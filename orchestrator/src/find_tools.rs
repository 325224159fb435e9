//! The tool `find_tools`, with which a model finds the tools that it is not shown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::Deserialize;
use toolwright_module::{Context, Effect, Error, Result, Tool, ToolOutput};
use toolwright_signature::{Contract, ContractError};

use crate::tool_index::ToolIndex;

/// Name of the tool.
pub(crate) const FIND_TOOLS: &str = "find_tools";

/// Number of tools that one call finds at most.
const MOST: usize = 8;

/// Length of the list of what there is, in bytes.
const HINT_BYTES: usize = 700;

/// Length of the description of a found tool, in bytes.
const DESCRIPTION_BYTES: usize = 200;

#[derive(Deserialize, JsonSchema)]
struct FindTools {
    /// What the tool has to do, in a few words, such as "list the open issues of a repository".
    query: String,
}

/// The names of the tools that a round may use, if a filter chooses them.
pub(crate) struct Findable(pub(crate) Arc<BTreeSet<String>>);

/// Returns the tool with which a model finds those of `tools` that are
/// [deferred](Tool::deferred).
///
/// An [`Agent`](crate::Agent) adds it by itself. A loop of your own adds it to the tools of its
/// [`Run`](crate::Run). To search in another way, for example by embeddings, give the agent a tool of
/// the name `find_tools` whose output has the names ([`ToolOutput::with_found`]):
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::{Value, json};
/// # use toolwright_module::{Context, Effect, Error, Tool, ToolOutput};
/// # use toolwright_orchestrator::{ToolIndex, find_tools};
/// # use toolwright_signature::Contract;
/// # async fn embed(text: &str) -> Vec<f32> { vec![1.0, text.len() as f32] }
/// async fn with_search(mut tools: Vec<Tool>) -> Result<Vec<Tool>, Box<dyn std::error::Error>> {
///     let (contract, mut vectors) = ((**find_tools(&tools)?.contract()).clone(), Vec::new());
///     for tool in &tools {
///         vectors.push(embed(tool.contract().description()).await);
///     }
///     let contracts = tools.iter().map(|tool| &**tool.contract());
///     let index = Arc::new(ToolIndex::new(contracts).with_vectors(vectors)?);
///     tools.push(Tool::dynamic(contract, Effect::Read, move |arguments, _| {
///         let index = Arc::clone(&index);
///         async move {
///             let arguments: Value = serde_json::from_str(&arguments).map_err(Error::retry)?;
///             let query = arguments["query"].as_str().unwrap_or_default();
///             let found = index.find_near(query, &embed(query).await, 8);
///             let names: Vec<String> = found.iter().map(|it| it.name.to_owned()).collect();
///             Ok(ToolOutput::text_only(names.join("\n")).with_found(names))
///         }
///     }));
///     Ok(tools)
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// #     let contract = Contract::dynamic("send", "Send a letter.", json!({"type": "object"}), None);
/// #     let never = |_, _| async { Ok(ToolOutput::text_only("")) };
/// #     let tool = Tool::dynamic(contract.unwrap(), Effect::Read, never).deferred();
/// #     let search = with_search(vec![tool]).await.unwrap().pop().unwrap();
/// #     let found = search.call(r#"{"query": "post"}"#, &Context::default()).await.unwrap();
/// #     assert_eq!((search.name(), &*found.found), ("find_tools", &["send".to_owned()][..]));
/// # }
/// ```
///
/// # Errors
///
/// The errors of [`Contract::of_input`].
pub fn find_tools<'a>(tools: impl IntoIterator<Item = &'a Tool>) -> Result<Tool, ContractError> {
    let deferred = tools.into_iter().filter(|tool| tool.is_deferred());
    let contracts: Arc<[Arc<Contract>]> =
        deferred.map(|tool| Arc::clone(tool.contract())).collect();
    let contract = Contract::of_input::<FindTools>(FIND_TOOLS, &description(&contracts))?;
    let index = Arc::new(OnceLock::new());
    Ok(Tool::dynamic(contract, Effect::Read, move |arguments, cx: Context| {
        let found = find(&contracts, &index, &arguments, &cx);
        async move { found }
    }))
}

/// Returns whether a tool is [`find_tools`] or a search of the program. A tool of a server with this name
/// finds none of the agent's tools.
pub(crate) fn is_search(tool: &Tool) -> bool {
    tool.name() == FIND_TOOLS && !tool.is_deferred() && !tool.is_untrusted()
}

fn find(
    contracts: &[Arc<Contract>],
    index: &OnceLock<ToolIndex>,
    arguments: &str,
    cx: &Context,
) -> Result<ToolOutput> {
    let FindTools { query } = serde_json::from_str(arguments).map_err(Error::retry)?;
    let index = index.get_or_init(|| ToolIndex::new(contracts.iter().map(|contract| &**contract)));
    let findable = cx.get::<Findable>();
    let found = index.find(&query, if findable.is_some() { contracts.len() } else { MOST });
    let found = found.into_iter().filter_map(|found| contracts.get(found.place));
    let may_use = |contract: &&Arc<Contract>| {
        findable.is_none_or(|Findable(names)| names.contains(contract.name()))
    };
    let found: Vec<&Arc<Contract>> = found.filter(may_use).take(MOST).collect();
    if found.is_empty() {
        let text =
            "No tool fits these words. Try other words for the same thing, or go on without.";
        return Ok(ToolOutput::text_only(text));
    }
    let mut text = "You can call these tools now:".to_owned();
    for contract in &found {
        let line = contract.description().lines().next().unwrap_or_default();
        let line = &line[..line.floor_char_boundary(DESCRIPTION_BYTES)];
        // A `String` takes every text.
        let _ = write!(text, "\n- {}: {line}", contract.name());
    }
    let names = found.iter().map(|contract| contract.name().to_owned());
    Ok(ToolOutput::text_only(text).with_found(names))
}

/// Returns the description of the tool: how many tools there are, and what for.
fn description(contracts: &[Arc<Contract>]) -> String {
    let names = contracts.iter().map(|contract| contract.name());
    let mut hint = names.clone().collect::<Vec<_>>().join(", ");
    if hint.len() > HINT_BYTES {
        // The names of a toolset have its name before them.
        let mut sets: BTreeMap<&str, usize> = BTreeMap::new();
        for name in names {
            *sets.entry(name.split('_').next().unwrap_or_default()).or_default() += 1;
        }
        let mut sets: Vec<(&str, usize)> = sets.into_iter().collect();
        sets.sort_by_key(|&(set, count)| (std::cmp::Reverse(count), set));
        hint = String::new();
        for (set, count) in sets {
            let end = if hint.is_empty() { "" } else { ", " };
            if hint.len() + set.len() + 12 > HINT_BYTES {
                hint.push_str(", and others");
                break;
            }
            let _ = write!(hint, "{end}{set} ({count})");
        }
    }
    format!(
        "Find more tools. There are {} that you do not see yet: {hint}. Say what a tool has to do; \
         then call the tools that are found.",
        contracts.len()
    )
}
