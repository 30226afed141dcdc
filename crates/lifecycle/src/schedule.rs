//! Scheduling of the calls of one reply: reads run in parallel, changes of one file run in order.
//!
//! If a call may depend on an earlier call, the later call starts only after the earlier call has
//! ended.
//!
//! | | reads | changes | runs a command |
//! |---|---|---|---|
//! | **reads** | parallel | in order, if they share a file | in order |
//! | **changes** | in order, if they share a file | in order, if they share a file | in order |
//! | **runs a command** | in order | in order | parallel |
//!
//! A command can access any file, so a command is a barrier for reads and changes. Commands of one
//! reply run in parallel, because a model that needs an order can put them in one command line. Two
//! calls share a file if both name the same file, or if one call names a folder that contains a
//! file of the other call. A call that names no file may access any file. If a tool has effects
//! only on the session, the calls of this tool run in order. A call with unknown effects runs
//! alone.

use std::path::PathBuf;

use crate::effects::{Effect, Effects};

/// The resources that a call accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Footprint {
    /// The call has effects only on the session. The value is the name of the tool.
    SessionTool(String),
    /// The call reads.
    Reads(TouchedFiles),
    /// The call creates or changes files.
    Changes(TouchedFiles),
    /// The call runs a command, which may access any resource.
    Command,
    /// The resources are unknown. The call runs alone.
    Unknown,
}

/// The files that a call names, as absolute paths with resolved links. The value is `None` if the
/// call names no file, or if the list is incomplete.
pub type TouchedFiles = Option<Vec<PathBuf>>;

impl Footprint {
    /// Returns the footprint of a call of `tool` with these effects. The paths in the effects must
    /// be resolved.
    #[must_use]
    pub fn from_effects(tool: &str, effects: &Effects) -> Self {
        let mut files = Vec::new();
        let (mut reads, mut changes, mut acts) = (false, false, false);
        for effect in effects.iter() {
            match effect {
                Effect::Read(_) | Effect::Search(_) => reads = true,
                Effect::Write(_) | Effect::Delete(_) => changes = true,
                Effect::Unknown => return Self::Unknown,
                _ => acts = true,
            }
            files.extend(effect.path().map(PathBuf::from));
        }
        match (reads, changes, acts) {
            (false, false, true) => Self::Command,
            (_, _, true) => Self::Unknown,
            (_, true, false) => Self::Changes(Some(files)),
            (true, false, false) => Self::Reads(Some(files)),
            (false, false, false) => Self::SessionTool(tool.to_owned()),
        }
    }

    /// Returns whether a call must wait for an earlier call.
    fn waits_for(&self, earlier: &Self) -> bool {
        match (self, earlier) {
            (Self::Unknown, _) | (_, Self::Unknown) => true,
            (Self::SessionTool(later), Self::SessionTool(earlier)) => later == earlier,
            (Self::SessionTool(_), _)
            | (_, Self::SessionTool(_))
            | (Self::Reads(_), Self::Reads(_))
            | (Self::Command, Self::Command) => false,
            (Self::Command, _) | (_, Self::Command) => true,
            (
                Self::Reads(ours) | Self::Changes(ours),
                Self::Reads(their) | Self::Changes(their),
            ) => may_touch_same_file(ours, their),
        }
    }
}

fn may_touch_same_file(ours: &TouchedFiles, their: &TouchedFiles) -> bool {
    let (Some(ours), Some(their)) = (ours, their) else { return true };
    let overlap =
        |our: &PathBuf| their.iter().any(|their| our.starts_with(their) || their.starts_with(our));
    ours.iter().any(overlap)
}

/// The order of the calls of one reply.
#[derive(Debug)]
pub struct Schedule {
    calls: Vec<ScheduledCall>,
}

#[derive(Debug)]
struct ScheduledCall {
    /// Indices of the unfinished earlier calls that this call waits for.
    waits_for: Vec<usize>,
    has_begun: bool,
}

impl Schedule {
    /// Creates the schedule for the calls of one reply, in the order of the reply.
    #[must_use]
    pub fn new(footprints: &[Footprint]) -> Self {
        let call = |(place, touch): (usize, &Footprint)| {
            let earlier = (0..place).filter(|earlier| touch.waits_for(&footprints[*earlier]));
            ScheduledCall { waits_for: earlier.collect(), has_begun: false }
        };
        Self { calls: footprints.iter().enumerate().map(call).collect() }
    }

    /// Finds the first call that can start, marks it as started, and returns its index.
    pub fn take_next_ready(&mut self) -> Option<usize> {
        let may_begin = |call: &ScheduledCall| !call.has_begun && call.waits_for.is_empty();
        let place = self.calls.iter().position(may_begin)?;
        self.calls[place].has_begun = true;
        Some(place)
    }

