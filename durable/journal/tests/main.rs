//! The tests of this crate, in one program: see `README.md` beside this file.
//!
//! A new test goes into the module of its subject, or into a new module listed here.
#![cfg(test)]

// What tests share.
mod support;

// Tests by subject.
mod approvals;
mod budgets;
mod crashes;
mod damage;
mod deploys;
mod driving;
mod earlier;
mod endless;
mod folder;
#[cfg(target_os = "linux")]
mod full;
mod home;
#[cfg(unix)]
mod odd_files;
mod parts;
