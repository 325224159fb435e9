//! Groups of tools for a loop of one's own.

mod binding;
mod custom;
mod definitions;
mod dispatch;
mod support;
