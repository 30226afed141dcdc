//! Detection of object keys whose values are secrets.

/// Returns whether a key names a secret. Matches whole words in any naming style, e.g. `api_key`,
/// `apiKey` and `X-API-Key`. The names `tokenizer` and `max_tokens` do not match.
pub(super) fn is_secret_key(key: &str) -> bool {
    let is = |word: &str, listed: &[&str]| listed.iter().any(|w| word.eq_ignore_ascii_case(w));
    let mut before = "";
    split_words(key).any(|word| {
        let is_pair = is(before, WORDS_BEFORE_KEY) && is(word, &["key", "keys"]);
        before = word;
        is_pair || is(word, SECRET_WORDS)
    })
}

const SECRET_WORDS: &[&str] = &[
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

/// Words that name a secret if the next word is `key`, e.g. `api_key`.
const WORDS_BEFORE_KEY: &[&str] =
    &["access", "account", "api", "deploy", "encryption", "master", "private", "signing", "ssh"];

/// Splits a key at non-alphanumeric characters and at changes from lower to upper case.
fn split_words(key: &str) -> impl Iterator<Item = &str> {
    key.split(|letter: char| !letter.is_alphanumeric()).flat_map(|part| {
        let mut rest = part;
        std::iter::from_fn(move || {
            let (word, after) = rest.split_at(first_word_len(rest));
            rest = after;
            (!word.is_empty()).then_some(word)
        })
    })
}

/// Returns the length of the first word, in bytes.
fn first_word_len(letters: &str) -> usize {
    if letters.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
        return letters.len();
    }
    let behind = letters.chars().skip(2).map(Some).chain([None]);
    let seconds = letters.char_indices().skip(1).zip(behind);
    let cut = letters.chars().zip(seconds).find(|(before, ((_, letter), behind))| {
        // The last of several capital letters begins the next word, as in `APIKey`.
        let is_last = behind.is_some_and(char::is_lowercase);
        letter.is_uppercase() && (!before.is_uppercase() || is_last)
    });
    cut.map_or(letters.len(), |(_, ((at, _), _))| at)
}

#[cfg(test)]
mod tests {
    use super::is_secret_key;

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
            "api__key",
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
            assert!(is_secret_key(key), "{key}");
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
            assert!(!is_secret_key(key), "{key}");
        }
    }
}
