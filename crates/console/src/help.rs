//! Parts of help texts besides the options: examples, and the meaning of exit statuses.

use clap::Command;

use crate::status::Status;

/// Help texts of a program's commands. A command has the names on its path, with spaces between
/// them.
pub struct Texts<'a> {
    /// Examples of each command: a description, and the command line.
    pub examples: &'a [(&'a str, &'a [(&'a str, &'a str)])],
    /// Commands with exit statuses other than 0 for success and 2 for an error.
    pub judging: &'a [&'a str],
}

impl Texts<'_> {
    /// Adds examples and statuses to the help of a command and its subcommands.
    pub fn add_to(&self, command: Command) -> Command {
        self.extend(command, "")
    }

    /// Adds examples and statuses to the command at `path`.
    fn extend(&self, command: Command, path: &str) -> Command {
        let command = command.mut_subcommands(|inner| {
            let path = format!("{path} {}", inner.get_name());
            self.extend(inner, path.trim_start())
        });
        match self.examples.iter().find(|(command, _)| *command == path) {
            Some((_, examples)) => command.after_help(self.after(path, examples)),
            None if path.is_empty() => command.after_help(statuses()),
            None => command,
        }
    }

    /// Formats the text after the options of a command.
    fn after(&self, path: &str, examples: &[(&str, &str)]) -> String {
        let lines: String = examples.iter().map(|(does, line)| format!("  {does}:\n    {line}\n")).collect();
        let title = if examples.len() == 1 { "Example" } else { "Examples" };
        let statuses = if self.judging.contains(&path) { format!("\n{}", statuses()) } else { String::new() };
        format!("{title}:\n{lines}{statuses}")
    }
}

/// Formats the table of exit statuses.
fn statuses() -> String {
    let lines = Status::MEANINGS.map(|(status, meaning)| format!("  {:<5}{meaning}\n", status.code()));
    format!("Exit statuses:\n{}", lines.concat())
}

/// Collects the commands without subcommands, by their full names.
pub fn leaves(command: &Command) -> Vec<(String, Command)> {
    let mut found = Vec::new();
    collect(command, "", &mut found);
    found
}

fn collect(command: &Command, path: &str, found: &mut Vec<(String, Command)>) {
    let mut inner = command.get_subcommands().filter(|inner| inner.get_name() != "help").peekable();
    if inner.peek().is_none() {
        found.push((path.into(), command.clone()));
    }
    inner.for_each(|inner| collect(inner, format!("{path} {}", inner.get_name()).trim_start(), found));
}

/// Checks that every command without subcommands has one to four examples, that its examples parse
/// as this command, and that judging commands have the table of statuses.
///
/// # Errors
/// The first command or example that breaks the rule.
pub fn check(command: &Command, texts: &Texts<'_>) -> Result<(), String> {
    let (program, leaves) = (command.get_name(), leaves(command));
    if leaves.len() != texts.examples.len() {
        return Err(format!("{} commands, and examples of {}", leaves.len(), texts.examples.len()));
    }
    for (path, leaf) in leaves {
        let help = leaf.clone().render_help().to_string();
        let lines: Vec<_> = help.lines().filter_map(|line| line.strip_prefix("    ")).collect();
        let own = format!("{program} {path}");
        let examples: Vec<_> = lines.into_iter().filter(|line| line.starts_with(program)).collect();
        if !(1..=4).contains(&examples.len()) || examples.iter().any(|line| !line.starts_with(&own)) {
            return Err(format!("{path} has 1 to 4 examples, all its own: {help}"));
        }
        for line in examples {
            let parsed = command.clone().try_get_matches_from(line.split(' '));
            parsed.map_err(|error| format!("{line}: {error}"))?;
        }
        if texts.judging.contains(&path.as_str()) != help.contains(&statuses()) {
            return Err(format!("{path} has a table of statuses if it is judging: {help}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        let number = clap::Arg::new("number").value_parser(clap::value_parser!(u8));
        let outer = Command::new("outer").subcommand(Command::new("inner").arg(number));
        Command::new("program").subcommand(outer).subcommand(Command::new("other"))
    }

    const TEXTS: Texts<'_> = Texts {
        examples: &[
            ("outer inner", &[("Take one", "program outer inner 1"), ("Take two", "program outer inner 2")]),
            ("other", &[("Do it", "program other")]),
        ],
        judging: &["other"],
    };

    #[test]
    fn texts_stand_at_their_commands() {
        let command = TEXTS.add_to(command());
        assert_eq!(check(&command, &TEXTS), Ok(()));
        let helps: Vec<_> = leaves(&command)
            .into_iter()
            .map(|(path, mut leaf)| (path, leaf.render_help().to_string()))
            .collect();
        let [(inner, of_inner), (other, of_other)] = &helps[..] else { panic!("{helps:?}") };
        assert_eq!((inner.as_str(), other.as_str()), ("outer inner", "other"));
        assert!(of_inner.contains("Examples:\n  Take one:\n    program outer inner 1\n"), "{of_inner}");
        assert!(of_other.contains("Example:\n  Do it:\n    program other\n\nExit statuses:\n  0 "));
        for (status, meaning) in Status::MEANINGS {
            assert!(of_other.contains(&format!("  {:<5}{meaning}\n", status.code())), "{of_other}");
        }
    }

    fn wrong(examples: &[(&str, &[(&str, &str)])]) -> String {
        let texts = Texts { examples, judging: &[] };
        check(&texts.add_to(command()), &texts).unwrap_err()
    }

    #[test]
    fn wrong_examples_are_found() {
        let [inner, other] = [TEXTS.examples[0], TEXTS.examples[1]];
        assert!(wrong(&[inner]).contains("examples of 1"));
        for (line, cause) in [
            ("program outer inner 256", "256"),
            ("program other", "all its own"),
            ("outer inner 1", "1 to 4 examples"),
        ] {
            let error = wrong(&[("outer inner", &[("Take one", line)]), other]);
            assert!(error.contains(cause), "{error}");
        }
    }
}
