//! The [`ToolIndex`]: a search for the tools that a task needs.

mod build;
mod texts;
mod words;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde_json::Value;
use toolwright_signature::Contract;

use self::build::Builder;
use self::words::{each_word, start_of, stem};

/// Weight of the start of a word, compared with the word.
const START_WEIGHT: f64 = 0.2;

/// Weight of two words that are neighbours in the query and in the tool, compared with the two
/// words.
const PAIR_WEIGHT: f64 = 0.3;

/// How fast further occurrences of a word in a query lose their weight.
const QUERY_SATURATION: f64 = 0.5;

/// The constant of reciprocal rank fusion, with its usual value.
const RANK_CONSTANT: f64 = 60.0;

/// An index of tools, to find those that a task needs.
///
/// It covers the whole contract: the name, the description, the names and descriptions of fields,
/// and the values of enums, of the input and of the output. Identifiers are split into words, and
/// English words are compared by their stems. The ranking is BM25F: each part of a contract has a
/// weight, and a long part counts less. A tool whose name, or the first sentence of whose
/// description, is in the query gets a bonus.
///
/// The index needs no model. The same tools in the same order give the same results. Every tool is
/// identified by its place in that order, so names may repeat.
///
/// Of a very long query, description, word or schema, only the first part is read. So no text makes
/// an index slow.
///
/// ```
/// use serde_json::json;
/// use toolwright_orchestrator::{IndexedTool, ToolIndex};
///
/// let city = json!({"properties": {"city": {"description": "City name, in English."}}});
/// let sum = json!({"properties": {"invoice_id": {}, "currency": {"enum": ["EUR", "NOK"]}}});
/// let index = ToolIndex::new([
///     IndexedTool::new("weather.getForecast", "Forecast for the next days.", &city),
///     IndexedTool::new("payInvoice", "Transfer the amount of a bill.", &sum),
/// ]);
///
/// let found = index.find("Please pay the two open invoices in euros (EUR)", 5);
/// assert_eq!(found[0].name, "payInvoice");
/// assert_eq!(found[0].place, 1);
/// assert_eq!(index.find("Which cities have good weather?", 5)[0].name, "weather.getForecast");
/// assert!(index.find("Sing a song", 5).is_empty());
/// ```
///
/// A [`Contract`] is an [`IndexedTool`] too: `ToolIndex::new(tools.iter().map(|tool| &**tool.contract()))`
/// is the index of a list of tools.
pub struct ToolIndex {
    names: Vec<Box<str>>,
    /// The terms: stems, and starts of words.
    terms: HashMap<Box<str>, u32>,
    /// How rare each term is.
    rarity: Vec<f64>,
    /// The tools that have each term, with its weight in the tool.
    postings: Vec<Vec<Posting>>,
    /// The neighbouring words of each tool, sorted.
    pairs: Vec<Pair>,
    /// A vector for each tool, or nothing.
    vectors: Vec<Vec<f32>>,
}

#[derive(Debug, Clone, Copy)]
struct Posting {
    place: u32,
    weight: f32,
}

/// Two neighbouring words of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    words: (u32, u32),
    place: u32,
    /// The pair is only in the schema, where it has half the weight.
    in_schema: bool,
}

/// A tool for a [`ToolIndex`]: a contract, or the parts of one.
#[derive(Debug, Clone, Copy)]
pub struct IndexedTool<'a> {
    name: &'a str,
    description: &'a str,
    input: &'a Value,
    output: Option<&'a Value>,
}

impl<'a> IndexedTool<'a> {
    /// A tool that is not a contract, for example because no provider accepts its schema.
    ///
    /// `input` may be any JSON. What is not a schema is skipped.
    #[must_use]
    pub fn new(name: &'a str, description: &'a str, input: &'a Value) -> Self {
        Self { name, description, input, output: None }
    }
}

