//! Tools that come and go while a session runs.

mod find_tool;

use std::sync::{Arc, Mutex};

use self::find_tool::FindTool;
use super::RegisteredTool;
use crate::limits::MAX_LIVE_TOOLS_BYTES;
use crate::lock::lock;
use crate::tool::DynTool;

/// A list of tools that may change while registries use it, e.g. the tools of servers. Clones share
/// the list.
///
/// If the definitions of all tools are too large for a request to a model
/// ([`MAX_LIVE_TOOLS_BYTES`]), the model receives the tool `find_tool` instead. The description of
/// `find_tool` lists the tools. A call of `find_tool` adds the definitions of the found tools to
/// the next requests.
///
/// ```
/// use acp_tools::{LiveTools, Registry};
///
/// let live = LiveTools::default();
/// let registry = Registry::builtin().with_live_tools(live.clone());
/// let before = registry.live_tools_generation();
/// live.replace(Vec::new());
/// assert_ne!(registry.live_tools_generation(), before);
/// ```
#[derive(Debug, Clone, Default)]
pub struct LiveTools(Arc<Mutex<CurrentTools>>);

/// The state of a [`LiveTools`].
#[derive(Debug, Default)]
struct CurrentTools {
    tools: Arc<[Arc<RegisteredTool>]>,
    /// The tool `find_tool`, which exists only if the definitions of all tools are too large.
    find_tool: Option<Arc<RegisteredTool>>,
    /// The names of the tools that the model has found, in the order in which they were found. The
    /// model receives the tools in this order in every request.
    found: Vec<String>,
    /// Number of changes of the tools that the model receives.
    generation: u64,
}

impl LiveTools {
    /// Replaces all tools of the list. The order is the order in which models receive the tools. If
    /// two tools have the same name, the first of them is used. A running call of a replaced tool
    /// continues.
    pub fn replace(&self, tools: Vec<Box<dyn DynTool>>) {
        let tools: Arc<[_]> =
            tools.into_iter().map(|tool| Arc::new(RegisteredTool::new_dyn(tool))).collect();
        let bytes: usize = tools.iter().map(|tool| tool.definition_bytes()).sum();
        let find_tool = (bytes > MAX_LIVE_TOOLS_BYTES).then(|| {
            let find_tool = FindTool::new(Arc::downgrade(&self.0), &tools);
            Arc::new(RegisteredTool::new_dyn(Box::new(find_tool)))
        });
        let mut current = lock(&self.0);
        (current.tools, current.find_tool) = (tools, find_tool);
        current.remove_oldest_found_over_limit();
        current.generation += 1;
    }

    /// Returns the tools that can be called.
    pub(super) fn callable(&self) -> Vec<Arc<RegisteredTool>> {
        let current = lock(&self.0);
        current.find_tool.iter().chain(&*current.tools).cloned().collect()
    }

    /// Returns the tool with a name, if it can be called.
    pub(super) fn find(&self, name: &str) -> Option<Arc<RegisteredTool>> {
        let current = lock(&self.0);
        let mut all = current.find_tool.iter().chain(&*current.tools);
        all.find(|tool| tool.spec.name == name).cloned()
    }

    /// Returns the tools that a model receives.
    pub(super) fn offered(&self) -> Vec<Arc<RegisteredTool>> {
        let current = lock(&self.0);
        let Some(find_tool) = &current.find_tool else { return current.tools.to_vec() };
        let found = current.found.iter().filter_map(|name| current.find(name));
        std::iter::once(find_tool).chain(found).cloned().collect()
    }

    pub(super) fn generation(&self) -> u64 {
        lock(&self.0).generation
    }
}

impl CurrentTools {
    fn tools(&self) -> Arc<[Arc<RegisteredTool>]> {
        self.tools.clone()
    }

    fn find(&self, name: &str) -> Option<&Arc<RegisteredTool>> {
        self.tools.iter().find(|tool| tool.spec.name == name)
    }

    /// Adds tools to those that the model receives.
    fn offer_found_tools(&mut self, names: impl IntoIterator<Item = String>) {
        let names: Vec<_> = names.into_iter().collect();
        // A tool that is found again moves to the end of the list, so that it is not removed soon.
        self.found.retain(|name| !names.contains(name));
        self.found.extend(names);
        self.remove_oldest_found_over_limit();
        self.generation += 1;
    }

    /// If the definitions of all found tools are too large, removes the tools that were found
    /// first. The tool that was found last is never removed.
    fn remove_oldest_found_over_limit(&mut self) {
        let bytes = |name: &String| self.find(name).map_or(0, |tool| tool.definition_bytes());
        let mut total = 0;
        let kept = self.found.iter().rev().take_while(|name| {
            let is_newest = total == 0;
            total += bytes(name);
            is_newest || total <= MAX_LIVE_TOOLS_BYTES
        });
        let removed = self.found.len() - kept.count();
        self.found.drain(..removed);
    }
}
