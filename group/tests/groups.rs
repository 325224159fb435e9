//! Groups: definitions, dispatch, custom tools and binding.

mod binding;
mod custom;
mod definitions;
mod dispatch;
mod support;
