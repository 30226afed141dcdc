//! Variables that a builtin sets or removes.

use crate::parser::arithmetic::is_understood_name;
use crate::parser::{ShellWord, is_assignment};
use crate::risks::wrapped::wrapped_command;
use crate::risks::{RiskFinder, program_name, skip_double_dash, tables};

impl RiskFinder<'_> {
    /// Returns a variable that a builtin sets, exports or removes, if this may change the behaviour
    /// of programs or of the shell. `is_plain` states that the builtin is the first word of the
    /// command, and written without quotes.
    pub(super) fn variable_set_by_builtin<'w>(
        &mut self,
        program: &ShellWord,
        args: &'w [ShellWord],
        is_plain: bool,
    ) -> Option<&'w str> {
        let program = program_name(program);
        match &*program {
            "declare" | "export" | "local" | "readonly" | "typeset" => {
                self.variable_set_by_declare(&program, args, is_plain)
            }
            "exec" => option_that_removes_all(args),
            "for" | "select" => args.first().and_then(|name| self.risky_name(&name.text)),
            "getopts" => self.variable_set_by_getopts(args),
            "let" => {
                args.iter().for_each(|word| self.check_arithmetic(&word.text));
                args.iter().find(|word| word.expands).map(|word| &*word.text)
            }
            "mapfile" | "readarray" => match BuiltinArgs::parse(args, "t", "dnOsu") {
                Ok(parsed) => parsed.operand_texts().find_map(|name| self.risky_name(name)),
                Err(word) => Some(&word.text),
            },
            "printf" => self.variable_set_by_printf(args),
            "read" => self.variable_set_by_read(args),
            "set" => unclear_set_option(args),
            "shopt" => unclear_shopt_option(args),
            "unset" => match BuiltinArgs::parse(args, "fnv", "") {
                Ok(parsed) => parsed.operand_texts().find_map(|name| self.risky_name(name)),
                Err(word) => Some(&word.text),
            },
            "wait" => match BuiltinArgs::parse(args, "fn", "p") {
                Ok(parsed) => parsed.values_of('p').find_map(|name| self.risky_name(name)),
                Err(word) => word.text.starts_with('-').then_some(&*word.text),
            },
            _ => None,
        }
    }

    fn variable_set_by_getopts<'w>(&mut self, args: &'w [ShellWord]) -> Option<&'w str> {
        let operands = skip_double_dash(args);
        let letters = operands.first()?;
        if letters.expands || letters.text.starts_with('-') {
            return Some(&letters.text);
        }
        let variable = operands.get(1)?;
        self.risky_name(&variable.text)
    }

    fn variable_set_by_printf<'w>(&mut self, args: &'w [ShellWord]) -> Option<&'w str> {
        let parsed = match BuiltinArgs::parse(args, "", "v") {
            Ok(parsed) => parsed,
            Err(word) => {
                // The option `-v` ends with the name of a variable.
                let ends_literally = ["\\n", "\n", " ", ":", "."];
                let is_format = !word.may_split
                    && !word.text.starts_with('-')
                    && ends_literally.iter().any(|end| word.text.ends_with(end));
                return (!is_format || assigns_count(&word.text)).then_some(&word.text);
            }
        };
        let mut operands = parsed.operand_texts();
        let counts = operands.next().is_some_and(assigns_count);
        let counted = operands.filter(|_| counts);
        parsed.values_of('v').chain(counted).find_map(|name| self.risky_name(name))
    }

    fn variable_set_by_read<'w>(&mut self, args: &'w [ShellWord]) -> Option<&'w str> {
        let parsed = match BuiltinArgs::parse(args, "eErs", "adinNptu") {
            Ok(parsed) => parsed,
            Err(word) => return Some(&word.text),
        };
        parsed.values_of('a').chain(parsed.operand_texts()).find_map(|name| self.risky_name(name))
    }

    /// Returns a variable that a builtin such as `declare` sets or exports, or an option with which
    /// the builtin may set another variable than it names.
    fn variable_set_by_declare<'w>(
        &mut self,
        program: &str,
        args: &'w [ShellWord],
        is_plain: bool,
    ) -> Option<&'w str> {
        let is_option = |word: &&ShellWord| word.text.starts_with(['-', '+']) && word.text != "--";
        let (options, rest) = args.split_at(args.iter().take_while(is_option).count());
        let operands = skip_double_dash(rest);
        let is_known = |word: &ShellWord| {
            !word.expands && word.text[1..].bytes().all(|letter| b"AFafgilprux".contains(&letter))
        };
        if let Some(word) = options.iter().find(|word| !is_known(word)) {
            return Some(&word.text);
        }
        let has = |letters: &[char]| options.iter().any(|word| word.text.contains(letters));
        let exports = program == "export" || has(&['x']);
        if has(&['f', 'F']) {
            // Each shell that a program starts receives an exported function.
            return operands.first().filter(|_| exports).map(|word| &*word.text);
        }
        self.declares_integers |= has(&['i']);
        let prints = has(&['p']) && matches!(program, "declare" | "typeset");
        let mut risky = None;
        for word in operands {
            let name = word.text.split('=').next().unwrap_or_default();
            if has(&['i']) {
                self.check_arithmetic(word.text.split_once('=').map_or("", |(_, value)| value));
            }
            let is_risky = match word.text.contains('=') {
                true => self.is_risky_declaration(word, exports, is_plain),
                false if exports => word.expands || tables::is_risky_variable_name(name),
                false => word.expands || !prints && self.is_risky_in_shell(name),
            };
            risky = risky.or_else(|| is_risky.then_some(name));
        }
        risky
    }

    /// Returns whether an assignment in the arguments of a builtin such as `declare` may change the
    /// behaviour of programs or of the shell.
    fn is_risky_declaration(&mut self, word: &ShellWord, exports: bool, is_plain: bool) -> bool {
        let (name, value) = word.text.split_once('=').unwrap_or_default();
        // The shell evaluates such a value as the elements of an array.
        if value.starts_with('(') {
            self.add_evaluation(&word.text);
        }
        // The shell splits a value unless it recognizes the assignment when it parses the line.
        let is_split = word.may_split && !(is_plain && is_assignment(&word.source));
        is_split
            || !is_understood_name(name.strip_suffix('+').unwrap_or(name))
            || match exports {
                true => tables::risky_variable_in_assignment(word).is_some(),
                false => self.risky_in_shell(word).is_some(),
            }
    }
}

