//! The calls that a case expects, and their comparison with the calls that were made.
//!
//! ```text
//! expected, made ─► read by contract ─► compared one by one ─► paired ─► differences
//! ```
//!
//! Begin with [`CallMatching::compare`].

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use toolwright_signature::Policy;

use crate::attempt::MadeCall;
use crate::error::{EvalError, Result};
use crate::expected_value::{ChangeText, Rule, ValueDifference, differences, shown};
use crate::matching::matching;

/// A call that a case expects: the name of a tool, and the arguments.
///
/// ```
/// use serde_json::json;
/// use toolwright_evals::ExpectedCall;
///
/// let order = ExpectedCall::new("get_order", json!({"id": 7}));
/// let mail = ExpectedCall::new("send_mail", json!({
///     "to": {"$one_of": ["ada@example.com", "orders@example.com"]},
///     "text": {"$contains": "refund"},
///     "copy": {"$optional": true},
/// }));
/// let search = ExpectedCall::with_any_arguments("search");
/// # drop((order, mail, search));
/// ```
///
/// In a file, a call without `arguments` is one with any arguments:
///
/// ```yaml
/// calls:
/// - {tool: get_order, arguments: {id: 7}}
/// - tool: send_mail
///   arguments:
///     to: {$one_of: [ada@example.com, orders@example.com]}
///     text: {$contains: refund}
///     copy: {$optional: true}
/// - tool: search
/// ```
///
/// # Arguments
///
/// An argument is equal to the expected one as the tool's contract says: 5 is 5.0, an argument with a
/// default is the same left out and written out, and the order of a list of unique items has no meaning.
/// At any depth, a value may be a rule instead:
///
/// | rule | accepts |
/// |---|---|
/// | `{"$any": true}` | any value |
/// | `{"$one_of": [1, 2]}` | one of these values or rules |
/// | `{"$optional": 1}` | this value or rule, or an argument that is left out, unless the tool requires it |
/// | `{"$contains": "refund"}` | a text with this part, in upper or lower case |
/// | `{"$matches": "^2026-"}` | a text that matches a regular expression |
/// | `{"$has": {"id": 7}}` | an object with at least these fields; also for `arguments` as a whole |
/// | `{"$exactly": {"$any": true}}` | this value: nothing in it is a rule, and [normalizing](CallMatching::normalizing) does not change it |
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ExpectedCall {
    /// Name of the tool.
    pub tool: String,
    /// The arguments, which may contain rules. Default: any arguments.
    #[serde(default = "any", deserialize_with = "rules")]
    pub arguments: Value,
}

fn any() -> Value {
    json!({"$any": true})
}

/// Reads arguments, and checks their rules.
fn rules<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Rule::parse(&value).map_err(serde::de::Error::custom)?;
    Ok(value)
}

impl ExpectedCall {
    /// Returns a call with these arguments, which may contain rules.
    pub fn new(tool: impl Into<String>, arguments: Value) -> Self {
        Self { tool: tool.into(), arguments }
    }

    /// Returns a call with any arguments.
    pub fn with_any_arguments(tool: impl Into<String>) -> Self {
        Self::new(tool, any())
    }
}

impl fmt::Display for ExpectedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.arguments == any() {
            return write!(f, "{}(…)", self.tool);
        }
        write!(f, "{}({})", self.tool, shown(&self.arguments))
    }
}

/// How the calls that were made are compared with those that a case expects.
///
/// By default, exactly the expected calls have to be made, in any order.
///
/// ```
/// use serde_json::json;
/// use toolwright_evals::{CallMatching, ExpectedCall, MadeCall};
///
/// let expected = [
///     ExpectedCall::new("get_order", json!({"id": 7})),
///     ExpectedCall::new("cancel_order", json!({"id": 7})),
/// ];
/// let made = [
///     MadeCall::new("cancel_order", json!({"id": 7})),
///     MadeCall::new("get_order", json!({"id": 8})),
/// ];
/// let compared = CallMatching::new().compare(&expected, &made)?;
/// assert_eq!(compared.differences[0].to_string(), "get_order (call 2): $.id: expected 7, got 8");
/// assert_eq!(compared.score(), 0.5);
/// # Ok::<(), toolwright_evals::EvalError>(())
/// ```
#[derive(Clone, Default)]
pub struct CallMatching {
    in_order: bool,
    others: bool,
    failed: bool,
    policy: Policy,
    normalize: Option<Arc<ChangeText>>,
}

impl fmt::Debug for CallMatching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallMatching")
            .field("in_order", &self.in_order)
            .field("others", &self.others)
            .field("failed", &self.failed)
            .field("policy", &self.policy)
            .field("normalizes", &self.normalize.is_some())
            .finish()
    }
}

