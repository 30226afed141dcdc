//! Tests of allowed and forbidden sequences, split into chunks of any size.

use pretty_assertions::assert_eq;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::EscapeFilter;

/// Escape sequences with side effects, and the name of each effect.
const FORBIDDEN_SEQUENCES: &[(&str, &[u8])] = &[
    ("clipboard, set", b"\x1b]52;c;cm0gLXJmIC8=\x07"),
    ("clipboard, set, by ST", b"\x1b]52;p;cm0gLXJmIC8=\x1b\\"),
    ("clipboard, asked", b"\x1b]52;c;?\x07"),
    ("title and icon", b"\x1b]0;rm -rf /\x07"),
    ("icon", b"\x1b]1;x\x07"),
    ("title", b"\x1b]2;rm -rf /\x1b\\"),
    ("property of the window", b"\x1b]3;WM_NAME=x\x07"),
    ("palette, set or asked", b"\x1b]4;1;?\x07"),
    ("folder", b"\x1b]7;file://host/etc\x07"),
    ("notification", b"\x1b]9;pay here\x07"),
    ("colours, asked", b"\x1b]10;?\x1b\\"),
    ("log file", b"\x1b]46;/etc/passwd\x07"),
    ("font", b"\x1b]50;?\x07"),
    ("marks of a prompt", b"\x1b]133;C;cmdline=x\x07"),
    ("notification of urxvt", b"\x1b]777;notify;a;b\x07"),
    ("files and badges of iTerm2", b"\x1b]1337;File=name=eA==:eA==\x07"),
    ("link to a file", b"\x1b]8;;file:///etc/passwd\x1b\\"),
    ("link to a program", b"\x1b]8;;vscode://run?x\x07"),
    ("link to a script", b"\x1b]8;;javascript:alert(1)\x07"),
    ("link with a space", b"\x1b]8;;http://a b\x07"),
    ("who are you", b"\x1b[c"),
    ("who are you, second and third", b"\x1b[>c\x1b[=0c"),
    ("who are you, old", b"\x1bZ"),
    ("name and version", b"\x1b[>0q"),
    ("status", b"\x1b[5n"),
    ("where is the cursor", b"\x1b[6n\x1b[?6n"),
    ("title, asked", b"\x1b[21t"),
    ("size, asked", b"\x1b[18t\x1b[14t"),
    ("window, moved and resized", b"\x1b[3;0;0t\x1b[8;1;1t"),
    ("mode, asked", b"\x1b[?2004$p\x1b[4$p"),
    ("parameters, asked", b"\x1b[1x"),
    ("check sum of the screen, asked", b"\x1b[1;1;1;1;1;1*y"),
    ("setting, asked", b"\x1bP$qm\x1b\\"),
    ("capability, asked", b"\x1bP+q544e\x1b\\"),
    ("keys, defined", b"\x1bP0;1|17/78\x1b\\"),
    ("picture", b"\x1bPq#0;2;0;0;0~-\x1b\\"),
    ("multiplexer, passing on", b"\x1bPtmux;\x1b\x1b]52;c;eA==\x07\x1b\\"),
    ("application program command", b"\x1b_Gi=1,a=q;AAAA\x1b\\"),
    ("privacy message", b"\x1b^x\x1b\\"),
    ("start of string", b"\x1bXx\x1b\\"),
    ("mouse", b"\x1b[?1000h\x1b[?1002h\x1b[?1003h\x1b[?1006h"),
    ("mouse, old", b"\x1b[?9h\x1b[1;2;3;4;5T"),
    ("focus", b"\x1b[?1004h"),
    ("paste in brackets", b"\x1b[?2004h"),
    ("keys of an application", b"\x1b[?1h\x1b="),
    ("keys, told apart", b"\x1b[>1u\x1b[=5;1u\x1b[?u"),
    ("modifiers of keys", b"\x1b[>4;2m"),
    ("keyboard, locked", b"\x1b[2h"),
    ("lights", b"\x1b[1q"),
    ("printing", b"\x1b[5i\x1b[4i"),
    ("resets", b"\x1bc\x1b[!p"),
    ("test picture", b"\x1b#8"),
    ("answerback", b"\x05"),
    ("bell", b"\x07"),
    ("other letters", b"\x0e\x0f\x1bn\x1bo\x1b|"),
    ("controls of eight bits", b"\xc2\x9b\xc2\x9d\xc2\x90\xc2\x9c\x9b\x9d\x90\x9c"),
    ("nothing", b"\0\x7f"),
    (
        "too many parameters",
        b"\x1b[1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1m",
    ),
];

