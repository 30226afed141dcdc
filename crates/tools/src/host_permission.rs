//! Checks whether a call may connect to a host, and whether the host may be in the user's own
//! network.

use acp_lifecycle::{AskAlwaysPolicy, CallHandle, Effect, Effects, Verdict};

/// Returns the effect of a connection to a host.
pub(crate) fn connect_effects(host: &str) -> Effects {
    Effect::Connect(host.to_owned()).into()
}

/// Returns whether a rule allows connections to this host by its name. A rule for the whole tool or
/// a permissive policy does not count, because it allows all hosts.
pub(crate) fn has_allow_rule_for_host(call: &CallHandle, host: &str) -> bool {
    let effects = connect_effects(host);
    let verdict =
        call.session().update(|session, _| session.rules().judge_call(&effects, &AskAlwaysPolicy));
    verdict == Verdict::Allow
}
