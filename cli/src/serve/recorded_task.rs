//! [`RecordedTask`], the model of the page without a key.

use futures_util::future::BoxFuture;
use toolwright_module::error::Stage;
use toolwright_module::model::Capabilities;
use toolwright_module::testing::{Recording, Replay};
use toolwright_module::{Error, LanguageModel, Reply, Request, Result};

use crate::model::NoModel;
use crate::record::Recorded;

/// A model that answers a recorded task as often as it is asked, and no other one.
#[derive(Debug)]
pub(crate) struct RecordedTask {
    recording: Recording,
    capabilities: Capabilities,
    /// The answer to any other task.
    no_model: NoModel,
}

impl RecordedTask {
    pub(crate) fn new(recorded: &Recorded, no_model: NoModel) -> Self {
        let recording = recorded.recording.clone();
        let capabilities = Replay::new(recording.clone()).capabilities();
        Self { recording, capabilities, no_model }
    }
}

impl LanguageModel for RecordedTask {
    fn name(&self) -> &str {
        &self.recording.model
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn generate<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            // A replay gives each reply once.
            let reply = Replay::new(self.recording.clone()).generate(request).await;
            reply.map_err(|_| Error::stop(self.no_model.to_string()).at(Stage::Setup))
        })
    }
}
