//! The agent that is configured, and the commands that show what there is to choose.

use std::process::ExitCode;
use std::sync::Arc;

use agent_client_protocol::v1::schema::Implementation;
use callboard_models::Model;
use callboard_models::provider::Provider;
use callboard_runtime::{Agent, BuiltIn, Mode};
use serde_json::json;

use super::args::ConfigCommand;
use super::{fail, run, unusable};
use crate::choose::{Broken, CONNECT, Choices, Network, NoModel};
use crate::config::{self, Config, Flags, Row};
use crate::keys::{KeyStore, LOGINS};
use crate::login::{self, UserLogins};
use crate::ui::Ui;
use crate::{folders, secrets};

type Env = Vec<(String, String)>;

fn env() -> Env {
    callboard_process::env::parent().collect()
}

/// Makes the agent that flags, environment and file say, and the model that it runs with.
///
/// # Errors
///
/// The exit code, after saying what is wrong: a configuration that cannot be used, or no model.
pub(super) async fn exec_agent(flags: Flags) -> Result<(Agent, Arc<dyn Model>), ExitCode> {
    let env = env();
    let config = Config::load(&env, flags).map_err(|error| match error.is_of_flag() {
        true => unusable(&error.to_string()),
        false => fail(&error.to_string()),
    })?;
    let mut choices = Choices::new(config, KeyStore::of_env(&env), Network).without_menu();
    match choices.settle().await {
        Ok(Some(model)) => Ok((with_model(model.clone(), choices, env), model)),
        Ok(None) => Err(unusable(NO_MODEL)),
        Err(NoModel::Spec(error)) => Err(unusable(&error.to_string())),
        Err(NoModel::Model(error)) => Err(fail(&format!("The model failed: {error}"))),
        Err(error @ NoModel::Logins(_)) => Err(fail(&error.to_string())),
    }
}

const NO_MODEL: &str = "no model is set up. Run `callboard login`, set ANTHROPIC_API_KEY, \
    OPENAI_API_KEY or GEMINI_API_KEY, or start Ollama, llama.cpp or LM Studio on this machine. \
    `--model direct` runs commands without a model.";

/// Makes the agent that flags, environment and file say. What is wrong with anything but a flag is told
/// at the first prompt: a client shows that to its user, and hardly ever why an agent did not start.
pub(super) fn serving_agent(flags: Flags) -> Result<Agent, String> {
    let env = env();
    let names_model = flags.model.is_some();
    let config = match Config::load(&env, flags) {
        Ok(config) => config,
        Err(error) if error.is_of_flag() => return Err(error.to_string()),
        Err(error) => return Ok(broken(error.to_string(), env)),
    };
    let choices = Choices::new(config, KeyStore::of_env(&env), Network);
    match choices.chosen() {
        Ok(model) => Ok(with_model(model, choices, env)),
        Err(error) if names_model => Err(error.to_string()),
        Err(error) => Ok(broken(error.to_string(), env)),
    }
}

fn with_model(model: Arc<dyn Model>, choices: Choices, env: Env) -> Agent {
    let config = choices.config();
    let (mode, locale) = (config.mode.value, config.locale.clone());
    let env_pass = config.env_pass.as_ref().map(|names| names.value.clone()).unwrap_or_default();
    let agent = agent(model, env).with_mode(mode);
    let agent = agent.with_catalogue(Arc::new(choices)).with_env_pass(env_pass);
    match locale {
        Some(locale) => agent.with_locale(locale.value),
        None => agent,
    }
}

/// An agent that says what is wrong and does nothing: what the user configured may have been
/// stricter than what would be done instead.
fn broken(why: String, env: Env) -> Agent {
    tracing::error!("{why}");
    let catalogue = BuiltIn::new(Arc::new(env.clone())).with_help(CONNECT);
    agent(Arc::new(Broken(why)), env).with_mode(Mode::AskAlways).with_catalogue(Arc::new(catalogue))
}

/// Makes an agent with the logins, the state and the secrets of this user.
fn agent(model: Arc<dyn Model>, env: Env) -> Agent {
    let info = Implementation::new("callboard", env!("CARGO_PKG_VERSION")).title("Callboard");
    let logins = UserLogins::new(KeyStore::of_env(&env));
    // The file, its folder by whatever name, and the file that a link there leads to.
    let config = config::path(&env);
    let guarded = config.iter().flat_map(|file| file.ancestors().take(2));
    let state = folders::state(&env);
    let agent = Agent::new(model, env.into_iter())
        .with_info(info)
        .with_authenticator(Arc::new(logins))
        .with_secrets(secrets::LIVE.clone());
    let agent = guarded.fold(agent, |agent, path| agent.guarding(path.to_owned()));
    match state {
        Some(state) => agent.with_state_folder(state),
        None => agent,
    }
}

/// `callboard config …`
pub(super) fn config(command: ConfigCommand) -> ExitCode {
    match command {
        ConfigCommand::Path => match config::path(&env()) {
            Some(path) => print(&path.display().to_string()),
            None => fail("there is no folder for it: set HOME or XDG_CONFIG_HOME"),
        },
        ConfigCommand::Show { flags, json } => match Config::load(&env(), flags) {
            Ok(config) => print(&show(&config, json)),
            Err(error) => fail(&error.to_string()),
        },
    }
}

fn show(config: &Config, is_json: bool) -> String {
    let rows = config.rows();
    if is_json {
        return format!("{:#}", json!({ "path": config.file.path, "values": rows }));
    }
    let value = |row: &Row| row.value.clone().unwrap_or_else(|| "–".to_owned());
    let key = rows.iter().map(|row| row.key.len()).max().unwrap_or_default();
    let width = rows.iter().map(|row| value(row).chars().count()).max().unwrap_or_default();
    let lines =
        rows.iter().map(|row| format!("{:key$}  {:width$}  {}", row.key, value(row), row.source));
    lines.collect::<Vec<_>>().join("\n")
}

/// `callboard models`
pub(super) fn models(is_json: bool) -> ExitCode {
    with_choices(async |mut choices| {
        let report = choices.report().await;
        print(&if is_json { format!("{:#}", json!(report)) } else { report.to_string() })
    })
}

/// `callboard login`, and the same by its other names.
pub(super) fn login(provider: Option<Provider>) -> ExitCode {
    with_choices(async |choices| match login::run(&choices, provider).await {
        Ok(said) => print(&said),
        Err(why) => fail(&why),
    })
}

/// `callboard logout`
pub(super) fn logout(provider: Option<Provider>) -> ExitCode {
    let of = provider.map_or(LOGINS.to_vec(), |provider| vec![provider]);
    match KeyStore::of_env(&env()).remove(&of) {
        Ok(had) if had.is_empty() => print("There was no stored key."),
        Ok(had) => {
            let names: Vec<_> = had.iter().map(|provider| provider.name()).collect();
            print(&format!("Removed the stored key of {}.", names.join(", ")))
        }
        Err(error) => fail(&error.to_string()),
    }
}

fn with_choices(ask: impl AsyncFnOnce(Choices) -> ExitCode) -> ExitCode {
    let env = env();
    match Config::load(&env, Flags::default()) {
        Ok(config) => run(ask(Choices::new(config, KeyStore::of_env(&env), Network))),
        Err(error) => fail(&error.to_string()),
    }
}

fn print(text: &str) -> ExitCode {
    Ui::stdout().line(&secrets::of_process().redact(text));
    ExitCode::SUCCESS
}
