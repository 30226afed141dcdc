//! The sandbox that all commands of a session share: one kind of isolation, and one `/tmp`.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock, Weak};
use std::time::Duration;
use std::{fs, io};

use acp_lifecycle::{CallHandle, SessionHandle, Titles};
use callboard_process::{CommandSandbox, ShellCommand};
use callboard_sandbox::{
    Isolation, IsolationProbe, MissingName, NetworkAccess, Refusal, SandboxError, SandboxPolicy,
    probe_isolation, probe_isolation_with_memory, probe_preview,
};
use callboard_shell::portable_line::parse_portable_line;

use super::caches::{CacheCopies, ClaimedCacheCopies, FoundCaches};
use super::command_lease::SandboxLease;
use super::connections::SessionConnections;
use super::preview::{PreviewCopies, PreviewLease};
use super::private_folder::PrivateFolder;
use super::protected_copies::ProtectedCopies;
use super::proxied_network::ProxiedNetwork;
use super::server_lease::ServerSandboxLease;
use super::{TMP_VARIABLE, mask_denied_files, sandbox_policy};
use crate::files::workspace::Workspace;
use crate::limits::{MAX_SANDBOX_FILE_BYTES, MAX_SANDBOX_PROCESSES, MAX_STOPPED_COMMANDS};
use crate::lock::lock;
use crate::note::Note;

/// How the commands of a session are isolated from the rest of the system.
#[derive(Debug, Default)]
#[non_exhaustive]
pub enum CommandIsolation {
    /// The user or the embedding program has chosen that commands run without a sandbox.
    #[default]
    Off,
    /// No sandbox works on this system. Commands run without a sandbox, and each command needs
    /// permission.
    Unavailable {
        /// The reason, as the end of a sentence for the user.
        reason: String,
    },
    /// Commands run in a sandbox.
    Sandbox(Box<SessionSandbox>),
}

impl CommandIsolation {
    /// Starts a thread that determines which isolation works on this system. The first call of
    /// [`create`](Self::create) with the same `memory` then takes less time. Further calls in the
    /// process have no effect.
    pub fn begin_probe(memory: Option<PathBuf>) {
        static BEGUN: Once = Once::new();
        BEGUN.call_once(|| {
            let probe = std::thread::Builder::new().name("sandbox-probe".to_owned());
            // If the thread cannot be spawned, the first call of `create` probes the isolation.
            drop(probe.spawn(move || probe_with_memory(memory.as_deref())));
        });
    }

    /// Starts a thread that, after a delay, tries the isolation if [`create`](Self::create) has only
    /// read it from `memory`. If namespaces no longer work, commands that were to run in them fail.
    /// Further calls in the process have no effect.
    pub fn begin_check(memory: PathBuf, delay: Duration) {
        static BEGUN: Once = Once::new();
        let check = move || {
            std::thread::sleep(delay);
            if probe_isolation_with_memory(&memory).isolation != Isolation::Namespaces {
                return;
            }
            if let Some(Refusal { failure, .. }) = probe_isolation().refusals.first() {
                tracing::warn!(%failure, "commands can no longer run in namespaces");
                drop(NAMESPACES_REFUSED.set(failure.to_string()));
            }
        };
        BEGUN.call_once(|| {
            drop(std::thread::Builder::new().name("sandbox-check".to_owned()).spawn(check));
        });
    }

    /// Returns whether commands run in namespaces.
    pub(crate) fn has_namespaces(&self) -> bool {
        matches!(self, Self::Sandbox(sandbox) if sandbox.has_namespaces())
    }

    /// Creates the best isolation that works on this system. `remedy` is used if no isolation
    /// works: it states what the user can do, as the end of a sentence.
    ///
    /// The function blocks for some milliseconds at its first call in a process, unless the file
    /// `memory` states that namespaces have worked under the same conditions
    /// ([`callboard_sandbox::probe_isolation_with_memory`]). `main` must have called
    /// [`callboard_process::run_if_command_helper`] before.
    #[must_use]
    pub fn create(remedy: &str, memory: Option<&Path>) -> Self {
        let probe = probe_with_memory(memory);
        if probe.isolation == Isolation::None {
            let why = probe.refusals.last().map(|refusal| refusal.failure.to_string());
            let why = why.unwrap_or_else(|| "there is none for this system".to_owned());
            return Self::Unavailable { reason: format!("none works here ({why}); {remedy}") };
        }
        // If the variable `HOME` is missing, `home_dir` reads the user database. Secrets in the
        // home folder are therefore masked without this variable too.
        let home = std::env::home_dir().filter(|home| home.is_absolute());
        match SessionSandbox::create(probe.isolation, home) {
            Ok(sandbox) => Self::Sandbox(Box::new(sandbox)),
            Err(error) => Self::Unavailable {
                reason: format!("there is no folder for temporary files ({error})"),
            },
        }
    }
}

