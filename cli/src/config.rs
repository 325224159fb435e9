//! The configuration file: defaults for options.

use std::error::Error;
use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;

use crate::folders;
use crate::keys::check_own;
use crate::texts::read_file;

/// Arguments that name the configuration file.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ConfigArgs {
    /// TOML file with defaults for the options, by their names: model, tools, mcp, max-time and so
    /// on. Default: toolwright/config.toml in $XDG_CONFIG_HOME or ~/.config
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    config: Option<PathBuf>,

    /// Do not read a configuration file
    #[arg(long, conflicts_with = "config", help_heading = "Configuration")]
    no_config: bool,
}

/// Defaults for options. An option of the command line wins.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) model: Option<String>,
    pub(crate) base_url: Option<String>,
    pub(crate) api: Option<String>,
    pub(crate) key_env: Option<String>,
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) timeout: Option<NonZeroU64>,
    pub(crate) temperature: Option<f32>,
    pub(crate) prices: Option<PathBuf>,
    #[serde(default)]
    pub(crate) no_stream: bool,
    #[serde(default)]
    pub(crate) tools: Vec<String>,
    #[serde(default)]
    pub(crate) mcp: Vec<String>,
    #[serde(default)]
    pub(crate) mcp_env: Vec<String>,
    #[serde(default)]
    pub(crate) mcp_token_env: Vec<String>,
    #[serde(default)]
    pub(crate) mcp_header: Vec<String>,
    #[serde(default)]
    pub(crate) mcp_without: Vec<String>,
    #[serde(default)]
    pub(crate) mcp_deferred: bool,
    #[serde(default)]
    pub(crate) mcp_instructions: bool,
    pub(crate) mcp_start_time: Option<NonZeroU64>,
    pub(crate) mcp_call_time: Option<NonZeroU64>,
    pub(crate) system: Option<String>,
    #[serde(default)]
    pub(crate) selector: bool,
    #[serde(default)]
    pub(crate) ask: bool,
    #[serde(default)]
    pub(crate) ask_after_untrusted: bool,
    pub(crate) max_model_calls: Option<NonZeroU64>,
    pub(crate) max_time: Option<NonZeroU64>,
    pub(crate) max_output_tokens: Option<NonZeroU64>,
    pub(crate) window: Option<NonZeroU64>,
    pub(crate) journal: Option<PathBuf>,
    #[serde(default)]
    pub(crate) no_journal: bool,
    pub(crate) history: Option<PathBuf>,
}

impl ConfigArgs {
    /// Reads no file.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self { config: None, no_config: true }
    }

    /// Reads the file. Without one, returns no defaults.
    pub(crate) fn load(&self) -> Result<Config, Box<dyn Error>> {
        let path = match &self.config {
            _ if self.no_config => None,
            Some(path) => Some(path.clone()),
            None => folders::settings("config.toml"),
        };
        let Some(path) = path else { return Ok(Config::default()) };
        let named = |error: &dyn std::fmt::Display| {
            format!("the configuration {}: {error}", path.display())
        };
        let text = match read_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound && self.config.is_none() => {
                return Ok(Config::default());
            }
            text => text.map_err(|error| named(&error))?,
        };
        // It starts commands (`mcp`), names folders, and says where keys are sent.
        check_own("the configuration", &path)?;
        Ok(toml::from_str(&text).map_err(|error| named(&without_values(&error, &text)))?)
    }
}

/// Returns the text of an error with the number of its line and the name of its option. Values of the
/// file are left out: some users write a key or a token into it.
fn without_values(error: &toml::de::Error, text: &str) -> String {
    let mut message = error.message().to_owned();
    if let (Some(first), Some(last)) = (message.find(" \""), message.rfind('"')) {
        message.replace_range(first..=last, "");
    }
    let start = error.span().map_or(0, |span| span.start);
    let before = text.get(..start).unwrap_or_default();
    let line = before.matches('\n').count();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let option = text.lines().nth(line).and_then(|line| line.split_once('='));
    let option =
        option.map(|(option, _)| option.trim()).filter(|option| option.chars().all(is_name));
    match option.filter(|option| !message.contains(option)) {
        Some(option) => format!("line {}, {option}: {message}", line + 1),
        None => format!("line {}: {message}", line + 1),
    }
}
