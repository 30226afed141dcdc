//! Tests of edits of the text: only the server changes.

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn fields() -> Vec<(&'static str, Value)> {
    vec![
        ("command", "npx".into()),
        ("args", Value::Array(vec!["-y".into(), "a \"b\" \\ 'c'".into()])),
        ("env", Value::Table(Table::from_iter([("LOG LEVEL".to_owned(), "info".into())]))),
    ]
}

fn add(text: &str, name: &str) -> Result<String, TextEditError> {
    add_server(text, name, &fields())
}

#[test]
fn a_section_is_appended_and_removed() {
    let text = "# mine\nmodel = 'direct' # why\n\n[unknown]\n  key=1\n# key_env = \"X\"\n";
    let added = add(text, "one").unwrap();
    let (head, section) = added.split_once("\n[mcp_servers.one]\n").unwrap();
    assert_eq!(head, text);
    assert_eq!(section.lines().count(), 3, "{section}");
    assert!(section.starts_with("command = \"npx\"\nargs = [\"-y\", "), "{section}");
    assert_eq!(remove_server(&added, "one").unwrap(), text);
    let two = add(&added, "two").unwrap();
    assert_eq!(remove_server(&two, "one").unwrap(), add(text, "two").unwrap());
    assert_eq!(add(&two, "one"), Err(TextEditError::Exists { place: head.len() + 14 }));
    assert_eq!(remove_server(&added, "two"), Err(TextEditError::Missing));
    assert_eq!(remove_server("", "two"), Err(TextEditError::Missing));
}

#[test]
fn names_are_quoted_if_they_need_it() {
    for name in
        ["a", "a.b", "a b", "a\"b", "a'b", "a\\b", "größe", "服务", "1", "-", "#", "]", "a=b"]
    {
        let added = add("x = 1\n", name).unwrap();
        let table: Table = added.parse().unwrap();
        assert!(table["mcp_servers"].as_table().unwrap().contains_key(name), "{added}");
        assert_eq!(remove_server(&added, name).unwrap(), "x = 1\n", "{added}");
        let inline = add("mcp_servers = { z = { url = 'u' } }\n", name).unwrap();
        let back = remove_server(&inline, name).unwrap();
        assert_eq!(back, "mcp_servers = { z = { url = 'u' } }\n", "{inline}");
    }
    assert!(add("", "a.b").unwrap().starts_with("[mcp_servers.\"a.b\"]\n"));
    assert!(add("", "a-b_1").unwrap().starts_with("[mcp_servers.a-b_1]\n"));
}

