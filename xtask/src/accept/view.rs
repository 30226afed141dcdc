//! Follows what a client is shown of an output through the output itself, gap by gap.

/// Returns where a view ends in the output that it is of, if every piece of it stands where the
/// gaps say. `has` tells whether a piece stands at a place.
pub(super) fn end_of(view: &str, has: impl Fn(usize, &str) -> bool) -> Option<usize> {
    let past = |at: usize, piece: &str| has(at, piece).then_some(at + piece.len());
    let (mut rest, mut at) = (view, 0);
    while let Some((piece, gap)) = rest.split_once("\n[… ") {
        let (bytes, behind) = gap.split_once(" bytes left out …]\n")?;
        at = past(at, piece)? + bytes.parse::<usize>().ok()?;
        rest = behind;
    }
    past(at, rest)
}

#[cfg(test)]
mod tests {
    use super::end_of;

    #[test]
    fn every_piece_has_to_stand_where_the_gaps_say() {
        let output = "one\ntwo\nthree\n";
        for (view, end) in [
            ("", Some(0)),
            ("one\ntwo\nthree\n", Some(14)),
            ("one\nt", Some(5)),
            ("one\n\n[… 4 bytes left out …]\nthree\n", Some(14)),
            ("\n[… 4 bytes left out …]\nt\n[… 3 bytes left out …]\nthree\n", Some(14)),
            ("one\n\n[… 3 bytes left out …]\nthree\n", None),
            ("one\n\n[… many bytes left out …]\nthree\n", None),
            ("two\n", None),
        ] {
            let has = |at: usize, piece: &str| output[at..].starts_with(piece);
            assert_eq!(end_of(view, has), end, "{view:?}");
        }
    }
}