/// Why namespaces do not work, as [`CommandIsolation::begin_check`] has found.
static NAMESPACES_REFUSED: OnceLock<String> = OnceLock::new();

fn probe_with_memory(memory: Option<&Path>) -> &'static IsolationProbe {
    memory.map_or_else(probe_isolation, probe_isolation_with_memory)
}

/// The sandbox of a session. All its commands share one private folder for temporary files.
#[derive(Debug)]
pub struct SessionSandbox {
    isolation: Isolation,
    home: Option<PathBuf>,
    tmp: PrivateFolder,
    /// The network that the commands share. Created when the first command starts that does not use
    /// the network of this computer.
    network: OnceLock<Option<ProxiedNetwork>>,
    connections: Arc<SessionConnections>,
    cache_copies: Arc<CacheCopies>,
    /// Copies of the files with protected names, made before the running commands started.
    protected: Mutex<Weak<ProtectedCopies>>,
    /// Commands that the sandbox has stopped, the newest last. Each entry contains the command, and
    /// the line of its output that shows the reason.
    stopped: Mutex<VecDeque<(String, String)>>,
    /// Whether the user was informed that the project is too large to search all folders for files
    /// that commands make.
    has_reported_cut_search: AtomicBool,
    /// Whether commands can run on copies of the project folders.
    can_preview: OnceLock<bool>,
}

impl SessionSandbox {
    /// Creates the sandbox of a session, with an empty folder for temporary files. The folder is
    /// removed when the value is dropped. `home` is the home folder of the user.
    ///
    /// `isolation` is the result of [`callboard_sandbox::probe_isolation`]. It must not be
    /// [`Isolation::None`].
    ///
    /// # Errors
    ///
    /// Returns an error if the folder cannot be created.
    pub fn create(isolation: Isolation, home: Option<PathBuf>) -> io::Result<Self> {
        let tmp = PrivateFolder::create(&std::env::temp_dir())?;
        let (network, connections, cache_copies, protected, stopped) = Default::default();
        let can_preview = OnceLock::new();
        let has_reported_cut_search = AtomicBool::default();
        Ok(Self {
            isolation,
            home,
            tmp,
            network,
            connections,
            cache_copies,
            protected,
            stopped,
            has_reported_cut_search,
            can_preview,
        })
    }

    /// Returns whether commands run in namespaces. This is the better kind of isolation.
    #[must_use]
    pub fn has_namespaces(&self) -> bool {
        self.isolation == Isolation::Namespaces
    }

    /// Returns the folder for temporary files. With namespaces, commands see it as `/tmp`.
    #[must_use]
    pub fn tmp(&self) -> &Path {
        self.tmp.visible_subfolder()
    }

    /// Returns the path at which commands see the folder for temporary files.
    pub(crate) fn visible_tmp(&self) -> &Path {
        if self.has_namespaces() { Path::new("/tmp") } else { self.tmp() }
    }

    /// Returns a command that runs in this sandbox, and a lease that must be kept as long as the
    /// command runs. If the isolation cannot protect some of the protected names, the files with
    /// these names are copied. If copying fails, returns an error. This method reads the
    /// configuration of git, so it may block. It must be called on a thread of a tokio runtime.
    ///
    /// A command that uses the network of this computer may use the SSH agent, if it runs only
    /// known SSH programs. A command without this network reaches other hosts only through the
    /// proxy. For each host, the proxy requests permission in `call`, in the language of `titles`.
    pub(crate) fn confine(
        &self,
        mut command: ShellCommand,
        network: NetworkAccess,
        workspace: &Workspace,
        (call, titles): (&CallHandle, &Arc<Titles>),
    ) -> io::Result<(ShellCommand, SandboxLease)> {
        let mut policy = self.policy(workspace, call.session())?;
        policy.network = network;
        let cache_copy = self.add_tmp_and_cache_copies(&mut policy, &mut command.env);
        match command.env.get(SSH_AGENT_VARIABLE) {
            Some(socket)
                if network == NetworkAccess::Host && runs_only_ssh_programs(&command.line) =>
            {
                policy.readable.push(socket.into());
                let home = self.home.iter();
                let files = home.flat_map(|home| SSH_FILES.map(|name| home.join(name)));
                policy.readable.extend(files);
            }
            _ => drop(command.env.remove(SSH_AGENT_VARIABLE)),
        }
        let protected = self.copy_unprotectable_files(&policy)?;
        let mut lease = SandboxLease::new(policy.writable.clone(), protected, cache_copy);
        let sandbox = CommandSandbox::new(policy, self.isolation);
        let shared = (network == NetworkAccess::None).then(|| self.shared_network(&command.env));
        let Some(shared) = shared.flatten() else {
            return Ok((command.with_sandbox(sandbox), lease));
        };
        let connections =
            self.connections.add_command(call.clone(), titles.clone(), shared.has_upstream());
        command.env.extend(shared.proxy_variables(connections.proxy_user()));
        let sandbox = sandbox.with_shared_network(shared.handle());
        lease.set_connections(connections);
        Ok((command.with_sandbox(sandbox), lease))
    }

