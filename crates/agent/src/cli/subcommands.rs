//! Creates the configured agent, and runs the subcommands for models, keys and configuration.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::v1::schema::Implementation;
use callboard_models::provider::Provider;
use callboard_models::{FailingModel, Model};
use callboard_runtime::{BuiltInModels, CodingAgent, PermissionMode, RestoredModeLimit};
use serde_json::json;

use super::args::ConfigSubcommand;
use super::{block_on_and_shut_down, print_error_and_fail, print_usage_error_and_fail};
use crate::config::{self, Config, ConfigRow, Flags, ValueSource};
use crate::key_store::{KeyStore, LOGIN_PROVIDERS};
use crate::limits::EXEC_SERVER_WAIT;
use crate::login::{self, LoginAuthenticator};
use crate::model_selection::{CONNECT_HELP, ConfiguredModels, HttpNetwork, NoModelError};
use crate::{secrets, session_store, user_folders};
use callboard_exec::OutputStream;

type EnvVars = Vec<(String, String)>;

pub(super) fn process_env() -> EnvVars {
    callboard_process::env::own_env().collect()
}

/// Loads the configuration for `exec` from flags, environment and configuration file.
///
/// # Errors
///
/// Prints the error, and returns the exit code, if the configuration is invalid.
pub(super) fn load_exec_config(flags: Flags) -> Result<Config, ExitCode> {
    Config::load(&process_env(), flags).map_err(|error| {
        match error.is_flag_error() || error.is_unknown_model() {
            true => print_usage_error_and_fail(&error.to_string()),
            false => print_error_and_fail(&error.to_string()),
        }
    })
}

/// Creates the agent for `exec`, and its model. `stored_model` is the model of the session that
/// `exec` continues, unless a flag names another model.
///
/// # Errors
///
/// Prints the error, and returns the exit code, if there is no model.
pub(super) async fn create_exec_agent(
    config: Config,
    isolation: CommandIsolationChoice,
    stored_model: Option<String>,
) -> Result<(CodingAgent, Arc<dyn Model>), ExitCode> {
    let env = process_env();
    let restored_mode = match config.mode.source {
        ValueSource::Default => RestoredModeLimit::AsStored,
        _ => RestoredModeLimit::AtMostInitial,
    };
    let mut choices = ConfiguredModels::new(config, KeyStore::from_env(&env), HttpNetwork)
        .without_menu_discovery();
    let opened = stored_model.and_then(|name| choices.open_and_set_default_model(&name));
    let model = match opened {
        Some(model) => Ok(Some(model)),
        None => choices.resolve_default_model().await,
    };
    match model {
        Ok(Some(model)) => {
            let wait = Some(EXEC_SERVER_WAIT);
            let agent = create_configured_agent(model.clone(), choices, env, isolation, wait);
            Ok((agent.with_restored_mode(restored_mode), model))
        }
        Ok(None) => Err(print_usage_error_and_fail(NO_MODEL)),
        Err(NoModelError::Spec(error)) => Err(print_usage_error_and_fail(&error.to_string())),
        Err(NoModelError::Model(error)) => {
            Err(print_error_and_fail(&format!("The model failed: {error}")))
        }
        Err(error @ NoModelError::Logins(_)) => Err(print_error_and_fail(&error.to_string())),
    }
}

const NO_MODEL: &str = "no model is set up. Run `callboard login`, set ANTHROPIC_API_KEY, \
    OPENAI_API_KEY or GEMINI_API_KEY, set OPENAI_BASE_URL to the address of a server, or start \
    Ollama, llama.cpp or LM Studio on this machine. `--model direct` runs commands without a model.";

