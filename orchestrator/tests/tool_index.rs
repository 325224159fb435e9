//! The search for tools: what is found, in which order, and that no text makes it slow or fail.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_module::Signature;
use toolwright_orchestrator::{FoundTool, IndexedTool, ToolIndex, VectorsError};
use toolwright_signature::Contract;

/// An index of tools with a name, a description and a schema.
fn index(tools: &[(&str, &str, Value)]) -> ToolIndex {
    ToolIndex::new(tools.iter().map(|(name, text, schema)| IndexedTool::new(name, text, schema)))
}

fn names<'i>(index: &'i ToolIndex, query: &str) -> Vec<&'i str> {
    index.find(query, usize::MAX).into_iter().map(|found| found.name).collect()
}

fn office() -> ToolIndex {
    let mail = json!({"type": "object", "properties": {
        "recipient": {"type": "string", "description": "Address of the person."},
        "priority": {"enum": ["urgent", "normal"]},
    }});
    let room = json!({"type": "object", "properties": {"stay": {"type": "object", "properties": {
        "check_in": {"type": "string", "description": "Day of arrival."},
        "room": {"anyOf": [{"const": "penthouse"}, {"type": "null"}]},
    }}}});
    index(&[
        ("sendEmail", "Write to somebody.", mail),
        ("hotel.book_room", "Reserve a place to sleep.", room),
        ("GitHub_search", "Look through repositories of code.", json!({})),
        ("get_weather", "Return the forecast of a city.", json!({"properties": {"city": {}}})),
    ])
}

#[test]
fn each_part_of_a_contract_is_found() {
    let index = office();
    for (query, name) in [
        ("email", "sendEmail"),
        ("send_email", "sendEmail"),
        ("the hotel rooms", "hotel.book_room"),
        ("github", "GitHub_search"),
        ("Git Hub", "GitHub_search"),
        ("sleeping", "hotel.book_room"),
        ("recipients", "sendEmail"),
        ("an urgent thing", "sendEmail"),
        ("whose address?", "sendEmail"),
        ("arrivals", "hotel.book_room"),
        ("penthouse", "hotel.book_room"),
        ("forecasting", "get_weather"),
    ] {
        assert_eq!(names(&index, query), [name], "{query}");
    }
}

#[test]
fn a_name_in_the_query_is_worth_more_than_a_description() {
    let index = index(&[
        (
            "list_files",
            "Shows what a folder has. Does not translate text to another form.",
            json!({}),
        ),
        ("translate_text", "Another language.", json!({})),
        ("text", "Works with text, as when you translate text or count text.", json!({})),
    ]);
    assert_eq!(names(&index, "translate text")[0], "translate_text");
}

#[test]
fn a_word_that_few_tools_have_is_worth_more() {
    let mut tools: Vec<(&str, &str, Value)> =
        vec![("get_file", "Get a file of a folder.", json!({})); 20];
    tools.push(("get_invoice", "Get an invoice.", json!({})));
    assert_eq!(names(&index(&tools), "get the file of the invoice")[0], "get_invoice");
}

