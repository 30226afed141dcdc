//! Tests of matching: which effects each rule matches.

use std::path::Path;

use super::{
    AcceptEditsPolicy, AllowInProjectPolicy, ArgvPrefix, AskAlwaysPolicy, AskExceptReadsPolicy,
    FileAccess, HostPattern, Matcher, MemoryRuleStore, PathGlob, Policy, PolicyVerdicts,
    ReadOnlyPolicy, Rule, RuleChange, RuleScope, RuleStore as _, Rules, Verdict,
};
use crate::effects::{Effect, Effects};
use acp_types::ToolKind;
use pretty_assertions::assert_eq;
use serde_json::json;

use Verdict::{Allow, Ask, Deny};

fn rule(verdict: Verdict, matcher: Matcher) -> Rule {
    Rule { scope: RuleScope::Session, matcher, verdict }
}

fn rules(list: impl IntoIterator<Item = Rule>) -> Rules {
    let mut rules = Rules::default();
    list.into_iter().for_each(|rule| assert!(rules.add_rule(rule)));
    rules
}

fn run(command: &str) -> Effect {
    Effect::Run { command: command.to_owned(), cwd: "/p".into() }
}

fn argv(words: &str) -> Matcher {
    let words = words.split(' ').map(str::to_owned).collect();
    Matcher::Argv(ArgvPrefix::try_new(words).unwrap())
}

fn path(access: FileAccess, glob: &str) -> Matcher {
    Matcher::Path { access, glob: PathGlob::parse(glob).unwrap() }
}

fn mcp(tool: Option<&str>) -> Matcher {
    Matcher::Mcp { server: "s".to_owned(), tool: tool.map(str::to_owned) }
}

#[derive(Debug)]
struct AllowAllPolicy;

impl Policy for AllowAllPolicy {
    fn judge(&self, _: &Effect) -> Verdict {
        Allow
    }
}

fn policy_verdicts(effects: &Effects, policy: &dyn Policy) -> PolicyVerdicts {
    PolicyVerdicts::from_policy(effects.clone(), policy)
}

/// Checks the verdict on one effect. An allowing rule is checked with [`AskAlwaysPolicy`], and any
/// other rule with [`AllowAllPolicy`].
fn check(verdict: Verdict, matcher: &Matcher, effect: Effect, expected: Verdict) {
    let policy: &dyn Policy = if verdict == Allow { &AskAlwaysPolicy } else { &AllowAllPolicy };
    let effects = Effects::from(effect.clone()).with_tool("tool", ToolKind::Execute);
    let rules = rules([rule(verdict, matcher.clone())]);
    assert_eq!(
        rules.judge_call(&effects, policy),
        expected,
        "{verdict:?} {matcher:?} of {effect:?}"
    );
}

#[test]
fn always_ask_effects_are_asked_about_and_never_remembered() {
    let write = Effect::Write("/a/.git/config".into());
    let guarded = Effects::from(write.clone()).always_ask();
    let allowing = rules([rule(Allow, Matcher::Effect(write.clone()))]);
    assert_eq!(allowing.judge_call(&guarded, &AllowInProjectPolicy), Ask);
    assert_eq!(allowing.judge_call(&Effects::from(write.clone()), &AllowInProjectPolicy), Allow);
    assert_eq!(
        Rules::default().effects_to_remember(&policy_verdicts(&guarded, &AskExceptReadsPolicy)),
        None
    );
    assert_eq!(Rules::default().judge_call(&guarded, &ReadOnlyPolicy), Deny);
    let denying = rules([rule(Deny, Matcher::Effect(write))]);
    assert_eq!(denying.judge_call(&guarded, &AskExceptReadsPolicy), Deny);
}