/// Creates the agent from flags, environment and configuration file. An error in a flag ends the
/// process. All other errors are reported at the first prompt. Clients show errors of prompts, but
/// rarely the reason why an agent did not start.
pub(super) fn create_serving_agent(flags: Flags) -> Result<CodingAgent, String> {
    let env = process_env();
    let isolation = CommandIsolationChoice::from_flags(&flags);
    let names_model = flags.model.is_some();
    let config = match Config::load(&env, flags) {
        Ok(config) => config,
        Err(error) if error.is_flag_error() => return Err(error.to_string()),
        Err(error) => return Ok(create_broken_config_agent(error.to_string(), env, isolation)),
    };
    let choices = ConfiguredModels::new(config, KeyStore::from_env(&env), HttpNetwork);
    match choices.create_session_model() {
        Ok(model) => Ok(create_configured_agent(model, choices, env, isolation, None)),
        Err(error) if names_model => Err(error.to_string()),
        Err(error) => Ok(create_broken_config_agent(error.to_string(), env, isolation)),
    }
}

/// Whether commands run in a sandbox.
#[derive(Clone, Copy)]
pub(super) enum CommandIsolationChoice {
    Sandbox,
    None,
}

impl CommandIsolationChoice {
    pub(super) fn from_flags(flags: &Flags) -> Self {
        if flags.no_sandbox { Self::None } else { Self::Sandbox }
    }
}

/// The remedy for the user if no sandbox works, as the end of a sentence.
pub(super) const SANDBOX_REMEDY: &str =
    "`callboard doctor sandbox` explains why, and `--no-sandbox` lets commands run as before";

fn create_configured_agent(
    model: Arc<dyn Model>,
    choices: ConfiguredModels,
    env: EnvVars,
    isolation: CommandIsolationChoice,
    default_wait: Option<Duration>,
) -> CodingAgent {
    let config = choices.config();
    let (mode, locale) = (config.mode.value, config.locale.clone());
    let env_pass = config.env_pass.as_ref().map(|names| names.value.clone()).unwrap_or_default();
    let retention = config.session_retention();
    let servers = config.mcp_servers.iter().map(|server| server.value.clone()).collect();
    let search = config.web_search.as_ref().map(|search| search.value.clone());
    let wait = config.first_prompt_wait.as_ref().map(|wait| Duration::from_secs(wait.value));
    let wait = wait.or(default_wait);
    let stored = config.stores_sessions.value.then(|| session_store::folder(&env)).flatten();
    let preview = config.command_preview.value;
    let agent = create_agent_without_config(model, env, isolation).with_initial_mode(mode);
    let agent = match stored {
        Some(folder) => agent
            .with_session_store(move || session_store::open(&folder))
            .with_session_retention(retention),
        None => agent,
    };
    let agent = agent
        .with_catalogue(Arc::new(choices))
        .with_env_pass(env_pass)
        .with_command_preview(preview)
        .with_mcp_servers(servers, wait);
    let agent = match search {
        Some(search) => agent.with_web_search(search),
        None => agent,
    };
    match locale {
        Some(locale) => agent.with_locale(locale.value),
        None => agent,
    }
}

/// Creates an agent that only reports a configuration error. This agent does not run with default
/// values, because the intended configuration may have been stricter.
fn create_broken_config_agent(
    why: String,
    env: EnvVars,
    isolation: CommandIsolationChoice,
) -> CodingAgent {
    tracing::error!("{why}");
    let catalogue = BuiltInModels::new(Arc::new(env.clone())).with_connect_help(CONNECT_HELP);
    create_agent_without_config(
        Arc::new(FailingModel::new(format!("{why}; fix it, and restart the agent"))),
        env,
        isolation,
    )
    .with_initial_mode(PermissionMode::AskAlways)
    .with_catalogue(Arc::new(catalogue))
}

/// Creates an agent with the logins, the state folder and the secrets of this user.
fn create_agent_without_config(
    model: Arc<dyn Model>,
    env: EnvVars,
    isolation: CommandIsolationChoice,
) -> CodingAgent {
    let info = Implementation::new("callboard", env!("CARGO_PKG_VERSION")).title("Callboard");
    let logins = LoginAuthenticator::new(KeyStore::from_env(&env));
    let guarded = guarded_config_paths(&env);
    let state = user_folders::state_folder(&env);
    let agent = CodingAgent::new(model, env.into_iter())
        .with_info(info)
        .with_authenticator(Arc::new(logins))
        .with_secrets(secrets::PROCESS_SECRETS.clone());
    let agent = match isolation {
        CommandIsolationChoice::Sandbox => agent.with_command_sandbox(SANDBOX_REMEDY),
        CommandIsolationChoice::None => agent,
    };
    let agent = guarded.into_iter().fold(agent, CodingAgent::with_guarded_path);
    match state {
        Some(state) => agent.with_state_folder(state),
        None => agent,
    }
}

