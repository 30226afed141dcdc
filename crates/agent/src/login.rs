//! `callboard login`: asks for a provider and a key, tests the key, and stores it.
//!
//! The questions are asked in the terminal. If there is no terminal, each line of standard input is
//! an answer.

mod acp;

use std::io::{self, BufRead as _, IsTerminal as _, Read as _};

use callboard_models::provider::{ApiKey, Provider};
use callboard_models::{ModelError, ModelErrorKind};

use crate::key_store::{KeyLocation, LOGIN_PROVIDERS};
use crate::limits::MAX_LOGIN_ANSWER_BYTES;
use crate::model_selection::ConfiguredModels;
use callboard_exec::OutputStream;

pub(crate) use acp::LoginAuthenticator;

/// Logs in to a provider. If `provider` is `None`, asks the user for the provider. Returns a
/// message for the user.
///
/// # Errors
///
/// Returns the reason why no key was stored.
pub(crate) async fn log_in_interactively(
    choices: &ConfiguredModels,
    provider: Option<Provider>,
) -> Result<String, String> {
    let provider = match provider {
        Some(provider) => provider,
        None => ask_provider()?,
    };
    let configured = choices.custom_base_url(provider);
    let own = configured.as_deref().unwrap_or("the provider's own");
    let answer = ask_line(&format!("Address of the server [{own}]: "))?.ok_or(NO_ANSWER)?;
    let base_url = Some(answer).filter(|answer| !answer.is_empty()).or(configured);
    if let Some(url) = &base_url {
        crate::config::check_base_url(url)?;
    }
    let key = ask_hidden_line("Key: ")?.ok_or(NO_ANSWER)?;
    let key = ApiKey::from_nonempty_text(&key).ok_or(NO_KEY)?;
    crate::secrets::add_key_to_redact(&key);
    let tried = choices.request_model_list(provider, base_url.clone(), Some(key.clone())).await;
    let verdict = match tried {
        Ok(models) => {
            // If the server returns its list even without a key, the list does not prove that the
            // key is valid.
            let without_key = choices.request_model_list(provider, base_url.clone(), None).await;
            key_verdict(&models, without_key.map(drop).map_err(|error| error.kind))
        }
        Err(ModelError { kind: ModelErrorKind::Auth, message, .. }) => {
            return Err(format!("the provider rejected the key; it was not stored: {message}"));
        }
        Err(error) => {
            print_line(&format!("The key cannot be tried: {error}"));
            let answer = ask_line("Store it anyway? [y/N] ")?.unwrap_or_default();
            match answer.to_ascii_lowercase().as_str() {
                "y" | "yes" => "The key was not tried.".to_owned(),
                _ => return Err("the key was not stored".to_owned()),
            }
        }
    };
    let stored =
        choices.store_key(provider, base_url, key).await.map_err(|error| error.to_string())?;
    let place = match stored {
        KeyLocation::Keyring => "the system's keyring".to_owned(),
        KeyLocation::File(path) => {
            format!("{}, which only you can read; no keyring was available", path.display())
        }
    };
    Ok(format!(
        "{verdict} It is stored in {place}.\n`callboard models` lists the available models."
    ))
}

/// Returns the verdict on a key. `models` is the list of models that the server returned for the
/// key, and `without_key` is the result of the same request without a key.
fn key_verdict(models: &[String], without_key: Result<(), ModelErrorKind>) -> String {
    let models = match models {
        [] => String::new(),
        [only] => format!(": 1 model, {only}"),
        [first, ..] => format!(": {} models, such as {first}", models.len()),
    };
    match without_key {
        Err(ModelErrorKind::Auth) => format!("The key works{models}."),
        Ok(()) => format!(
            "The server responds{models}. It also lists them without a key, so the key is not \
             verified; the first prompt shows whether it works."
        ),
        Err(_) => format!("The key was accepted{models}. Whether one is needed is not known."),
    }
}

fn ask_provider() -> Result<Provider, String> {
    for (number, provider) in (1..).zip(LOGIN_PROVIDERS) {
        print_line(&format!("{number}  {}", provider.name()));
    }
    let question = format!("Which provider? [1-{}] ", LOGIN_PROVIDERS.len());
    let answer = ask_line(&question)?.ok_or(NO_ANSWER)?;
    let number = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let numbered = number.and_then(|number| LOGIN_PROVIDERS.get(number)).copied();
    let named = || LOGIN_PROVIDERS.into_iter().find(|provider| provider.name() == answer);
    numbered.or_else(named).ok_or_else(|| "there is no such provider".to_owned())
}

/// Asks for one line, and returns it without surrounding white space. Returns `None` at the end of
/// input.
fn ask_line(question: &str) -> Result<Option<String>, String> {
    OutputStream::stdout().print(question);
    let answer = read_line().map_err(|error| format!("cannot read the answer: {error}"))?;
    if answer.is_empty() {
        // An error must not follow the question on the same line.
        print_line("");
        return Ok(None);
    }
    Ok(Some(answer.trim().to_owned()))
}

/// Asks for one line. If standard input is a terminal, the answer is not echoed.
fn ask_hidden_line(question: &str) -> Result<Option<String>, String> {
    if !io::stdin().is_terminal() {
        return ask_line(question);
    }
    let key = rpassword::prompt_password(question);
    key.map(Some).map_err(|error| format!("cannot read the key: {error}"))
}

fn read_line() -> io::Result<String> {
    let mut line = String::new();
    io::stdin().lock().take(MAX_LOGIN_ANSWER_BYTES).read_line(&mut line)?;
    Ok(line)
}

fn print_line(line: &str) {
    OutputStream::stdout().print_line(line);
}

const NO_ANSWER: &str = "the input ended before the key. Run `callboard login` in a terminal, or \
    name the provider and give two lines on standard input: the address of the server, which may \
    be empty, and the key. Example: printf '\\n%s\\n' \"$KEY\" | callboard login openai";

const NO_KEY: &str = "the key is empty. For a server that needs none, set its address instead, \
    e.g. OPENAI_BASE_URL; a local Ollama needs no configuration";