#[test]
fn effects_outside_of_the_roots_are_asked_about_unless_a_rule_names_them() {
    let (read, write) = (Effect::Read("/etc/a".into()), Effect::Write("/etc/a".into()));
    let edits = AcceptEditsPolicy::new(["/p"]);
    let policies: [(&dyn Policy, Verdict); 5] = [
        (&AskExceptReadsPolicy, Ask),
        (&edits, Ask),
        (&AskAlwaysPolicy, Ask),
        (&ReadOnlyPolicy, Deny),
        (&AllowInProjectPolicy, Ask),
    ];
    let is_outside = |path: &Path| !path.starts_with("/p");
    for effect in [read, write] {
        let inside = Effect::Read("/p/a".into());
        let both = Effects::from_iter([inside.clone(), effect.clone()])
            .with_outside_path_marks(is_outside);
        let effects = both.with_tool("tool", ToolKind::Execute);
        assert!(
            effects.is_effect_outside_project(&effect)
                && !effects.is_effect_outside_project(&inside)
        );
        let judge =
            |matcher: Matcher, policy| rules([rule(Allow, matcher)]).judge_call(&effects, policy);
        for (policy, expected) in policies {
            assert_eq!(Rules::default().judge_call(&effects, policy), expected, "{policy:?}");
            let named = judge(Matcher::Effect(effect.clone()), policy);
            // A policy that asks about everything also asks about the effect `inside`.
            let is_settled = expected == Ask && policy.judge(&inside) == Allow;
            assert_eq!(named, if is_settled { Allow } else { expected }, "{policy:?}");
        }
        for unnamed in [Matcher::Tool("tool".into()), Matcher::Kind(ToolKind::Execute)] {
            assert_eq!(judge(unnamed, &AllowInProjectPolicy), Ask);
        }
        let remembered =
            Rules::default().effects_to_remember(&policy_verdicts(&effects, &AskExceptReadsPolicy));
        assert_eq!(remembered, Some(vec![effect]));
    }
}

#[test]
fn policies_judge_effects_that_no_rule_matches() {
    let (read, write) = (Effect::Read("/a".into()), Effect::Write("/a".into()));
    let search = Effect::Search("/a".into());
    let edits = AcceptEditsPolicy::new(["/a"]);
    let run = Effect::Run { command: "make".to_owned(), cwd: "/a".into() };
    let connect = Effect::Connect("a.example".to_owned());
    let policies: [(&dyn Policy, [Verdict; 7]); 5] = [
        (&AskExceptReadsPolicy, [Allow, Allow, Ask, Ask, Ask, Ask, Ask]),
        (&edits, [Allow, Allow, Allow, Ask, Ask, Allow, Ask]),
        (&AskAlwaysPolicy, [Ask; 7]),
        (&ReadOnlyPolicy, [Allow, Allow, Deny, Deny, Deny, Deny, Deny]),
        (&AllowInProjectPolicy, [Allow, Allow, Allow, Allow, Allow, Allow, Ask]),
    ];
    for (policy, expected) in policies {
        let effects = [read.clone(), search.clone(), write.clone(), Effect::Unknown, run.clone()];
        let [read, search, write, unknown, run] = effects.map(Effects::from);
        let sandboxed = run.clone().with_sandbox_mark();
        let effects = [read, search, write, unknown, run, sandboxed, connect.clone().into()];
        let judged = effects.map(|effects| Rules::default().judge_call(&effects, policy));
        assert_eq!(judged, expected, "{policy:?}");
        assert_eq!(Rules::default().judge_call(&Effects::empty(), policy), Allow);
    }
}

#[test]
fn the_accept_edits_policy_allows_only_unprotected_edits_inside_the_roots() {
    let policy = AcceptEditsPolicy::new(["/p", "/q/.git", "/q"]);
    let write = |path: &str| Effect::Write(path.into());
    for (effect, expected) in [
        (write("/p/src/a.rs"), Allow),
        (write("/q/a"), Allow),
        (write("/pp/a"), Ask),
        (write("/a"), Ask),
        (write("/p/../a"), Ask),
        (write("/p/.git/hooks/pre-commit"), Ask),
        (write("/q/.git/config"), Ask),
        (Effect::Delete("/p/a".into()), Ask),
        (run("cargo test"), Ask),
        (Effect::Connect("example.org".to_owned()), Ask),
    ] {
        assert_eq!(policy.judge(&effect), expected, "{effect:?}");
    }
    let denied = rules([rule(Deny, Matcher::Effect(write("/p/a")))]);
    assert_eq!(denied.judge_call(&Effects::from(write("/p/a")), &policy), Deny);
}

