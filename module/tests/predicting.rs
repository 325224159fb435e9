//! How `Predict` and `ChainOfThought` ask: the modes, examples, asking again, streams.

mod again;
mod examples;
mod modes;
mod streaming;