    /// Marks a call as ended.
    pub fn mark_ended(&mut self, place: usize) {
        for call in self.calls.iter_mut().skip(place) {
            call.waits_for.retain(|earlier| *earlier != place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Footprint, Schedule};
    use crate::effects::Effect;
    use proptest::prelude::{Strategy, any, prop_oneof, proptest};
    use proptest::{collection::vec, option, sample};
    use std::path::PathBuf;

    fn files(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(|name| PathBuf::from(format!("/w/{name}"))).collect()
    }

    #[test]
    fn a_footprint_is_computed_from_the_effects() {
        let of =
            |effects: &[Effect]| Footprint::from_effects("t", &effects.iter().cloned().collect());
        let read = || Effect::Read("/a".into());
        let files = |names: &[&str]| Some(names.iter().map(PathBuf::from).collect());
        assert_eq!(of(&[]), Footprint::SessionTool("t".to_owned()));
        assert_eq!(of(&[read()]), Footprint::Reads(files(&["/a"])));
        let change = Footprint::Changes(files(&["/a", "/b"]));
        assert_eq!(of(&[read(), Effect::Delete("/b".into())]), change);
        assert_eq!(of(&[read(), Effect::Unknown]), Footprint::Unknown);
        let connect = || Effect::Connect("h".to_owned());
        assert_eq!(of(&[connect(), connect()]), Footprint::Command);
        assert_eq!(of(&[Effect::Write("/a".into()), connect()]), Footprint::Unknown);
    }

    #[test]
    fn calls_wait_for_calls_with_conflicting_footprints() {
        let read = |names: &[&str]| Footprint::Reads(Some(files(names)));
        let change = |names: &[&str]| Footprint::Changes(Some(files(names)));
        let (read_any, change_any) = (|| Footprint::Reads(None), || Footprint::Changes(None));
        let any = || Footprint::Command;
        let own = |tool: &str| Footprint::SessionTool(tool.to_owned());
        for (earlier, later, waits) in [
            (read(&["a"]), read(&["a"]), false),
            (read_any(), read_any(), false),
            (read(&["a"]), change(&["a"]), true),
            (read(&["a"]), change(&["b"]), false),
            (read(&["src"]), change(&["src/a"]), true),
            (read(&["src"]), change(&["src2"]), false),
            (read_any(), change(&["a"]), true),
            (change(&["a"]), change(&["a"]), true),
            (change(&["a"]), change(&["b"]), false),
            (change(&["a", "b"]), change(&["c", "b"]), true),
            (change(&["src/a"]), change(&["src"]), true),
            (change_any(), change(&["a"]), true),
            (change_any(), change_any(), true),
            (any(), any(), false),
            (Footprint::Unknown, Footprint::Unknown, true),
            (Footprint::Unknown, any(), true),
            (Footprint::Unknown, own("todo"), true),
            (any(), read(&["a"]), true),
            (any(), change(&["a"]), true),
            (own("todo"), own("todo"), true),
            (own("todo"), own("think"), false),
            (own("todo"), any(), false),
            (own("todo"), change_any(), false),
        ] {
            assert_eq!(later.waits_for(&earlier), waits, "{later:?} after {earlier:?}");
            assert_eq!(earlier.waits_for(&later), waits, "{earlier:?} after {later:?}");
        }
    }

    fn footprint() -> impl Strategy<Value = Footprint> {
        let name = sample::select(vec!["/w/a", "/w/b", "/w/c", "/w/d", "/w/d/e"]);
        let files = option::weighted(0.9, vec(name.prop_map(PathBuf::from), 1..3));
        prop_oneof![
            1 => sample::select(vec!["todo", "think"]).prop_map(|it| Footprint::SessionTool(it.to_owned())),
            3 => files.clone().prop_map(Footprint::Reads),
            4 => files.prop_map(Footprint::Changes),
            1 => sample::select(vec![Footprint::Command, Footprint::Unknown]),
        ]
    }

    proptest! {
        /// The calls end in a random order. Every call must run exactly once and as early as
        /// possible. A call must never run before, or in parallel with, a call that it depends on.
        #[test]
        fn nothing_overtakes_what_it_depends_on(footprints in vec(footprint(), 0..12), ends in vec(any::<sample::Index>(), 12)) {
            let mut order = Schedule::new(&footprints);
            let (mut running, mut ended) = (Vec::new(), Vec::new());
            for end in &ends {
                while let Some(place) = order.take_next_ready() {
                    for earlier in 0..place {
                        let waits = footprints[place].waits_for(&footprints[earlier]);
                        assert!(!waits || ended.contains(&earlier), "{place} overtook {earlier}");
                    }
                    running.push(place);
                }
                let must_wait = |place: usize| (0..place).any(|earlier| {
                    !ended.contains(&earlier) && footprints[place].waits_for(&footprints[earlier])
                });
                for place in (0..footprints.len()).filter(|place| !must_wait(*place)) {
                    assert!(running.contains(&place) || ended.contains(&place), "{place} waits for nothing");
                }
                if running.is_empty() {
                    break;
                }
                let place = running.swap_remove(end.index(running.len()));
                order.mark_ended(place);
                ended.push(place);
            }
            ended.sort_unstable();
            assert_eq!(ended, (0..footprints.len()).collect::<Vec<_>>());
        }
    }
}
