use toolwright::prelude::*;

struct Point;

/// Draw points. The error is at the part of the type that is wrong.
#[tool]
fn draw(
    /// The points.
    points: Option<&[Point]>,
) {
}

fn main() {}
