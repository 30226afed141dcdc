//! The forms in which a secret may occur in a text: plain, escaped or encoded.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD as STANDARD_NO_PAD;

/// Returns every form of a secret to search for:
///
/// - plain, also with the line ends that a terminal writes;
/// - escaped once or twice, as in JSON and in Rust's debug output;
/// - percent-encoded as in a URL or in a form, with upper and lower case digits;
/// - in Base64 with both alphabets, alone or at any position of a longer encoded text.
pub(super) fn encoded_forms(secret: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::from([secret.to_owned()]);
    if secret.contains('\n') {
        forms.insert(secret.replace("\r\n", "\n").replace('\n', "\r\n"));
    }
    // Escape twice, because JSON may be nested in a JSON string and then logged.
    let once = json_and_debug_escaped_forms(secret);
    forms.extend(once.iter().flat_map(|once| json_and_debug_escaped_forms(once)));
    forms.extend(once);
    forms.insert(percent_encode(secret, "-._~", |byte| format!("%{byte:02X}")));
    forms.insert(percent_encode(secret, "-._~", |byte| format!("%{byte:02x}")));
    // The character sets that browsers leave unescaped in URLs and in forms.
    forms.insert(percent_encode(secret, "-._~!*'()", |byte| format!("%{byte:02X}")));
    forms.insert(percent_encode(secret, "*-._", |byte| match byte {
        b' ' => "+".to_owned(),
        byte => format!("%{byte:02X}"),
    }));
    for shift in 0..3 {
        let encoded = base64_fragment(secret.as_bytes(), shift);
        forms.insert(encoded.replace('+', "-").replace('/', "_"));
        forms.insert(encoded);
    }
    forms
}

fn json_and_debug_escaped_forms(text: &str) -> [String; 2] {
    let quoted = [serde_json::Value::from(text).to_string(), format!("{text:?}")];
    quoted.map(|quoted| quoted[1..quoted.len() - 1].to_owned())
}

fn percent_encode(secret: &str, kept: &str, encode: impl Fn(u8) -> String) -> String {
    let encoded = secret.bytes().map(|byte| {
        let is_kept = byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte);
        if is_kept { char::from(byte).to_string() } else { encode(byte) }
    });
    encoded.collect()
}

/// Returns the Base64 letters that depend only on the secret, if `shift` other bytes precede the
/// secret in its group of three bytes.
fn base64_fragment(secret: &[u8], shift: usize) -> String {
    let letters = STANDARD_NO_PAD.encode([&[0; 2][..shift], secret].concat());
    letters[(shift * 8).div_ceil(6)..(shift + secret.len()) * 8 / 6].to_owned()
}

#[cfg(test)]
mod tests {
    use super::encoded_forms;

    #[test]
    fn a_secret_has_every_encoded_form() {
        let forms = encoded_forms("pa ss\"w/\u{fc}~?\n");
        for form in [
            "pa ss\"w/ü~?\n",
            "pa ss\"w/ü~?\r\n",
            "pa ss\\\"w/ü~?\\n",
            "pa ss\\\\\\\"w/ü~?\\\\n",
            "pa%20ss%22w%2F%C3%BC~%3F%0A",
            "pa%20ss%22w%2f%c3%bc~%3f%0a",
            "pa+ss%22w%2F%C3%BC%7E%3F%0A",
            // The secret starts at a group of three bytes, then after one other byte, then after
            // two other bytes.
            "cGEgc3Midy/DvH4/C",
            "cGEgc3Midy_DvH4_C",
            "BhIHNzIncvw7x+Pw",
            "BhIHNzIncvw7x-Pw",
            "wYSBzcyJ3L8O8fj8K",
        ] {
            assert!(forms.contains(form), "{form}: {forms:?}");
        }
    }

    #[test]
    fn a_plain_secret_has_few_forms() {
        assert_eq!(
            Vec::from_iter(encoded_forms("hunter2hunter2")),
            ["aHVudGVyMmh1bnRlcj", "h1bnRlcjJodW50ZXIy", "hunter2hunter2", "odW50ZXIyaHVudGVyM"]
        );
    }
}