#[test]
fn contracts_are_indexed_with_their_output() {
    /// Say how the day will be.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Forecast {
        /// City name, in English.
        city: String,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Day {
        /// Share of water in the air.
        humidity: f64,
        sky: Sky,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    enum Sky {
        Cloudy,
        Sunny,
    }

    impl Signature for Forecast {
        type Output = Day;
    }

    let schema = json!({"type": "object", "properties": {"sum": {"type": "number"}}});
    let contracts =
        [Contract::of::<Forecast>().unwrap(), Contract::dynamic("pay", "", schema, None).unwrap()];
    let index = ToolIndex::new(&contracts);
    for query in ["forecast", "cities", "humidity", "water", "cloudy", "is it sunny"] {
        assert_eq!(names(&index, query), ["forecast"], "{query}");
    }
    assert_eq!(names(&index, "sums"), ["pay"]);
}

#[test]
fn tools_with_one_name_and_one_score_keep_their_order() {
    let index = index(&vec![("get", "Get a thing.", json!({})); 50]);
    let places = |most| -> Vec<usize> {
        index.find("get things", most).into_iter().map(|found| found.place).collect()
    };
    assert_eq!(places(50), (0..50).collect::<Vec<_>>());
    assert_eq!(places(7), (0..7).collect::<Vec<_>>());
}

#[test]
fn a_query_without_a_known_word_finds_nothing() {
    let index = office();
    for query in ["", " \n", "?!", "please could you do this for me", "xylophone"] {
        assert_eq!(names(&index, query), [""; 0], "{query}");
    }
    assert!(index.find("email", 0).is_empty());
    let empty = ToolIndex::new(Vec::<IndexedTool>::new());
    assert!(empty.is_empty() && empty.find("email", 5).is_empty());
    assert_eq!((index.is_empty(), index.len()), (false, 4));
    assert!(format!("{index:?}").starts_with("ToolIndex { tools: 4, terms: "));
}

#[test]
fn texts_of_other_languages_are_found() {
    let index = index(&[
        ("天気予報", "明日の天気を調べる", json!({})),
        ("погода", "Прогноз для города", json!({})),
        ("straße", "Finde eine Straße", json!({})),
        ("", "", json!({"properties": {"": {"description": "\u{0}\u{202e}💥"}}})),
    ]);
    for (query, place) in [("東京の天気は", 0), ("ПОГОДА", 1), ("STRAßE", 2)] {
        assert_eq!(index.find(query, 5)[0].place, place, "{query}");
    }
}

/// Tools with a varying number of words and fields.
fn many(count: usize) -> ToolIndex {
    let words = ["open", "invoice", "city", "weather", "mail", "list", "remove", "user", "price"];
    let word = |at: usize| words[at % words.len()];
    let tools: Vec<(String, String, Value)> = (0..count)
        .map(|at| {
            let field = json!({"type": "string", "description": format!("The {}.", word(at / 5))});
            (
                format!("{}_{}_{at}", word(at), word(at / 7)),
                format!("{} a {} of {}.", word(at), word(at / 7), word(at / 3)),
                json!({"properties": {word(at / 2): field}}),
            )
        })
        .collect();
    ToolIndex::new(tools.iter().map(|(name, text, schema)| IndexedTool::new(name, text, schema)))
}

#[test]
fn ten_thousand_tools_are_searched() {
    let index = many(10_000);
    let found = index.find("remove the invoice 4321", 20);
    assert_eq!(found.len(), 20);
    assert!(found.is_sorted_by(|one, other| one.score >= other.score));
    // The number of the name.
    assert!(index.find("4321", 3)[0].name.ends_with("_4321"));
}

#[test]
fn the_same_tools_give_the_same_results() {
    let (one, other) = (many(500), many(500));
    for query in ["open the city", "price of mail and user", "weather weather list"] {
        let all = one.find(query, usize::MAX);
        assert_eq!(all, other.find(query, usize::MAX));
        assert_eq!(all[..10], one.find(query, 10)[..]);
    }
}

#[test]
fn hostile_texts_are_read_in_part() {
    let started = Instant::now();
    let long = "word ".repeat(1_000_000);
    let junk = "aB1-".repeat(1_000_000);
    let fields: serde_json::Map<String, Value> =
        (0..100_000).map(|at| (format!("field{at}"), json!({"description": "text"}))).collect();
    let index = index(&[
        ("long", &long, json!({})),
        (&junk, &junk, json!({"enum": [junk, long]})),
        ("fields", "Many fields.", json!({"properties": fields})),
        ("plain", "An ordinary tool.", json!({})),
    ]);
    assert_eq!(names(&index, "the ordinary tool"), ["plain"]);
    assert!(names(&index, &format!("plain {long}")).contains(&"plain"));
    assert_eq!(names(&index, &junk)[0], junk);
    // It takes less than a second; hours without the limits.
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn vectors_are_joined_with_words_by_their_ranks() {
    let tools = ["send mail", "read mail", "sing"].map(|name| (name, "", json!({})));
    let vectors = vec![vec![1.0, 0.0], vec![0.6, 0.8], vec![0.0, 1.0]];
    let index = index(&tools).with_vectors(vectors).unwrap();
    let near = |query, vector: &[f32]| -> Vec<(usize, f64)> {
        index.find_near(query, vector, 5).iter().map(|found| (found.place, found.score)).collect()
    };
    // By words: 0, 1. By vectors: 2, 1.
    let first = 1.0 / 61.0;
    let second = 1.0 / 62.0;
    assert_eq!(near("send mail", &[0.0, 2.0]), [(1, second + second), (0, first), (2, first)]);
    // No word: the vectors alone decide.
    assert_eq!(near("chant", &[0.0, 1.0]), [(2, first), (1, second)]);
    // A vector that cannot be compared: the words alone decide.
    for vector in [&[][..], &[1.0], &[0.0, 0.0], &[f32::NAN, 1.0], &[f32::INFINITY, 1.0]] {
        assert_eq!(near("sing", vector), [(2, first)]);
    }
    // `find` is by words.
    assert_eq!(names(&index, "sing"), ["sing"]);
}

#[test]
fn vectors_that_do_not_fit_are_an_error() {
    let build = |vectors: Vec<Vec<f32>>| {
        let tools = ["a", "b"].map(|name| (name, "", json!({})));
        index(&tools).with_vectors(vectors).map(|_| ()).unwrap_err()
    };
    let error = build(vec![vec![1.0]]);
    assert_eq!(error, VectorsError::Count { vectors: 1, tools: 2 });
    assert_eq!(error.to_string(), "there are 1 vectors for 2 tools; pass one vector for each tool");
    assert_eq!(build(vec![vec![1.0], vec![]]), VectorsError::Vector { place: 1 });
    assert_eq!(build(vec![vec![f32::NAN], vec![1.0]]), VectorsError::Vector { place: 0 });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_texts_give_an_order(
        texts in prop::collection::vec(("\\PC{0,20}", "(?s).{0,60}", "[a-c_ ]{0,12}"), 0..8),
        query in "(?s).{0,80}|[a-c ]{0,30}",
        most in 0_usize..10,
    ) {
        let schemas: Vec<Value> = (texts.iter())
            .map(|(name, text, word)| json!({name: {"description": text}, "enum": [word, text]}))
            .collect();
        let tools: Vec<IndexedTool> = (texts.iter().zip(&schemas))
            .map(|((name, text, _), schema)| IndexedTool::new(name, text, schema))
            .collect();
        let index = ToolIndex::new(tools.iter().copied());
        let found = index.find(&query, most);
        prop_assert!(found.len() <= most);
        prop_assert!(found.iter().all(|one| one.score.is_finite() && one.score > 0.0));
        let is_before = |one: &FoundTool, other: &FoundTool| {
            one.score > other.score || one.score == other.score && one.place < other.place
        };
        prop_assert!(found.is_sorted_by(is_before));
        let again = ToolIndex::new(tools);
        prop_assert_eq!(found, again.find(&query, most));
    }
}
