//! Finds dependency cycles between sibling modules. The submodules of a sibling count as parts of
//! the sibling.
//!
//! The code is tokenized but not parsed. Each path that begins with `crate`, `self` or `super` is a
//! dependency, in `use` items and elsewhere. A re-exported name belongs to the module that defines
//! it. The code of tests is ignored, and so are dependencies between a parent and its child.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::{parse_use_tree, tokenize, without_tests};

/// A module, as the names in its path.
type ModulePath = Vec<String>;

/// The key contains the parent module, the module that depends on a sibling, and the sibling. The
/// value describes the first use, with the name of its file.
type ModuleDependencies = BTreeMap<(ModulePath, String, String), String>;

/// Returns the dependency cycles of a crate. For each module in a cycle, only a shortest cycle is
/// returned.
///
/// `files` are the source files of the crate, as pairs of a path relative to `src` and the text.
pub(super) fn dependency_cycles(files: &[(String, String)]) -> Vec<String> {
    let sources: Vec<_> =
        files.iter().filter_map(|(path, text)| tokenize_source(path, text)).collect();
    let modules: BTreeSet<&ModulePath> = sources.iter().map(|source| &source.module).collect();
    let mut exports = BTreeMap::new();
    for TokenizedSource { module, words, .. } in &sources {
        for (path, name) in find_re_exports(words) {
            if let Some((target, _)) = resolve_module(module, &path, &modules, &exports) {
                exports.insert((module.clone(), name), target);
            }
        }
    }
    let mut edges = ModuleDependencies::new();
    for TokenizedSource { module, path, words } in &sources {
        for named in find_internal_paths(words) {
            let Some((target, name)) = resolve_module(module, &named, &modules, &exports) else {
                continue;
            };
            let shared = module.iter().zip(&target).take_while(|(one, other)| one == other).count();
            if let (Some(from), Some(to)) = (module.get(shared), target.get(shared)) {
                let key = (module[..shared].to_vec(), from.clone(), to.clone());
                let what = name.unwrap_or_else(|| target.join("::"));
                edges.entry(key).or_insert_with(|| format!("{path} takes {what}"));
            }
        }
    }
    let parents: BTreeSet<_> = edges.keys().map(|(parent, ..)| parent.clone()).collect();
    parents.iter().flat_map(|parent| find_cycles_beneath(parent, &edges)).collect()
}

struct TokenizedSource<'a> {
    module: ModulePath,
    path: &'a str,
    words: Vec<&'a str>,
}

/// Tokenizes a source file. Returns `None` for a file of tests.
fn tokenize_source<'a>(path: &'a str, text: &'a str) -> Option<TokenizedSource<'a>> {
    let stem = path.strip_suffix(".rs")?;
    let mut module: ModulePath = stem.split('/').map(str::to_owned).collect();
    if module.iter().any(|name| name == "tests") {
        return None;
    }
    match module.last().map(String::as_str) {
        Some("lib" | "main") => module.clear(),
        // A module may have one file per operating system. These files count as the same module.
        Some(name) => {
            let name = name.trim_end_matches("_linux").trim_end_matches("_portable").to_owned();
            module.pop();
            module.push(name);
        }
        None => {}
    }
    Some(TokenizedSource { module, path, words: without_tests(tokenize(text)) })
}

/// Returns the paths that begin with `crate`, `self` or `super`. A path with braces is expanded to
/// several paths.
fn find_internal_paths<'a>(words: &[&'a str]) -> Vec<Vec<&'a str>> {
    let mut found = Vec::new();
    for at in 0..words.len() {
        let begins = ["crate", "self", "super"].contains(&words[at]);
        if begins && words.get(at + 1) == Some(&"::") && (at == 0 || words[at - 1] != "::") {
            let mut all = Vec::new();
            parse_use_tree(&words[at..], &mut Vec::new(), &mut all);
            found.extend(all.into_iter().map(|leaf| leaf.path));
        }
    }
    found
}

/// Returns the names that a module re-exports, each after its original path.
fn find_re_exports<'a>(words: &[&'a str]) -> Vec<(Vec<&'a str>, String)> {
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate().filter(|(_, word)| **word == "use") {
        let is_public = at > 0 && ["pub", ")"].contains(&words[at - 1]);
        if is_public && *word == "use" {
            let mut all = Vec::new();
            parse_use_tree(&words[at + 1..], &mut Vec::new(), &mut all);
            found.extend(all.into_iter().map(|leaf| (leaf.path, leaf.name.to_owned())));
        }
    }
    found
}

