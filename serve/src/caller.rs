//! Who calls, and what a run of theirs gets.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use toolwright_module::Context;
use toolwright_module::model::BoxFuture;

use crate::error::Rejection;

/// Who a request comes from. Runs, conversations and questions belong to a user: nobody sees or decides
/// those of another one.
///
/// Only the name of the user tells users apart. Where two tenants may have a user of the same name, put the
/// tenant into the name.
///
/// It is stored with each run, so that a run that goes on after a crash, at any worker, is still this
/// caller's: see [`Serve::with_context`](crate::Serve::with_context).
///
/// ```
/// use toolwright_serve::Caller;
///
/// let caller = Caller::new("acme/kate").with("tenant", "acme");
/// assert_eq!((caller.user(), caller.get("tenant")), ("acme/kate", Some("acme")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub(crate) user: String,
    pub(crate) values: BTreeMap<String, String>,
}

impl Caller {
    /// Returns the caller with this name or id, which is the same in each request.
    pub fn new(user: impl Into<String>) -> Self {
        Self { user: user.into(), values: BTreeMap::new() }
    }

    /// Adds what else is known of the caller, such as a tenant. No secrets: it is stored, and lists of
    /// runs show it. The names `user`, `conversation`, `message`, `after` and `turn` are the service's own:
    /// a value of such a name is not stored.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.values.insert(name.into(), value.into());
        self
    }

    /// Returns the name or id of the user.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Returns what is known of the caller under this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| &**value)
    }
}

/// Tells who a request comes from.
pub(crate) type Identify =
    Arc<dyn Fn(Arc<Parts>) -> BoxFuture<'static, Result<Caller, Rejection>> + Send + Sync>;

/// Makes the context of a drive.
pub(crate) type MakeContext =
    Arc<dyn Fn(Caller) -> BoxFuture<'static, toolwright_module::Result<Context>> + Send + Sync>;

/// What the program says about callers.
#[derive(Clone)]
pub(crate) struct Callers {
    pub(crate) identify: Identify,
    pub(crate) context: MakeContext,
}

impl Default for Callers {
    fn default() -> Self {
        Self {
            identify: Arc::new(|_| Box::pin(async { Ok(Caller::new("user")) })),
            context: Arc::new(|_| Box::pin(async { Ok(Context::default()) })),
        }
    }
}

impl fmt::Debug for Callers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callers").finish_non_exhaustive()
    }
}
