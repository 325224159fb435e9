//! The thoughts of a model before its answer.

use toolwright_signature::Thoughts;

/// The thoughts and the answer of a text in pieces of `size` bytes.
fn scanned(text: &str, size: usize) -> (Vec<&str>, Option<&str>) {
    let mut thoughts = Thoughts::default();
    for end in (0..=text.len()).step_by(size).chain([text.len()]) {
        if text.is_char_boundary(end) {
            thoughts.scan(&text[..end]);
        }
    }
    let inside = thoughts.blocks().map(|block| &text[block]).collect();
    (inside, thoughts.answer().map(|at| &text[at..]))
}

#[test]
fn thoughts_end_at_their_mark_in_pieces_of_any_size() {
    for (text, inside, answer) in [
        ("<think>a</think>b", vec!["a"], Some("b")),
        ("\u{feff}\n<think>\na\n</think>\n\nb", vec!["\na\n"], Some("\n\nb")),
        ("<think></think>b", vec![""], Some("b")),
        ("<think>a</think> <think>b</think>c", vec!["a", "b"], Some("c")),
        ("<think budget=\"3\">a</think>b", vec!["a"], Some("b")),
        ("<Think>a</THINK >b", vec!["a"], Some("b")),
        ("<think/>b", vec![], Some("b")),
        ("<thinking>a</think></thinking>b", vec!["a</think>"], Some("b")),
        ("<think>a</thinking></think>b", vec!["a</thinking>"], Some("b")),
        ("<seed:think>a</seed:think>b", vec!["a"], Some("b")),
        ("[THINK]a[/THINK]b", vec!["a"], Some("b")),
        ("◁think▷a◁/think▷b", vec!["a"], Some("b")),
        (
            "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
            vec!["a"],
            Some("b"),
        ),
        ("<longcat_think>a</longcat_think>b", vec!["a"], Some("b")),
        ("<thought>a</thought>b", vec!["a"], Some("b")),
        ("<|inner_prefix|>a<|inner_suffix|>b", vec!["a"], Some("b")),
        ("<unused94>thought\na<unused95>b", vec!["thought\na"], Some("b")),
        ("<|channel>thought\na<channel|>b", vec!["\na"], Some("b")),
        ("</think>\n\nb", vec![], Some("\n\nb")),
        ("\n[/THINK]b", vec![], Some("b")),
        ("<think>a", vec!["a"], None),
        ("<think>a</thin", vec!["a"], None),
        ("<thin", vec![], None),
        ("  ", vec![], None),
        ("a</think>b", vec![], Some("a</think>b")),
        ("a <think>b</think>", vec![], Some("a <think>b</think>")),
        ("<thinker>a</thinker>", vec![], Some("<thinker>a</thinker>")),
        ("<html>", vec![], Some("<html>")),
        ("[1, 2]", vec![], Some("[1, 2]")),
    ] {
        for size in [1, 2, 3, 100] {
            let expected = (inside.clone(), answer);
            assert_eq!(scanned(text, size), expected, "{text} in pieces of {size}");
        }
    }
}