#[test]
fn rule_numbers_are_never_reused() {
    let mut rules = Rules::default();
    let of = |command: &str| rule(Allow, Matcher::Effect(run(command)));
    for command in ["a", "b", "a", "c"] {
        assert!(rules.add_rule(of(command)));
    }
    let numbers =
        |rules: &Rules| rules.iter_numbered().map(|(number, _)| number).collect::<Vec<_>>();
    assert_eq!(numbers(&rules), [1, 2, 3]);
    assert!(rules.remove_rule(&of("b")) && rules.remove_rule(&of("c")));
    assert!(rules.add_rule(of("b")));
    assert_eq!(numbers(&rules), [1, 4]);
}

#[test]
fn an_exact_rule_allows_the_same_effect_and_no_other() {
    let matcher = Matcher::Effect(run("cargo test"));
    check(Allow, &matcher, run("cargo test"), Allow);
    check(Allow, &matcher, run("cargo test; rm -rf ."), Ask);
    check(Allow, &matcher, Effect::Run { command: "cargo test".into(), cwd: "/q".into() }, Ask);
    check(Allow, &Matcher::Effect(Effect::Unknown), Effect::Unknown, Ask);
    check(Allow, &Matcher::Effect(Effect::Write("/a".into())), Effect::Delete("/a".into()), Ask);
}

#[test]
fn an_exact_denial_asks_about_effects_that_may_include_it() {
    let matcher = Matcher::Effect(run("rm a"));
    check(Deny, &matcher, run("rm a"), Deny);
    check(Deny, &matcher, run("cd /p && rm 'a'"), Ask);
    check(Deny, &matcher, Effect::Run { command: "rm a".into(), cwd: "/q".into() }, Ask);
    check(Deny, &matcher, run("rm b"), Allow);
    check(Deny, &matcher, run(&format!("rm a {}", " ".repeat(5000))), Ask);
    check(Deny, &matcher, Effect::Unknown, Ask);
    let matcher = Matcher::Effect(Effect::Write("/p/a".into()));
    check(Deny, &matcher, Effect::Write("/p/a".into()), Deny);
    check(Deny, &matcher, Effect::Delete("/p".into()), Ask);
    check(Deny, &matcher, Effect::Delete("/p/a".into()), Ask);
    check(Deny, &matcher, Effect::Delete("/p/b".into()), Allow);
    check(Deny, &matcher, Effect::Read("/p/a".into()), Allow);
    let matcher = Matcher::Effect(Effect::Read("/p/a".into()));
    check(Deny, &matcher, Effect::Search("/p".into()), Ask);
}

#[test]
fn a_prefix_allows_simple_commands_that_begin_with_its_words() {
    for (command, expected) in [
        ("cargo test", Allow),
        ("cargo test --all", Allow),
        ("cargo 'test' \"--\" 'a b|c'", Ask),
        ("cargo 'test' \"--\" 'a::b'", Allow),
        ("  cargo  test ", Allow),
        ("cargo testing", Ask),
        ("cargo", Ask),
        ("cargo build", Ask),
        ("/bin/cargo test", Ask),
        ("./cargo test", Ask),
        ("Cargo test", Ask),
        ("\"cargo test\"", Ask),
        ("", Ask),
    ] {
        check(Allow, &argv("cargo test"), run(command), expected);
    }
    check(Allow, &argv("cargo"), Effect::Write("cargo".into()), Ask);
    check(Allow, &argv("./run"), run("./run"), Ask);
    check(Allow, &argv("/opt/run"), run("/opt/run"), Allow);
    check(Allow, &argv("/opt/run"), run("/opt/run a"), Ask);
}

