//! Where runs are: the folder of a journal, or a PostgreSQL database.

use std::error::Error;
use std::path::PathBuf;
use std::time::SystemTime;

use toolwright_journal::{Journal, RunSummary};
use toolwright_module::approval::{Approval, Decision};
use toolwright_orchestrator::ToolSet;
use toolwright_orchestrator::perform::Record;
#[cfg(feature = "postgres")]
use toolwright_postgres::Runs;

use crate::journal::{check_folder, is_url};
#[cfg(feature = "postgres")]
use crate::show::visible;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A home of runs.
pub(crate) enum Home {
    /// A folder.
    Folder(Journal),
    /// The runs of one agent in a database.
    #[cfg(feature = "postgres")]
    Database(Runs),
}

impl Home {
    /// Opens a folder, or the database of a URL. It creates neither. `agent` is the name of the agent
    /// whose runs are in the database; without it, the database must have the runs of one agent only.
    ///
    /// # Errors
    ///
    /// There is no such folder, the database cannot be reached, or it does not have runs of this agent.
    pub(crate) async fn open(place: PathBuf, agent: Option<&str>) -> Result<Self> {
        if is_url(&place) {
            return Self::of_url(&place.to_string_lossy(), agent).await;
        }
        if agent.is_some() {
            return Err("--agent is for a database: name it with --journal postgres://…".into());
        }
        check_folder(&place)?;
        if !place.is_dir() {
            return Err(format!("there is no folder {}", place.display()).into());
        }
        Ok(Self::Folder(Journal::open(place)?))
    }

    /// Opens a database. No error has a part of the URL, which may contain a password.
    async fn of_url(url: &str, agent: Option<&str>) -> Result<Self> {
        let (scheme, _) = url.split_once("://").unwrap_or_default();
        if !["postgres", "postgresql"].contains(&scheme) {
            return Err("--journal: a database has a URL of the form postgres://USER@HOST:PORT/DATABASE; give \
                 the password in the variable PGPASSWORD"
                .into());
        }
        #[cfg(feature = "postgres")]
        {
            let agents = Runs::agents(url).await?;
            let list = agents.iter().map(|name| visible(name)).collect::<Vec<_>>().join(", ");
            let agent = match (agent, &agents[..]) {
                (_, []) => Err("the database has no runs".to_owned()),
                (Some(agent), _) if agents.iter().any(|name| name == agent) => Ok(agent),
                (Some(agent), _) => Err(format!(
                    "the database has no runs of the agent {}; it has those of: {list}",
                    visible(agent)
                )),
                (None, [only]) => Ok(only.as_str()),
                (None, _) => Err(format!(
                    "the database has the runs of several agents; choose one with --agent: {list}"
                )),
            }?;
            Ok(Self::Database(Runs::connect(url, agent).await?))
        }
        #[cfg(not(feature = "postgres"))]
        {
            let _ = agent;
            Err("this command was built without PostgreSQL; install it with: cargo install \
                 toolwright-cli --features postgres"
                .into())
        }
    }

    pub(crate) async fn runs(&self) -> Result<Vec<RunSummary>> {
        match self {
            Self::Folder(journal) => Ok(journal.runs()?),
            #[cfg(feature = "postgres")]
            Self::Database(runs) => Ok(runs.runs().await?),
        }
    }

    pub(super) async fn run(&self, id: &str) -> Result<RunSummary> {
        match self {
            Self::Folder(journal) => Ok(journal.run(id)?),
            #[cfg(feature = "postgres")]
            Self::Database(runs) => Ok(runs.run(id).await?),
        }
    }

    /// Returns all records of a run.
    pub(super) async fn records(&self, id: &str) -> Result<Vec<Record>> {
        Ok(self.entries(id).await?.into_iter().map(|(_, record)| record).collect())
    }

    /// Returns all records of a run with their times.
    pub(crate) async fn entries(&self, id: &str) -> Result<Vec<(SystemTime, Record)>> {
        match self {
            Self::Folder(journal) => Ok(journal.entries(id)?),
            #[cfg(feature = "postgres")]
            Self::Database(runs) => Ok(runs.entries(id).await?),
        }
    }

    pub(crate) async fn tools(&self, id: &str) -> Result<Option<ToolSet>> {
        match self {
            Self::Folder(journal) => Ok(journal.tools(id)?),
            #[cfg(feature = "postgres")]
            Self::Database(runs) => Ok(runs.tools(id).await?),
        }
    }

    /// Records a decision, with the name of the person if it is known.
    pub(super) async fn decide(
        &self,
        person: Option<&str>,
        id: &str,
        asked: &Approval,
        decision: Decision,
    ) -> Result<()> {
        match (self, person) {
            (Self::Folder(journal), Some(person)) => {
                Ok(journal.decide_as(person, id, asked, decision)?)
            }
            (Self::Folder(journal), None) => Ok(journal.decide(id, asked, decision)?),
            #[cfg(feature = "postgres")]
            (Self::Database(runs), Some(person)) => {
                Ok(runs.decide_as(person, id, asked, decision).await?)
            }
            #[cfg(feature = "postgres")]
            (Self::Database(runs), None) => Ok(runs.decide(id, asked, decision).await?),
        }
    }

    pub(super) async fn cancel(&self, id: &str) -> Result<()> {
        match self {
            Self::Folder(journal) => Ok(journal.cancel(id)?),
            #[cfg(feature = "postgres")]
            Self::Database(runs) => Ok(runs.cancel(id).await?),
        }
    }

    pub(super) async fn delete(&self, id: &str) -> Result<()> {
        match self {
            Self::Folder(journal) => Ok(journal.delete(id)?),
            #[cfg(feature = "postgres")]
            Self::Database(runs) => Ok(runs.delete(id).await?),
        }
    }
}
