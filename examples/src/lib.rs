//! The code of the pages, which the documentation tests compile and run.

/// The code on the pages in `docs`, compiled and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../docs/agents.md")]
    mod agents {}
    #[doc = include_str!("../../docs/approval.md")]
    mod approval {}
    #[doc = include_str!("../../docs/context-and-limits.md")]
    mod context_and_limits {}
    #[doc = include_str!("../../docs/contracts-in-ci.md")]
    mod contracts_in_ci {}
    #[doc = include_str!("../../docs/conversations.md")]
    mod conversations {}
    #[doc = include_str!("../../docs/durable-runs.md")]
    mod durable_runs {}
    #[doc = include_str!("../../docs/hooks.md")]
    mod hooks {}
    #[doc = include_str!("../../docs/mcp.md")]
    mod mcp {}
    #[doc = include_str!("../../docs/mcp-client.md")]
    mod mcp_client {}
    #[doc = include_str!("../../docs/messages.md")]
    mod messages {}
    #[doc = include_str!("../../docs/migration.md")]
    mod migration {}
    #[doc = include_str!("../../docs/predictors.md")]
    mod predictors {}
    #[doc = include_str!("../../docs/providers.md")]
    mod providers {}
    #[doc = include_str!("../../docs/repairs.md")]
    mod repairs {}
    #[doc = include_str!("../../docs/signatures.md")]
    mod signatures {}
    #[doc = include_str!("../../docs/testing.md")]
    mod testing {}
    #[doc = include_str!("../../docs/tools.md")]
    mod tools {}
    #[doc = include_str!("../../docs/toolsets.md")]
    mod toolsets {}
    #[doc = include_str!("../../docs/watching.md")]
    mod watching {}
}