#[test]
fn a_denied_prefix_matches_anywhere_in_a_command() {
    for (command, expected) in [
        ("git push", Deny),
        ("git push --force", Deny),
        ("/usr/bin/git push", Deny),
        ("GIT push", Deny),
        ("cd /p && git push", Deny),
        ("true;git push", Deny),
        ("true|git push&", Deny),
        ("(git push)", Deny),
        ("{ git push; }", Deny),
        ("true\ngit push", Deny),
        ("true\rgit push", Deny),
        ("git\u{a0}push", Deny),
        ("git${IFS}push", Ask),
        ("$(git push)", Deny),
        ("`git push`", Deny),
        ("bash -c 'git push'", Deny),
        ("bash -c \"bash -c 'git push'\"", Deny),
        ("sudo git push", Deny),
        ("A=1 git push", Deny),
        ("g'i't \"pu\"sh", Deny),
        ("\\git pu\\sh", Deny),
        ("git -C /q push", Ask),
        ("git log", Ask),
        ("g=git; $g push", Ask),
        ("gi\\\nt push", Ask),
        ("echo Z2l0IHB1c2g= | base64 -d | sh", Ask),
        ("cargo test", Allow),
        ("digit push", Allow),
    ] {
        check(Deny, &argv("git push"), run(command), expected);
    }
    check(Deny, &argv("git push"), run(&format!("git push {}", "x".repeat(5000))), Ask);
    check(Deny, &argv("!"), run("ls"), Ask);
    check(Deny, &argv("rm"), Effect::Unknown, Ask);
}

#[test]
fn output_is_redirected_only_to_declared_and_permitted_files() {
    let rules = rules([rule(Allow, argv("cargo test")), rule(Allow, argv("cd"))]);
    let policy = AcceptEditsPolicy::new(["/p"]);
    for (line, written, expected) in [
        ("cargo test > a", "/p/a", Allow),
        ("cargo test 2>&1 > ./a", "/p/a", Allow),
        ("cargo test > /p/sub/a", "/p/sub/a", Allow),
        ("cargo test > /q/a", "/q/a", Ask),
        ("cargo test > a", "/p/b", Ask),
        ("cargo test > sub/../a", "/p/a", Ask),
        ("cargo test > .git/config", "/p/.git/config", Ask),
        ("cd /q; cargo test > a", "/p/a", Ask),
    ] {
        let effects = Effects::from_iter([run(line), Effect::Write(written.into())]);
        assert_eq!(rules.judge_call(&effects, &policy), expected, "{line}");
        assert_eq!(rules.judge_call(&effects, &AskExceptReadsPolicy), Ask, "{line}");
    }
}

