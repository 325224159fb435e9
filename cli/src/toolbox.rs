use std::path::PathBuf;

use clap::{Args, ValueEnum};
use toolwright_github::GitHub;
use toolwright_memory::Memory;
use toolwright_module::{Error, Result, Tool};
use toolwright_text::Text;

/// Arguments that select toolsets.
#[derive(Debug, Clone, Args)]
pub struct ToolArgs {
    /// Toolsets, separated by commas; `github` uses the token in GH_TOKEN or GITHUB_TOKEN, and
    /// reads only public data without one
    #[arg(
        long,
        value_enum,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "memory"
    )]
    tools: Vec<Toolset>,

    /// Keep the memory in this file. Default: it is lost when the program ends
    #[arg(long, value_name = "FILE")]
    memory: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Toolset {
    Memory,
    Text,
    Github,
}

impl ToolArgs {
    /// Returns the tools of the selected toolsets, each toolset once.
    ///
    /// # Errors
    ///
    /// If the memory's file cannot be opened, or the token is not valid.
    pub async fn tools(&self) -> Result<Vec<Tool>> {
        let mut tools = Vec::new();
        for (place, toolset) in self.tools.iter().enumerate() {
            if self.tools[..place].contains(toolset) {
                continue;
            }
            tools.extend(match toolset {
                Toolset::Memory => self.memory().await?.tools()?,
                Toolset::Text => Text::default().tools()?,
                Toolset::Github => github()?.tools()?,
            });
        }
        if self.memory.is_some() && !self.tools.contains(&Toolset::Memory) {
            return Err(Error::other("--memory names a file, but --tools does not name memory"));
        }
        Ok(tools)
    }

    /// Returns the instructions for a model that uses the tools.
    #[must_use]
    pub fn instructions(&self) -> Option<&'static str> {
        if !self.tools.contains(&Toolset::Memory) {
            return None;
        }
        Some(match self.memory {
            Some(_) => "A memory that is kept between sessions. Search it before you answer.",
            None => "A memory for one session. Search it before you answer.",
        })
    }

    async fn memory(&self) -> Result<Memory> {
        match &self.memory {
            Some(file) => Memory::open(file).await,
            None => Ok(Memory::default()),
        }
    }
}

fn github() -> Result<GitHub, toolwright_github::GitHubError> {
    match GitHub::from_env() {
        Err(toolwright_github::GitHubError::MissingToken) => GitHub::new(),
        other => other,
    }
}
