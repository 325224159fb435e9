//! Runs that go on from earlier runs, which have the beginning of their conversations.
//!
//! The mark of an earlier run is its number, which no other run ever has.

use std::collections::HashMap;

use toolwright_journal::home::{self, Histories};
use toolwright_orchestrator::Conversation;
use toolwright_orchestrator::perform::{After, Record, Started};

use crate::error::Result;
use crate::runs::{Runs, record};
use crate::tables;

/// The start and the end of runs, as they are stored, by their marks.
pub(crate) type Stored = HashMap<String, Vec<Record>>;

impl Runs {
    /// Puts the conversation of the earlier run into a start. `stored` are runs that were read already.
    pub(crate) async fn whole(
        &self,
        number: i64,
        started: Started,
        histories: &mut Histories,
        stored: &Stored,
    ) -> Result<Started> {
        let mut read = Stored::new();
        if !is_known(&started, histories, stored) {
            let connection = self.pool.get().await?;
            let statement = connection.prepare_cached(tables::EARLIER).await?;
            for row in connection.query(&statement, &[&number]).await? {
                let mark = row.try_get::<_, i64>(0)?.to_string();
                let record = record(row.try_get(1)?, row.try_get(2)?, row.try_get(3)?)?;
                read.entry(mark).or_default().push(record);
            }
        }
        let find = |after: &After| Ok(read.get(&after.mark).or(stored.get(&after.mark)).cloned());
        Ok(histories.put_back(started, find)?)
    }

    /// Puts the conversation of the earlier run into the first of the records of a run.
    pub(crate) async fn with_whole(
        &self,
        number: i64,
        mut records: Vec<Record>,
    ) -> Result<Vec<Record>> {
        if let Some(Record::Started(started)) = records.first_mut()
            && started.after.is_some()
        {
            let (mut histories, none) = (Histories::default(), Stored::new());
            *started = self.whole(number, started.clone(), &mut histories, &none).await?;
        }
        Ok(records)
    }

    /// Leaves out of a start what the earlier run has, if it is there. Returns the number of that run, too.
    pub(crate) async fn leave_out(
        &self,
        started: Started,
        earlier: Option<&str>,
    ) -> (Started, Option<i64>) {
        let Some(earlier) = earlier else { return (started, None) };
        match self.conversation_of(earlier).await {
            Ok(Some((number, after, conversation))) => {
                let started = started.leave_out(after, &conversation);
                let number = started.after.as_ref().map(|_| number);
                (started, number)
            }
            Ok(None) => (started, None),
            Err(error) => {
                // The whole conversation is in the task.
                let run = started.id.as_str();
                tracing::warn!(run, earlier, %error, "a run stores its whole conversation again");
                (started, None)
            }
        }
    }

    /// Returns the conversation of a run for a later one, unless the run is not there.
    async fn conversation_of(&self, id: &str) -> Result<Option<(i64, After, Conversation)>> {
        let Some((number, records)) = self.ends_of(id).await? else { return Ok(None) };
        let records = self.with_whole(number, records).await?;
        let after = After::new(id, number.to_string(), records.len() > 1);
        let conversation = home::stored_conversation(id, &records, after.is_end)?;
        Ok(Some((number, after, conversation)))
    }
}

/// Returns whether the conversation of a start can be put together from runs that were read.
fn is_known(started: &Started, histories: &Histories, stored: &Stored) -> bool {
    let mut after = started.after.as_ref();
    while let Some(earlier) = after
        && !histories.has(earlier)
    {
        match stored.get(&earlier.mark).and_then(|records| records.first()) {
            Some(Record::Started(started)) => after = started.after.as_ref(),
            _ => return false,
        }
    }
    true
}
