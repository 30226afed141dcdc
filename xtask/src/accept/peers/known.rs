//! The agents that `bench --peers` knows: how each of them is started with the scripted model
//! server, without questions, and how its model reads a file.

/// An agent that speaks ACP.
///
/// In the texts, `{url}` is the address of the model server, and `{path}` is the file to read.
pub(super) struct Peer {
    pub(super) name: &'static str,
    /// The name of the program in `PATH`.
    pub(super) program: &'static str,
    pub(super) args: &'static [&'static str],
    pub(super) env: &'static [(&'static str, &'static str)],
    /// The files in the home folder that configure the agent, with their texts.
    pub(super) files: &'static [(&'static str, &'static str)],
    /// The tool that reads a file, and its arguments as JSON.
    pub(super) read: (&'static str, &'static str),
}

pub(super) const KNOWN_PEERS: &[Peer] = &[
    Peer {
        name: "codex-acp",
        program: "codex-acp",
        args: &[],
        env: &[("SCRIPTED_KEY", "sk-scripted")],
        files: &[(
            ".codex/config.toml",
            r#"model = "scripted"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
"#,
        )],
        read: ("exec_command", r#"{"cmd": "cat '{path}'"}"#),
    },
    Peer {
        name: "gemini-cli",
        program: "gemini",
        // Without a model, it asks a model which model to use.
        args: &["--acp", "--approval-mode", "yolo", "--model", "gemini-2.5-flash"],
        env: &[("GEMINI_API_KEY", "sk-scripted"), ("GOOGLE_GEMINI_BASE_URL", "{url}")],
        files: &[(
            ".gemini/settings.json",
            r#"{"security": {"auth": {"selectedType": "gemini-api-key"}}, "telemetry": {"enabled": false}}"#,
        )],
        read: ("read_file", r#"{"file_path": "{path}"}"#),
    },
    Peer {
        name: "opencode",
        program: "opencode",
        args: &["acp"],
        env: &[],
        files: &[(
            ".config/opencode/opencode.json",
            r#"{"model": "scripted/scripted", "autoupdate": false, "permission": {"*": "allow"},
"provider": {"scripted": {"npm": "@ai-sdk/openai-compatible", "name": "scripted",
"options": {"baseURL": "{url}/v1", "apiKey": "sk-scripted"},
"models": {"scripted": {"name": "scripted", "tool_call": true}}}}}"#,
        )],
        read: ("read", r#"{"filePath": "{path}"}"#),
    },
    Peer {
        name: "qwen-code",
        program: "qwen",
        args: &["--acp", "--approval-mode", "yolo"],
        env: &[
            ("OPENAI_API_KEY", "sk-scripted"),
            ("OPENAI_BASE_URL", "{url}/v1"),
            ("OPENAI_MODEL", "scripted"),
        ],
        files: &[(
            ".qwen/settings.json",
            r#"{"security": {"auth": {"selectedType": "openai"}}, "model": {"name": "scripted"}}"#,
        )],
        read: ("read_file", r#"{"file_path": "{path}"}"#),
    },
    Peer {
        name: "grok",
        program: "grok",
        args: &[
            "agent",
            "--always-approve",
            "--no-leader",
            "--xai-api-base-url",
            "{url}/v1",
            "-m",
            "scripted",
            "stdio",
        ],
        env: &[("XAI_API_KEY", "xai-scripted")],
        files: &[],
        read: ("read_file", r#"{"target_file": "{path}"}"#),
    },
];
