//! The state that tools change during an attempt.

use std::any::type_name;
use std::sync::{Mutex, PoisonError};

use toolwright_module::error::Stage;
use toolwright_module::{Context, Error, Result};

/// The state that the tools of an attempt read and change, such as a small database.
///
/// [`Eval::with_world`](crate::Eval::with_world) starts each attempt with a copy of its own. Tools find
/// it in the context, and so do graders when the attempt has ended.
///
/// ```
/// use std::collections::BTreeMap;
/// use toolwright_evals::World;
/// use toolwright_module::{Context, Result};
///
/// #[derive(Clone, Default)]
/// struct Shop {
///     orders: BTreeMap<u32, String>,
/// }
///
/// // In a tool:
/// fn cancel(id: u32, cx: &Context) -> Result<()> {
///     World::<Shop>::of(cx)?.change(|shop| shop.orders.insert(id, "cancelled".to_owned()));
///     Ok(())
/// }
/// # let cx = Context::default().with(World::new(Shop::default()));
/// # cancel(7, &cx)?;
/// # assert_eq!(World::<Shop>::of(&cx)?.read(|shop| shop.orders[&7].clone()), "cancelled");
/// # assert!(World::<u32>::of(&cx).is_err());
/// # Ok::<(), toolwright_module::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct World<W>(Mutex<W>);

impl<W: Send + Sync + 'static> World<W> {
    /// Returns a world with this state.
    pub fn new(state: W) -> Self {
        Self(Mutex::new(state))
    }

    /// Returns the world of an attempt.
    ///
    /// # Errors
    ///
    /// [`Stage::Setup`]: the context has no world of this type.
    pub fn of(cx: &Context) -> Result<&Self> {
        cx.get::<Self>().ok_or_else(|| {
            let state = type_name::<W>();
            Error::stop(format!(
                "there is no world with the state `{state}` here; set it with `Eval::with_world`, or put a `World` into the context"
            ))
            .at(Stage::Setup)
        })
    }

    /// Reads the state. It is locked meanwhile, so use the world only once at a time.
    pub fn read<T>(&self, read: impl FnOnce(&W) -> T) -> T {
        read(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the state. It is locked meanwhile, so use the world only once at a time.
    pub fn change<T>(&self, change: impl FnOnce(&mut W) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