    /// Returns a command that runs in this sandbox on copies of the project folders, and a lease
    /// that must be kept until the changes of the command are applied. The restrictions of
    /// [`confine`](Self::confine) apply.
    ///
    /// The command has an empty `/tmp` and a separate network without any other host: otherwise
    /// it could make another command of the session change the project folders.
    pub(crate) fn confine_for_preview(
        &self,
        mut command: ShellCommand,
        workspace: &Workspace,
        (call, titles): (&CallHandle, &Arc<Titles>),
    ) -> io::Result<(ShellCommand, PreviewLease)> {
        let mut policy = self.policy(workspace, call.session())?;
        policy.tmp = None;
        let cache_copy = self.add_tmp_and_cache_copies(&mut policy, &mut command.env);
        command.env.remove(SSH_AGENT_VARIABLE);
        let protected = self.unprotectable_names(&policy);
        let copies = PreviewCopies::create(&self.tmp.layers(), &policy.writable, protected)?;
        policy.preview = copies.folders().to_vec();
        let connections = Arc::new(SessionConnections::default());
        let network = ProxiedNetwork::create(&BTreeMap::new(), &connections);
        let network = network.map_err(io::Error::other)?;
        let added = connections.add_command_without_access(call.clone(), titles.clone());
        command.env.extend(network.proxy_variables(added.proxy_user()));
        let sandbox = CommandSandbox::new(policy, self.isolation);
        let sandbox = sandbox.with_shared_network(network.handle());
        let lease = PreviewLease::new(copies, (network, added), cache_copy);
        Ok((command.with_sandbox(sandbox), lease))
    }

    /// Returns whether commands can run on copies of the project folders. The first call in a
    /// session tries it, which blocks for some milliseconds.
    pub(crate) fn can_preview(&self, workspace: &Workspace) -> bool {
        let probe = || {
            if !self.has_namespaces() {
                return false;
            }
            let mut policy = SandboxPolicy::from_writable_folders(workspace.real_roots());
            let copies = PreviewCopies::create(&self.tmp.layers(), &policy.writable, Vec::new());
            let probed = copies.map_err(SandboxError::from).and_then(|copies| {
                policy.preview = copies.folders().to_vec();
                probe_preview(&policy).map_err(SandboxError::Setup)
            });
            probed.inspect_err(|error| tracing::info!(%error, "commands have no preview")).is_ok()
        };
        *self.can_preview.get_or_init(probe)
    }

    /// Returns a sandbox for a program that runs at the same time as the commands, e.g. a server.
    /// Also returns a lease that must be kept as long as the program runs. `env` is the environment
    /// of the program, and is changed. The program has no network, because it belongs to no call
    /// that could request permission for a host. This method reads the configuration of git, so it
    /// may block.
    ///
    /// # Errors
    ///
    /// Returns an error if the sandbox could not hide the secrets of the user or the agent, if the
    /// rules cannot be read, or if copying fails for the files with protected names that this
    /// isolation cannot protect.
    pub fn confine_server(
        &self,
        env: &mut BTreeMap<String, String>,
        workspace: &Workspace,
        session: &SessionHandle,
    ) -> io::Result<(CommandSandbox, ServerSandboxLease)> {
        if self.cannot_hide_secrets(workspace) {
            let error = "it could hide nothing, because a project folder contains the home folder \
                         or the state of the agent";
            return Err(io::Error::other(error));
        }
        let unknown = session.update(|session, _| session.rules().load_error().map(str::to_owned));
        if let Some(error) = unknown {
            return Err(io::Error::other(format!("the rules cannot be read ({error})")));
        }
        let mut policy = self.policy(workspace, session)?;
        let cache_copy = self.add_tmp_and_cache_copies(&mut policy, env);
        env.remove(SSH_AGENT_VARIABLE);
        // Do not share these copies with commands. At its end, a command would undo all changes
        // since the start of the server.
        let copies = ProtectedCopies::create(&policy.writable, self.unprotectable_names(&policy))?;
        let sandbox = CommandSandbox::new(policy, self.isolation);
        Ok((sandbox, ServerSandboxLease::new(copies, cache_copy)))
    }

