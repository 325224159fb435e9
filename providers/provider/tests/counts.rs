//! [`TokenCounts`]: what the counts of a server stand for.

use toolwright_provider::TokenCounts;
use toolwright_provider::lenient::Count;

fn count(tokens: u64) -> Option<Count> {
    Some(Count(Some(tokens)))
}

const BAD: Option<Count> = Some(Count(None));

#[test]
fn a_part_is_in_its_whole_or_beside_it() {
    let plain = TokenCounts { read: count(100), written: count(20), ..TokenCounts::default() };
    for (name, counts, expected) in [
        ("plain", plain, (100, 20, false)),
        ("total of both", TokenCounts { total: count(120), ..plain }, (100, 20, false)),
        (
            "cached within",
            TokenCounts { cached: count(80), total: count(120), ..plain },
            (100, 20, false),
        ),
        (
            "cached beside",
            TokenCounts { cached: count(80), total: count(200), ..plain },
            (180, 20, false),
        ),
        (
            "both caches beside",
            TokenCounts { cached: count(80), cache_written: count(7), total: count(207), ..plain },
            (187, 20, false),
        ),
        ("cached without total", TokenCounts { cached: count(80), ..plain }, (100, 20, false)),
        (
            "more cached than read, and a total of the wholes",
            TokenCounts { cached: count(800), total: count(120), ..plain },
            (100, 20, false),
        ),
        ("more cached than read", TokenCounts { cached: count(800), ..plain }, (900, 20, false)),
        (
            "reasoning within",
            TokenCounts { reasoning: count(5), total: count(120), ..plain },
            (100, 20, false),
        ),
        (
            "reasoning beside",
            TokenCounts { reasoning: count(5), total: count(125), ..plain },
            (100, 25, false),
        ),
        (
            "more reasoning than written",
            TokenCounts { reasoning: count(50), ..plain },
            (100, 70, false),
        ),
        (
            "all beside",
            TokenCounts { cached: count(80), reasoning: count(5), total: count(205), ..plain },
            (180, 25, false),
        ),
        ("a total of more", TokenCounts { total: count(900), ..plain }, (100, 20, true)),
        ("a total of less", TokenCounts { total: count(9), ..plain }, (100, 20, false)),
        ("a total that is not a count", TokenCounts { total: BAD, ..plain }, (100, 20, false)),
        (
            "a number of written tokens that is not a count",
            TokenCounts { written: BAD, total: count(120), ..plain },
            (100, 0, true),
        ),
        (
            "written is missing",
            TokenCounts { written: None, total: count(120), ..plain },
            (100, 0, true),
        ),
        ("read is missing", TokenCounts { read: None, ..plain }, (0, 20, true)),
        ("cached is no count", TokenCounts { cached: BAD, ..plain }, (100, 20, true)),
    ] {
        let usage = counts.usage();
        let found = (usage.input_tokens, usage.output_tokens, usage.incomplete);
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn the_first_count_that_is_not_zero_is_used() {
    assert_eq!(TokenCounts::first([None, count(0), count(7), count(8)]), count(7));
    assert_eq!(TokenCounts::first([None, count(0)]), count(0));
    assert_eq!(TokenCounts::first([None, BAD, count(7)]), BAD);
    assert_eq!(TokenCounts::first([None, None]), None);
}

/// One table of names for all APIs: gateways send the names of one in the replies of another.
#[test]
fn counts_are_read_under_the_names_of_every_api() {
    for (wire, expected) in [
        (r#"{"prompt_tokens":100,"completion_tokens":50}"#, (100, 50, 0, false)),
        (r#"{"input_tokens":100,"output_tokens":50}"#, (100, 50, 0, false)),
        (
            r#"{"input_tokens":100,"output_tokens":50,"cache_read_input_tokens":2000}"#,
            (2100, 50, 2000, false),
        ),
        (
            r#"{"input_tokens":100,"output_tokens":50,"input_tokens_details":{"cached_tokens":60}}"#,
            (100, 50, 60, false),
        ),
        (
            r#"{"prompt_tokens":100,"completion_tokens":50,"prompt_tokens_details":{"cached_tokens":60}}"#,
            (100, 50, 60, false),
        ),
        (
            r#"{"prompt_tokens":100,"completion_tokens":50,"prompt_cache_hit_tokens":60}"#,
            (100, 50, 60, false),
        ),
        (r#"{"input_tokens":100,"output_tokens":50,"total_tokens":1150}"#, (100, 50, 0, true)),
        (
            r#"{"input_tokens":100,"output_tokens":50,"cache_creation":{"ephemeral_5m_input_tokens":1000,"ephemeral_1h_input_tokens":7}}"#,
            (1107, 50, 0, false),
        ),
        (
            r#"{"input_tokens":100,"output_tokens":50,"cache_creation_input_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":9}}"#,
            (100, 50, 0, false),
        ),
        (
            r#"{"input_tokens":100,"output_tokens":50,"cache_creation":{"ephemeral_5m_input_tokens":"n/a"}}"#,
            (100, 50, 0, true),
        ),
        (r#"{"tokens":100}"#, (0, 0, 0, true)),
    ] {
        let usage = serde_json::from_str::<TokenCounts>(wire).unwrap().usage();
        let found =
            (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.incomplete);
        assert_eq!(found, expected, "{wire}");
    }
}

/// These parts have prices of their own.
#[test]
fn audio_and_an_hour_in_the_cache_are_counted() {
    for (wire, expected) in [
        (
            r#"{"prompt_tokens":100,"completion_tokens":50,"prompt_tokens_details":{"audio_tokens":60},"completion_tokens_details":{"audio_tokens":40}}"#,
            (100, 0, 60, 40, false),
        ),
        (
            r#"{"input_tokens":1,"output_tokens":50,"cache_creation_input_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":7}}"#,
            (10, 7, 0, 0, false),
        ),
        (
            r#"{"prompt_tokens":100,"completion_tokens":50,"prompt_tokens_details":{"audio_tokens":"many"}}"#,
            (100, 0, 0, 0, true),
        ),
    ] {
        let usage = serde_json::from_str::<TokenCounts>(wire).unwrap().usage();
        let (hour, read) = (usage.cache_written_1h_tokens, usage.audio_input_tokens);
        let found = (usage.input_tokens, hour, read, usage.audio_output_tokens, usage.incomplete);
        assert_eq!(found, expected, "{wire}");
    }
}