#[test]
fn a_server_is_removed_with_its_comments_in_each_form() {
    for (text, expected) in [
        // Sections. Some of the comments belong to the removed section.
        ("[mcp_servers.b]\ncommand = 'x'\n", ""),
        ("[mcp_servers.b]\ncommand = 'x'\n\n[c]\n", "[c]\n"),
        ("[mcp_servers.b]\ncommand = 'x'\n[c]\n", "[c]\n"),
        ("a = 1\n\n# about b\n# more\n[mcp_servers.b]\ncommand = 'x'\n\n[c]\n", "a = 1\n\n[c]\n"),
        ("a = 1\n# about a\n\n[mcp_servers.b]\nurl = 'x'\n", "a = 1\n# about a\n"),
        ("[a]\nx = 1\n\n[mcp_servers.b]\nurl = 'x'\n[c]\n", "[a]\nx = 1\n\n[c]\n"),
        ("[mcp_servers.b]\nurl = 'x'\n\n# about c\n[c]\n", "# about c\n[c]\n"),
        ("[mcp_servers.b]\nurl = 'x'\n# about c\n[c]\n", "# about c\n[c]\n"),
        ("a = 1\r\n\r\n[mcp_servers.b]\r\nurl = 'x'\r\n\r\n[c]\r\n", "a = 1\r\n\r\n[c]\r\n"),
        ("a = 1\n\n[mcp_servers.b]\nurl = 'x'", "a = 1\n"),
        // Several sections of one server, next to each other or with another section between them.
        (
            "[mcp_servers.b]\n# c\nurl = 'x'\n\n# the tools\n[mcp_servers.b.tools]\nallow = ['[c]']\n\n[c]\n",
            "[c]\n",
        ),
        (
            "[mcp_servers.b.env]\nA = '1'\n\n[mcp_servers.bb]\nurl = 'y'\n\n[mcp_servers.b]\nurl = 'x'\n",
            "[mcp_servers.bb]\nurl = 'y'\n",
        ),
        // Values over several lines, one of which looks like a comment or a section.
        (
            "a = \"\"\"\n# text\"\"\"\n[mcp_servers.b]\nargs = [\n  '#', # c\n\n  'x',\n]\nenv.X = '''\n[c]\n'''\n\n[c]\n",
            "a = \"\"\"\n# text\"\"\"\n\n[c]\n",
        ),
        // In a section of all servers, and with dotted keys.
        (
            "[mcp_servers]\na = {}\n# b\nb = { url = 'x' }\n# c\nc = {}\n",
            "[mcp_servers]\na = {}\n# c\nc = {}\n",
        ),
        ("[mcp_servers]\nb.url = 'x'\nc.url = 'y'\nb.args = []\n", "[mcp_servers]\nc.url = 'y'\n"),
        ("x = 1\nmcp_servers.b.url = 'x'\ny = 2\n", "x = 1\ny = 2\n"),
        ("mcp_servers.b = { url = 'x' }\nmcp_servers.c = {}\n", "mcp_servers.c = {}\n"),
        ("x = 1\n\nmcp_servers.b.url = 'x'\ny = 2\n", "x = 1\n\ny = 2\n"),
        ("[[mcp_servers.b]]\nurl = 'x'\n[[mcp_servers.b]]\n[c]\n", "[c]\n"),
        // In braces.
        ("mcp_servers = { b = { url = 'x' } } # c\n", "mcp_servers = { } # c\n"),
        ("mcp_servers = { b = {}, c = {} }\n", "mcp_servers = { c = {} }\n"),
        (
            "mcp_servers = { a = {}, b = {}, c.url = 'x' }\n",
            "mcp_servers = { a = {}, c.url = 'x' }\n",
        ),
        (
            "mcp_servers = {\n  a.url = 'x', # a\n  b = {}, # b\n}\n",
            "mcp_servers = {\n  a.url = 'x', # b\n}\n",
        ),
        ("mcp_servers = { b = {}, }\n", "mcp_servers = { }\n"),
    ] {
        assert_eq!(remove_server(text, "b").as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn a_server_is_added_in_each_form() {
    for (text, is_inline) in [
        ("", false),
        ("a = 1", false),
        ("\u{feff}a = 1\n", false),
        ("[mcp_servers]\nc = { url = 'x' }\n", false),
        ("mcp_servers.c.url = 'x'\n", false),
        ("[mcp_servers.c.tools]\nallow = []\n", false),
        ("mcp_servers = {}\n", true),
        ("mcp_servers = { c = { url = 'x' } } # end\n", true),
        ("mcp_servers = { c.url = 'x', d.url = 'y' }\n", true),
        ("mcp_servers = {\n  c = {}, # c\n}\n", true),
    ] {
        let added = add(text, "b").unwrap();
        assert_eq!(added.contains("[mcp_servers.b]"), !is_inline, "{added}");
        assert_eq!(remove_server(&added, "b").unwrap().trim_end(), text.trim_end(), "{added}");
    }
    assert!(add("a = 1\r\n", "b").unwrap().starts_with("a = 1\r\n\r\n[mcp_servers.b]\r\ncommand"));
}

#[test]
fn a_text_that_cannot_be_edited_is_refused() {
    for (text, expected) in [
        ("a = 1\nb = \n", "Syntax"),
        ("a = 1\na = 2\n", "Syntax"),
        ("[mcp_servers.b\n", "Syntax"),
        ("mcp_servers = 3\n", "Form { place: 14 }"),
        ("[[mcp_servers]]\nb = 1\n", "Form { place: 0 }"),
        // The key is in two places of one line.
        ("mcp_servers = { b.url = 'x', c = {}, b.args = [] }\n", "Form { place: 16 }"),
    ] {
        let error = format!("{:?}", remove_server(text, "b").unwrap_err());
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    assert_eq!(add("mcp_servers = 3\n", "b"), Err(TextEditError::Form { place: 14 }));
    let secret = format!("{:?}", add("key = 'sk-1234567890\n", "b").unwrap_err());
    assert!(!secret.contains("sk-1234"), "{secret}");
}

/// Lines and sections of a configuration file.
const PIECES: [&str; 12] = [
    "# a comment\n",
    "\n",
    "  \n",
    "[terminal] # c\nenv_pass = ['A']\n",
    "[providers.openai]\nmodels = [\n  'x',\n\n  # 'y',\n]\n",
    "[mcp_servers.a]\ncommand = \"\"\"\n# x\n\"\"\"\n",
    "[mcp_servers.\"b.c\"]\nurl = 'u'\n",
    "[mcp_servers.\"b.c\".tools]\ndeny = []\n",
    "[mcp_servers]\n",
    "[mcp_servers]\nd = { url = 'u' }\n# d\ne.url = 'u'\n",
    "[unknown]\nmcp_servers = {}\n",
    "[web.search]\nservice='brave'\n",
];

/// Beginnings of a configuration file, before its sections.
const HEADS: [&str; 6] = [
    "",
    "\u{feff}# top\n\nmodel = 'direct'\n",
    "mcp_servers = { x = { url = 'u' } }\n",
    "mcp_servers = {}\n",
    "mcp_servers.x.url = 'u'\n",
    "mcp_servers = {\n  x = { }, # x\n  y.url = 'u',\n}\n",
];

proptest! {
    #[test]
    fn a_server_that_is_added_and_removed_leaves_no_trace(
        head in prop::sample::select(&HEADS[..]),
        pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..6),
        name in "[a-fx]|b\\.c|\\PC{1,8}",
        value in any::<String>(),
        is_crlf in any::<bool>(),
    ) {
        // Some combinations would define a table twice.
        let text = pieces.into_iter().fold(head.to_owned(), |text, piece| {
            let more = format!("{text}{piece}");
            if more.parse::<Table>().is_ok() { more } else { text }
        });
        let text = if is_crlf { text.replace('\n', "\r\n") } else { text };
        let fields = [("command", Value::from(value.clone())), ("args", vec![value].into())];
        match add_server(&text, &name, &fields) {
            Ok(added) => prop_assert_eq!(remove_server(&added, &name), Ok(text)),
            Err(TextEditError::Exists { .. }) => {
                let removed = remove_server(&text, &name).unwrap();
                prop_assert!(add_server(&removed, &name, &fields).is_ok(), "{}", removed);
            }
            Err(error) => prop_assert!(false, "{text}: {error:?}"),
        }
    }
}