impl<'a> From<&'a Contract> for IndexedTool<'a> {
    fn from(contract: &'a Contract) -> Self {
        Self {
            name: contract.name(),
            description: contract.description(),
            input: contract.input(),
            output: contract.output_to_write(),
        }
    }
}

/// A tool that a [`ToolIndex`] found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FoundTool<'i> {
    /// The place of the tool among those of the index.
    pub place: usize,
    /// The name of the tool.
    pub name: &'i str,
    /// How well the tool fits. Scores can be compared only within one query.
    pub score: f64,
}

/// Vectors that do not fit a [`ToolIndex`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VectorsError {
    /// There is not one vector for each tool.
    #[error("there are {vectors} vectors for {tools} tools; pass one vector for each tool")]
    Count {
        /// Number of vectors.
        vectors: usize,
        /// Number of tools.
        tools: usize,
    },
    /// A vector has another length than the first one, or a number that is not finite.
    #[error(
        "vector {place} cannot be compared with the first one; pass vectors of one embedding model, of one length, with finite numbers"
    )]
    Vector {
        /// The place of the vector.
        place: usize,
    },
}

impl ToolIndex {
    /// Builds the index of some tools.
    #[must_use]
    pub fn new<'a, T: Into<IndexedTool<'a>>>(tools: impl IntoIterator<Item = T>) -> Self {
        let mut builder = Builder::default();
        for tool in tools {
            builder.add(&tool.into());
        }
        builder.build()
    }

    /// Adds a vector for each tool, in the order of the tools, for [`find_near`](Self::find_near).
    ///
    /// The vectors are those of an embedding model that your program calls, for example for the
    /// name and the description of each tool.
    ///
    /// # Errors
    ///
    /// Returns an error if there is not one vector for each tool, if their lengths differ, or if a
    /// number is not finite.
    pub fn with_vectors(mut self, vectors: Vec<Vec<f32>>) -> Result<Self, VectorsError> {
        if vectors.len() != self.names.len() {
            let tools = self.names.len();
            return Err(VectorsError::Count { vectors: vectors.len(), tools });
        }
        let length = vectors.first().map_or(0, Vec::len);
        let is_wrong = |vector: &Vec<f32>| {
            vector.len() != length || vector.iter().any(|number| !number.is_finite())
        };
        if let Some(place) = vectors.iter().position(is_wrong) {
            return Err(VectorsError::Vector { place });
        }
        self.vectors = vectors;
        Ok(self)
    }

