//! Depth and work limits of the whole crate, in one table.
//!
//! A few hundred bytes of schema or text can ask for more time, memory or stack than there
//! is. Each limit here bounds one such thing. A schema or text that exceeds a limit of depth or
//! size is an error. An analysis that runs out of steps gives the safe answer, and a list of
//! faults or repairs that is cut off says so.
//!
//! Depths count objects and lists inside each other, unless stated otherwise. They nest
//! like this: a stored schema ([`SCHEMA_DEPTH`]) fits into a JSON text ([`TEXT_DEPTH`]), its
//! normal form ([`NORMAL_DEPTH`]) may be a little deeper, and whatever walks a schema and a
//! value together ([`WALK_DEPTH`], [`CHECK_DEPTH`]) takes several steps for each level.

/// Maximum depth of a schema that a contract accepts.
///
/// A contract is stored inside other JSON, and must be readable again: below
/// [`TEXT_DEPTH`], with room for what is around it.
pub(crate) const SCHEMA_DEPTH: usize = 100;

/// Maximum depth of schemas in the normal form and in lowering.
///
/// References that are written out where they are used count too, so it is above
/// [`SCHEMA_DEPTH`]. Each level is a level of recursion.
pub(crate) const NORMAL_DEPTH: usize = 110;

/// Maximum depth of a JSON text and of a value: that of `serde_json`. A deeper text could be
/// checked here, but not deserialized afterwards.
pub(crate) const TEXT_DEPTH: usize = 127;

/// Maximum depth of an example value that is lowered to a dialect: that of a text, and the object
/// around it.
pub(crate) const VALUE_DEPTH: usize = TEXT_DEPTH + 1;

/// Maximum depth of the walks that repair a value or compare two schemas.
///
/// Each level of a value may take a union and a text inside a text as well.
pub(crate) const WALK_DEPTH: usize = 200;

/// Maximum depth of the check that only says whether a value fits.
///
/// Its steps are small, and it follows `allOf` and `not` beside unions: about three for each
/// of [`TEXT_DEPTH`] levels.
pub(crate) const CHECK_DEPTH: usize = 400;

/// Maximum number of references and unions between two levels of one value.
///
/// Chains of this length are not written by hand; a longer one leads back to itself.
pub(crate) const HOPS: usize = 64;

/// Maximum depth of guesses: fields compared to distinguish two members of a union, wrappers
/// that models put around arguments, references followed to describe a schema in words.
///
/// Deeper guesses were never right, and each level multiplies the work.
pub(crate) const GUESS_DEPTH: usize = 4;

/// Maximum number of schemas in a normal form, with the copies that merging makes.
///
/// The largest schemas of public tool servers have a few thousand.
pub(crate) const NORMAL_STEPS: usize = 200_000;

/// Maximum number of schemas that one lowering visits. Above [`NORMAL_STEPS`], because some
/// dialects get definitions written out where they are used.
pub(crate) const LOWERING_STEPS: usize = 400_000;

/// Maximum number of steps of an analysis of schemas: comparing two of them, finding the
/// deepest path through definitions, telling the members of a union apart.
///
/// Beyond it the analysis gives the safe answer.
pub(crate) const ANALYSIS_STEPS: usize = 100_000;

/// Maximum number of parts of a root that are searched for its type.
pub(crate) const ROOT_PARTS: usize = 10_000;

/// Number of steps to check a value, however short its text is.
pub(crate) const CHECK_STEPS: usize = 1_000_000;

/// Further steps to check a value, for each token of its text.
pub(crate) const CHECK_STEPS_EACH: usize = 512;

/// Number of steps to check one value of a schema against another schema.
pub(crate) const TRIAL_STEPS: usize = 1_000;

/// Maximum number of results that a check remembers at once, to bound its memory.
pub(crate) const CHECK_MEMORY: usize = 100_000;

/// Number of steps to repair a value, however short its text is.
pub(crate) const REPAIR_STEPS: usize = 4_000;

/// Further steps to repair a value, for each token of its text.
pub(crate) const REPAIR_STEPS_EACH: usize = 64;

/// Number of values that serde may visit when it reads a union without a tag that contains
/// itself, however short the text is.
pub(crate) const TYPE_STEPS: u64 = 200_000;

/// Further values that serde may visit, for each token of the text.
pub(crate) const TYPE_STEPS_EACH: u64 = 64;

/// Maximum number of places where a type is asked whether its texts are an enum.
pub(crate) const PROBED_PLACES: usize = 1_000;

/// Maximum number of times that a text is scanned from brackets that open no value.
pub(crate) const VAIN_SCANS: usize = 16;

/// Bytes that may be scanned in vain, however short the text is.
pub(crate) const VAIN_BYTES: usize = 100_000;

/// Maximum number of faults or differences that are reported; the reader of a report that
/// fixed these will ask again.
pub(crate) const REPORTED: usize = 50;

/// Maximum number of repairs that are listed one by one: a text of a million small mistakes
/// would otherwise take many times its own memory.
pub(crate) const REPAIRS: usize = 1_000;

/// Maximum number of unknown fields that are compared with the names of absent ones.
pub(crate) const NEAR_NAMES: usize = 64;

/// Maximum number of words of a text that are searched for separators.
pub(crate) const LIST_WORDS: usize = 1_000;