/// The arguments of a builtin whose options precede its operands.
struct BuiltinArgs<'w> {
    /// The letters and the values of the options that have a value.
    values: Vec<(char, &'w str)>,
    operands: &'w [ShellWord],
}

impl<'w> BuiltinArgs<'w> {
    /// Parses the arguments of a builtin. `flags` are the letters of options without a value, and
    /// `values` are the letters of options with a value. The error is a word that is not
    /// understood, or that may be an option when the line runs.
    fn parse(args: &'w [ShellWord], flags: &str, values: &str) -> Result<Self, &'w ShellWord> {
        let mut parsed = Self { values: Vec::new(), operands: args };
        while let Some((word, after)) = parsed.operands.split_first() {
            let begins_unknown = word.expands && word.text.starts_with(['$', '`', '{', '*', '?']);
            if word.may_split || begins_unknown {
                return Err(word);
            }
            let Some(letters) = word.text.strip_prefix('-').filter(|it| !it.is_empty()) else {
                break;
            };
            if word.expands {
                return Err(word);
            }
            parsed.operands = after;
            if letters == "-" {
                break;
            }
            let Some(at) = letters.find(|letter| !flags.contains(letter)) else { continue };
            let (letter, value) = (letters[at..].chars().next(), letters.get(at + 1..));
            let letter = letter.filter(|letter| values.contains(*letter)).ok_or(word)?;
            let value = match value.filter(|value| !value.is_empty()) {
                Some(value) => value,
                None => {
                    let (value, after) = after.split_first().ok_or(word)?;
                    if value.may_split {
                        return Err(value);
                    }
                    parsed.operands = after;
                    &value.text
                }
            };
            parsed.values.push((letter, value));
        }
        Ok(parsed)
    }

    fn values_of(&self, letter: char) -> impl Iterator<Item = &'w str> {
        self.values.iter().filter(move |(other, _)| *other == letter).map(|(_, value)| *value)
    }

    fn operand_texts(&self) -> impl Iterator<Item = &'w str> + use<'w> {
        self.operands.iter().map(|word| &*word.text)
    }
}

/// Returns whether a format of `printf` contains the conversion `%n`, which assigns the number of
/// characters to a variable.
fn assigns_count(format: &str) -> bool {
    let is_modifier = |letter: char| "#+- '0123456789.*hjlLqtz".contains(letter);
    format.split('%').skip(1).any(|part| part.trim_start_matches(is_modifier).starts_with('n'))
}

/// Returns an option with which `exec` removes all variables of the program.
fn option_that_removes_all(args: &[ShellWord]) -> Option<&str> {
    let command = wrapped_command("exec", args).map_or(0, |command| command.words.len());
    let removes_all = |word: &&ShellWord| {
        // The letters after `a` are a value.
        let flags = word.text.split('a').next().unwrap_or_default();
        word.text.starts_with('-') && (word.expands || flags.contains('c'))
    };
    args[..args.len() - command].iter().find(removes_all).map(|word| &*word.text)
}

/// Returns a word of the arguments of `set` that may be an option after which the shell exports
/// variables or parses words in another way.
fn unclear_set_option(args: &[ShellWord]) -> Option<&str> {
    let mut args = args.iter();
    while let Some(word) = args.next() {
        if word.expands {
            return Some(&word.text);
        }
        let letters = word.text.strip_prefix(['-', '+'])?;
        // A `+` without letters does not end the options.
        if matches!(&*word.text, "-" | "--") {
            return None;
        }
        let names = args.by_ref().take(letters.matches('o').count());
        // A `+` switches options off.
        let disables = word.text.starts_with('+');
        let is_known = |name: &&ShellWord| disables || tables::is_understood_set_option(&name.text);
        let unknown = names.filter(|name| name.expands || !is_known(name)).last();
        let is_letter = |letter: char| {
            "BCEHTbefhmnoptuvx".contains(letter) || disables && "Pak".contains(letter)
        };
        if !letters.chars().all(is_letter) {
            return Some(&word.text);
        }
        if let Some(name) = unknown {
            return Some(&name.text);
        }
    }
    None
}

/// Returns a word of the arguments of `shopt` that may be an option after which the shell exports
/// variables or changes folders in another way. A quoted name may hide that `**` matches any depth.
fn unclear_shopt_option(args: &[ShellWord]) -> Option<&str> {
    let has_letter = |letter| {
        let is_one = |word: &&ShellWord| word.text.starts_with('-') && word.text.contains(letter);
        args.iter().any(|word| is_one(&word))
    };
    let (of_set, disables) = (has_letter('o'), has_letter('u'));
    let is_understood = |name: &str| match of_set {
        _ if disables => true,
        true => tables::is_understood_set_option(name),
        false => tables::is_understood_shopt_option(name),
    };
    let is_risky = |word: &&ShellWord| {
        word.expands
            || !word.text.starts_with('-') && (word.is_quoted || !is_understood(&word.text))
    };
    args.iter().find(is_risky).map(|word| &*word.text)
}