#[test]
fn a_glob_is_compared_with_resolved_paths() {
    use FileAccess::{Delete, Read, Write};
    for (access, glob, effect, expected) in [
        (Write, "/p/src/**", Effect::Write("/p/src/a/b.rs".into()), Allow),
        (Write, "/p/src/**", Effect::Write("/p/src".into()), Ask),
        (Write, "/p/src/**", Effect::Write("/p/srcs/a".into()), Ask),
        (Write, "/p/src/**", Effect::Write("/p/src/../secret".into()), Ask),
        (Write, "/p/src/**", Effect::Write("p/src/a".into()), Ask),
        (Write, "/p/src/**", Effect::Read("/p/src/a".into()), Ask),
        (Write, "/p/src/**", Effect::Delete("/p/src/a".into()), Ask),
        (Write, "/p/src/**", run("/p/src/a"), Ask),
        (Write, "/p/*.rs", Effect::Write("/p/a.rs".into()), Allow),
        (Write, "/p/*.rs", Effect::Write("/p/a/b.rs".into()), Ask),
        (Write, "/p/*.rs", Effect::Write("/p/A.RS".into()), Ask),
        (Write, "/p/{a,b}", Effect::Write("/p/b".into()), Allow),
        (Read, "/p/**", Effect::Search("/p/src".into()), Allow),
        (Read, "/p/**/*.rs", Effect::Search("/p/src".into()), Ask),
        (Delete, "/p/tmp/**", Effect::Delete("/p/tmp/a".into()), Allow),
        (Delete, "/p/tmp/*", Effect::Delete("/p/tmp/a".into()), Ask),
    ] {
        check(Allow, &path(access, glob), effect, expected);
    }
    for (access, glob, effect, expected) in [
        (Read, "/p/**/.env", Effect::Read("/p/.env".into()), Deny),
        (Read, "/p/**/.env", Effect::Read("/p/a/.ENV".into()), Deny),
        (Read, "/p/**/.env", Effect::Search("/p/a".into()), Ask),
        (Read, "/p/**/.env", Effect::Search("/".into()), Ask),
        (Read, "/p/**/.env", Effect::Search("/q".into()), Allow),
        (Read, "/p/**/.env", Effect::Read("/p/a/../.env.".into()), Ask),
        (Read, "/p/**/.env", Effect::Write("/p/.env".into()), Allow),
        (Write, "/p/secret", Effect::Delete("/p".into()), Ask),
        (Write, "/p/secret", Effect::Delete("/p/secret".into()), Deny),
        (Write, "/p/Secret/**", Effect::Delete("/p/secret".into()), Ask),
        (Write, "/p/secret", Effect::Delete("/p/other".into()), Allow),
        (Delete, "/p/secret", Effect::Write("/p/secret".into()), Allow),
        (Write, "/p/secret", Effect::Unknown, Ask),
        (Write, "/p/secret", Effect::Write("/p/Secret/a/b".into()), Deny),
        (Read, "/p/**/keys", Effect::Read("/p/a/keys/key".into()), Deny),
        (Read, "/p/**/keys", Effect::Search("/p/keys/a".into()), Deny),
        (Read, "/p/**/keys", Effect::Read("/p/keystore".into()), Allow),
    ] {
        check(Deny, &path(access, glob), effect, expected);
    }
}

#[test]
fn a_search_that_leaves_out_denied_files_asks_only_because_of_other_rules() {
    let search = Effects::from(Effect::Search("/p".into()));
    let filtered = search.clone().with_denied_files_left_out();
    for (verdict, glob, expected) in [
        (Deny, "/p/**/.env", [Ask, Allow]),
        (Ask, "/p/**/.env", [Ask, Ask]),
        (Deny, "/p/**", [Ask, Allow]),
        (Deny, "/p", [Deny, Deny]),
        (Deny, "/**", [Deny, Deny]),
    ] {
        let rules = rules([rule(verdict, path(FileAccess::Read, glob))]);
        let judged = [&search, &filtered].map(|it| rules.judge_call(it, &AllowAllPolicy));
        assert_eq!(judged, expected, "{verdict:?} {glob}");
    }
}

#[test]
fn a_host_is_compared_by_labels_from_the_right() {
    let host = |pattern: &str| Matcher::Host(HostPattern::parse(pattern).unwrap());
    for (pattern, name, allowed, denied) in [
        ("example.org", "example.org", Allow, Deny),
        ("Example.ORG", "eXample.org", Allow, Deny),
        ("example.org", "a.example.org", Ask, Allow),
        ("example.org", "example.org.evil.net", Ask, Allow),
        ("example.org", "evilexample.org", Ask, Allow),
        ("example.org", "example.com", Ask, Allow),
        ("*.example.org", "a.example.org", Allow, Deny),
        ("*.example.org", "a.b.example.org", Allow, Deny),
        ("*.example.org", "example.org", Ask, Deny),
        ("*.example.org", "evilexample.org", Ask, Allow),
        ("*.example.org", ".example.org", Ask, Ask),
        ("*.example.org", "attacker.net\0.example.org", Ask, Ask),
        ("*.example.org", "a.example.org:80", Ask, Ask),
        ("*.example.org", "user@a.example.org", Ask, Ask),
        ("*.example.org", "a.example.org.", Ask, Ask),
        ("*.example.org", "a/.example.org", Ask, Ask),
        ("*.example.org", "ä.example.org", Ask, Ask),
        ("*.example.org", "a。example.org", Ask, Ask),
        ("example.org", "", Ask, Ask),
        ("127.0.0.1", "127.0.0.1", Allow, Deny),
        ("127.0.0.1", "127.0.0.10", Ask, Allow),
        ("127.0.0.1", "[::1]", Ask, Ask),
    ] {
        check(Allow, &host(pattern), Effect::Connect(name.to_owned()), allowed);
        check(Deny, &host(pattern), Effect::Connect(name.to_owned()), denied);
    }
    for pattern in ["", "*", "*.", "*.*.org", "a..b", "a.b.", "a:1", "*.0.0.1", "ä.org", "[::1]"] {
        assert!(HostPattern::parse(pattern).is_err(), "{pattern}");
    }
}

