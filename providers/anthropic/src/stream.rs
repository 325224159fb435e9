//! The events of a streamed reply.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use toolwright_module::model::Usage;
use toolwright_module::{Reply, Request};
use toolwright_provider::lenient::Count;
use toolwright_provider::{Decoder, Deltas, ProviderError};

use crate::Result;
use crate::block::Block;
use crate::reply::Received;

/// One event of a stream, of any kind. Its values are read when the kind is known.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Event<'e> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'e, str>,
    index: Count,
    message: Option<&'e RawValue>,
    content_block: Option<&'e RawValue>,
    delta: Option<&'e RawValue>,
    usage: Option<&'e RawValue>,
    error: Option<&'e RawValue>,
}

/// The reply so far.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    received: Received,
    turn: usize,
    has_ended: bool,
}

impl Pieces {
    pub(crate) fn new(request: &Request) -> Self {
        Self { turn: request.messages.len(), ..Self::default() }
    }

    /// Returns the place of the block with an index.
    fn place(&self, index: Count) -> Option<usize> {
        let blocks = &self.received.blocks;
        match index.0 {
            Some(index) => blocks.iter().rposition(|block| block.index == index),
            None => blocks.len().checked_sub(1),
        }
    }

    fn begin(&mut self, block: Block, deltas: &mut Deltas) {
        // Some servers do not end their blocks.
        self.received.blocks.last_mut().into_iter().for_each(|last| last.end_text(deltas));
        let place = self.received.blocks.len();
        self.received.push(block);
        self.received.blocks[place].begun(place, deltas);
    }

    fn begin_message(&mut self, message: &RawValue, deltas: &mut Deltas) -> Result<()> {
        if !self.received.blocks.is_empty() {
            // The caller has the pieces of the first reply already.
            return Err(ProviderError::Unclear {
                fault: "a second reply begins in the midst of the first",
                raw: self.received.so_far(),
                usage: self.received.tokens.usage(),
            });
        }
        let mut received = Received::of(read(message)?)?;
        let blocks = std::mem::take(&mut received.blocks);
        self.received = received;
        for block in blocks {
            let place = self.received.blocks.len();
            self.begin(block, deltas);
            self.received.blocks[place].ended(place, deltas);
        }
        Ok(())
    }
}

fn read<'e, T: Deserialize<'e>>(raw: &'e RawValue) -> Result<T> {
    serde_json::from_str(raw.get())
        .map_err(|source| ProviderError::Decoding { source, raw: raw.get().to_owned() })
}

/// Reads what is not content. If it has another form than expected, it is as if it were missing.
fn read_or_default<'e, T: Deserialize<'e> + Default>(raw: Option<&'e RawValue>) -> T {
    let raw = raw.filter(|raw| raw.get().starts_with('{'));
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

impl Decoder for Pieces {
    type Event<'e> = Event<'e>;

    fn is_bare_error(event: &Event<'_>, _: &str) -> bool {
        event.kind.is_empty()
    }

    fn take(&mut self, event: Event<'_>, deltas: &mut Deltas) -> Result<()> {
        match &*event.kind {
            "message_start" => {
                if let Some(message) = event.message {
                    self.begin_message(message, deltas)?;
                }
            }
            "content_block_start" => {
                if let Some(block) = event.content_block {
                    let next = self.received.blocks.len() as u64;
                    let mut block: Block = read(block)?;
                    block.index = event.index.0.unwrap_or(next);
                    self.begin(block, deltas);
                }
            }
            "content_block_delta" => {
                let Some(piece) = event.delta else { return Ok(()) };
                let place = match self.place(event.index) {
                    Some(place) => place,
                    None => {
                        self.begin(
                            Block::of_piece(event.index.0.unwrap_or_default(), piece),
                            deltas,
                        );
                        self.received.blocks.len() - 1
                    }
                };
                self.received.settle(place);
                if !self.received.blocks[place].add(piece, place, deltas)? {
                    // It is content all the same, so it begins a block of its own kind.
                    let index = self.received.blocks[place].index;
                    self.begin(Block::of_piece(index, piece), deltas);
                    let place = self.received.blocks.len() - 1;
                    self.received.blocks[place].add(piece, place, deltas)?;
                }
            }
            "content_block_stop" => {
                if let Some(place) = self.place(event.index) {
                    self.received.blocks[place].ended(place, deltas);
                    self.received.blocks[place].end();
                }
            }
            "message_delta" => {
                self.received.ending.update(read_or_default(event.delta));
                self.received.tokens.update(read_or_default(event.usage));
            }
            "message_stop" => {
                self.has_ended = true;
                self.received.blocks.iter_mut().for_each(|block| block.end_text(deltas));
            }
            "error" => {
                let error = event.error.map(read::<Value>).transpose()?.unwrap_or_default();
                return Err(ProviderError::reported(&error, self.received.tokens.usage()));
            }
            // `ping`, and events that this version does not know.
            _ => {}
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn is_complete(&self) -> bool {
        self.has_ended
    }

    fn finish(self) -> Result<Reply> {
        if !self.has_ended {
            return Err(ProviderError::Truncated { raw: self.so_far(), source: None });
        }
        self.received.into_reply(self.turn)
    }

    fn so_far(&self) -> String {
        self.received.so_far()
    }

    fn usage(&self) -> Usage {
        self.received.tokens.usage()
    }
}
