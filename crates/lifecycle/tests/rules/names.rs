//! Tests which file names need permission in a mode that accepts edits. Some names are names of
//! files that a program executes or reads as configuration, according to its documentation. Other
//! names are ordinary.

use std::path::Path;

use acp_lifecycle::{AcceptEditsPolicy, Effect, Policy as _, Verdict};

/// Each line contains a kind (`obeyed` or `ordinary`), a path in a project, and the program that
/// executes or reads the file.
const NAMES: &str = include_str!("names.tsv");

/// Names of the kind `obeyed` that need no permission, each with the reason.
const SILENT: &[(&str, &str)] = &[
    (
        "tests/fixtures/sample.git/config",
        "git obeys it beside HEAD, objects and refs: the tools look",
    ),
    ("etc/cron.d/backup", "obeyed only where it is installed as /etc"),
    ("startup.m", "MATLAB source like any other"),
    ("patches/left-pad+1.3.0.patch", "text of a change; what applies it is asked about"),
    ("codegen.ts", "source like any other"),
    ("config/initializers/session.rb", "source of the program itself"),
    ("renv/activate.R", "run by .Rprofile, which is asked about"),
    ("DESCRIPTION", "only in packages of R; elsewhere it is prose"),
    ("Assets/Editor/BuildMenu.cs", "source of the program itself"),
    ("charts/api/templates/deployment.yaml", "rendered by a chart, which is asked about"),
    ("roles/web/tasks/main.yml", "run by a playbook, under any name"),
    ("group_vars/all.yml", "data of a playbook"),
    ("manifests/site.pp", "source like any other"),
];

fn is_asked(path: &str) -> bool {
    let path = Path::new("/p").join(path);
    AcceptEditsPolicy::new(["/p"]).judge(&Effect::Write(path)) != Verdict::Allow
}

fn of_kind(kind: &str) -> Vec<&'static str> {
    let rows = NAMES.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    rows.filter(|row| row[0] == kind).map(|row| row[1]).collect()
}

#[test]
fn executed_and_config_files_are_asked_about_and_ordinary_files_are_not() {
    let (obeyed, ordinary) = (of_kind("obeyed"), of_kind("ordinary"));
    assert_eq!((obeyed.len(), ordinary.len()), (500, 500));
    let silent: Vec<_> = obeyed.into_iter().filter(|path| !is_asked(path)).collect();
    let asked: Vec<_> = ordinary.into_iter().filter(|path| is_asked(path)).collect();
    let is_explained = |path: &&&str| SILENT.iter().any(|(known, _)| known == *path);
    let unexplained: Vec<_> = silent.iter().filter(|path| !is_explained(path)).collect();
    assert!(silent.len() <= 25 && unexplained.is_empty(), "{} silent: {silent:#?}", silent.len());
    assert!(asked.len() <= 10, "{} asked: {asked:#?}", asked.len());
}
