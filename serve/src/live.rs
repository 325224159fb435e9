//! What models write, for readers at other workers.

use std::future::pending;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::sleep;
use toolwright_module::event::Event;

use crate::home::Home;

/// How often it is stored.
const PAUSE: Duration = Duration::from_millis(150);

/// The pieces of replies that were written since they were last stored.
pub(crate) struct LiveTexts {
    id: String,
    /// `None` if no other worker can read them.
    home: Option<Home>,
    waits: Mutex<Waits>,
}

#[derive(Default)]
struct Waits {
    events: Vec<Event>,
    /// The number of the next text.
    nth: i64,
    has_stored: bool,
}

impl LiveTexts {
    pub(crate) fn new(id: &str, home: &Home) -> Self {
        let home = home.is_shared().then(|| home.clone());
        // A drive before this one may have stored some, whose worker was killed.
        let waits = Mutex::new(Waits { has_stored: true, ..Waits::default() });
        Self { id: id.to_owned(), home, waits }
    }

    pub(crate) fn add(&self, event: &Event) {
        if self.home.is_some() {
            self.waits().events.push(event.clone());
        }
    }

    fn waits(&self) -> std::sync::MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits a moment, and stores what was written. `is_live` says whether a reply is being written.
    pub(crate) async fn store(&self, is_live: impl Fn() -> bool) {
        let Some(home) = &self.home else { return pending().await };
        sleep(PAUSE).await;
        let (text, nth) = {
            let mut waits = self.waits();
            if waits.events.is_empty() {
                (None, 0)
            } else {
                let text = serde_json::to_string(&waits.events).ok();
                waits.events.clear();
                (waits.nth, waits.has_stored) = (waits.nth + 1, true);
                (text, waits.nth - 1)
            }
        };
        // Without them, readers at other workers get the reply when it is whole.
        if let Some(text) = text
            && let Err(error) = home.put_live(&self.id, nth, &text).await
        {
            tracing::debug!(run = self.id, %error, "what a model writes was not stored");
        }
        if !is_live() {
            self.clear().await;
        }
    }

    /// Deletes what was stored. It is in the records now.
    pub(crate) async fn clear(&self) {
        let has_stored = std::mem::take(&mut self.waits().has_stored);
        if let Some(home) = &self.home
            && has_stored
            && let Err(error) = home.clear_live(&self.id).await
        {
            tracing::debug!(run = self.id, %error, "what a model wrote was not deleted");
        }
    }
}
