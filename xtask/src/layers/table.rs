//! The rules of the layers: which crates each workspace member may depend on, and how many.

/// Allowed dependencies of one workspace member.
pub(super) struct LayerRule {
    pub(super) member: &'static str,
    /// Workspace members that are allowed as direct dependencies of any kind: normal, build and
    /// dev.
    pub(super) may_use: &'static [&'static str],
    /// Crates that must not be transitive normal or build dependencies of the member, if its
    /// default features are disabled and `features` are enabled.
    pub(super) never: &'static [&'static str],
    /// Features of the member that are enabled when `never` is checked.
    pub(super) features: &'static str,
}

pub(super) const TABLE: &[LayerRule] = &[
    LayerRule {
        member: "callboard-text",
        may_use: &[],
        never: &["futures", "memchr", "rustix", "serde", "tokio"],
        features: "",
    },
    LayerRule {
        member: "acp-types",
        may_use: &["callboard-text"],
        never: &[
            "agent-client-protocol",
            "futures",
            "getrandom",
            "ignore",
            "portable-pty",
            "rand",
            "rustix",
            "schemars",
            "similar",
            "tokio",
            "tokio-util",
        ],
        features: "v2",
    },
    LayerRule {
        member: "callboard-shell",
        may_use: &["callboard-text"],
        never: &["acp-types", "futures", "globset", "rustix", "serde", "tokio"],
        features: "",
    },
    LayerRule {
        member: "acp-lifecycle",
        may_use: &["callboard-text", "acp-types", "callboard-shell"],
        never: &[
            "agent-client-protocol",
            "getrandom",
            "ignore",
            "portable-pty",
            "rustix",
            "similar",
            "tokio",
        ],
        features: "v2",
    },
    LayerRule {
        member: "callboard-sandbox",
        may_use: &[],
        never: &["acp-types", "agent-client-protocol", "callboard-text", "futures", "tokio"],
        features: "",
    },
    LayerRule {
        member: "callboard-process",
        may_use: &["callboard-text", "callboard-sandbox"],
        never: &["acp-types", "agent-client-protocol", "clap", "schemars"],
        features: "",
    },
    LayerRule {
        member: "acp-tools",
        may_use: &[
            "callboard-text",
            "acp-types",
            "callboard-shell",
            "acp-lifecycle",
            "callboard-sandbox",
            "callboard-process",
        ],
        never: &["agent-client-protocol", "clap"],
        features: "",
    },
    LayerRule {
        member: "acp-mcp",
        may_use: &[
            "callboard-text",
            "acp-types",
            "acp-lifecycle",
            "callboard-process",
            "acp-tools",
        ],
        never: &["agent-client-protocol", "clap", "rig-core"],
        features: "",
    },
    LayerRule {
        member: "acp-transport",
        may_use: &["callboard-text"],
        never: &["acp-types", "clap", "ignore", "portable-pty", "reqwest", "rig-core"],
        features: "",
    },
    LayerRule {
        member: "callboard-models",
        may_use: &["callboard-text"],
        never: &["agent-client-protocol-schema", "clap", "reqwest", "rig-core"],
        features: "mock-server",
    },
    LayerRule {
        member: "acp-cards",
        may_use: &["callboard-text", "acp-types"],
        never: &["agent-client-protocol", "fluent-bundle", "futures", "rustix", "tokio"],
        features: "",
    },
    LayerRule {
        member: "acp-store",
        may_use: &["callboard-text", "acp-types"],
        never: &["agent-client-protocol", "clap", "fluent-bundle", "reqwest", "rig-core"],
        features: "sqlite,conformance",
    },
    LayerRule {
        member: "acp-conformance",
        may_use: &["callboard-text", "acp-types", "acp-transport"],
        never: &["clap", "ignore", "portable-pty", "reqwest", "rig-core"],
        features: "",
    },
    LayerRule {
        member: "acp-connection",
        may_use: &[
            "callboard-text",
            "acp-types",
            "acp-lifecycle",
            "acp-transport",
            "acp-conformance",
        ],
        never: &["clap", "ignore", "portable-pty", "reqwest", "rig-core", "schemars", "similar"],
        features: "",
    },
    LayerRule {
        member: "callboard-exec",
        may_use: &["callboard-text", "acp-types", "acp-lifecycle", "acp-transport", "acp-cards"],
        never: &["clap", "ignore", "portable-pty", "reqwest", "rig-core"],
        features: "",
    },
    LayerRule {
        member: "callboard-runtime",
        may_use: &[
            "callboard-text",
            "acp-types",
            "acp-lifecycle",
            "callboard-process",
            "acp-tools",
            "acp-transport",
            "callboard-models",
            "acp-mcp",
            "acp-conformance",
            "acp-connection",
            "acp-store",
        ],
        never: &["anstream", "clap", "keyring", "rpassword", "toml", "tracing-subscriber"],
        features: "",
    },
    LayerRule {
        member: "callboard-sessions",
        may_use: &["callboard-text", "acp-types", "acp-cards", "acp-store", "callboard-runtime"],
        never: &["keyring", "rpassword", "toml", "tracing-subscriber"],
        features: "",
    },
    LayerRule {
        member: "callboard",
        may_use: &[
            "callboard-text",
            "acp-types",
            "callboard-shell",
            "acp-lifecycle",
            "callboard-sandbox",
            "callboard-process",
            "acp-tools",
            "acp-mcp",
            "acp-transport",
            "acp-connection",
            "callboard-models",
            "acp-cards",
            "acp-store",
            "acp-conformance",
            "callboard-exec",
            "callboard-runtime",
            "callboard-sessions",
        ],
        never: &[],
        features: "",
    },
    LayerRule {
        member: "xtask",
        may_use: &[],
        never: &["clap", "serde", "syn", "tokio"],
        features: "",
    },
];

