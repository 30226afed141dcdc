//! The command line as clients write it, read without the parser of all command lines: to build
//! that one takes longer than all else that there is to do before the first answer.

use std::ffi::OsString;

use clap::ValueEnum as _;

use super::args::{AgentArgs, Cli, Command, ServeArgs};
use crate::mode::Mode;

/// Reads `[acp] [--model MODEL] [--mode MODE] [--locale LOCALE]`, behind the program's name; none
/// if the words are anything else, or could be. Then they are the parser's.
pub(super) fn read(words: impl IntoIterator<Item = OsString>) -> Option<Cli> {
    let mut words = words.into_iter().map(OsString::into_string).peekable();
    let is_named = words.next_if(|word| word.as_deref() == Ok("acp")).is_some();
    let mut agent = AgentArgs::default();
    while let Some(flag) = words.next() {
        let value = words.next()?.ok().filter(|value| !value.is_empty() && !value.starts_with('-'));
        let value = Some(value?);
        let was = match flag.ok()?.as_str() {
            "--model" => std::mem::replace(&mut agent.model, value).is_some(),
            "--locale" => std::mem::replace(&mut agent.locale, value).is_some(),
            "--mode" => {
                let mode = Mode::from_str(&value?, false).ok()?;
                agent.mode.replace(mode).is_some()
            }
            _ => return None,
        };
        if was {
            return None;
        }
    }
    let serve = ServeArgs { agent, setup: false };
    Some(match is_named {
        true => Cli { command: Some(Command::Acp(serve)), serve: ServeArgs::default() },
        false => Cli { command: None, serve },
    })
}

#[cfg(test)]
mod tests {
    use super::{Cli, read};
    use clap::Parser as _;
    use proptest::prelude::*;

    fn plain(words: &[&str]) -> Option<String> {
        read(words.iter().map(Into::into)).map(|cli| format!("{cli:?}"))
    }

    fn parsed(words: &[&str]) -> String {
        format!("{:?}", Cli::try_parse_from([&["callboard"], words].concat()).unwrap())
    }

    #[test]
    fn what_clients_write_needs_no_parser() {
        for words in [
            &[][..],
            &["acp"],
            &["acp", "--model", "openai/m"],
            &["--mode", "ask"],
            &["acp", "--mode", "auto", "--locale", "de", "--model", "script:a b"],
        ] {
            assert_eq!(plain(words), Some(parsed(words)), "{words:?}");
        }
    }

    #[test]
    fn all_else_is_the_parsers() {
        for words in [
            &["acp", "--help"][..],
            &["exec", "hi"],
            &["acp", "acp"],
            &["acp", "--model"],
            &["acp", "--model=direct"],
            &["acp", "--model", "-"],
            &["acp", "--model", ""],
            &["acp", "--mode", "Ask"],
            &["acp", "--locale", "de", "--locale", "en"],
            &["acp", "--setup"],
            &["--model", "direct", "acp"],
        ] {
            assert_eq!(plain(words), None, "{words:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_read_as_the_parser_reads_it(
            words in prop::collection::vec(prop::sample::select(vec![
                "acp", "--model", "--mode", "--locale", "--setup", "--", "-", "ask", "auto", "direct",
                "models", "exec", "config", "help", "", "--mode=ask", "read-only", "ASK", "a b",
            ]), 0..6),
        ) {
            if let Some(read) = plain(&words) {
                prop_assert_eq!(read, parsed(&words));
            }
        }
    }
}
