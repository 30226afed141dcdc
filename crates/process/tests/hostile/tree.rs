//! Shell commands whose processes try to outlive the command.

use crate::random::Random;

/// A shell command, and a word in the arguments of all its processes.
pub(crate) struct HostileTree {
    pub(crate) tag: String,
    pub(crate) line: String,
}

/// Methods that leave one to four processes behind. `@` is replaced with a duration in seconds.
const ESCAPE_METHODS: [&str; 14] = [
    "sleep @ &",
    "setsid sleep @ &",
    "(setsid sleep @ &)",
    "nohup sleep @ >/dev/null 2>&1 &",
    "sleep @ & disown",
    "(sleep @ & sleep @ &)",
    "(setsid sh -c 'setsid sleep @ & setsid sleep @' &)",
    "sh -c \"trap '' TERM HUP INT QUIT; sleep @ & sleep @\" &",
    "(setsid sh -c \"trap '' TERM HUP; while :; do sleep @; done\" &)",
    "sleep @ & kill -STOP $!",
    "setsid sleep @ & kill -STOP $!; disown",
    "(env -i setsid env -i sleep @ &)",
    // A parent that does not reap its child.
    "sh -c 'true & exec sleep @' &",
    // A process that replaces itself with a child again and again.
    "(setsid sh -c 'h() { [ $1 -gt 0 ] && sleep 0.02 && h $(($1 - 1)) & }; h 100' @ &)",
];

impl HostileTree {
    /// Generates a tree of 5 to about 200 processes.
    pub(crate) fn new(random: &mut Random) -> Self {
        let tag = format!("7000.{}", random.next());
        let mut line = String::new();
        if random.one_in(3) {
            line.push_str("trap '' TERM HUP; ");
        }
        let mut left = if random.one_in(4) { 60 + random.below(140) } else { 5 + random.below(40) };
        while left > 0 {
            let count = (1 + random.below(20)).min(left);
            let way = ESCAPE_METHODS[random.below(ESCAPE_METHODS.len())];
            line.push_str(&format!("for i in $(seq {count}); do {way}\ndone\n"));
            left = left.saturating_sub(count * way.matches("sleep @").count().max(1));
        }
        line.push_str("echo begun; sleep @");
        Self { line: line.replace('@', &tag), tag }
    }
}

impl Random {
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}