#[test]
fn a_tool_a_kind_and_a_server_are_compared_by_name() {
    let call = |tool: &str| Effect::Mcp {
        server: "s".to_owned(),
        tool: tool.to_owned(),
        definition: String::new(),
    };
    let other =
        || Effect::Mcp { server: "s2".to_owned(), tool: "t".to_owned(), definition: String::new() };
    let changed = || Effect::Mcp {
        server: "s".to_owned(),
        tool: "t".to_owned(),
        definition: "another".to_owned(),
    };
    for (matcher, effect, allowed, denied) in [
        (Matcher::Tool("tool".to_owned()), Effect::Unknown, Allow, Deny),
        (Matcher::Tool("too".to_owned()), Effect::Unknown, Ask, Allow),
        (Matcher::Kind(ToolKind::Execute), run("a; b"), Allow, Deny),
        (Matcher::Kind(ToolKind::Read), run("a; b"), Ask, Allow),
        (mcp(None), call("t"), Allow, Deny),
        (mcp(Some("t")), call("t"), Allow, Deny),
        (mcp(Some("t")), call("u"), Ask, Allow),
        (mcp(None), other(), Ask, Allow),
        // The server itself declares the kind, so a rule for a kind cannot allow the call.
        (Matcher::Kind(ToolKind::Execute), call("t"), Ask, Deny),
        // A tool may be the denied tool even if its definition differs from the denied definition.
        (Matcher::Effect(changed()), call("t"), Ask, Ask),
        (Matcher::Effect(changed()), call("u"), Ask, Allow),
    ] {
        check(Allow, &matcher, effect.clone(), allowed);
        check(Deny, &matcher, effect, denied);
    }
    // A denied tool is denied even if its call has no effects.
    let silent = Effects::empty().with_tool("think", ToolKind::Think);
    let denied = rules([rule(Deny, Matcher::Tool("think".to_owned()))]);
    assert_eq!(denied.judge_call(&silent, &AllowInProjectPolicy), Deny);
}

#[test]
fn the_strictest_verdict_wins_and_the_policy_can_always_deny() {
    let all = || path(FileAccess::Write, "/**");
    let write = Effects::from(Effect::Write("/a".into()));
    for (verdicts, expected) in [
        (&[Allow][..], Allow),
        (&[Allow, Ask], Ask),
        (&[Allow, Ask, Deny], Deny),
        (&[Deny, Allow], Deny),
    ] {
        let rules = rules(verdicts.iter().map(|verdict| rule(*verdict, all())));
        assert_eq!(rules.judge_call(&write, &AskExceptReadsPolicy), expected);
        assert_eq!(rules.judge_call(&write, &ReadOnlyPolicy), Deny);
    }
}

#[test]
fn every_effect_must_be_allowed() {
    let rules = rules([rule(Allow, path(FileAccess::Write, "/p/**"))]);
    let both = |other: &str| {
        Effects::from_iter([Effect::Write("/p/a".into()), Effect::Write(other.into())])
    };
    assert_eq!(rules.judge_call(&both("/p/b"), &AskExceptReadsPolicy), Allow);
    assert_eq!(rules.judge_call(&both("/q/b"), &AskExceptReadsPolicy), Ask);
}

