use super::{CallNext, Hook};
use crate::effect::Effect;
use crate::error::{Error, Result};
use crate::tool::ToolOutput;

/// Returns a hook that refuses tool calls by a rule.
///
/// The rule gets the tool's name, its effect and the arguments as the model wrote them. It returns
/// the reason of a refusal, which the model reads. A refused call does not reach its tool.
///
/// ```
/// use toolwright_module::hook::refuse;
/// use toolwright_module::{Context, Effect};
///
/// let cx = Context::default().with_hook(refuse(|name, effect, _arguments| {
///     (effect == Effect::Irreversible).then(|| format!("`{name}` is not available today."))
/// }));
/// ```
pub fn refuse<F>(rule: F) -> impl Hook
where
    F: Fn(&str, Effect, &str) -> Option<String> + Send + Sync + 'static,
{
    Refuse(rule)
}

struct Refuse<F>(F);

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
