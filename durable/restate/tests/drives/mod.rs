//! Drives over a journal in memory, which compares each replay with what it has, as Restate does.

mod crashes;
mod ends;
mod letter;
mod memory;
mod world;
