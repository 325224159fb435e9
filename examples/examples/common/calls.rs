//! Calls the tools of a toolset as a model would: a name and JSON in, text out.

use clap::Args;
use toolwright_cli::say;
use toolwright_module::{Context, Error, Result, Tool};

/// One call from the command line.
#[derive(Args)]
pub(crate) struct Call {
    /// The tool to call
    #[arg(requires = "arguments")]
    tool: Option<String>,
    /// Its arguments, as JSON
    arguments: Option<String>,
}

impl Call {
    /// Returns the call from the command line, or the calls of the script.
    pub(crate) fn or<'a>(&'a self, script: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        match (&self.tool, &self.arguments) {
            (Some(tool), Some(arguments)) => vec![(tool, arguments)],
            _ => script.to_vec(),
        }
    }
}

/// Makes the calls, and prints the texts that a model would read.
pub(crate) async fn show(tools: &[Tool], calls: &[(&str, &str)]) -> Result<()> {
    for (name, arguments) in calls {
        let Some(tool) = tools.iter().find(|tool| tool.name() == *name) else {
            let names: Vec<&str> = tools.iter().map(Tool::name).collect();
            return Err(Error::other(format!("there is no {name}; choose {}", names.join(", "))));
        };
        say(&format!("-> {name} {arguments}"));
        match tool.call(arguments, &Context::default()).await {
            Ok(output) => say(&format!("<- {}", output.text)),
            Err(error) => say(&format!("<- failed: {}", error.for_model())),
        }
    }
    Ok(())
}
