//! Counts the public items of a library, and finds the public items that only the library itself
//! uses.
//!
//! An item is public if it can be reached from the crate root through `pub` modules and re-exports.
//! A `pub` function or constant in an `impl` block is public if its type is public. Uses are found
//! by name only: if two items have the same name, a use of one counts for both.

mod items;

use std::collections::{BTreeMap, BTreeSet};

use items::{ItemTokens, generics_len, split_into_items};

use super::tokens::{UsePath, is_name, parse_use_tree, tokenize, without_tests};

/// A module, as the names in its path.
type ModulePath = Vec<String>;

/// Returns a report with the number of public items of each library, and the public items that only
/// the library itself uses.
///
/// `libraries` are pairs of a crate name as in Rust paths and the folder of the crate. `files` are
/// all files of the workspace.
pub(super) fn report_unused_public_items(
    libraries: &[(String, String)],
    files: &[(String, String)],
) -> String {
    let docs: Vec<_> = files.iter().map(|(path, text)| code_in_docs(path, text)).collect();
    let docs: Vec<_> = docs.iter().map(|code| ExternalCode::new(code)).collect();
    let rust = files.iter().filter(|(path, _)| path.ends_with(".rs"));
    let rust: Vec<_> =
        rust.map(|(path, text)| (path, with_path_attribute_modules(path, text, files))).collect();
    let rust: Vec<_> = rust.iter().map(|(path, text)| (path, ExternalCode::new(text))).collect();
    let mut report =
        "Public items, and those that no other crate, example, integration test or code \
                    in docs uses. A use is found by its name: of two items of one name, a use of \
                    one counts for both."
            .to_owned();
    for (library, folder) in libraries {
        let source = |path: &str| {
            let path = path.strip_prefix(folder)?.strip_prefix("/src/")?;
            (path != "main.rs" && !path.starts_with("bin/")).then(|| path.to_owned())
        };
        let own = files.iter().filter_map(|(path, text)| Some((source(path)?, text.clone())));
        let outside = rust.iter().filter(|(path, _)| source(path).is_none());
        let outside: Vec<_> = outside.map(|(_, code)| code).chain(&docs).collect();
        let PublicItemUsage { items, unused } =
            find_unused_public_items(library, &own.collect::<Vec<_>>(), &outside);
        let tenths = unused.len() * 1000 / items.max(1);
        report += &format!(
            "\n{library:20} {items:4} public, {:3} unused, {}.{} %",
            unused.len(),
            tenths / 10,
            tenths % 10
        );
        report.extend(unused.iter().map(|path| format!("\n  {path}")));
    }
    report
}

/// Returns the code of a file, and the code of the files in `src` that it includes with `#[path]`.
/// Such a file belongs to a test of the same crate, which compiles the included code outside of the
/// library.
fn with_path_attribute_modules(path: &str, text: &str, files: &[(String, String)]) -> String {
    let mut code = text.to_owned();
    for included in text.split("#[path = \"..").skip(1).filter_map(|rest| rest.split('"').next()) {
        let file = files.iter().find(|(other, _)| {
            other.strip_suffix(included).is_some_and(|folder| path.starts_with(folder))
        });
        code.extend(file.map(|(_, text)| format!("\n{text}")));
    }
    code
}

/// The number of public items of one library, and the unused items among them.
struct PublicItemUsage {
    /// Number of public items.
    items: usize,
    /// Paths of the public items that only the library itself uses.
    unused: Vec<String>,
}

