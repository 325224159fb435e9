//! Building an index: the weights of the words of each tool.
use std::collections::HashMap;

use super::texts::{Part, each_text};
use super::words::{each_word, is_number, start_of, stem};
use super::{IndexedTool, Pair, Posting, ToolIndex};

/// Maximum number of words of a tool that are read. The name comes first, then the description.
const MOST_WORDS: usize = 5_000;

/// Number of parts.
const PARTS: usize = 5;

/// The weight of a word in each part, in the order of [`Part`].
const WEIGHTS: [f64; PARTS] = [1.5, 1.0, 0.5, 0.7, 1.0];

/// How much a word loses if its part is longer than in other tools: not at all with 0, and in
/// proportion to the length with 1.
const BY_LENGTH: [f64; PARTS] = [0.3, 0.85, 0.5, 0.5, 0.5];

/// How fast further occurrences of a word lose their weight (`k1` of BM25).
const SATURATION: f64 = 1.5;

/// The bonus of a tool whose whole name is in the query, and of one whose first sentence is. A part
/// of the name gets its share, in which rare words count more.
const NAME_BONUS: f64 = 8.0;
const SENTENCE_BONUS: f64 = 2.5;

/// Power of the inverse document frequency: rare words count a little more than in BM25.
const RARITY_POWER: f64 = 1.1;

/// Weight of a number, compared with a word. Numbers of a query are mostly values of arguments.
const NUMBER_WEIGHT: f64 = 0.4;

/// The words of the tools that were added.
#[derive(Default)]
pub(super) struct Builder {
    names: Vec<Box<str>>,
    tools: Vec<ToolWords>,
    terms: HashMap<Box<str>, u32>,
    is_number: Vec<bool>,
    /// The terms of each word that was read: none for a stop word, or its stem and its start.
    known: HashMap<Box<str>, Option<(u32, Option<u32>)>>,
    pairs: Vec<Pair>,
}

/// The words of a tool, as terms.
#[derive(Default)]
struct ToolWords {
    all: Vec<(u32, Part)>,
    /// Number of words of each part.
    lengths: [u32; PARTS],
    /// The words of the name and of the first sentence, without repetitions.
    name: Vec<u32>,
    sentence: Vec<u32>,
}

impl Builder {
    pub(super) fn add(&mut self, tool: &IndexedTool<'_>) {
        let mut words = ToolWords::default();
        words.name = self.read(Part::Name, tool.name, &mut words);
        let (sentence, rest) = tool.description.split_at(end_of_sentence(tool.description));
        words.sentence = self.read(Part::Description, sentence, &mut words);
        self.read(Part::Description, rest, &mut words);
        for schema in [Some(tool.input), tool.output].into_iter().flatten() {
            each_text(schema, &mut |part, text| {
                self.read(part, text, &mut words);
            });
        }
        for of_text in [&mut words.name, &mut words.sentence] {
            of_text.sort_unstable();
            of_text.dedup();
        }
        self.names.push(tool.name.into());
        self.tools.push(words);
    }

    /// Adds the words of a text, and returns their stems.
    fn read(&mut self, part: Part, text: &str, words: &mut ToolWords) -> Vec<u32> {
        let mut stems = Vec::new();
        if words.all.len() >= MOST_WORDS {
            return stems;
        }
        let place = place(self.tools.len());
        each_word(text, |word| {
            if words.all.len() >= MOST_WORDS {
                return;
            }
            let Some((stem, start)) = self.terms_of(word.text) else { return };
            words.all.push((stem, part));
            if word.joined {
                return;
            }
            words.lengths[part as usize] += 1;
            words.all.extend(start.map(|start| (start, part)));
            if let Some(before) = stems.last() {
                let in_schema = !matches!(part, Part::Name | Part::Description);
                self.pairs.push(Pair { words: (*before, stem), place, in_schema });
            }
            stems.push(stem);
        });
        stems
    }

    /// Returns the stem and the start of a word, or `None` for a stop word.
    fn terms_of(&mut self, word: &str) -> Option<(u32, Option<u32>)> {
        if let Some(known) = self.known.get(word) {
            return *known;
        }
        let terms = stem(word).map(|stem| {
            let start = start_of(&stem).map(|start| self.term(&start));
            (self.term(&stem), start)
        });
        self.known.insert(word.into(), terms);
        terms
    }

