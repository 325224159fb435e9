//! The fields of a contract that hold an image, a document or audio, and who cannot take them.

use super::Contract;
use crate::error::{ContractError, Refusal, Result, SchemaFault, Side};
use crate::schema::media::{MediaField, MediaKind};

/// The media of both sides of a contract.
#[derive(Debug, Clone, Default)]
pub(super) struct Media {
    pub(super) input: Vec<MediaField>,
    pub(super) output: Vec<MediaField>,
}

impl Media {
    /// Returns the media of a contract whose output is in a field of a new output.
    pub(super) fn with_output_below(mut self, field: &str) -> Self {
        for media in &mut self.output {
            media.path = media.path.replacen('$', &format!("$.{field}"), 1);
        }
        self
    }
}

impl Contract {
    /// Returns the fields of one side that hold an image, a document or audio.
    ///
    /// Only a contract of a type has them. A stored contract is read without them.
    #[must_use]
    pub fn media(&self, side: Side) -> &[MediaField] {
        match side {
            Side::Input => &self.media.input,
            Side::Output => &self.media.output,
        }
    }

    /// Checks that a model takes the media of one side; `takes` says whether it takes a kind.
    ///
    /// # Errors
    ///
    /// [`ContractError::Schema`] with [`SchemaFault::Media`] names the first field that the model
    /// does not take.
    pub fn check_media(&self, side: Side, takes: impl Fn(MediaKind) -> bool) -> Result<()> {
        let mut refused = self.media(side).iter().filter(|field| !takes(field.kind));
        refused.next().map_or(Ok(()), |field| {
            let [_, one, many] = field.kind.words();
            let reason = format!(
                "it is {one}, and the model does not accept {many}; use a model that does, or a `String` with a URL"
            );
            Err(self.refused_media(side, field, reason))
        })
    }

    /// Checks that a model can write one side: it has no media.
    ///
    /// # Errors
    ///
    /// [`ContractError::Schema`] with [`SchemaFault::Media`] names the first field at fault.
    pub fn check_written_by_model(&self, side: Side) -> Result<()> {
        self.media(side).first().map_or(Ok(()), |field| {
            let [_, one, _] = field.kind.words();
            let reason =
                format!("it is {one}, which a model cannot write; take a URL as a `String`");
            Err(self.refused_media(side, field, reason))
        })
    }

    fn refused_media(&self, side: Side, field: &MediaField, reason: String) -> ContractError {
        self.refused(side, Refusal::new(SchemaFault::Media, &field.path, reason))
    }
}