/// Returns the paths of the configuration file and its folder, for
/// [`CodingAgent::with_guarded_path`]. Guarded files are protected under any path, and so are the
/// targets of symbolic links.
pub(super) fn guarded_config_paths(env: &[(String, String)]) -> Vec<PathBuf> {
    let config = config::config_file_path(env);
    config.iter().flat_map(|file| file.ancestors().take(2)).map(Path::to_owned).collect()
}

/// Runs `callboard config …`.
pub(super) fn run_config_command(command: ConfigSubcommand) -> ExitCode {
    match command {
        ConfigSubcommand::Path => match config::config_file_path(&process_env()) {
            Some(path) => print_redacted(&path.display().to_string()),
            None => print_error_and_fail(
                "no folder for the configuration file: set HOME or XDG_CONFIG_HOME",
            ),
        },
        ConfigSubcommand::Show { flags, json } => match Config::load(&process_env(), flags) {
            Ok(config) => print_redacted(&render_config(&config, json)),
            Err(error) => print_error_and_fail(&error.to_string()),
        },
    }
}

fn render_config(config: &Config, is_json: bool) -> String {
    let rows = config.display_rows();
    if is_json {
        return format!("{:#}", json!({ "path": config.file.path, "values": rows }));
    }
    let value = |row: &ConfigRow| row.value.clone().unwrap_or_else(|| "–".to_owned());
    let key = rows.iter().map(|row| row.key.len()).max().unwrap_or_default();
    let width = rows.iter().map(|row| value(row).chars().count()).max().unwrap_or_default();
    let lines =
        rows.iter().map(|row| format!("{:key$}  {:width$}  {}", row.key, value(row), row.source));
    lines.collect::<Vec<_>>().join("\n")
}

/// Runs `callboard models`.
pub(super) fn run_models_command(is_json: bool) -> ExitCode {
    run_with_configured_models(async |mut choices| {
        let report = choices.request_report().await;
        print_redacted(&if is_json { format!("{:#}", json!(report)) } else { report.to_string() })
    })
}

/// Runs `callboard login` and its aliases.
pub(super) fn run_login_command(provider: Option<Provider>) -> ExitCode {
    run_with_configured_models(async |choices| {
        match login::log_in_interactively(&choices, provider).await {
            Ok(message) => print_redacted(&message),
            Err(why) => print_error_and_fail(&why),
        }
    })
}

/// Runs `callboard logout`.
pub(super) fn run_logout_command(provider: Option<Provider>) -> ExitCode {
    let of = provider.map_or(LOGIN_PROVIDERS.to_vec(), |provider| vec![provider]);
    match KeyStore::from_env(&process_env()).remove_keys(&of) {
        Ok(had) if had.is_empty() => print_redacted("There was no stored key."),
        Ok(had) => {
            let names: Vec<_> = had.iter().map(|provider| provider.name()).collect();
            print_redacted(&format!("Removed the stored key of {}.", names.join(", ")))
        }
        Err(error) => print_error_and_fail(&error.to_string()),
    }
}

fn run_with_configured_models(ask: impl AsyncFnOnce(ConfiguredModels) -> ExitCode) -> ExitCode {
    let env = process_env();
    match Config::load(&env, Flags::default()) {
        Ok(config) => block_on_and_shut_down(ask(ConfiguredModels::new(
            config,
            KeyStore::from_env(&env),
            HttpNetwork,
        ))),
        Err(error) => print_error_and_fail(&error.to_string()),
    }
}

pub(super) fn print_redacted(text: &str) -> ExitCode {
    OutputStream::stdout().print_line(&secrets::process_secrets().redact(text));
    ExitCode::SUCCESS
}