    /// Returns the policy of a program without a network.
    fn policy(&self, workspace: &Workspace, session: &SessionHandle) -> io::Result<SandboxPolicy> {
        if let Some(why) = NAMESPACES_REFUSED.get().filter(|_| self.has_namespaces()) {
            let error = format!(
                "namespaces worked when the agent ran before, but no longer ({why}); a new session \
                 uses what works now"
            );
            return Err(io::Error::other(error));
        }
        let mut policy = sandbox_policy(workspace, self.home.as_deref());
        policy.tmp = Some(self.tmp().to_owned());
        let rules = session.update(|session, _| session.rules().clone());
        mask_denied_files(&mut policy, &rules)?;
        policy.limits.processes = Some(MAX_SANDBOX_PROCESSES);
        policy.limits.file_bytes = Some(MAX_SANDBOX_FILE_BYTES);
        Ok(policy)
    }

    /// Gives a program the folder for temporary files, and copies of caches.
    fn add_tmp_and_cache_copies(
        &self,
        policy: &mut SandboxPolicy,
        env: &mut BTreeMap<String, String>,
    ) -> Option<ClaimedCacheCopies> {
        let cache_copy = self.copy_caches(policy, env);
        let tmp = self.visible_tmp().to_string_lossy().into_owned();
        env.insert(TMP_VARIABLE.to_owned(), tmp);
        cache_copy
    }

    /// Copies the files with protected names that this isolation cannot protect. Commands that run
    /// at the same time share the copies: a command that is already running may have changed the
    /// files, and new copies would contain these changes.
    fn copy_unprotectable_files(&self, policy: &SandboxPolicy) -> io::Result<Arc<ProtectedCopies>> {
        let mut shared = lock(&self.protected);
        if let Some(copies) = shared.upgrade() {
            return Ok(copies);
        }
        let copies = ProtectedCopies::create(&policy.writable, self.unprotectable_names(policy))?;
        let copies = Arc::new(copies);
        *shared = Arc::downgrade(&copies);
        Ok(copies)
    }

    /// Returns the reason if a command needs permission although it has a sandbox.
    pub(crate) fn reason_to_ask(&self, workspace: &Workspace, is_background: bool) -> Option<Note> {
        if self.has_namespaces() {
            None
        } else if self.cannot_hide_secrets(workspace) {
            Some(Note::new("sandbox-hides-nothing"))
        } else {
            is_background.then(|| Note::new("sandbox-background"))
        }
    }

    /// Returns whether the isolation cannot hide the secrets of the user or the agent. Landlock
    /// cannot hide files inside a project folder, so the result is `true` for Landlock if a project
    /// folder contains the home folder or a folder of the agent.
    fn cannot_hide_secrets(&self, workspace: &Workspace) -> bool {
        let is_in_project = |path: &Path| workspace.real_roots().any(|root| path.starts_with(root));
        let mut hidden = self.home.as_deref().into_iter().chain(workspace.guarded_paths());
        !self.has_namespaces() && hidden.any(is_in_project)
    }

    /// Returns the protected names that this isolation cannot protect.
    fn unprotectable_names(&self, policy: &SandboxPolicy) -> Vec<PathBuf> {
        let names = policy.read_only.iter().filter(|name| {
            let is_missing = || fs::symlink_metadata(&name.path).is_err();
            !self.has_namespaces() || name.missing == MissingName::Unprotected && is_missing()
        });
        names.map(|name| name.path.clone()).collect()
    }

    /// Gives a command its own copies of the caches of package managers. If the copies cannot be
    /// created, the caches are read-only.
    fn copy_caches(
        &self,
        policy: &mut SandboxPolicy,
        env: &mut BTreeMap<String, String>,
    ) -> Option<ClaimedCacheCopies> {
        let home = self.home.as_deref().filter(|_| self.has_namespaces())?;
        let copy = self.cache_copies.claim_unused();
        let caches = FoundCaches::find(home, env);
        let folders = copy.create_layer_folders(&self.tmp.layers(), &caches);
        env.extend(caches.variables_for_missing(self.visible_tmp()));
        let folders = folders.inspect_err(|error| tracing::warn!(%error, "no copies of caches"));
        policy.copy_on_write = folders.ok()?;
        Some(copy)
    }