/// Escape sequences that only draw, and the expected output of each.
const ALLOWED_SEQUENCES: &[(&[u8], &str)] = &[
    (b"plain \t\x08\r\n", "plain \t\x08\r\n"),
    ("äß€😀\u{200d}".as_bytes(), "äß€😀\u{200d}"),
    (b"\x1b[m", "\x1b[0m"),
    (b"\x1b[1;38;5;200;4:3m", "\x1b[1;38;5;200;4:3m"),
    (b"\x1b[38;2;1;2;3mx", "\x1b[38;2;1;2;3mx"),
    (b"\x1b[2J\x1b[3;4H\x1b[K", "\x1b[2J\x1b[3;4H\x1b[0K"),
    (b"\x1b[5A\x1b[1G\x1b[2K", "\x1b[5A\x1b[1G\x1b[2K"),
    (b"\x1b[2;10r\x1b[3S\x1b[3T", "\x1b[2;10r\x1b[3S\x1b[3T"),
    (b"\x1b7\x1b8\x1b[s\x1b[u", "\x1b7\x1b8\x1b[0s\x1b[0u"),
    (b"\x1b(0lqk\x1b(B", "\x1b(0lqk\x1b(B"),
    (b"\x1b[?25l\x1b[?1049h", "\x1b[?25l\x1b[?1049h"),
    (b"\x1b[?25;1000;7h", "\x1b[?25h\x1b[?7h"),
    (b"\x1b[2 q", "\x1b[2 q"),
    (b"\x1b]8;;https://a.b/c;d\x07x\x1b]8;;\x07", "\x1b]8;;https://a.b/c;d\x1b\\x\x1b]8;;\x1b\\"),
    (b"\x1b]8;id=a-1;HTTP://a\x1b\\", "\x1b]8;id=a-1;HTTP://a\x1b\\"),
    (b"\x1b]8;id=a:x=y;http://a\x1b\\", "\x1b]8;;http://a\x1b\\"),
    (b"\xff\xe2\x82", "\u{fffd}"),
    // The end of a line ends an unfinished sequence.
    (b"\x1b]52;c;eA\nseen", "\nseen"),
    (b"\x1b]8;;https://a\nseen", "\nseen"),
    (b"\x1b_Gx\r\nseen", "\nseen"),
    (b"\x1b[3\n1m", "\n1m"),
];

fn filtered<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut filter = EscapeFilter::default();
    let shown: Vec<_> = chunks.into_iter().map(|chunk| filter.push(chunk)).collect();
    String::from_utf8(shown.concat()).expect("UTF-8")
}

/// Splits the input at every position, and also into single bytes.
fn check(what: &str, bytes: &[u8], expected: &str) {
    for at in 0..=bytes.len() {
        let (first, second) = bytes.split_at(at);
        assert_eq!(filtered([first, second]), expected, "{what}, cut at {at}");
    }
    assert_eq!(filtered(bytes.chunks(1)), expected, "{what}, byte by byte");
}

#[test]
fn sequences_with_side_effects_never_pass() {
    for (what, sequence) in FORBIDDEN_SEQUENCES {
        check(what, &[b"a", *sequence, b"b"].concat(), "ab");
        check(what, &[b"\x1b[31m", *sequence, b"\x1b[0m"].concat(), "\x1b[31m\x1b[0m");
    }
}

#[test]
fn drawing_sequences_pass() {
    for (sequence, expected) in ALLOWED_SEQUENCES {
        check(expected, sequence, expected);
    }
}