/// Returns the module to which a path refers. If the path ends with the name of an item, also
/// returns the name.
fn resolve_module(
    from: &ModulePath,
    path: &[&str],
    modules: &BTreeSet<&ModulePath>,
    exports: &BTreeMap<(ModulePath, String), ModulePath>,
) -> Option<(ModulePath, Option<String>)> {
    let mut module = match path.first()? {
        &"crate" => Vec::new(),
        _ => from.clone(),
    };
    let mut names = path.iter();
    for name in names.by_ref() {
        let beneath = [&module[..], &[(*name).to_owned()]].concat();
        match *name {
            "crate" | "self" => {}
            "super" => drop(module.pop()),
            _ if modules.contains(&beneath) => module = beneath,
            name => {
                let exporter = exports.get(&(module.clone(), name.to_owned()));
                let found = exporter.cloned().unwrap_or(module);
                return Some((found, Some(name.to_owned())));
            }
        }
    }
    Some((module, None))
}

/// Returns a shortest cycle for each sibling that is part of a cycle. A cycle of several siblings
/// is returned only once.
fn find_cycles_beneath(parent: &ModulePath, edges: &ModuleDependencies) -> Vec<String> {
    let next = |from: &str| {
        let begin = (parent.clone(), from.to_owned(), String::new());
        let of = edges.range(begin..);
        let from = from.to_owned();
        of.map_while(move |((other, name, to), what)| {
            (other == parent && *name == from).then_some((to.clone(), what))
        })
    };
    let siblings: BTreeSet<_> =
        edges.keys().filter(|(other, ..)| other == parent).map(|(_, from, _)| from).collect();
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for start in siblings {
        // Breadth-first search. Each element is a path of modules that begins with `start`.
        let mut ways = vec![vec![start.clone()]];
        let mut reached = BTreeSet::new();
        let circle = 'search: loop {
            let mut longer = Vec::new();
            for way in ways {
                for (to, _) in next(&way[way.len() - 1]) {
                    if to == *start {
                        break 'search Some(way);
                    }
                    if reached.insert(to.clone()) {
                        longer.push([&way[..], &[to]].concat());
                    }
                }
            }
            ways = longer;
            if ways.is_empty() {
                break None;
            }
        };
        let Some(circle) = circle else { continue };
        if !seen.insert(circle.iter().cloned().collect::<BTreeSet<_>>()) {
            continue;
        }
        let mut description = format!("circle in `{}`: {}", parent.join("::"), circle.join(" → "));
        for (at, from) in circle.iter().enumerate() {
            let to = &circle[(at + 1) % circle.len()];
            let what = edges.get(&(parent.clone(), from.clone(), to.clone()));
            description += &format!("\n  {from} → {to}: {}", what.map_or("", String::as_str));
        }
        found.push(description);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokenize;
    use super::{dependency_cycles, find_internal_paths};

    fn crate_of(files: &[(&str, &str)]) -> Vec<String> {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        let found = dependency_cycles(&files.iter().map(owned).collect::<Vec<_>>());
        found.iter().map(|cycle| cycle.lines().next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn paths_are_found_in_uses_and_in_code_but_not_in_texts() {
        let code = "use crate::a::{B, c::{self, D}};\n// crate::x\nlet y = \"crate::z\"; super::f(); r#\"self::q\"#";
        let found: Vec<_> =
            find_internal_paths(&tokenize(code)).iter().map(|path| path.join("::")).collect();
        assert_eq!(found, ["crate::a::B", "crate::a::c::self", "crate::a::c::D", "super::f"]);
    }

    #[test]
    fn siblings_that_reach_each_other_are_found_and_parents_are_not() {
        let clean = [("lib.rs", "mod a;"), ("a.rs", "use self::b::X;"), ("a/b.rs", "super::Y;")];
        assert!(crate_of(&clean).is_empty());
        let direct = [("lib.rs", ""), ("a.rs", "use crate::b::X;"), ("b.rs", "crate::a::Y;")];
        assert_eq!(crate_of(&direct), ["circle in ``: a → b"]);
        let deep = [
            ("a.rs", ""),
            ("a/deep.rs", "use crate::b::X;"),
            ("b.rs", "use crate::c::Y;"),
            ("c.rs", "crate::a::deep::Z;"),
        ];
        assert_eq!(crate_of(&deep), ["circle in ``: a → b → c"]);
        let beneath = [("p.rs", ""), ("p/a.rs", "super::b::X;"), ("p/b.rs", "super::a::X;")];
        assert_eq!(crate_of(&beneath), ["circle in `p`: a → b"]);
    }

    #[test]
    fn tests_do_not_count_and_names_are_those_of_their_module() {
        let tests = [
            ("a.rs", "use crate::b::X;\n#[cfg(test)]\nmod tests { use crate::b; }"),
            ("b.rs", "#[cfg(test)]\nmod tests { fn f() { crate::a::Y; } }\n"),
            ("b/tests.rs", "use crate::a::Y;"),
        ];
        assert!(crate_of(&tests).is_empty());
        let exported =
            [("lib.rs", "pub use a::Y;"), ("a.rs", "use crate::b::X;"), ("b.rs", "use crate::Y;")];
        assert_eq!(crate_of(&exported), ["circle in ``: a → b"]);
    }
}
