//! Decodes a stream of UTF-8 whose chunks may split characters.

/// A UTF-8 decoder that buffers an incomplete character until the next chunk.
#[derive(Debug, Default)]
pub(super) struct Utf8Decoder(Vec<u8>);

impl Utf8Decoder {
    /// Decodes all complete characters. Invalid bytes become U+FFFD.
    pub(super) fn decode(&mut self, bytes: &[u8]) -> String {
        self.0.extend_from_slice(bytes);
        let complete = self.0.len() - incomplete_suffix_len(&self.0);
        let rest = self.0.split_off(complete);
        let decoded = String::from_utf8_lossy(&self.0).into_owned();
        self.0 = rest;
        decoded
    }

    /// Decodes the remaining bytes, i.e. an incomplete character.
    pub(super) fn decode_remaining(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.0)).into_owned()
    }
}

/// Returns the number of bytes at the end that may be an incomplete character.
fn incomplete_suffix_len(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    loop {
        match std::str::from_utf8(rest) {
            Ok(_) => return 0,
            Err(error) => match error.error_len() {
                None => return rest.len() - error.valid_up_to(),
                Some(wrong) => rest = &rest[error.valid_up_to() + wrong..],
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Utf8Decoder;
    use proptest::{collection::vec, prelude::any, proptest};

    proptest! {
        #[test]
        fn chunks_decode_like_the_whole_text(chunks in vec(vec(any::<u8>(), 0..6), 0..8)) {
            let mut carry = Utf8Decoder::default();
            let mut text: String = chunks.iter().map(|chunk| carry.decode(chunk)).collect();
            text.push_str(&carry.decode_remaining());
            assert_eq!(text, String::from_utf8_lossy(&chunks.concat()));
        }

        #[test]
        fn a_split_character_is_decoded(text in "\\PC{0,20}", at in any::<proptest::sample::Index>()) {
            let (first, second) = text.as_bytes().split_at(at.index(text.len() + 1));
            let mut carry = Utf8Decoder::default();
            let decoded = carry.decode(first) + &carry.decode(second);
            assert_eq!(decoded, text);
        }
    }
}