    /// Returns the number of tools.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns whether there are no tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the tools that fit a query, at most `most`, the best first.
    ///
    /// The query is text: the words of a user, or of a model. Tools with the same score are in the
    /// order of their places. A tool that has no word of the query, and no word with the same first
    /// five letters, is not returned.
    #[must_use]
    pub fn find(&self, query: &str, most: usize) -> Vec<FoundTool<'_>> {
        self.found(best(&self.scores(query), most))
    }

    /// Returns the tools that fit a query by its words and by its vector.
    ///
    /// The two rankings are joined by reciprocal rank: the score of a tool is the sum of
    /// `1 / (60 + rank)` over the rankings, in which the best tool has rank 1. The ranking by
    /// vectors has all tools with a positive cosine similarity. Without
    /// [vectors](Self::with_vectors), or with a vector of another length, it is empty.
    #[must_use]
    pub fn find_near(&self, query: &str, vector: &[f32], most: usize) -> Vec<FoundTool<'_>> {
        let similarities: Vec<f64> =
            self.vectors.iter().map(|of_tool| similarity(of_tool, vector)).collect();
        let mut joined = vec![0.0; self.names.len()];
        for scores in [self.scores(query), similarities] {
            for (rank, (place, _)) in best(&scores, scores.len()).into_iter().enumerate() {
                joined[place] += 1.0 / (RANK_CONSTANT + 1.0 + rank as f64);
            }
        }
        self.found(best(&joined, most))
    }

    fn found(&self, best: Vec<(usize, f64)>) -> Vec<FoundTool<'_>> {
        let found = |(place, score)| FoundTool { place, name: &self.names[place], score };
        best.into_iter().map(found).collect()
    }

    /// Returns the score of every tool.
    fn scores(&self, query: &str) -> Vec<f64> {
        let query = self.counted(query);
        let mut scores = vec![0.0; self.names.len()];
        let words = query.words.into_iter().map(|(word, count)| (word, saturated(count)));
        let starts = query.starts.into_iter();
        let starts = starts.map(|(start, count)| (start, START_WEIGHT * saturated(count)));
        for (term, weight) in words.chain(starts) {
            for posting in &self.postings[term as usize] {
                scores[posting.place as usize] += weight * f64::from(posting.weight);
            }
        }
        for (words, count) in query.pairs {
            let rarity = self.rarity[words.0 as usize] + self.rarity[words.1 as usize];
            let weight = PAIR_WEIGHT * rarity * saturated(count);
            let start = self.pairs.partition_point(|pair| pair.words < words);
            for pair in self.pairs[start..].iter().take_while(|pair| pair.words == words) {
                scores[pair.place as usize] += if pair.in_schema { weight / 2.0 } else { weight };
            }
        }
        scores
    }

    /// Returns the terms of a query that some tool has.
    fn counted(&self, query: &str) -> Counted {
        let mut counted = Counted::default();
        let mut before = None;
        each_word(query, |word| {
            let Some(stem) = stem(word.text) else { return };
            let term = self.terms.get(&*stem).copied();
            if let Some(term) = term {
                *counted.words.entry(term).or_default() += 1;
            }
            if word.joined {
                return;
            }
            if let Some(start) = start_of(&stem).and_then(|start| self.terms.get(&*start)) {
                *counted.starts.entry(*start).or_default() += 1;
            }
            if let (Some(before), Some(term)) = (before, term) {
                *counted.pairs.entry((before, term)).or_default() += 1;
            }
            before = term;
        });
        counted
    }
}

/// The terms of a query with their numbers. Their order is fixed, because a sum of floats depends on
/// the order.
#[derive(Default)]
struct Counted {
    words: BTreeMap<u32, u32>,
    starts: BTreeMap<u32, u32>,
    pairs: BTreeMap<(u32, u32), u32>,
}

/// Returns the weight of a term that a query has `count` times: 1 for one time.
fn saturated(count: u32) -> f64 {
    let count = f64::from(count);
    count * (1.0 + QUERY_SATURATION) / (count + QUERY_SATURATION)
}

/// Returns the places with a score, at most `most`, the best first. A tie keeps the order of places.
fn best(scores: &[f64], most: usize) -> Vec<(usize, f64)> {
    let order = |one: &(usize, f64), other: &(usize, f64)| {
        other.1.total_cmp(&one.1).then(one.0.cmp(&other.0))
    };
    let scored = scores.iter().copied().enumerate();
    let mut best: Vec<(usize, f64)> = scored.filter(|(_, score)| *score > 0.0).collect();
    if most < best.len() {
        best.select_nth_unstable_by(most, order);
        best.truncate(most);
    }
    best.sort_unstable_by(order);
    best
}

/// Returns the cosine of two vectors, or 0 if they cannot be compared.
fn similarity(one: &[f32], other: &[f32]) -> f64 {
    if one.len() != other.len() {
        return 0.0;
    }
    let product = |one: &[f32], other: &[f32]| -> f64 {
        one.iter().zip(other).map(|(one, other)| f64::from(*one) * f64::from(*other)).sum()
    };
    let cosine = product(one, other) / (product(one, one) * product(other, other)).sqrt();
    // The cosine with a vector of zeros, or with numbers that are not finite, is not a number.
    if cosine.is_finite() { cosine } else { 0.0 }
}

impl fmt::Debug for ToolIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolIndex")
            .field("tools", &self.names.len())
            .field("terms", &self.terms.len())
            .field("has_vectors", &!self.vectors.is_empty())
            .finish()
    }
}
