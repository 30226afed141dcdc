//! The trait of a model, and the models that a name can tell.

use std::{fmt, io, path::PathBuf, sync::Arc};

use futures::{future::BoxFuture, stream::BoxStream};

use crate::direct::{self, Direct};
use crate::provider::{self, MissingKey, Provider, Settings};
use crate::script::{Script, ScriptError};
use crate::{Event, Request};

/// Answers requests; holds no state of any session.
///
/// Everything a reply depends on is in its [`Request`], so that one model serves any number of
/// sessions, and a session can be taken up again by another process or change its model midway.
pub trait Model: Send + Sync + fmt::Debug {
    /// Names the model as `--model` does: `direct`, `script:FILE`, `anthropic/NAME`.
    fn name(&self) -> &str;

    /// Returns what the model takes and how much of it, as far as that is known.
    fn traits(&self) -> Traits {
        Traits::default()
    }

    /// Looks for what is needed before the first request and cannot be had at once: a key in a
    /// keyring, a server that answers. Called before each turn, and at no other time; it may take
    /// seconds, and can be dropped. Returns what the user should know of which model it is; a
    /// failure is told by the reply.
    fn prepare(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    /// Starts one reply. Must be called, and the reply polled, inside a tokio runtime.
    fn reply(&self, request: Request) -> Reply;
}

/// The events of one reply. Ends after [`Event::Stop`] or [`Event::Error`]; dropping it cancels.
pub type Reply = BoxStream<'static, Event>;

/// What a model takes, and how much of it. There will be more: end a literal with
/// `..Traits::default()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// True if it sees images.
    pub images: bool,
    /// True if it hears audio.
    pub audio: bool,
    /// True if it can be told how much to think: [`Request::effort`].
    pub efforts: bool,
    /// Tokens that a request and its reply may have together, if known.
    pub context_tokens: Option<u64>,
}

/// Makes the model that `spec` names: `direct`; `script:FILE` with a path relative to the process's
/// directory, which is read once and now; or `provider/name`, reached as the variables of `env` say
/// ([`Settings::of_env`]) and not before its first reply.
///
/// # Errors
/// See [`SpecError`].
pub fn parse(
    spec: &str,
    env: impl IntoIterator<Item = (String, String)>,
) -> Result<Arc<dyn Model>, SpecError> {
    if let Some((provider, name)) = Provider::parse(spec) {
        return Ok(provider::connect(Settings::of_env(provider, name, env)?));
    }
    match spec.split_once(':') {
        None if spec == direct::NAME => Ok(Arc::new(Direct)),
        Some(("script", file)) if !file.is_empty() => Ok(Arc::new(Script::read(file)?)),
        _ => Err(SpecError::Unknown { spec: spec.to_owned() }),
    }
}

/// The providers, as a message names them.
const PROVIDERS: &str = "`PROVIDER/NAME` with a provider of `anthropic`, `openai`, \
    `openai-responses`, `gemini`, `ollama`";

/// Why `--model` names no model. The text says all there is to say; there is no further source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// This build has no such model. Name another one.
    #[error("unknown model `{spec}`: there are `direct`, `script:FILE` and {PROVIDERS}")]
    Unknown {
        /// What was asked for.
        spec: String,
    },
    /// The provider needs a key, and the environment has none.
    #[error(transparent)]
    MissingKey(#[from] MissingKey),
    /// A script's file is missing or cannot be read.
    #[error("cannot read the script {}: {error}", file.display())]
    Unreadable {
        /// The file, as it was named.
        file: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A script is not in its format. Mend the line.
    #[error("{}: {error}", file.display())]
    Script {
        /// The file, as it was named.
        file: PathBuf,
        /// What is wrong, and on which line.
        error: ScriptError,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_names_a_model_or_says_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            format!("script:{}", path.display())
        };
        let good = file("good.jsonl", "{\"text\":\"hi\"}");
        let bad = file("bad.jsonl", "\n{\"txet\":\"hi\"}");
        let missing = format!("script:{}", folder.path().join("missing.jsonl").display());
        // Opening one would wait for whoever writes into it.
        #[cfg(target_os = "linux")]
        rustix::fs::mknodat(
            rustix::fs::CWD,
            folder.path().join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        #[cfg(not(target_os = "linux"))]
        std::fs::create_dir(folder.path().join("pipe")).unwrap();
        let pipe = format!("script:{}", folder.path().join("pipe").display());
        let cases: [(&str, Result<&str, &[&str]>); 9] = [
            ("direct", Ok("direct")),
            (&good, Ok(&good)),
            (&bad, Err(&["bad.jsonl: line 2: unknown field `txet`"])),
            (&missing, Err(&["cannot read the script", "missing.jsonl", "No such file"])),
            (&pipe, Err(&["cannot read the script", "pipe: it is no file"])),
            ("script:", Err(&["unknown model `script:`", "`script:FILE`"])),
            ("", Err(&["unknown model ``"])),
            ("direct:x", Err(&["unknown model `direct:x`", "`direct`"])),
            ("anthropic/x", Err(&["`anthropic` needs a key: set ANTHROPIC_API_KEY"])),
        ];
        for (spec, expected) in cases {
            match (parse(spec, []), expected) {
                (Ok(model), Ok(name)) => assert_eq!(model.name(), name),
                (Err(error), Err(parts)) => {
                    let error = error.to_string();
                    assert!(parts.iter().all(|part| error.contains(part)), "{spec}: {error}");
                }
                (got, _) => panic!("{spec}: {got:?}"),
            }
        }
    }
}
