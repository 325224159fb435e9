//! [`Kept`] and [`KeptTools`]: values that are made once for each `Arc`.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use foldhash::fast::RandomState;
use toolwright_signature::Contract;

use toolwright_module::model::Request;

/// Values that are made once for each [`Arc`] and kept while it lives, such as the wire form of a
/// message, which is part of every later request.
///
/// A model has one for its messages, so that a request costs a copy of bytes for each message and
/// not its serialization. Two equal messages in different `Arc`s are two messages.
///
/// ```
/// use std::sync::Arc;
/// use toolwright_module::Message;
/// use toolwright_provider::Kept;
///
/// let kept = Kept::<Message, [u8]>::default();
/// let message = Message::user("Hi!");
/// let write = |message: &Message| serde_json::to_vec(message).map(Arc::from);
/// let first = kept.get_or_make(&message, write)?;
/// let second = kept.get_or_make(&message, |_| unreachable!())?;
/// assert!(Arc::ptr_eq(&first, &second));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub struct Kept<K: ?Sized, V: ?Sized> {
    entries: Mutex<Entries<K, V>>,
}

struct Entries<K: ?Sized, V: ?Sized> {
    /// By address. The weak reference keeps the address from being used again. Each request looks up
    /// all its messages, so the hash is a fast one: nobody chooses the addresses.
    of: HashMap<usize, (Weak<K>, Arc<V>), RandomState>,
    /// The number of entries at which those of dropped keys are removed.
    most: usize,
}

/// The smallest number of entries at which to look for dropped keys. With more, the memory of an
/// ended run would be free only after several others, and cold in the cache by then.
const LEAST: usize = 16;

impl<K: ?Sized, V: ?Sized> Kept<K, V> {
    /// Returns the value of `key`, which is made if there is none.
    ///
    /// # Errors
    ///
    /// The error of `make`. The next call makes it again.
    pub fn get_or_make<E>(
        &self,
        key: &Arc<K>,
        make: impl FnOnce(&K) -> Result<Arc<V>, E>,
    ) -> Result<Arc<V>, E> {
        let address = Arc::as_ptr(key).cast::<()>() as usize;
        if let Some((_, value)) = self.entries().of.get(&address) {
            return Ok(Arc::clone(value));
        }
        // Without the lock, because it may take long.
        let value = make(key)?;
        let mut entries = self.entries();
        if entries.of.len() >= entries.most {
            entries.of.retain(|_, (key, _)| key.strong_count() > 0);
            entries.most = LEAST.max(2 * entries.of.len());
        }
        entries.of.insert(address, (Arc::downgrade(key), Arc::clone(&value)));
        Ok(value)
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, Entries<K, V>> {
        // An entry is complete or not there, so a panic of another thread does no harm.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: ?Sized, V: ?Sized> Default for Kept<K, V> {
    fn default() -> Self {
        Self { entries: Mutex::new(Entries { of: HashMap::default(), most: LEAST }) }
    }
}

/// A clone is empty, because it may be for a model that writes another form.
impl<K: ?Sized, V: ?Sized> Clone for Kept<K, V> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<K: ?Sized, V: ?Sized> fmt::Debug for Kept<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("len", &self.entries().of.len()).finish()
    }
}

/// What is made once for the tools and the output contract of requests, such as their wire form.
///
/// ```
/// use std::sync::Arc;
/// use toolwright_provider::KeptTools;
/// use toolwright_module::{Message, Request};
///
/// let kept = KeptTools::<String>::default();
/// let request = Request::new([Message::user("Hi!")]);
/// let made = kept.get_or_make(&request, |_| Ok::<_, std::fmt::Error>(Arc::from("[]".to_owned())))?;
/// let again = kept.get_or_make(&request, |_| Err(std::fmt::Error))?;
/// assert!(Arc::ptr_eq(&made, &again));
/// # Ok::<(), std::fmt::Error>(())
/// ```
pub struct KeptTools<V> {
    plain: OfTools<V>,
    with_output: Kept<Contract, OfTools<V>>,
}

type OfTools<V> = Kept<[Arc<Contract>], V>;

impl<V> KeptTools<V> {
    /// Returns the value of a request's tools and output contract, which is made if there is none.
    ///
    /// # Errors
    ///
    /// The error of `make`. The next call makes it again.
    pub fn get_or_make<E>(
        &self,
        request: &Request,
        make: impl FnOnce(&Request) -> Result<Arc<V>, E>,
    ) -> Result<Arc<V>, E> {
        let make = |_: &[Arc<Contract>]| make(request);
        let Some(output) = &request.output else {
            return self.plain.get_or_make(&request.tools, make);
        };
        let of_output = self.with_output.get_or_make(output, |_| Ok(Arc::default()))?;
        of_output.get_or_make(&request.tools, make)
    }
}

/// A clone is empty, as that of [`Kept`].
impl<V> Clone for KeptTools<V> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<V> fmt::Debug for KeptTools<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptTools").finish_non_exhaustive()
    }
}

impl<V> Default for KeptTools<V> {
    fn default() -> Self {
        Self { plain: Kept::default(), with_output: Kept::default() }
    }
}
