//! Parses model specs, i.e. the values of the option `--model`.

use std::path::{Path, PathBuf};
use std::{io, sync::Arc};

use crate::direct::{self, DirectModel};
use crate::provider::{self, MissingKey, Provider, ProviderSettings};
use crate::script::{self, ScriptLineError, ScriptModel};
use crate::{Model, bounded_file};

/// Creates the model with the name `spec`: `direct`; `script:FILE` with a path relative to the
/// current directory; or `provider/name`. A script file is read once, during this call. A provider
/// is configured from the variables in `env` (see [`ProviderSettings::from_env`]), and is not
/// contacted until the first reply.
///
/// # Errors
/// Returns [`ModelSpecError`] if the model cannot be created.
pub fn open_model(
    spec: &str,
    env: impl IntoIterator<Item = (String, String)>,
) -> Result<Arc<dyn Model>, ModelSpecError> {
    Ok(match ParsedSpec::parse(spec)? {
        ParsedSpec::Provider(provider, name) => {
            provider::create_model(ProviderSettings::from_env(provider, name, env)?)
        }
        ParsedSpec::Direct => Arc::new(DirectModel::default()),
        ParsedSpec::Script(file) => Arc::new(read_script(file)?),
    })
}

/// Checks that `spec` has a form that [`open_model`] accepts, without any file or network access.
///
/// # Errors
/// Returns [`ModelSpecError::Unknown`] if `spec` names no model.
pub fn check_model_spec(spec: &str) -> Result<(), ModelSpecError> {
    ParsedSpec::parse(spec).map(drop)
}

/// A parsed model spec.
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
            None => match Provider::parse_model_spec(spec) {
                Some((provider, name)) => Ok(Self::Provider(provider, name)),
                None => Err(ModelSpecError::Unknown { spec: spec.to_owned() }),
            },
        }
    }
}

/// Reads a script file as the model `script:FILE`.
fn read_script(file: &str) -> Result<ScriptModel, ModelSpecError> {
    let path = Path::new(file);
    // The result has one byte more than the limit if the file is larger. `ScriptModel::parse` then
    // rejects it.
    let text = bounded_file::read_max_plus_one_bytes(path, script::MAX_SCRIPT_BYTES as u64)
        .map_err(|error| ModelSpecError::Unreadable { file: path.to_owned(), error })?;
    ScriptModel::parse(&text, format!("script:{file}"))
        .map_err(|error| ModelSpecError::Script { file: path.to_owned(), error })
}

/// The list of providers in an error message.
const PROVIDERS: &str = "`PROVIDER/NAME` with a provider of `anthropic`, `openai`, \
    `openai-responses`, `gemini`, `ollama`";

/// The reason why the value of `--model` cannot be used. The message contains all causes, so the
/// error has no `source`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelSpecError {
    /// This build has no model with this name. Choose another model.
    #[error("unknown model `{spec}`: there are `direct`, `script:FILE` and {PROVIDERS}")]
    Unknown {
        /// The given spec.
        spec: String,
    },
    /// The provider needs a key, and the environment has no key.
    #[error(transparent)]
    MissingKey(#[from] MissingKey),
    /// A script file does not exist or cannot be read.
    #[error("cannot read the script {}: {error}", file.display())]
    Unreadable {
        /// Path of the file, as the user wrote it.
        file: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// A script is malformed. Correct the reported line.
    #[error("{}: {error}", file.display())]
    Script {
        /// Path of the file, as the user wrote it.
        file: PathBuf,
        /// Error in the script, with the number of the line.
        error: ScriptLineError,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_names_a_model_or_explains_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            format!("script:{}", path.display())
        };
        let good = file("good.jsonl", "{\"text\":\"hi\"}");
        let bad = file("bad.jsonl", "\n{\"txet\":\"hi\"}");
        let missing = format!("script:{}", folder.path().join("missing.jsonl").display());
        // Opening a FIFO would block until another process opens it for writing.
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
            (&pipe, Err(&["cannot read the script", "pipe: it is not a regular file"])),
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
