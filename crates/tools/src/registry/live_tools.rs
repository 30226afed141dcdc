//! Tools that come and go while a session runs.

use std::sync::{Arc, Mutex};

use super::RegisteredTool;
use crate::lock::lock;
use crate::tool::DynTool;

/// A list of tools that may change while registries use it, e.g. the tools of servers. Clones share
/// the list.
///
/// ```
/// use acp_tools::{LiveTools, Registry};
///
/// let live = LiveTools::default();
/// let registry = Registry::builtin().with_live_tools(live.clone());
/// let before = registry.generation();
/// live.replace(Vec::new());
/// assert_ne!(registry.generation(), before);
/// ```
#[derive(Debug, Clone, Default)]
pub struct LiveTools(Arc<Mutex<CurrentTools>>);

#[derive(Debug, Default)]
struct CurrentTools {
    tools: Arc<[Arc<RegisteredTool>]>,
    /// Number of changes of the list.
    generation: u64,
}

impl LiveTools {
    /// Replaces all tools of the list. The order is the order in which models receive the tools. Of
    /// two tools with the same name, the first is used. A call that runs goes on.
    pub fn replace(&self, tools: Vec<Box<dyn DynTool>>) {
        let tools = tools.into_iter().map(|tool| Arc::new(RegisteredTool::new_dyn(tool))).collect();
        let mut current = lock(&self.0);
        current.tools = tools;
        current.generation += 1;
    }

    pub(super) fn current(&self) -> Arc<[Arc<RegisteredTool>]> {
        lock(&self.0).tools.clone()
    }

    pub(super) fn generation(&self) -> u64 {
        lock(&self.0).generation
    }
}