#[test]
fn no_call_is_allowed_if_rules_cannot_be_loaded() {
    let mut rules = rules([rule(Allow, path(FileAccess::Write, "/p/**"))]);
    assert_eq!(rules.load_error(), None);
    rules.set_load_error("broken".to_owned());
    assert_eq!(rules.load_error(), Some("broken"));
    let write = Effects::from(Effect::Write("/p/a".into()));
    for policy in [&AskExceptReadsPolicy as &dyn Policy, &AllowInProjectPolicy] {
        assert_eq!(rules.judge_call(&write, policy), Ask);
        assert_eq!(rules.judge_call(&Effects::from(Effect::Read("/p/a".into())), policy), Ask);
        assert_eq!(rules.effects_to_remember(&policy_verdicts(&write, policy)), None);
    }
    assert_eq!(rules.judge_call(&write, &ReadOnlyPolicy), Deny);
}

#[test]
fn only_effects_that_the_policy_asks_about_are_remembered() {
    let (read, a, b) =
        (Effect::Read("/r".into()), Effect::Write("/a".into()), Effect::Write("/b".into()));
    let call = Effects::from_iter([read.clone(), a.clone(), b.clone(), a.clone()]);
    assert_eq!(
        Rules::default().effects_to_remember(&policy_verdicts(&call, &AskExceptReadsPolicy)),
        Some(vec![a.clone(), b.clone()])
    );
    let all = Some(vec![read, a.clone(), b.clone()]);
    assert_eq!(
        Rules::default().effects_to_remember(&policy_verdicts(&call, &AskAlwaysPolicy)),
        all
    );
    let allowed = rules([rule(Allow, Matcher::Effect(a.clone()))]);
    assert_eq!(
        allowed.effects_to_remember(&policy_verdicts(&call, &AskExceptReadsPolicy)),
        Some(vec![b])
    );
    for asked in [rule(Ask, Matcher::Effect(a.clone())), rule(Deny, Matcher::Effect(a))] {
        assert_eq!(
            rules([asked]).effects_to_remember(&policy_verdicts(&call, &AskExceptReadsPolicy)),
            None
        );
    }
    let asked = rules([rule(Ask, Matcher::Tool("t".to_owned()))]);
    assert_eq!(
        asked.effects_to_remember(&policy_verdicts(
            &call.clone().with_tool("t", ToolKind::Edit),
            &AskExceptReadsPolicy
        )),
        None
    );
    assert_eq!(
        Rules::default().effects_to_remember(&policy_verdicts(
            &Effects::from(Effect::Unknown),
            &AskExceptReadsPolicy
        )),
        None
    );
    assert_eq!(
        Rules::default()
            .effects_to_remember(&policy_verdicts(&Effects::empty(), &AskExceptReadsPolicy)),
        None
    );
}

#[test]
fn a_session_holds_a_bounded_number_of_rules() {
    let mut rules = Rules::default();
    let numbered = |n: usize| rule(Allow, Matcher::Tool(n.to_string()));
    assert!((0..crate::limits::MAX_SESSION_RULES).all(|n| rules.add_rule(numbered(n))));
    assert!(rules.add_rule(numbered(0)) && !rules.add_rule(numbered(usize::MAX)));
    assert_eq!(
        rules
            .effects_to_remember(&policy_verdicts(&Effects::from(run("a")), &AskExceptReadsPolicy)),
        None
    );
}

