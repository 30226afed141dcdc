//! Arguments that contain paths.

use std::path::PathBuf;

use serde_json::Value;

/// The names of arguments that contain paths, and the callback that resolves them.
pub(super) struct PathArguments {
    pub(super) names: Vec<&'static str>,
    pub(super) resolve: ResolvePathFn,
}

type ResolvePathFn = Box<dyn Fn(&str) -> Result<PathBuf, String> + Send + Sync>;

impl PathArguments {
    /// Resolves the paths in the arguments of a call.
    pub(super) fn resolve(&self, mut args: Value) -> Result<Value, String> {
        for name in &self.names {
            if let Some(Value::String(path)) = args.get_mut(name) {
                let resolved = (self.resolve)(path).and_then(|resolved| {
                    let text = resolved.into_os_string().into_string();
                    text.map_err(|_name| {
                        format!("The path {path} leads to a name that is not text.")
                    })
                });
                *path = resolved?;
            }
        }
        Ok(args)
    }
}
