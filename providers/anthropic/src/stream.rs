//! The events of a streamed reply.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::Value;
use serde_json::value::RawValue;
use toolwright_module::model::Usage;
use toolwright_module::{Contract, Reply, Request};
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
    tools: Arc<[Arc<Contract>]>,
    has_ended: bool,
}

impl Pieces {
    pub(crate) fn new(request: &Request) -> Self {
        let (turn, tools) = (request.messages.len(), Arc::clone(&request.tools));
        Self { turn, tools, ..Self::default() }
    }

    /// Returns the place of the block with an index.
    fn place(&self, index: Count) -> Option<usize> {
        let blocks = &self.received.blocks;
        match index.0 {
            Some(index) => blocks.iter().rposition(|block| block.index == index),
            None => blocks.len().checked_sub(1),
        }
    }

    fn unclear(&self, fault: &'static str) -> ProviderError {
        let (raw, usage) = (self.received.so_far(), self.received.tokens.usage());
        ProviderError::Unclear { fault, raw, usage }
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
            return Err(self.unclear("a second reply begins in the midst of the first"));
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

/// Returns whether an event of an unknown kind has a piece of a block.
fn is_piece(event: &Event<'_>) -> bool {
    event.index.0.is_some() && event.delta.is_some()
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

    fn may_be_error(event: &Event<'_>) -> bool {
        event.kind.is_empty()
    }

    fn take(&mut self, event: Event<'_>, deltas: &mut Deltas) -> Result<()> {
        match &*event.kind {
            "" if event.error.is_none() => {
                let source = serde_json::Error::custom("it is not an event of the API");
                return Err(ProviderError::Decoding { source, raw: self.so_far() });
            }
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
            "" | "error" => {
                let error = event.error.map(read::<Value>).transpose()?.unwrap_or_default();
                return Err(ProviderError::reported(&error, self.received.tokens.usage()));
            }
            // Some servers have another word for a piece of content.
            kind if kind == "content_block_delta" || is_piece(&event) => {
                let Some(piece) = event.delta else {
                    return Err(self.unclear("a piece of its content has no `delta`"));
                };
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
            return Err(ProviderError::truncated(self.so_far()));
        }
        self.received.into_reply(self.turn, &self.tools)
    }

    fn so_far(&self) -> String {
        self.received.so_far()
    }

    fn usage(&self) -> Usage {
        self.received.tokens.usage()
    }
}
