//! Keys of objects that say that their value is a secret.

/// Returns whether a key says so by whole words of it, in any style: `api_key`, `apiKey`,
/// `X-API-Key`, but neither `tokenizer` nor `max_tokens`.
pub(super) fn names_secret(key: &str) -> bool {
    let words = words(key);
    let is = |word: &str, listed: &[&str]| listed.iter().any(|w| word.eq_ignore_ascii_case(w));
    words.iter().any(|word| is(word, WORDS))
        || words.windows(2).any(|pair| is(pair[0], KEY_OF) && is(pair[1], &["key", "keys"]))
}

const WORDS: &[&str] = &[
    "accesskey",
    "accesstoken",
    "apikey",
    "apitoken",
    "authorization",
    "authtoken",
    "bearer",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "passwords",
    "privatekey",
    "refreshtoken",
    "secret",
    "secretkey",
    "secrets",
    "token",
];

/// Words before `key` that make it one that locks.
const KEY_OF: &[&str] =
    &["access", "account", "api", "deploy", "encryption", "master", "private", "signing", "ssh"];

/// Splits at whatever is no letter or digit, and where small letters turn to capitals.
fn words(key: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for part in key.split(|letter: char| !letter.is_alphanumeric()) {
        let mut start = 0;
        let letters: Vec<_> = part.char_indices().collect();
        for (at, pair) in letters.windows(2).enumerate() {
            let [(_, before), (cut, after)] = [pair[0], pair[1]];
            // The last capital of a run begins the next word: `APIKey`.
            let is_last = letters.get(at + 2).is_some_and(|(_, letter)| letter.is_lowercase());
            if after.is_uppercase() && (!before.is_uppercase() || is_last) {
                words.push(&part[start..cut]);
                start = cut;
            }
        }
        words.push(&part[start..]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::names_secret;

    #[test]
    fn keys_are_judged_by_whole_words() {
        for key in [
            "password",
            "PASSWORD",
            "db_password",
            "dbPassword",
            "api_key",
            "apiKey",
            "APIKey",
            "apikey",
            "API_KEY",
            "X-API-Key",
            "x-api-key",
            "api.keys",
            "token",
            "accessToken",
            "access_token",
            "oauth2Token",
            "auth-token",
            "Authorization",
            "proxy-authorization",
            "client_secret",
            "clientSecret",
            "secrets",
            "private_key",
            "privateKey",
            "ssh key",
            "cookie",
            "Set-Cookie",
            "credentials",
            "passphrase",
            "AWS_SECRET_ACCESS_KEY",
            "bearer",
            "PASSWD",
        ] {
            assert!(names_secret(key), "{key}");
        }
        for key in [
            "",
            "key",
            "keys",
            "path",
            "content",
            "command",
            "tokenizer",
            "max_tokens",
            "maxTokens",
            "tokens",
            "monkey",
            "keyboard",
            "public_key",
            "publicKey",
            "sort_key",
            "key_api",
            "secretary",
            "cookiecutter",
            "passwordless",
            "pwd",
            "author",
            "authored",
            "apikeyboard",
            "…",
            "ключ",
        ] {
            assert!(!names_secret(key), "{key}");
        }
    }
}
