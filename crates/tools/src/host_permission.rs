//! Permission to connect to a host, and to a host in the user's own network.

use acp_lifecycle::{AskAlwaysPolicy, CallHandle, Effect, Effects, Verdict};

/// Returns the effect of a connection to a host.
pub(crate) fn connect_effects(host: &str) -> Effects {
    Effect::Connect(host.to_owned()).into()
}

/// Returns whether a rule names the host and allows it. A rule over the tool and a permissive policy
/// are not enough, because they allow all hosts.
pub(crate) fn is_host_allowed(call: &CallHandle, host: &str) -> bool {
    let effects = connect_effects(host);
    let verdict =
        call.session().update(|session, _| session.rules().judge_call(&effects, &AskAlwaysPolicy));
    verdict == Verdict::Allow
}