#[test]
fn a_link_that_is_too_long_is_removed() {
    let links = [format!("http://a/{}", "x".repeat(2_000)), format!("http://a/{}", ";".repeat(20))];
    for link in links {
        assert_eq!(filtered([format!("\x1b]8;;{link}\x07x").as_bytes()]), "x");
    }
}

/// Finds forbidden output by a method other than the one that the filter uses.
fn forbidden(output: &str) -> Option<&str> {
    let is_control = |letter: char| letter.is_control() && !"\x08\t\r\n\x1b".contains(letter);
    if output.contains(is_control) {
        return Some(output);
    }
    output.split('\x1b').skip(1).find(|sequence| !is_drawing(sequence))
}

fn is_drawing(sequence: &str) -> bool {
    let digits = |letter: char| "0123456789;:".contains(letter);
    if let Some(rest) = sequence.strip_prefix("[?") {
        return rest.trim_start_matches(digits).starts_with(['h', 'l']);
    }
    if let Some(rest) = sequence.strip_prefix('[') {
        let end = rest.trim_start_matches(digits);
        let acts = |end: char| "chilnopqtvwxy<=>{|}~".contains(end);
        return end.starts_with(" q") || (!end.is_empty() && !end.starts_with(acts));
    }
    if let Some(rest) = sequence.strip_prefix("]8;") {
        let address = rest.split_once(';').map(|(_, address)| address.to_ascii_lowercase());
        return address.is_some_and(|address| address.is_empty() || address.starts_with("http"));
    }
    sequence.starts_with(['\\', '7', '8', 'D', 'E', 'H', 'M', '(', ')'])
}

#[test]
fn hiding_and_reordering_characters_are_removed_but_emoji_parts_pass() {
    for (written, shown) in [
        ("a\u{202e}b\u{2066}c\u{200b}d\u{200f}", "abcd"),
        ("rm\u{e0041}\u{e0042}\u{ad}\u{2060}", "rm"),
        ("✔\u{fe0f} 👩\u{200d}🔬", "✔\u{fe0f} 👩\u{200d}🔬"),
        ("é\u{a0}\u{3000}\u{2800}ß\u{301}", "é\u{a0}\u{3000}\u{2800}ß\u{301}"),
    ] {
        assert_eq!(filtered([written.as_bytes()]), shown, "{written:?}");
    }
}

/// Generates fragments of sequences, complete sequences, text and arbitrary bytes.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let acting: Vec<_> =
        FORBIDDEN_SEQUENCES.iter().map(|(_, sequence)| sequence.to_vec()).collect();
    let drawing: Vec<_> = ALLOWED_SEQUENCES.iter().map(|(sequence, _)| sequence.to_vec()).collect();
    let parts: Vec<_> =
        ["\x1b", "\x1b[", "\x1b]", "\x1bP", "\x1b_", ";", "?", "\x18", "\n", "52", "8"]
            .map(|part| part.as_bytes().to_vec())
            .to_vec();
    prop_oneof![
        3 => select(acting.clone()),
        2 => select(drawing),
        3 => select(parts),
        // A truncated sequence.
        2 => (select(acting), any::<Index>()).prop_map(|(mut sequence, at)| {
            sequence.truncate(at.index(sequence.len() + 1));
            sequence
        }),
        1 => "[a-zé€]{0,4}".prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..4),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn the_split_into_chunks_makes_no_difference_and_no_side_effect_passes(
        pieces in vec(piece(), 0..12),
        sizes in vec(1_usize..9, 1..40),
    ) {
        let bytes = pieces.concat();
        let whole = filtered([bytes.as_slice()]);
        let (mut rest, mut chunks) = (bytes.as_slice(), Vec::new());
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, others) = rest.split_at((*size).min(rest.len()));
            chunks.push(chunk);
            rest = others;
        }
        prop_assert_eq!(&filtered(chunks), &whole);
        prop_assert_eq!(forbidden(&whole), None);
        prop_assert_eq!(filtered([whole.as_bytes()]), whole);
    }
}
