//! The process that holds an open session.

use std::time::SystemTime;

/// The process that holds an open session. The process itself writes this description.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionHolder {
    /// Id of the process.
    pub pid: u32,
    /// Name of the machine on which the process runs.
    pub host: String,
    /// Start time of the process. It distinguishes the process from an earlier or later process
    /// with the same id.
    pub started: SystemTime,
}

impl SessionHolder {
    /// Creates the description of a process.
    #[must_use]
    pub fn new(pid: u32, host: impl Into<String>, started: SystemTime) -> Self {
        Self { pid, host: host.into(), started }
    }
}

#[cfg(feature = "sqlite")]
impl SessionHolder {
    /// Serializes the holder for the lock file of a session.
    pub(crate) fn to_json(&self) -> String {
        let started = crate::time::millis_since_epoch(self.started);
        serde_json::json!({"pid": self.pid, "host": self.host, "started": started}).to_string()
    }

    /// Parses the holder from the content of a lock file.
    pub(crate) fn from_json(text: &str) -> Option<Self> {
        let value: serde_json::Value = serde_json::from_str(text).ok()?;
        Some(Self {
            pid: value.get("pid")?.as_u64()?.try_into().ok()?,
            host: value.get("host")?.as_str()?.to_owned(),
            started: crate::time::time_from_millis(value.get("started")?.as_u64()?),
        })
    }
}
