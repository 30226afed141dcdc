//! The process that holds an open session.

use std::time::SystemTime;

/// The process that holds an open session, as it names itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHolder {
    /// Its number.
    pub pid: u32,
    /// The machine that it runs on.
    pub host: String,
    /// When it started, which distinguishes it from others that had its number.
    pub started: SystemTime,
}

#[cfg(feature = "sqlite")]
impl SessionHolder {
    /// Writes it into the file by which it holds a session.
    pub(crate) fn to_json(&self) -> String {
        let started = crate::time::millis_since_epoch(self.started);
        serde_json::json!({"pid": self.pid, "host": self.host, "started": started}).to_string()
    }

    /// Reads it from there.
    pub(crate) fn from_json(text: &str) -> Option<Self> {
        let value: serde_json::Value = serde_json::from_str(text).ok()?;
        Some(Self {
            pid: value.get("pid")?.as_u64()?.try_into().ok()?,
            host: value.get("host")?.as_str()?.to_owned(),
            started: crate::time::time_from_millis(value.get("started")?.as_u64()?),
        })
    }
}
