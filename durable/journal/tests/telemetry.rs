//! Events of `tracing`. It is a program of its own, because other threads would decide which events are
//! made.
#![cfg(test)]

#[allow(dead_code, reason = "the other program uses the rest")]
mod support;

use std::fs;
use std::sync::{Arc, Mutex};

use toolwright_journal::Journal;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use support::{World, drive, finished, folder};

/// Keeps the texts of the warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() == tracing::Level::WARN {
            let mut fields = Fields::default();
            event.record(&mut fields);
            self.0.lock().unwrap().push(fields.0);
        }
    }
}

#[derive(Default)]
struct Fields(String);

impl tracing::field::Visit for Fields {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{field}={value:?} ");
    }
}

#[tokio::test]
async fn a_torn_record_is_reported() {
    let (_, _, bytes) = finished(World::small).await;
    let folder = folder();
    let journal = Journal::open(folder.path()).unwrap();
    fs::write(folder.path().join("run.journal"), &bytes[..bytes.len() - 7]).unwrap();
    let warnings = Warnings::default();
    let subscriber = tracing_subscriber::registry().with(warnings.clone());
    let _default = tracing::subscriber::set_default(subscriber);
    drive(&journal, World::small).await.0.unwrap();
    let warnings = warnings.0.lock().unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("run=\"run\"") && warnings[0].contains("cut off"), "{warnings:?}");
}