impl CallMatching {
    /// Returns a matching of exactly the expected calls, in any order.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Requires the expected order.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.in_order = true;
        self
    }

    /// Allows further calls beside the expected ones.
    #[must_use]
    pub fn allowing_others(mut self) -> Self {
        self.others = true;
        self
    }

    /// Allows further calls that failed, for example because the model had to correct its arguments.
    #[must_use]
    pub fn allowing_failed(mut self) -> Self {
        self.failed = true;
        self
    }

    /// Sets the repairs with which arguments are read by the tool's contract. Default:
    /// [`Policy::Coerce`], as an agent does, so `"5"` is 5 where the contract has a number.
    ///
    /// Arguments that cannot be read are compared as the model wrote them.
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Changes expected texts and those of a model before they are compared. Default: texts are compared
    /// as they are.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolwright_evals::{CallMatching, ExpectedCall, MadeCall};
    ///
    /// let matching = CallMatching::new().normalizing(|text| text.trim().to_lowercase());
    /// let expected = [ExpectedCall::new("find_city", json!({"name": "Paris"}))];
    /// let made = [MadeCall::new("find_city", json!({"name": "PARIS "}))];
    /// assert!(matching.compare(&expected, &made)?.differences.is_empty());
    /// # Ok::<(), toolwright_evals::EvalError>(())
    /// ```
    #[must_use]
    pub fn normalizing(
        mut self,
        normalize: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Self {
        self.normalize = Some(Arc::new(normalize));
        self
    }

    /// Compares calls.
    ///
    /// # Errors
    ///
    /// [`EvalError::ExpectedCall`]: an expected call has a rule that cannot be read.
    pub fn compare<'m>(
        &self,
        expected: &[ExpectedCall],
        made: impl IntoIterator<Item = &'m MadeCall>,
    ) -> Result<CallComparison> {
        let made: Vec<_> = made.into_iter().collect();
        let table = self.table(expected, &made)?;
        let any_order = self.pairs(&table, made.len());
        let loose = self.result(expected, &made, &table, &any_order);
        if !self.in_order {
            return Ok(loose);
        }
        let aligned = self.aligned(&table, &made);
        let mut strict = self.result(expected, &made, &table, &aligned);
        if !strict.differences.is_empty() && loose.differences.is_empty() {
            // Only the order differs, and that is clearer than calls that are missing or not expected.
            let used: HashSet<_> = any_order.iter().flatten().collect();
            let used = made.iter().enumerate().filter(|(at, _)| used.contains(at));
            strict.differences = vec![CallDifference::Order {
                expected: expected.iter().map(ToString::to_string).collect(),
                made: used.map(|(_, call)| written(call)).collect(),
            }];
        }
        Ok(strict)
    }

    /// Compares each expected call with each that was made.
    fn table(&self, expected: &[ExpectedCall], made: &[&MadeCall]) -> Result<Table> {
        let read: Vec<_> = made.iter().map(|call| self.read(call)).collect();
        let normalize = self.normalize.as_deref();
        let row = |call: &ExpectedCall| {
            let rule = Rule::parse(&call.arguments)
                .map_err(|reason| EvalError::ExpectedCall { tool: call.tool.clone(), reason })?;
            let cell = |(made, arguments): (&&MadeCall, &Value)| {
                let schema = made.contract.as_deref().map(toolwright_signature::Contract::input);
                (made.tool == call.tool).then(|| differences(&rule, arguments, schema, normalize))
            };
            Ok(made.iter().zip(&read).map(cell).collect())
        };
        expected.iter().map(row).collect()
    }

    /// Returns the arguments as the tool gets them.
    fn read(&self, call: &MadeCall) -> Value {
        let Some(contract) = &call.contract else { return call.arguments.clone() };
        let text = match &call.arguments {
            // A text that is not JSON.
            Value::String(text) => text.clone(),
            arguments => arguments.to_string(),
        };
        let read = contract.read_with::<Value>(&text, self.policy);
        read.map_or_else(|_| call.arguments.clone(), |reading| reading.value)
    }

    /// Pairs calls in any order: as many as fit, and then those of the same tool that differ least.
    fn pairs(&self, table: &Table, made: usize) -> Pairs {
        let fits = |one: usize, other: usize| table[one][other].as_ref().is_some_and(Vec::is_empty);
        let mut pairs = matching(table.len(), made, fits);
        let mut near: Vec<_> = (0..table.len())
            .flat_map(|one| (0..made).map(move |other| (one, other)))
            .filter_map(|(one, other)| Some((table[one][other].as_ref()?.len(), one, other)))
            .collect();
        near.sort_unstable();
        for (_, one, other) in near {
            if pairs[one].is_none() && !pairs.contains(&Some(other)) {
                pairs[one] = Some(other);
            }
        }
        pairs
    }

    /// Pairs calls in the expected order, with the lowest costs.
    ///
    /// A pair that fits costs nothing. One of the same tool that differs costs less than a call that is
    /// missing, so that the difference is shown.
    fn aligned(&self, table: &Table, made: &[&MadeCall]) -> Pairs {
        const DIFFERS: usize = 1_000;
        const MISSING: usize = 1_500;

        let unexpected = |at: usize| if self.may_be_further(made[at]) { 0 } else { MISSING };
        let pair = |one: usize, other: usize| match table[one][other].as_ref()?.len() {
            0 => Some(0),
            differences => Some(DIFFERS + differences),
        };
        let (rows, columns) = (table.len(), made.len());
        // The costs of the calls from here on.
        let mut costs = vec![vec![0; columns + 1]; rows + 1];
        for one in (0..=rows).rev() {
            for other in (0..=columns).rev() {
                let missing = (one < rows).then(|| MISSING + costs[one + 1][other]);
                let further = (other < columns).then(|| unexpected(other) + costs[one][other + 1]);
                let both = (one < rows && other < columns).then(|| pair(one, other)).flatten();
                let both = both.map(|cost| cost + costs[one + 1][other + 1]);
                costs[one][other] =
                    both.into_iter().chain(missing).chain(further).min().unwrap_or(0);
            }
        }
        let mut pairs = vec![None; rows];
        let (mut one, mut other) = (0, 0);
        while one < rows && other < columns {
            let cost = costs[one][other];
            if pair(one, other).is_some_and(|pair| pair + costs[one + 1][other + 1] == cost) {
                pairs[one] = Some(other);
                (one, other) = (one + 1, other + 1);
            } else if MISSING + costs[one + 1][other] == cost {
                one += 1;
            } else {
                other += 1;
            }
        }
        pairs
    }

    /// Whether a call may be made beside the expected ones.
    fn may_be_further(&self, call: &MadeCall) -> bool {
        self.others || self.failed && call.failed
    }

    fn result(
        &self,
        expected: &[ExpectedCall],
        made: &[&MadeCall],
        table: &Table,
        pairs: &Pairs,
    ) -> CallComparison {
        let mut compared = CallComparison { differences: Vec::new(), fitting: 0, calls: 0 };
        for ((call, row), other) in expected.iter().zip(table).zip(pairs) {
            let differing = other.and_then(|at| Some((at, row[at].as_ref()?)));
            match differing {
                None => compared.differences.push(CallDifference::Missing(call.clone())),
                Some((_, differing)) if differing.is_empty() => compared.fitting += 1,
                Some((at, differing)) => {
                    compared.differences.extend(differing.iter().cloned().map(|one| {
                        let ValueDifference { path, expected, got } = one;
                        let (call, tool) = (at + 1, call.tool.clone());
                        CallDifference::Argument { call, tool, path, expected, got }
                    }));
                }
            }
        }
        let paired: HashSet<_> = pairs.iter().flatten().collect();
        let mut further = 0;
        for (at, call) in made.iter().enumerate() {
            if !paired.contains(&at) && !self.may_be_further(call) {
                further += 1;
                let call = CallDifference::Unexpected { call: at + 1, written: written(call) };
                compared.differences.push(call);
            }
        }
        compared.calls = expected.len() + further;
        compared
    }
}

