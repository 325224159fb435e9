//! Tests of changing the provider within a conversation, and of replies without an answer.
//!
//! They need no contract server: a listener on loopback sends replies in the form of each API and
//! keeps the bodies of the requests.
#![cfg(test)]

// What tests share.
mod listener;
mod marks;
mod wires;

// Tests by subject.
mod fallback;
mod hosted;
mod swapping;
