//! The MCP servers of the configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use acp_mcp::{McpLoginClient, McpLoginConfig, McpServerConfig, McpTransport};
use callboard_process::env::{is_secret_name_or_value, secrets_in_http_header_value, url_password};
use serde::Deserialize;

use super::SourcedValue;
use super::env_vars::{env_secret, env_value};
use super::positive_number::PositiveNumber;
use crate::key_store::KeyStore;
use crate::secrets;

/// The section `[mcp]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct McpSection {
    /// Seconds for which the first prompt of a session waits for servers that are starting.
    pub(super) first_prompt_wait: Option<SourcedValue<u64>>,
}

/// A section `[mcp_servers.NAME.oauth]`.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct OAuthSection {
    /// The client that the user has registered.
    client_id: Option<String>,
    /// Name of the variable with the secret of the client.
    client_secret_env: Option<String>,
    /// The issuer of the authorization server at which the client is registered.
    issuer: Option<String>,
    #[serde(default)]
    scopes: Vec<String>,
}

/// A section `[mcp_servers.NAME]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct McpServerSection {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Names of variables of the agent's environment that the server gets.
    #[serde(default)]
    env_pass: Vec<String>,
    cwd: Option<PathBuf>,
    /// Whether the program runs in the sandbox of commands.
    #[serde(default)]
    sandbox: bool,
    url: Option<String>,
    /// Headers whose values are in variables of the agent's environment.
    #[serde(default)]
    headers_env: BTreeMap<String, String>,
    /// How to log in to a server with a URL.
    #[serde(default)]
    oauth: OAuthSection,
    startup_timeout: Option<PositiveNumber>,
    call_timeout: Option<PositiveNumber>,
    #[serde(default)]
    tools: ToolNames,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolNames {
    allow: Option<Vec<String>>,
    #[serde(default)]
    deny: Vec<String>,
}

impl McpServerSection {
    /// Converts the section. Relative paths are relative to `folder`. Returns an error if the
    /// section does not describe exactly one server.
    pub(super) fn to_server_config(
        &self,
        name: &str,
        folder: &Path,
        env: &[(String, String)],
    ) -> Result<McpServerConfig, String> {
        let passwords = self.args.iter().chain(&self.url).filter_map(|text| url_password(text));
        passwords.for_each(secrets::add_to_redact);
        let transport = match (&self.command, &self.url) {
            (Some(command), None) if self.has_no_url_options() => McpTransport::Stdio {
                command: absolute_command(command, folder),
                args: self.args.clone(),
                env: self.variables(env),
                cwd: self.cwd.as_ref().map(|cwd| folder.join(cwd)),
            },
            (None, Some(url)) if self.has_no_program_options() => {
                let wrong = || format!("mcp_servers.{name}.url must be an http or https URL");
                super::check_base_url(url).map_err(|_base_url| wrong())?;
                McpTransport::Http { url: url.clone(), headers: self.headers(name, env) }
            }
            _ => {
                return Err(format!(
                    "mcp_servers.{name} needs either `command`, with `args`, `env`, `env_pass`, \
                     `cwd` and `sandbox`, or `url`, with `headers_env` and `oauth`"
                ));
            }
        };
        let has_url = matches!(transport, McpTransport::Http { .. });
        let mut config = McpServerConfig::new(name, transport);
        config.is_sandboxed = self.sandbox;
        config.login = has_url.then(|| self.login(name, env)).transpose()?;
        let seconds = |seconds: PositiveNumber| Duration::from_secs(seconds.get());
        config.startup_timeout = self.startup_timeout.map_or(config.startup_timeout, seconds);
        config.call_timeout = self.call_timeout.map_or(config.call_timeout, seconds);
        config.tools.allow.clone_from(&self.tools.allow);
        config.tools.deny.clone_from(&self.tools.deny);
        Ok(config)
    }

    fn has_no_url_options(&self) -> bool {
        self.headers_env.is_empty() && self.oauth == OAuthSection::default()
    }

    fn has_no_program_options(&self) -> bool {
        let has_words = !self.args.is_empty() || !self.env_pass.is_empty();
        !has_words && self.env.is_empty() && self.cwd.is_none() && !self.sandbox
    }

    /// Returns how to log in to the server.
    fn login(&self, name: &str, env: &[(String, String)]) -> Result<McpLoginConfig, String> {
        let OAuthSection { client_id, client_secret_env, issuer, scopes } = &self.oauth;
        let hint = format!("run `callboard mcp login {name}`");
        let mut login = McpLoginConfig::new(Arc::new(KeyStore::from_env(env)), hint);
        login.scopes.clone_from(scopes);
        let section = format!("mcp_servers.{name}.oauth");
        if let Some(issuer) = issuer {
            let wrong = || format!("{section}.issuer must be an http or https URL");
            super::check_base_url(issuer).map_err(|_base_url| wrong())?;
        }
        login.client = match (client_id, client_secret_env) {
            (Some(id), None) => {
                let mut client = McpLoginClient::new(id);
                client.issuer.clone_from(issuer);
                Some(client)
            }
            (Some(id), Some(variable)) => {
                // The server itself names its authorization server. Without a configured issuer,
                // the server could choose who gets the secret.
                let issuer = issuer.as_ref().ok_or_else(|| {
                    format!(
                        "{section}.client_secret_env needs `issuer`, which alone gets the secret"
                    )
                })?;
                let secret = env_secret(env, variable, &format!("{section}.client_secret_env"));
                Some(McpLoginClient::new(id).with_secret_for_issuer(secret, issuer))
            }
            (None, None) if issuer.is_none() => None,
            (None, None) => return Err(format!("{section}.issuer needs `client_id`")),
            (None, Some(_)) => {
                return Err(format!("{section}.client_secret_env needs `client_id`"));
            }
        };
        Ok(login)
    }

    /// Returns the variables of the server. Values that look secret are redacted in all later
    /// output.
    fn variables(&self, env: &[(String, String)]) -> BTreeMap<String, String> {
        let written = self.env.iter().filter(|(name, value)| is_secret_name_or_value(name, value));
        written.for_each(|(_, value)| secrets::add_to_redact(value));
        let passed = self.env_pass.iter();
        let passed = passed.filter_map(|name| Some((name.clone(), env_value(env, name)?.value)));
        passed.chain(self.env.clone()).collect()
    }

    /// Returns the headers whose variables are set. Their secrets are redacted in all later output.
    fn headers(&self, name: &str, env: &[(String, String)]) -> Vec<(String, String)> {
        let header = |(header, variable): (&String, &String)| {
            let value = env_secret(env, variable, &format!("mcp_servers.{name}.headers_env"))?;
            secrets_in_http_header_value(&value).for_each(secrets::add_to_redact);
            Some((header.clone(), value))
        };
        self.headers_env.iter().filter_map(header).collect()
    }
}

/// Joins a relative path of a program to `folder`. Without this, the path would name a file in the
/// project folder, and every project could supply that file. A name without `/` is searched in
/// `PATH`.
fn absolute_command(command: &str, folder: &Path) -> String {
    if !command.contains('/') || Path::new(command).is_absolute() {
        return command.to_owned();
    }
    // Only environment variables of valid UTF-8 are read, so the path of `folder` is UTF-8.
    folder.join(command).to_string_lossy().into_owned()
}