/// The differences of each expected call from each that was made; `None` for another tool.
type Table = Vec<Vec<Option<Vec<ValueDifference>>>>;

/// For each expected call the one that was made.
type Pairs = Vec<Option<usize>>;

/// Returns a call as one line.
fn written(call: &MadeCall) -> String {
    format!("{}({})", call.tool, shown(&call.arguments))
}

/// The result of comparing calls. They fit if there are no differences.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CallComparison {
    /// The differences, in the order of the expected calls.
    pub differences: Vec<CallDifference>,
    fitting: usize,
    /// Number of expected calls and of calls that are not expected.
    calls: usize,
}

impl CallComparison {
    /// Returns the share of calls that fit, among the expected ones and those that are not expected.
    #[must_use]
    pub fn score(&self) -> f64 {
        match self.calls {
            0 => 1.0,
            calls => self.fitting as f64 / calls as f64,
        }
    }
}

/// One difference between the expected calls and those that were made.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum CallDifference {
    /// An expected call was not made.
    Missing(ExpectedCall),
    /// A call is not expected.
    Unexpected {
        /// Position of the call among those that were made, from 1.
        call: usize,
        /// The call in one line.
        written: String,
    },
    /// An argument differs.
    Argument {
        /// Position of the call among those that were made, from 1.
        call: usize,
        /// Name of the tool.
        tool: String,
        /// Path of the value in the arguments, from `$`.
        path: String,
        /// The expected value in words.
        expected: String,
        /// The value of the model.
        got: String,
    },
    /// The calls fit, but not their order.
    Order {
        /// The expected calls, each in one line.
        expected: Vec<String>,
        /// The calls that were made.
        made: Vec<String>,
    },
}

impl fmt::Display for CallDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(call) => write!(f, "missing: {call}"),
            Self::Unexpected { call, written } => {
                write!(f, "not expected: {written} (call {call})")
            }
            Self::Argument { call, tool, path, expected, got } => {
                write!(f, "{tool} (call {call}): {path}: expected {expected}, got {got}")
            }
            Self::Order { expected, made } => {
                write!(
                    f,
                    "in another order: expected {}, got {}",
                    expected.join(", "),
                    made.join(", ")
                )
            }
        }
    }
}