/// Names in Rust code outside of the library: in other crates, examples, tests, benches, and code
/// in documents.
struct ExternalCode<'a> {
    words: BTreeSet<&'a str>,
    /// Names of methods: they stand after a dot.
    called: BTreeSet<&'a str>,
    /// Names that stand after `::`, each with the name before the `::`.
    pathed: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> ExternalCode<'a> {
    fn new(text: &'a str) -> Self {
        let all = tokenize(text);
        let mut called = BTreeSet::new();
        let mut pathed = BTreeSet::new();
        for three in all.windows(3) {
            match three {
                [".", name, "(" | "::"] => drop(called.insert(*name)),
                [owner, "::", name] => drop(pathed.insert((*owner, *name))),
                _ => {}
            }
        }
        Self { words: all.into_iter().collect(), called, pathed }
    }

    fn uses_item(&self, item: &LibraryItem<'_>, library: &str) -> bool {
        match item.owner {
            // A method call does not show the type of its receiver. In `Type<T>::name`, the `>`
            // before the `::` is the end of the generic arguments.
            Some(owner) => {
                let by_path = [owner, ">"].iter().any(|it| self.pathed.contains(&(it, item.name)));
                by_path || self.called.contains(item.name)
            }
            None => self.words.contains(library) && self.words.contains(item.name),
        }
    }
}

/// Returns the Rust code in the documentation of a file. In a Rust file, the doc comments are
/// searched. Any other file is read as Markdown.
fn code_in_docs(path: &str, text: &str) -> String {
    let is_rust = path.ends_with(".rs");
    let (mut found, mut is_code, mut is_fenced) = (String::new(), false, false);
    for line in text.lines() {
        let line = line.trim_start();
        let doc = ["///", "//!"].iter().find_map(|sign| line.strip_prefix(sign));
        let line = match (is_rust, doc) {
            (true, Some(doc)) => doc.trim_start(),
            (true, None) => {
                (is_code, is_fenced) = (false, false);
                continue;
            }
            (false, _) => line,
        };
        if let Some(info) = line.strip_prefix("```") {
            is_fenced = !is_fenced;
            is_code = is_fenced && !["text", "toml", "sh", "json", "console"].contains(&info);
        } else if is_code {
            found += line.strip_prefix("# ").unwrap_or(line);
            found.push('\n');
        }
    }
    found
}

/// Counts the public items of a library, and finds the public items that only the library itself
/// uses.
///
/// `library` is the crate name in Rust paths. `files` are the source files of the library, as pairs
/// of a path relative to `src` and the text. An item in the signature of a used item counts as
/// used, because such an item must be public.
fn find_unused_public_items(
    library: &str,
    files: &[(String, String)],
    outside: &[&ExternalCode<'_>],
) -> PublicItemUsage {
    let mut code = LibraryCode::default();
    for (path, text) in files {
        let Some(module) = module_of_file(path) else { continue };
        code.read_module(&module, &without_tests(tokenize(text)));
    }
    let public = code.public_items();
    let mut used: BTreeSet<usize> = public.clone();
    used.retain(|at| outside.iter().any(|text| text.uses_item(&code.items[*at], library)));
    loop {
        let mut named: BTreeSet<&str> = BTreeSet::new();
        for item in used.iter().map(|at| &code.items[*at]) {
            named.extend(item.face.iter().copied());
            named.extend(item.owner);
        }
        let kinds = code.associated.iter().filter(|(owner, _)| named.contains(owner));
        named.extend(kinds.flat_map(|(_, face)| face.iter().copied()).collect::<Vec<_>>());
        let before = used.len();
        used.extend(public.iter().copied().filter(|at| {
            let item = &code.items[*at];
            item.owner.is_none() && named.contains(item.name)
        }));
        if used.len() == before {
            break;
        }
    }
    let paths: BTreeSet<_> = public.iter().map(|at| code.items[*at].full_path()).collect();
    let used: BTreeSet<_> = used.iter().map(|at| code.items[*at].full_path()).collect();
    PublicItemUsage { items: paths.len(), unused: paths.difference(&used).cloned().collect() }
}

/// Returns the module that a source file defines. Returns `None` for a file of tests.
fn module_of_file(path: &str) -> Option<ModulePath> {
    let mut names: Vec<_> = path.strip_suffix(".rs")?.split('/').collect();
    if names.contains(&"tests") {
        return None;
    }
    // A module may have one file per operating system. These files count as the same module.
    let name = names.pop()?.trim_end_matches("_linux").trim_end_matches("_portable");
    names.extend((name != "lib").then_some(name));
    Some(names.into_iter().map(str::to_owned).collect())
}

/// An item of a module, or a function or a constant in an `impl` block.
struct LibraryItem<'a> {
    module: ModulePath,
    /// The type to which the `impl` block of the item belongs.
    owner: Option<&'a str>,
    name: &'a str,
    is_public: bool,
    /// The tokens of the item's interface: its signature, public fields, or variants.
    face: Vec<&'a str>,
}

