//! The sandbox of a session's commands, as clients and the model see it.

use acp_tools::sandbox::CommandIsolation;
use acp_types::{ConfigOption, ConfigValue};
use agent_client_protocol::v1::schema::Meta;
use serde_json::json;

/// The id of the session option that shows the sandbox.
pub(crate) const SANDBOX_OPTION_ID: &str = "sandbox";

/// The sandbox of a session's commands as clients and the model see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShownSandbox {
    Namespaces,
    Landlock,
    /// No sandbox works.
    Unavailable,
    /// The sandbox is switched off.
    Off,
}

impl ShownSandbox {
    pub(crate) fn new(isolation: &CommandIsolation) -> Self {
        match isolation {
            CommandIsolation::Sandbox(sandbox) if sandbox.has_namespaces() => Self::Namespaces,
            CommandIsolation::Sandbox(_) => Self::Landlock,
            CommandIsolation::Off => Self::Off,
            _ => Self::Unavailable,
        }
    }

    /// Returns the value of the session option.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
            Self::Unavailable => "unavailable",
            Self::Off => "off",
        }
    }

    /// Returns the session option, which has only one value.
    pub(crate) fn config_option(self) -> ConfigOption {
        let (name, description) = match self {
            Self::Namespaces => (
                "Full sandbox",
                "Commands change only the project folders and a private /tmp, read no keys, and \
                 reach no other host without permission.",
            ),
            Self::Landlock => (
                "Sandbox without namespaces",
                "Commands change only the project folders and a private folder, read no other \
                 files of the home folder but toolchains, and have no network. Changes of \
                 protected files in the project folders are undone.",
            ),
            Self::Unavailable => (
                "No sandbox works here",
                "Each command needs permission, and runs without a sandbox.",
            ),
            Self::Off => {
                ("Off", "Commands run without a sandbox, because the agent was started so.")
            }
        };
        let value = ConfigValue::new(self.id(), name).with_description(description.to_owned());
        ConfigOption::new(SANDBOX_OPTION_ID, "Sandbox", self.id(), vec![value])
            .with_description("The isolation of commands")
    }

    /// Returns the `_meta` of a response that opens a session: the `SandboxCapability` of a
    /// [proposal for ACP](https://github.com/agentclientprotocol/agent-client-protocol/pull/1063).
    pub(crate) fn to_meta(self, meta_key: &str) -> Meta {
        let (mode, files, network) = match self {
            Self::Namespaces => (self.id(), "workspace", "restricted"),
            Self::Landlock => (self.id(), "workspace", "denyAll"),
            Self::Unavailable | Self::Off => ("host", "none", "none"),
        };
        let guarantees = json!({
            "fsIsolation": files, "netIsolation": network, "processCaps": mode != "host",
        });
        let sandbox = json!({ "mode": mode, "guarantees": guarantees });
        Meta::from_iter([(meta_key.to_owned(), json!({ "sandbox": sandbox }))])
    }
}
