//! Whether one contract can replace another.
//!
//! Both sides go through [`comparing`](crate::comparing): the input as this contract's type
//! serializes it, the output as the other contract describes it.

use serde_json::{Value, json};

use super::Contract;
use crate::comparing::{Difference, Sides};
use crate::error::{Result, Side};
use crate::lowering::dialect::{Dialect, Lowered};
use crate::schema;

impl Contract {
    /// Returns the differences that keep `other` from replacing this contract; empty if it can.
    ///
    /// `other` can replace it under two conditions. It accepts every input that this contract's
    /// type serializes to, and this contract can read every output that `other` allows. Use it to
    /// validate a server's tool against a signature before the first call:
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
    /// assert_eq!(lines, ["input $.limit: ours: may be as high as 255; theirs: takes at most 100"]);
    /// # Ok::<(), toolwright_signature::ContractError>(())
    /// ```
    ///
    /// The comparison follows JSON Schema, and takes into account what reading does:
    ///
    /// - A null is not a difference if `other` has the field as optional but not nullable:
    ///   [`read`](Self::read) with `other` leaves the field out.
    /// - An object with named fields and no rule for further fields has no further fields. A field
    ///   of an input that `other` does not name is a difference, unless `other` explicitly allows
    ///   any field: otherwise the server could ignore it silently. An unknown field of an output is
    ///   a difference only if this contract is closed to further fields, or has a field of nearly
    ///   the same name.
    /// - An output that is not a plain object may be wrapped in a field `result`, and an input that
    ///   is a union in a field `input`, as in MCP.
    /// - Bounds of 2⁵³ − 1 and beyond are ignored: generators write them everywhere.
    /// - A `format` counts only in an output, and only where reading checks it. Titles,
    ///   descriptions, defaults and names of contracts do not count.
    /// - A contract without an output schema is assumed to return a text.
    /// - Rules that cannot be compared, such as `not` or `if`, are differences, unless both schemas
    ///   have the same rule.
    ///
    /// The comparison errs on the safe side: it may report differences between schemas that fit,
    /// such as a range that two members of a union cover together, or two patterns for the same
    /// texts. It cannot see facts outside the schemas: custom `serde` code, a number too large for
    /// an `f32`, a server that breaks its own schema.
    ///
    /// A `oneOf` of the receiver whose members may overlap is a difference, unless both schemas have
    /// the same `oneOf`: a value that fits two members fits the union no more.
    ///
    /// It returns at most 50 differences for each side. The work is bounded for schemas of any
    /// size: a schema that is too large is a difference.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        let (side, comes) = (Side::Input, self.written_input());
        let of = |comes: &Value| {
            Sides { side, comes, takes: other.input(), reads_as_we_do: false }.differences()
        };
        let mut found = of(&comes);
        if let Some(wrapper) = wrapper(&found, self.lower(Dialect::Mcp)) {
            let wrapped = of(&schema::object([(wrapper, comes)]));
            found = if wrapped.is_empty() { wrapped } else { found };
        }
        found.extend(self.output_differences(other));
        found
    }

    /// Returns the differences that keep this contract from reading the outputs of `other`.
    pub(super) fn output_differences(&self, other: &Self) -> Vec<Difference> {
        match (self.output_to_read(), other.output_to_write()) {
            (Some(takes), Some(comes)) => {
                let found = of_outputs(comes, takes);
                match wrapper(&found, self.lower_output(Dialect::Mcp)) {
                    Some(wrapper) if schema::is_object(takes) => {
                        let takes = schema::object([(wrapper, takes.clone())]);
                        let wrapped = of_outputs(comes, &takes);
                        if wrapped.is_empty() { wrapped } else { found }
                    }
                    _ => found,
                }
            }
            (Some(takes), None) => text_for(takes),
            (None, _) => Vec::new(),
        }
    }

    /// Returns the schema of an input as its type serializes it.
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

/// Returns the field in which MCP has the value, if there are differences without it.
fn wrapper(found: &[Difference], lowered: Result<&Lowered>) -> Option<&'static str> {
    if found.is_empty() { None } else { lowered.ok()?.wrapper }
}

fn of_outputs(comes: &Value, takes: &Value) -> Vec<Difference> {
    Sides { side: Side::Output, comes, takes, reads_as_we_do: false }.differences()
}

/// Returns the differences of a text: a contract without an output schema returns a text.
fn text_for(takes: &Value) -> Vec<Difference> {
    // A unit output is not read at all.
    if takes.get("type").is_some_and(|kind| kind == "null") {
        return Vec::new();
    }
    let comes = json!({"type": "string"});
    let mut found = of_outputs(&comes, takes);
    found.truncate(1);
    for difference in &mut found {
        difference.theirs = "has no output schema".to_owned();
    }
    found
}
