//! Thoughts in the content of a reply.

use toolwright_module::message::ReplyPart;
use toolwright_provider::{Deltas, ReplyParts, in_content};

fn content(pieces: &[&str]) -> Vec<ReplyPart> {
    let (mut parts, deltas) = (ReplyParts::default(), &mut Deltas::discarded());
    for piece in pieces {
        match *piece {
            "CALL" => _ = parts.begin_call(),
            piece => parts.content("p", piece, deltas),
        }
    }
    parts.end_content(deltas);
    parts.take()
}

fn thoughts(part: &ReplyPart) -> &str {
    match part {
        ReplyPart::Reasoning(reasoning) => &reasoning.text,
        part => panic!("{part:?}"),
    }
}

#[test]
fn an_answer_that_looks_like_the_beginning_of_a_mark_is_text() {
    for answer in ["<", "<thin", "["] {
        let parts = content(&["<think>Less.</think>\n\n", answer]);
        assert_eq!(thoughts(&parts[0]), "Less.");
        assert_eq!(parts[1..], [ReplyPart::text(answer)]);
    }
}

#[test]
fn a_call_between_two_blocks_of_thoughts_loses_none_of_them() {
    let parts = content(&["<think>a</think>", "CALL", "<think>b</think>c"]);
    let [first, ReplyPart::Call(_), second, ReplyPart::Text(text)] = &*parts else {
        panic!("{parts:?}");
    };
    assert_eq!((thoughts(first), thoughts(second), &*text.text), ("a", "b", "c"));
}

/// The prompt of a server may begin the thoughts, so that only their end is in the reply.
#[test]
fn thoughts_whose_beginning_is_in_the_prompt_end_at_a_mark_on_its_own() {
    for (text, inside, after) in [
        ("Maybe 4?\n</think>\n\n5", "Maybe 4?", "\n</think>\n\n"),
        ("Maybe 4? \u{1f642}</think>\n\n5", "Maybe 4? \u{1f642}", "</think>\n\n"),
        ("A\n</THOUGHT >\n5", "A", "\n</THOUGHT >\n"),
        ("A\n[/THINK]\n5", "A", "\n[/THINK]\n"),
        ("A\n</think>\n5\n</think>\n", "A", "\n</think>\n"),
    ] {
        for pieces in [&[text][..], &[&text[..1], &text[1..]]] {
            let parts = content(pieces);
            let [ReplyPart::Reasoning(reasoning), ReplyPart::Text(answer)] = &*parts else {
                panic!("{parts:?}");
            };
            assert_eq!(reasoning.text, inside);
            assert_eq!(in_content(reasoning, "p").unwrap(), ["", inside, after]);
            assert!(answer.text.starts_with('5'), "{answer:?}");
        }
    }
    // All of it is thoughts.
    assert_eq!(thoughts(&content(&["Maybe 4?\n</think>"])[0]), "Maybe 4?");
    // A mark that the text is about.
    for text in [
        "Write `</think>` at the end.",
        "The mark is </think>",
        "Close it with </think>\nand go on.",
        "First <think>\nand then\n</think>\n5",
        "```\na\n</think>\n```",
        "5 </think> 6",
        "5\n</thinking>\n6",
        "5\n<|end|>\n6",
    ] {
        assert_eq!(content(&[text]), [ReplyPart::text(text)]);
    }
    // Not the first content.
    let parts = content(&["5", "CALL", "6\n</think>\n\n7"]);
    assert_eq!(parts[2], ReplyPart::text("6\n</think>\n\n7"));
}

#[test]
fn the_marks_around_an_answer_are_not_part_of_it() {
    for (text, answer) in [
        ("<|START_RESPONSE|>5<|END_RESPONSE|>", "5"),
        ("<|START_THINKING|>4<|END_THINKING|>\n<|START_RESPONSE|>5 < 6<|END_RESPONSE|>\n", "5 < 6"),
        (
            "<|begin_of_thought|>4<|end_of_thought|>\n<|begin_of_solution|>\n5\n<|end_of_solution|>",
            "5\n",
        ),
        ("<|START_RESPONSE|>5<|END_RESPONSE|> 6", "5<|END_RESPONSE|> 6"),
        ("<|START_RESPONSE|>5<|END", "5<|END"),
        ("5<|END_RESPONSE|>", "5<|END_RESPONSE|>"),
        ("<think>4</think><answer>5</answer>", "<answer>5</answer>"),
    ] {
        let letters: Vec<String> = text.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        for pieces in [&[text][..], &letters] {
            let parts = content(pieces);
            assert_eq!(parts.last(), Some(&ReplyPart::text(answer)), "{text}");
        }
    }
}
