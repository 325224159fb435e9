//! Whether one contract can stand in for another.
//!
//! Both sides go through [`comparing`](crate::comparing): the input as this contract's type
//! writes it, the output as the other contract says it.

use serde_json::{Value, json};

use super::Contract;
use crate::comparing::{Difference, Sides};
use crate::error::Side;
use crate::schema;

impl Contract {
    /// What keeps `other` from standing in for this contract; nothing if it may.
    ///
    /// It may if it takes every input that this one's type is written as, and this one
    /// reads every output that `other` lets come. So a tool of some server can be held to a
    /// signature before the first call, not at it:
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use serde_json::json;
    /// # use toolwright_signature::{Contract, Signature};
    /// /// Search documents.
    /// #[derive(Serialize, Deserialize, JsonSchema)]
    /// struct SearchDocuments {
    ///     query: String,
    ///     limit: Option<u8>,
    /// }
    ///
    /// impl Signature for SearchDocuments {
    ///     type Output = Vec<String>;
    /// }
    ///
    /// let input = json!({
    ///     "type": "object",
    ///     "properties": {
    ///         "query": {"type": "string"},
    ///         "limit": {"type": "integer", "maximum": 100},
    ///     },
    ///     "required": ["query"],
    /// });
    /// let output = json!({
    ///     "type": "object",
    ///     "properties": {"result": {"type": "array", "items": {"type": "string"}}},
    ///     "required": ["result"],
    /// });
    /// let ours = Contract::of::<SearchDocuments>()?;
    /// let theirs = Contract::dynamic("search", "Search.", input, Some(output))?;
    /// let lines: Vec<String> = ours.differences(&theirs).iter().map(|one| one.to_string()).collect();
    /// assert_eq!(lines, ["input $.limit: ours may be as high as 255, theirs takes at most 100"]);
    /// # Ok::<(), toolwright_signature::ContractError>(())
    /// ```
    ///
    /// What is compared is what the schemas say, as JSON Schema has it, with what reading
    /// does about it:
    ///
    /// - A null for a field that `other` lets be left out, and lets not be null, is no
    ///   difference: [`read`](Self::read) with `other` leaves it out.
    /// - An object that names its fields and says nothing of more has no more. A field of an
    ///   input that `other` does not name is a difference, unless it says that it takes any:
    ///   passed over there, nobody would notice. A field of an output is one where this
    ///   contract is closed to further fields, or has one of nearly that name.
    /// - An output that is no object may stand in a field `result`, as MCP has it.
    /// - Bounds of 2⁵³ − 1 and beyond are none: generators write them everywhere.
    /// - A `format` counts only in an output, and only where reading checks it. Titles,
    ///   descriptions, defaults and names of contracts do not count.
    /// - A contract that does not say what it returns is taken to return a text.
    /// - Rules that nobody can compare, such as `not` or `if`, are differences, unless both
    ///   say the same.
    ///
    /// It errs on the safe side: schemas that fit may be told apart, such as a range that
    /// two members of a union cover together, or two patterns for the same texts. What it
    /// cannot see is what no schema says: what `serde` does beyond it, a number too large
    /// for an `f32`, a server that does not keep to its own. Nor does it ask whether a
    /// second member of a `oneOf` fits.
    ///
    /// At most 50 differences are told for a side, and however large the schemas are, the
    /// work is bounded: what is too large is a difference.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        let comes = self.written_input();
        let input = Sides { side: Side::Input, comes: &comes, takes: other.input() };
        let mut found = input.differences();
        if let Some(takes) = self.output_to_read() {
            found.extend(match other.output_to_write() {
                Some(comes) => Sides { side: Side::Output, comes, takes }.differences(),
                None => text_for(takes),
            });
        }
        found
    }

    /// The schema of an input as its type writes it.
    fn written_input(&self) -> Value {
        let Some(written) = self.input_to_write.filter(|_| !self.unit_input) else {
            return self.input().clone();
        };
        let mut input = schema::without_noise(written());
        schema::root_object(&mut input);
        schema::modernise(&mut input);
        input
    }
}

/// What keeps a text from being taken: a contract without an output schema returns a text.
fn text_for(takes: &Value) -> Vec<Difference> {
    // Nothing is read from such an output.
    if takes.get("type").is_some_and(|kind| kind == "null") {
        return Vec::new();
    }
    let comes = json!({"type": "string"});
    let mut found = Sides { side: Side::Output, comes: &comes, takes }.differences();
    found.truncate(1);
    for difference in &mut found {
        difference.theirs = "does not say what it returns".to_owned();
    }
    found
}
