//! Models by their names, as `--model` takes them.

use std::path::{Path, PathBuf};
use std::{io, sync::Arc};

use crate::direct::{self, DirectModel};
use crate::provider::{self, MissingKey, Provider, ProviderSettings};
use crate::script::{self, ScriptError, ScriptModel};
use crate::{Model, bounded_file};

/// Makes the model that `spec` names: `direct`; `script:FILE` with a path relative to the process's
/// directory, which is read once and now; or `provider/name`, reached as the variables of `env` say
/// ([`Settings::of_env`]) and not before its first reply.
///
/// # Errors
/// See [`SpecError`].
pub fn open_model(
    spec: &str,
    env: impl IntoIterator<Item = (String, String)>,
) -> Result<Arc<dyn Model>, ModelSpecError> {
    Ok(match ParsedSpec::parse(spec)? {
        ParsedSpec::Provider(provider, name) => {
            provider::connect(ProviderSettings::from_env(provider, name, env)?)
        }
        ParsedSpec::Direct => Arc::new(DirectModel::default()),
        ParsedSpec::Script(file) => Arc::new(read_script(file)?),
    })
}

/// Checks that [`parse`] takes `spec`, without connecting to anything.
///
/// # Errors
/// [`SpecError::Unknown`].
pub fn check_model_spec(spec: &str) -> Result<(), ModelSpecError> {
    ParsedSpec::parse(spec).map(drop)
}

/// What a spec names.
enum ParsedSpec<'a> {
    Provider(Provider, &'a str),
    Direct,
    Script(&'a str),
}

impl<'a> ParsedSpec<'a> {
    fn parse(spec: &'a str) -> Result<Self, ModelSpecError> {
        match spec.strip_prefix("script:").filter(|file| !file.is_empty()) {
            Some(file) => Ok(Self::Script(file)),
            None if spec == direct::NAME => Ok(Self::Direct),
            None => match Provider::parse(spec) {
                Some((provider, name)) => Ok(Self::Provider(provider, name)),
                None => Err(ModelSpecError::Unknown { spec: spec.to_owned() }),
            },
        }
    }
}

/// Reads the script in a file as the model `script:FILE`.
fn read_script(file: &str) -> Result<ScriptModel, ModelSpecError> {
    let path = Path::new(file);
    // One byte more than allowed is read, so that `parse` sees that there is more.
    let text = bounded_file::read_bounded(path, script::MAX_SCRIPT_BYTES as u64)
        .map_err(|error| ModelSpecError::Unreadable { file: path.to_owned(), error })?;
    ScriptModel::parse(&text, format!("script:{file}"))
        .map_err(|error| ModelSpecError::Script { file: path.to_owned(), error })
}

/// The providers, as a message names them.
const PROVIDERS: &str = "`PROVIDER/NAME` with a provider of `anthropic`, `openai`, \
    `openai-responses`, `gemini`, `ollama`";

/// Why `--model` names no model. The text says all there is to say; there is no further source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelSpecError {
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
            match (open_model(spec, []), expected) {
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
