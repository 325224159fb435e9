use std::fmt;

use super::{CallNext, Hook};
use crate::effect::Effect;
use crate::error::{Error, Result};
use crate::tool::ToolOutput;

/// A hook that refuses tool calls by a rule.
///
/// The rule gets the tool's name, its effect and the arguments as the model wrote them. It returns
/// the reason of a refusal, which the model reads. A refused call does not reach its tool.
///
/// ```
/// use toolwright_module::hook::Refuse;
/// use toolwright_module::{Context, Effect};
///
/// let cx = Context::default().with_hook(Refuse::new(|name, effect, _arguments| {
///     (effect == Effect::Irreversible).then(|| format!("`{name}` is not available today."))
/// }));
/// ```
pub struct Refuse<F>(F);

impl<F> Refuse<F>
where
    F: Fn(&str, Effect, &str) -> Option<String> + Send + Sync + 'static,
{
    /// Returns a hook with this rule.
    pub fn new(rule: F) -> Self {
        Self(rule)
    }
}

impl<F> Hook for Refuse<F>
where
    F: Fn(&str, Effect, &str) -> Option<String> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        "refuse"
    }

    async fn tool(&self, arguments: String, next: CallNext<'_>) -> Result<ToolOutput> {
        match (self.0)(next.contract.name(), next.effect, &arguments) {
            Some(reason) => Err(Error::refuse(reason)),
            None => next.run(arguments).await,
        }
    }
}

impl<F> fmt::Debug for Refuse<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refuse").finish_non_exhaustive()
    }
}
