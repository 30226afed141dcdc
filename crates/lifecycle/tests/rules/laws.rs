//! Tests of laws with random rules and calls: the order of rules does not matter, and adding a
//! denying rule never allows more calls.
//!
//! `PROPTEST_CASES` sets the number of cases. `cargo xtask accept rules` runs a million cases.

use std::sync::LazyLock;

use acp_lifecycle::rules::{ArgvPrefix, FileAccess, HostPattern, PathGlob};
use acp_lifecycle::{
    AllowInProjectPolicy, AskAlwaysPolicy, AskExceptReadsPolicy, Effect, Effects, Matcher, Policy,
    ReadOnlyPolicy, Rule, RuleScope, Rules, Verdict,
};
use acp_types::ToolKind;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use proptest::proptest;
use proptest::sample::{Index, select};

/// The rules from which the tests choose, with every kind of matcher. There are so few rules that
/// several apply to one call.
static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let argv = |words: &[&str]| {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Matcher::Argv(ArgvPrefix::try_new(words).unwrap())
    };
    let path = |access, glob: &str| Matcher::Path { access, glob: PathGlob::parse(glob).unwrap() };
    let host = |pattern: &str| Matcher::Host(HostPattern::parse(pattern).unwrap());
    let mcp =
        |tool: Option<&str>| Matcher::Mcp { server: "s".to_owned(), tool: tool.map(str::to_owned) };
    let mut matchers: Vec<_> = EFFECTS.iter().cloned().map(Matcher::Effect).collect();
    matchers.extend([
        Matcher::Tool("a".to_owned()),
        Matcher::Kind(ToolKind::Edit),
        argv(&["git"]),
        argv(&["git", "push"]),
        argv(&["ls"]),
        path(FileAccess::Read, "/p/**"),
        path(FileAccess::Write, "/p/**"),
        path(FileAccess::Write, "/p/a"),
        path(FileAccess::Delete, "/p/*"),
        path(FileAccess::Read, "/p/**/.env"),
        host("example.org"),
        host("*.example.org"),
        mcp(None),
        mcp(Some("t")),
    ]);
    let verdicts = [Verdict::Allow, Verdict::Ask, Verdict::Deny];
    let each = matchers.into_iter().flat_map(|matcher| {
        verdicts.map(|verdict| Rule::new(RuleScope::Session, matcher.clone(), verdict))
    });
    each.collect()
});

static EFFECTS: LazyLock<Vec<Effect>> = LazyLock::new(|| {
    let run = |command: &str| Effect::Run { command: command.to_owned(), cwd: "/p".into() };
    let mcp = |tool: &str| Effect::Mcp {
        server: "s".to_owned(),
        tool: tool.to_owned(),
        definition: String::new(),
    };
    vec![
        Effect::Read("/p/a".into()),
        Effect::Read("/p/.env".into()),
        Effect::Search("/p".into()),
        Effect::Write("/p/a".into()),
        Effect::Write("/q/a".into()),
        Effect::Delete("/p/a".into()),
        Effect::Delete("/p".into()),
        run("ls"),
        run("git push"),
        run("git status"),
        run("ls; git push"),
        run("$x"),
        Effect::Connect("example.org".to_owned()),
        Effect::Connect("a.example.org".to_owned()),
        Effect::Connect("example.org:80".to_owned()),
        mcp("t"),
        mcp("u"),
        Effect::Unknown,
    ]
});

fn call() -> impl Strategy<Value = Effects> {
    let tools = select(&["a", "b"]);
    let kinds = select(&[ToolKind::Edit, ToolKind::Read]);
    (vec(any::<Index>(), 0..4), tools, kinds).prop_map(|(effects, tool, kind)| {
        let effects = effects.iter().map(|index| index.get(&EFFECTS).clone());
        Effects::from_iter(effects).with_tool(tool, kind)
    })
}

fn policy() -> impl Strategy<Value = &'static dyn Policy> {
    select(&[
        &AskExceptReadsPolicy as &dyn Policy,
        &AskAlwaysPolicy,
        &AllowInProjectPolicy,
        &ReadOnlyPolicy,
    ])
}

fn rules<'a>(list: impl IntoIterator<Item = &'a Rule>) -> Rules {
    let mut rules = Rules::default();
    list.into_iter().for_each(|rule| assert!(rules.add_rule(rule.clone())));
    rules
}

proptest! {
    #[test]
    fn the_order_of_rules_does_not_matter_and_a_denial_never_allows_more(
        drawn in vec((any::<Index>(), any::<u32>()), 0..8),
        denied in any::<Index>(),
        call in call(),
        policy in policy(),
    ) {
        let mut drawn: Vec<_> =
            drawn.iter().map(|(index, key)| (*key, index.get(&RULES))).collect();
        let in_order = rules(drawn.iter().map(|(_, rule)| *rule));
        let verdict = in_order.judge_call(&call, policy);

        drawn.sort_by_key(|(key, _)| *key);
        let shuffled = rules(drawn.iter().map(|(_, rule)| *rule));
        assert_eq!(shuffled.judge_call(&call, policy), verdict, "{in_order:?} of {call:?}");

        let mut stricter = in_order.clone();
        let denied = denied.get(&RULES);
        let mut rule = denied.clone();
        rule.verdict = Verdict::Deny;
        stricter.add_rule(rule);
        assert!(stricter.judge_call(&call, policy) >= verdict, "{denied:?} of {call:?}");
    }
}
