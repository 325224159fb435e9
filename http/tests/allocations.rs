//! The allocations of [`EventReader`], counted in a process without other tests.
#![cfg(test)]

use std::alloc::System;

use bytes::Bytes;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use toolwright_http::EventReader;

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn reading_events_does_not_allocate_after_the_first_events() {
    let event =
        "event: delta\r\ndata: {\"choices\": [{\"delta\": {\"content\": \"a word\"}}]}\r\n\r\n";
    let stream = Bytes::from(event.repeat(1000));
    let mut events = EventReader::default();
    let mut read = |bytes: &Bytes| {
        // The size of a packet on most networks.
        let mut count = 0;
        for at in (0..bytes.len()).step_by(1400) {
            events.push(bytes.slice(at..bytes.len().min(at + 1400)));
            while let Some(event) = events.next().unwrap() {
                assert_eq!(event.name, "delta");
                count += 1;
            }
        }
        count
    };
    assert_eq!(read(&stream), 1000);
    let mut allocated = || {
        let region = Region::new(GLOBAL);
        assert_eq!(read(&stream), 1000);
        let change = region.change();
        (change.allocations, change.bytes_allocated)
    };
    // On a busy machine, the thread of the test harness may allocate meanwhile.
    let fewest = [allocated(), allocated(), allocated()].into_iter().min();
    assert_eq!(fewest, Some((0, 0)));
}
