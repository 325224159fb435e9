//! The attributes, and the names of the facade.
#![cfg(test)]
// What a user's own lints may ask for.
#![deny(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
// The functions of these tests are small on purpose.
#![allow(clippy::trivially_copy_pass_by_ref, clippy::unnecessary_wraps, clippy::unused_async)]

/// Tests of the attributes.
mod attributes {
    mod contracts;
    mod functions;
    mod toolsets;
    mod wire_names;
}
/// Tests of the names.
mod names;
