//! The page of a run.

use std::path::PathBuf;
use std::time::Duration;

use crate::world::World;

/// Makes the runs for the test in a browser. See `tests/README.md`.
#[tokio::test]
#[ignore = "makes runs for the browser, in the folder RUNS"]
async fn give_runs() {
    let folder = PathBuf::from(std::env::var_os("RUNS").expect("RUNS names a folder"));
    let world = World::new(&folder, Duration::from_millis(40));
    world.short().await;
    world.failed().await;
    world.waiting("waiting").await;
    world.decided().await;
    world
        .hostile(
            "hostile",
            "</script><img src=x onerror=alert(1)>\u{202e}<style>*{display:none}</style>&amp;\"'",
        )
        .await;
    let quick = World { pause: Duration::from_millis(1), ..world };
    quick.long("long", 2_000).await;
}