impl LibraryItem<'_> {
    fn full_path(&self) -> String {
        let module = self.module.iter().map(String::as_str);
        module.chain(self.owner).chain([self.name]).collect::<Vec<_>>().join("::")
    }
}

struct UseDeclaration<'a> {
    module: ModulePath,
    leaf: UsePath<'a>,
    is_public: bool,
}

/// The items, modules and `use` items of a library, found in its source files.
#[derive(Default)]
struct LibraryCode<'a> {
    items: Vec<LibraryItem<'a>>,
    uses: Vec<UseDeclaration<'a>>,
    /// All modules of the library. The value of an entry is true if the module is public in its
    /// parent.
    modules: BTreeMap<ModulePath, bool>,
    /// Tokens of associated types in `impl` blocks of traits, each with the type that implements
    /// the trait.
    associated: Vec<(&'a str, Vec<&'a str>)>,
}

/// The module or item to which a path refers.
enum PathTarget {
    Module(ModulePath),
    Item(usize),
}

impl<'a> LibraryCode<'a> {
    fn read_module(&mut self, module: &ModulePath, words: &[&'a str]) {
        self.modules.entry(module.clone()).or_default();
        for part in split_into_items(words) {
            let ItemTokens { keyword, is_public, words, .. } = part;
            match keyword {
                "mod" => {
                    let inner = [&module[..], &[part.name.to_owned()]].concat();
                    *self.modules.entry(inner.clone()).or_default() |= is_public;
                    if let Some(body) = part.body {
                        self.read_module(&inner, body);
                    }
                }
                "use" => {
                    let mut leaves = Vec::new();
                    parse_use_tree(words, &mut Vec::new(), &mut leaves);
                    let module = || module.clone();
                    let leaves = leaves.into_iter();
                    self.uses.extend(leaves.map(|leaf| UseDeclaration {
                        module: module(),
                        leaf,
                        is_public,
                    }));
                }
                "impl" => self.read_impl(module, words, part.body.unwrap_or_default()),
                _ => {
                    let face = part.signature_tokens();
                    let (module, name) = (module.clone(), part.name);
                    self.items.push(LibraryItem { module, owner: None, name, is_public, face });
                }
            }
        }
    }

    /// Reads the functions and constants of an `impl` block. `words` are the tokens after the
    /// keyword `impl`.
    fn read_impl(&mut self, module: &ModulePath, words: &[&'a str], body: &[&'a str]) {
        let head = &words[generics_len(words)..];
        let for_trait = |pair: &[&str]| pair[0] == "for" && pair[1] != "<";
        let of = head.windows(2).take_while(|pair| pair[0] != "{").position(for_trait);
        let owner = &head[of.map_or(0, |at| at + 1)..];
        let end = owner.iter().position(|word| ["<", "{", "where"].contains(word));
        let name = owner[..end.unwrap_or(owner.len())].iter().rfind(|word| is_name(word));
        let Some(&owner) = name else { return };
        for part in split_into_items(body) {
            if of.is_none() {
                let face = part.signature_tokens();
                let (module, name, is_public) = (module.clone(), part.name, part.is_public);
                self.items.push(LibraryItem { module, owner: Some(owner), name, is_public, face });
            } else if part.keyword == "type" {
                self.associated.push((owner, part.words.to_vec()));
            }
        }
    }

    /// Returns the indices of all public items in `self.items`.
    fn public_items(&self) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        self.collect_reachable_items(&ModulePath::new(), &mut BTreeSet::new(), &mut found);
        let is_public = |item: &LibraryItem<'_>| {
            let Some(owner) = item.owner else { return false };
            let of = |at: &usize| self.items[*at].owner.is_none() && self.items[*at].name == owner;
            let here = |it: &LibraryItem<'_>| it.module == item.module && it.owner.is_none();
            let is_here = self.items.iter().any(|it| here(it) && it.name == owner);
            let mut owners = found.iter().filter(|at| of(at));
            item.is_public && owners.any(|at| !is_here || here(&self.items[*at]))
        };
        let owned: Vec<_> =
            (0..self.items.len()).filter(|at| is_public(&self.items[*at])).collect();
        found.extend(owned);
        found
    }

    fn collect_reachable_items(
        &self,
        module: &ModulePath,
        seen: &mut BTreeSet<ModulePath>,
        found: &mut BTreeSet<usize>,
    ) {
        if !seen.insert(module.clone()) {
            return;
        }
        for (at, item) in self.items.iter().enumerate() {
            if item.module == *module && item.is_public && item.owner.is_none() {
                found.insert(at);
            }
        }
        for (inner, is_public) in &self.modules {
            if *is_public && inner.split_last().is_some_and(|(_, parent)| parent == module) {
                self.collect_reachable_items(inner, seen, found);
            }
        }
        for other in self.uses.iter().filter(|it| it.module == *module && it.is_public) {
            for target in self.resolve_path(module, &other.leaf.path, 0) {
                match target {
                    PathTarget::Module(inner) => self.collect_reachable_items(&inner, seen, found),
                    PathTarget::Item(at) => drop(found.insert(at)),
                }
            }
        }
    }

    /// Returns the modules and items to which a path can refer.
    fn resolve_path(&self, from: &ModulePath, path: &[&str], depth: usize) -> Vec<PathTarget> {
        let (Some((first, rest)), true) = (path.split_first(), depth < 16) else {
            return vec![PathTarget::Module(from.clone())];
        };
        let mut next = match *first {
            "crate" => vec![PathTarget::Module(ModulePath::new())],
            "self" | "*" => vec![PathTarget::Module(from.clone())],
            "super" => vec![PathTarget::Module(from[..from.len().saturating_sub(1)].to_vec())],
            name => self.resolve_name(from, name, depth),
        };
        if rest.is_empty() {
            return next;
        }
        next.retain(|target| matches!(target, PathTarget::Module(_)));
        let inner = |target| match target {
            PathTarget::Module(module) => self.resolve_path(&module, rest, depth + 1),
            PathTarget::Item(_) => Vec::new(),
        };
        next.into_iter().flat_map(inner).collect()
    }

    fn resolve_name(&self, module: &ModulePath, name: &str, depth: usize) -> Vec<PathTarget> {
        let is_it = |item: &LibraryItem<'_>| {
            item.module == *module && item.owner.is_none() && item.name == name
        };
        let places = (0..self.items.len()).filter(|at| is_it(&self.items[*at]));
        let mut found: Vec<_> = places.map(PathTarget::Item).collect();
        let inner = [&module[..], &[name.to_owned()]].concat();
        if self.modules.contains_key(&inner) {
            found.push(PathTarget::Module(inner));
        }
        let uses = self.uses.iter().filter(|it| it.module == *module && it.leaf.name == name);
        if found.is_empty() {
            found.extend(uses.flat_map(|it| self.resolve_path(module, &it.leaf.path, depth + 1)));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::{ExternalCode, code_in_docs, find_unused_public_items, report_unused_public_items};

    fn check(files: &[(&str, &str)], outside: &[&str], items: usize, unused: &[&str]) {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        let files: Vec<_> = files.iter().map(owned).collect();
        let outside: Vec<_> = outside.iter().map(|text| ExternalCode::new(text)).collect();
        let found =
            find_unused_public_items("made_up", &files, &outside.iter().collect::<Vec<_>>());
        assert_eq!(
            (found.items, found.unused),
            (items, unused.iter().map(|it| (*it).to_owned()).collect())
        );
    }

    #[test]
    fn items_that_public_modules_and_re_exports_reach_are_public() {
        let files = [
            (
                "lib.rs",
                "pub mod open; mod shut; pub(crate) mod own; pub use shut::{Seen as Shown, inner};",
            ),
            (
                "open.rs",
                "pub fn one() {} pub(crate) fn two() {} fn three() {} pub mod deep { pub const C: u8 = 1; }",
            ),
            (
                "shut.rs",
                "pub struct Seen; pub struct Unseen; pub mod inner; pub use crate::own::Far;",
            ),
            ("shut/inner.rs", "pub use super::super::own::Far; pub static S: [u8; 2] = [1, 2];"),
            ("own.rs", "pub enum Far {} #[cfg(test)] pub fn tested() {}"),
            ("own/tests.rs", "pub fn more() {}"),
        ];
        let all = ["open::deep::C", "open::one", "own::Far", "shut::Seen", "shut::inner::S"];
        check(&files, &[], 5, &all);
    }

    #[test]
    fn an_item_is_used_by_code_that_names_it_and_its_crate() {
        let files = [("lib.rs", "pub fn one() {} pub fn two() {} pub fn three() {}")];
        check(
            &files,
            &["use made_up::one;", "fn two() {}", "// made_up::three"],
            3,
            &["three", "two"],
        );
    }

    #[test]
    fn functions_of_public_types_count_and_those_of_private_ones_or_of_traits_do_not() {
        let files = [(
            "lib.rs",
            "pub struct A<T>(T); struct B; \
             impl<T: Fn() -> u8> A<T> { pub fn new() -> Self { 1 } pub fn go(&self) {} pub fn rest() {} fn own() {} } \
             impl B { pub fn hidden() {} } impl Default for A<u8> { fn default() -> Self { 1 } }",
        )];
        check(&files, &["made_up::A::new().go(); Vec::rest();"], 4, &["A::rest"]);
    }

    #[test]
    fn items_in_the_signature_of_a_used_item_count_as_used() {
        let files = [(
            "lib.rs",
            "pub fn f() -> Out { Inner } pub struct Out { pub a: Field, b: Inner } pub struct Field; \
             pub struct Inner; pub struct Wait; pub enum Never { A(Inner) } \
             impl Future for Out { type Output = Wait; fn poll(&self) -> Never { loop {} } }",
        )];
        check(&files, &["made_up::f();"], 6, &["Inner", "Never"]);
    }

    #[test]
    fn code_in_docs_is_a_use_and_prose_is_not() {
        let rust = "//! one\n//! ```\n//! # made_up::two();\n//! ```\n//! three\nfn four() {}";
        assert_eq!(code_in_docs("lib.rs", rust), "made_up::two();\n");
        let markdown = "one\n```rust\ntwo\n```\n```toml\nthree = 1\n```\n";
        assert_eq!(code_in_docs("README.md", markdown), "two\n");
    }

    #[test]
    fn the_report_counts_other_crates_and_programs_but_not_its_own_tests() {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let files = [
            file(
                "crates/a/src/lib.rs",
                "pub fn one() {} pub fn two() {} pub fn three() {} pub fn four() {}",
            ),
            file("crates/a/src/inner.rs", "fn inner() { crate::four() }"),
            file("crates/a/src/tests.rs", "use made_up::three;"),
            file("crates/a/src/main.rs", "use made_up::one;"),
            file(
                "crates/a/tests/t.rs",
                "use made_up as _; #[path = \"../src/inner.rs\"] mod inner;",
            ),
            file("crates/b/src/inner.rs", "use made_up::three_of_another;"),
            file("crates/b/src/lib.rs", "use made_up::two;"),
        ];
        let report =
            report_unused_public_items(&[("made_up".to_owned(), "crates/a".to_owned())], &files);
        let (_, report) = report.split_once('\n').unwrap();
        assert_eq!(report, "made_up                 4 public,   1 unused, 25.0 %\n  three");
    }
}