    /// Returns the network that the commands share. If this network cannot be created, each command
    /// has a separate network without a proxy. `env` is the environment of the commands, which may
    /// name an upstream proxy.
    fn shared_network(&self, env: &BTreeMap<String, String>) -> Option<&ProxiedNetwork> {
        let create = || {
            let created = ProxiedNetwork::create(env, &self.connections);
            created.inspect_err(|error| tracing::warn!(%error, "no shared network")).ok()
        };
        self.network.get_or_init(|| self.has_namespaces().then(create).flatten()).as_ref()
    }

    /// Returns whether this is the first call of this method. In a large project, every search is
    /// incomplete, and one note per session is enough.
    pub(crate) fn is_first_cut_search(&self) -> bool {
        !self.has_reported_cut_search.swap(true, Ordering::Relaxed)
    }

    /// Records that the sandbox has stopped a command. `line` is the line of its output that shows
    /// the reason.
    pub(crate) fn record_stopped_command(&self, command: &str, line: String) {
        let mut stopped = lock(&self.stopped);
        stopped.retain(|(other, _)| other != command);
        stopped.push_back((command.to_owned(), line));
        if stopped.len() > MAX_STOPPED_COMMANDS {
            stopped.pop_front();
        }
    }

    /// Returns the recorded line if the sandbox has stopped the same command before.
    pub(crate) fn recorded_stop(&self, command: &str) -> Option<String> {
        let stopped = lock(&self.stopped);
        stopped.iter().find(|(other, _)| other == command).map(|(_, line)| line.clone())
    }
}

/// The variable with the path of the SSH agent's socket.
const SSH_AGENT_VARIABLE: &str = "SSH_AUTH_SOCK";

/// Programs that may use the SSH agent.
const SSH_PROGRAMS: [&str; 5] = ["ssh", "git", "scp", "sftp", "rsync"];

/// Files in the home folder that these programs read, and that contain no secrets.
const SSH_FILES: [&str; 3] = [".ssh/config", ".ssh/known_hosts", ".ssh/known_hosts2"];

/// Returns whether each program of a command line may use the SSH agent.
fn runs_only_ssh_programs(line: &str) -> bool {
    let is_known = |words: &Vec<String>| {
        words.first().is_some_and(|program| SSH_PROGRAMS.contains(&&**program))
    };
    parse_portable_line(line).is_some_and(|line| line.commands.iter().all(is_known))
}

/// Finds the lines of an output that look as if the sandbox had stopped the command, and returns
/// the last of these lines. The line is only shown to the model and the user, and has no other
/// effect.
pub(crate) fn find_refusal(output: &str) -> Option<&str> {
    let is_refusal = |line: &&str| {
        let mut refusals = REFUSALS.iter().chain(REFUSALS_OF_NETWORK);
        refusals.any(|refusal| line.contains(refusal))
    };
    output.lines().rev().find(is_refusal).map(str::trim)
}

/// Returns whether an output looks as if a folder could not be renamed. In a copy of a project
/// folder, the system refuses to rename the folders of the project.
pub(crate) fn shows_refused_rename(output: &str) -> bool {
    ["cross-device link", "EXDEV", "os error 18", "[Errno 18]"]
        .iter()
        .any(|refusal| output.contains(refusal))
}

/// Returns whether an output looks as if a program had needed a network.
pub(crate) fn shows_missing_network(output: &str) -> bool {
    REFUSALS_OF_NETWORK.iter().any(|refusal| output.contains(refusal))
}

/// Error messages of the system and of resolvers for a missing network.
const REFUSALS_OF_NETWORK: &[&str] = &[
    "Network is unreachable",
    "Temporary failure in name resolution",
    "Could not resolve host",
    "Name or service not known",
    "ENETUNREACH",
    "EAI_AGAIN",
];

/// Error messages of the system and of resolvers for operations that a sandbox refuses.
const REFUSALS: &[&str] = &[
    "Read-only file system",
    "Permission denied",
    "Operation not permitted",
    "EROFS",
    "EACCES",
    "EPERM",
    "os error 13",
    "os error 30",
    "[Errno 13]",
    "[Errno 30]",
];
