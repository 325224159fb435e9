use std::collections::BTreeMap;

use toolwright::prelude::*;

struct Point;

/// A line.
#[data]
struct Line {
    /// Its points.
    points: BTreeMap<String, (u8, Point)>,
}

fn main() {}