#[test]
fn a_rule_is_written_and_read_as_json() {
    for (matcher, written) in [
        (Matcher::Effect(run("ls")), json!({"effect": {"run": {"command": "ls", "cwd": "/p"}}})),
        (Matcher::Tool("t".to_owned()), json!({"tool": "t"})),
        (Matcher::Kind(ToolKind::SwitchMode), json!({"kind": "switch_mode"})),
        (argv("cargo test"), json!({"argv": ["cargo", "test"]})),
        (path(FileAccess::Write, "/p/**"), json!({"path": {"access": "write", "glob": "/p/**"}})),
        (Matcher::Host(HostPattern::parse("*.a.b").unwrap()), json!({"host": "*.a.b"})),
        (mcp(None), json!({"mcp": {"server": "s", "tool": null}})),
    ] {
        let rule = Rule { scope: RuleScope::Project, matcher, verdict: Deny };
        let json = json!({"scope": "project", "matcher": written, "verdict": "deny"});
        assert_eq!(serde_json::to_value(&rule).unwrap(), json);
        assert_eq!(serde_json::from_value::<Rule>(json).unwrap(), rule);
    }
    for wrong in [
        json!({"argv": []}),
        json!({"argv": [""]}),
        json!({"argv": ["x".repeat(2000)]}),
        json!({"path": {"access": "write", "glob": "src/**"}}),
        json!({"path": {"access": "write", "glob": "/p/../**"}}),
        json!({"path": {"access": "write", "glob": "/p/["}}),
        json!({"path": {"access": "write", "glob": format!("/{}", "x".repeat(2000))}}),
        json!({"host": "a:1"}),
        json!({"kind": "exec"}),
        json!({"anything": 1}),
    ] {
        let json = json!({"scope": "user", "matcher": wrong, "verdict": "allow"});
        assert!(serde_json::from_value::<Rule>(json).is_err(), "{wrong}");
    }
}

#[test]
fn a_rule_is_described_in_words() {
    let display = |path: &Path| path.display().to_string();
    for (matcher, words) in [
        (Matcher::Effect(run("a\nb")), "`a\\nb` in /p"),
        (Matcher::Effect(Effect::Search("/p".into())), "searching /p"),
        (Matcher::Tool("t\u{202e}".to_owned()), "the tool `t\\u{202e}`"),
        (Matcher::Kind(ToolKind::Edit), "tools of the kind edit"),
        (argv("cargo test"), "commands that begin with `cargo test`"),
        (path(FileAccess::Delete, "/p/**"), "deleting `/p/**`"),
        (Matcher::Host(HostPattern::parse("*.a.b").unwrap()), "connecting to `*.a.b`"),
        (mcp(None), "all tools of s"),
        (mcp(Some("t")), "t of s"),
    ] {
        assert_eq!(
            rule(Deny, matcher).describe(display),
            format!("reject {words} in this session")
        );
    }
    let everywhere = Rule { scope: RuleScope::User, ..rule(Ask, mcp(None)) };
    assert_eq!(everywhere.describe(display), "ask about all tools of s everywhere");
}

#[test]
fn a_store_separates_projects_and_shares_the_rules_of_the_user() {
    let store = MemoryRuleStore::default();
    let of = |scope, tool: &str| Rule { scope, ..rule(Deny, Matcher::Tool(tool.to_owned())) };
    let (mine, users) = (of(RuleScope::Project, "a"), of(RuleScope::User, "b"));
    let add = [
        RuleChange::Add(mine.clone()),
        RuleChange::Add(users.clone()),
        RuleChange::Add(mine.clone()),
    ];
    store.save_rule_changes(Path::new("/p"), &add).unwrap();
    assert_eq!(store.load(Path::new("/p")).unwrap(), [mine.clone(), users.clone()]);
    assert_eq!(store.load(Path::new("/q")).unwrap(), std::slice::from_ref(&users));
    store.save_rule_changes(Path::new("/q"), &[RuleChange::Remove(mine.clone())]).unwrap();
    store.save_rule_changes(Path::new("/q"), &[RuleChange::Remove(users)]).unwrap();
    assert_eq!(store.load(Path::new("/p")).unwrap(), [mine]);
    let many: Vec<_> =
        (0..1024).map(|n| RuleChange::Add(of(RuleScope::User, &n.to_string()))).collect();
    store.save_rule_changes(Path::new("/p"), &many).unwrap();
    let error = store
        .save_rule_changes(Path::new("/p"), &[RuleChange::Add(of(RuleScope::User, "more"))])
        .unwrap_err();
    assert_eq!(error.to_string(), "1024 rules are stored already");
}
