//! Tests that no input can bring a hidden character into a title.

use acp_lifecycle::{Effect, Effects, PermissionSubject, PermitDecision, Titles};
use acp_tools::CATALOGUES;
use acp_types::Progress;
use serde_json::{Value, json};

use super::hostile_texts::HOSTILE;
use super::title_session::{TitleSession, args};

/// Characters from the hostile texts that may appear in a title unescaped.
const HARMLESS: [char; 4] = ['👩', '👧', '\u{20e3}', '…'];

#[track_caller]
fn check(title: &str, hostile: &str, way: &str) {
    let raw = title.chars().find(|letter| {
        let is_plain = (' '..='~').contains(letter) || HARMLESS.contains(letter);
        !is_plain && hostile.contains(*letter)
    });
    assert_eq!(raw, None, "{way}: {title:?}");
    assert!(!title.trim().is_empty(), "{way}: no title for {hostile:?}");
}

#[test]
fn the_table_is_long_and_nothing_in_it_is_plain() {
    assert!(HOSTILE.len() >= 60, "{}", HOSTILE.len());
    for (name, hostile) in HOSTILE {
        let is_hostile =
            |letter: char| !(' '..='~').contains(&letter) && !HARMLESS.contains(&letter);
        assert!(hostile.contains(is_hostile), "{name}");
        let twins = HOSTILE.iter().filter(|(_, other)| other == hostile);
        assert_eq!(twins.count(), 1, "{name}");
    }
}

#[test]
fn no_message_shows_an_argument_raw() {
    for (locale, _) in CATALOGUES {
        let titles = Titles::negotiate(CATALOGUES, locale).unwrap();
        for (name, hostile) in HOSTILE {
            let value = |text: &str| [("command", text.to_owned())];
            check(&titles.render("terminal", &value(hostile)), hostile, name);
            check(&titles.render("no-such-key", &value(hostile)), hostile, name);
            check(&titles.render(&format!("key{hostile}"), &[]), hostile, name);
            let long = format!("{hostile}{}", "x".repeat(5_000));
            check(&titles.render("terminal", &value(&long)), hostile, name);
        }
    }
}

#[test]
fn no_tool_shows_an_argument_raw_in_title_or_metadata() {
    for (locale, _) in CATALOGUES {
        let mut stage = TitleSession::new(locale);
        let tools: Vec<_> =
            stage.registry.definitions_for_model().map(|tool| tool.spec.name).collect();
        for (name, hostile) in HOSTILE {
            for tool in &tools {
                let report = stage.describe(tool, &args(tool, &format!("a{hostile}b")));
                check(&report.title, hostile, &format!("{name} in {tool}"));
                let title = report.meta.title.expect("a title has a key");
                let arguments = title["arguments"].as_object().unwrap();
                // The title of `undo` has no arguments to check.
                assert_eq!(arguments.is_empty(), tool == "undo", "{tool}");
                for value in arguments.values().filter_map(Value::as_str) {
                    check(value, hostile, &format!("{name} in the metadata of {tool}"));
                }
            }
        }
    }
}

#[test]
fn no_foreign_name_subtitle_or_progress_is_shown_raw() {
    let mut stage = TitleSession::new("en");
    for (name, hostile) in HOSTILE {
        let open = stage.announce(&format!("mcp__server__{hostile}"));
        let report = stage.report(&open);
        check(&report.title, hostile, name);
        check(&report.name, hostile, name);
        open.handle().set_subtitle(Some(&format!("x{hostile}")));
        check(&stage.report(&open).title, hostile, name);
        let message = Some(format!("{hostile}y"));
        open.handle().report_progress(Progress::new(1.0).with_total(3.0).with_message(message));
        let title = stage.report(&open).title;
        assert!(title.contains(" · 1/3 "), "{title}");
        check(&title, hostile, name);
    }
}

#[test]
fn no_option_shows_an_effect_raw() {
    let mut stage = TitleSession::new("en");
    let subject = PermissionSubject::for_call("x", &json!({}), "/".as_ref(), b"");
    for (name, hostile) in HOSTILE {
        let text = || format!("a{hostile}b");
        let effects = [
            Effect::Run { command: text(), cwd: format!("/{hostile}").into() },
            Effect::Write(format!("/{hostile}").into()),
            Effect::Delete(format!("/{hostile}").into()),
            Effect::Connect(text()),
            Effect::Mcp { server: text(), tool: text(), definition: String::new() },
        ];
        for effect in effects {
            let open = stage.announce("x");
            let (id, effects) = (open.handle().id(), Effects::from(effect));
            let options = stage.session.update(|session, now| {
                let permit =
                    session.decide_or_ask_permission(id, &effects, subject.clone(), true, now);
                let PermitDecision::AwaitingAnswer(number) = permit else { panic!("{permit:?}") };
                session.pending_permission_request(number).unwrap().options.clone()
            });
            assert_eq!(options.len(), 4, "{name}");
            options.iter().for_each(|option| check(&option.name, hostile, name));
        }
    }
}

#[cfg(unix)]
#[test]
fn a_path_that_is_not_utf8_is_shown_without_hidden_characters() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    // The path contains an incomplete character, a surrogate, and a character that reverses the
    // text direction.
    let path = OsStr::from_bytes(b"/p/a\xe2\x80b\xed\xa0\x80c\xe2\x80\xaed");
    let shown = acp_lifecycle::session::display_path(path.as_ref(), "/p".as_ref());
    assert_eq!(shown, r"$'a\xe2\x80b\xed\xa0\x80c\xe2\x80\xaed'");
}