/// Maximum number of crates in the dependency tree of a workspace member.
pub(super) struct CrateCountLimit {
    pub(super) member: &'static str,
    /// Features of the member that are enabled for the count. Its default features are disabled.
    pub(super) features: &'static str,
    /// Maximum number of crates, which includes the member and its transitive normal dependencies.
    pub(super) crates: usize,
}

pub(super) const BOUNDS: &[CrateCountLimit] = &[
    CrateCountLimit { member: "callboard-text", features: "", crates: 1 },
    CrateCountLimit { member: "acp-types", features: "", crates: 40 },
    CrateCountLimit { member: "callboard-shell", features: "", crates: 2 },
    CrateCountLimit { member: "acp-lifecycle", features: "", crates: 45 },
    CrateCountLimit { member: "callboard-sandbox", features: "", crates: 30 },
    CrateCountLimit { member: "callboard-process", features: "", crates: 60 },
    CrateCountLimit { member: "acp-transport", features: "", crates: 75 },
    CrateCountLimit { member: "callboard-models", features: "mock-server", crates: 33 },
    CrateCountLimit { member: "acp-cards", features: "", crates: 54 },
    CrateCountLimit { member: "acp-store", features: "sqlite", crates: 60 },
    CrateCountLimit { member: "acp-conformance", features: "", crates: 80 },
    CrateCountLimit { member: "acp-connection", features: "", crates: 90 },
    CrateCountLimit { member: "acp-tools", features: "", crates: 143 },
    CrateCountLimit { member: "acp-tools", features: "web", crates: 212 },
    CrateCountLimit { member: "acp-mcp", features: "", crates: 258 },
    CrateCountLimit { member: "callboard-exec", features: "", crates: 115 },
    CrateCountLimit { member: "callboard-runtime", features: "", crates: 313 },
    CrateCountLimit { member: "callboard-sessions", features: "", crates: 331 },
    CrateCountLimit { member: "callboard", features: "", crates: 352 },
];

/// Members that promise their `rust-version`. The dependencies of such a member must not need a
/// newer version of Rust.
pub(super) const MEMBERS_WITH_PROMISED_MSRV: &[&str] = &[
    "callboard-text",
    "acp-types",
    "callboard-shell",
    "acp-lifecycle",
    "acp-transport",
    "acp-cards",
    "acp-store",
    "acp-conformance",
    "acp-connection",
];
