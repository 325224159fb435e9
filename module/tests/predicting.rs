//! The requests of `Predict` and `ChainOfThought`: modes, examples, retries and streams.

mod again;
mod examples;
mod modes;
mod streaming;