    fn term(&mut self, text: &str) -> u32 {
        if let Some(term) = self.terms.get(text) {
            return *term;
        }
        let term = place(self.terms.len());
        self.terms.insert(text.into(), term);
        self.is_number.push(is_number(text));
        term
    }

    pub(super) fn build(mut self) -> ToolIndex {
        let frequencies = self.frequencies();
        let mut tools_with = vec![0_u32; self.terms.len()];
        for (term, _) in frequencies.iter().flatten() {
            tools_with[*term as usize] += 1;
        }
        let count = self.tools.len() as f64;
        let rarity: Vec<f64> = (tools_with.iter().zip(&self.is_number))
            .map(|(with, is_number)| {
                let with = f64::from(*with);
                let rarity = ((count - with + 0.5) / (with + 0.5)).ln_1p().powf(RARITY_POWER);
                if *is_number { rarity * NUMBER_WEIGHT } else { rarity }
            })
            .collect();
        let mut postings: Vec<Vec<Posting>> =
            tools_with.iter().map(|with| Vec::with_capacity(*with as usize)).collect();
        for (at, (of_tool, words)) in frequencies.into_iter().zip(&self.tools).enumerate() {
            let in_name = Bonus::new(NAME_BONUS, &words.name, &rarity);
            let in_sentence = Bonus::new(SENTENCE_BONUS, &words.sentence, &rarity);
            for (term, frequency) in of_tool {
                let saturated = frequency * (SATURATION + 1.0) / (frequency + SATURATION);
                let bonus = in_name.factor(term) + in_sentence.factor(term);
                let weight = rarity[term as usize] * (saturated + bonus);
                postings[term as usize].push(Posting { place: place(at), weight: weight as f32 });
            }
        }
        // Of equal pairs, the one that is not in the schema is the first and stays.
        self.pairs.sort_unstable();
        self.pairs.dedup_by_key(|pair| (pair.words, pair.place));
        let (names, terms, pairs) = (self.names, self.terms, self.pairs);
        ToolIndex { names, terms, rarity, postings, pairs, vectors: Vec::new() }
    }

    /// Returns how often each tool has each of its terms, weighted by the parts and their lengths.
    fn frequencies(&mut self) -> Vec<Vec<(u32, f64)>> {
        let mut average = [0.0; PARTS];
        for words in &self.tools {
            for (average, length) in average.iter_mut().zip(words.lengths) {
                *average += f64::from(length) / self.tools.len() as f64;
            }
        }
        let of_tool = |words: &mut ToolWords| {
            let mut frequencies: Vec<(u32, f64)> = Vec::new();
            words.all.sort_unstable();
            for (term, part) in words.all.drain(..) {
                let part = part as usize;
                let by_length =
                    f64::from(words.lengths[part]) / average[part].max(f64::MIN_POSITIVE);
                let weight = WEIGHTS[part] / (1.0 - BY_LENGTH[part] + BY_LENGTH[part] * by_length);
                match frequencies.last_mut() {
                    Some((last, frequency)) if *last == term => *frequency += weight,
                    _ => frequencies.push((term, weight)),
                }
            }
            frequencies
        };
        self.tools.iter_mut().map(of_tool).collect()
    }
}

/// The bonus for the words of a text.
struct Bonus<'t> {
    words: &'t [u32],
    /// The factor of the rarity of each word.
    factor: f64,
}

impl<'t> Bonus<'t> {
    fn new(bonus: f64, words: &'t [u32], rarity: &[f64]) -> Self {
        let all: f64 = words.iter().map(|word| rarity[*word as usize]).sum();
        // A text of words that nearly all tools have is no reason for a bonus.
        Self { words, factor: bonus / all.max(1.0) }
    }

    fn factor(&self, term: u32) -> f64 {
        if self.words.binary_search(&term).is_ok() { self.factor } else { 0.0 }
    }
}

/// Returns where the first sentence of a description ends.
fn end_of_sentence(text: &str) -> usize {
    let is_end = |(at, c): &(usize, char)| {
        *c == '\n' || (*c == '.' && text[at + 1..].starts_with(char::is_whitespace))
    };
    text.char_indices().find(is_end).map_or(text.len(), |(at, _)| at)
}

/// Returns the number of a tool or a term as it is stored.
fn place(at: usize) -> u32 {
    // Memory ends before the numbers do.
    u32::try_from(at).unwrap_or(u32::MAX)
}
