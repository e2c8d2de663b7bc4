//! Values of rsync's options that have a grammar of their own: a remote shell, a program there, what is told.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use fobs::options::{ShellGrammar, SshOptions};

/// A remote shell: `ssh -p 2222`, `sshpass -f file ssh`, `docker exec -i`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteShell {
    /// The program.
    pub program: PathBuf,
    /// Its arguments in front of all others.
    pub arguments: Vec<OsString>,
    /// What it takes behind them.
    pub grammar: ShellGrammar,
}

impl RemoteShell {
    /// The options of ssh with this one.
    pub fn of(self, options: &SshOptions) -> SshOptions {
        let RemoteShell { program, arguments, grammar } = self;
        SshOptions { program: Some(program), arguments, grammar, ..options.clone() }
    }
}

/// Reads a value of `-e` or `RSYNC_RSH`.
///
/// # Errors
/// A sentence about what is missing.
pub fn remote_shell(text: &str) -> Result<RemoteShell, String> {
    let words = split(text)?;
    let has_ssh = words.iter().any(|word| last_name(word) == "ssh");
    let grammar = if has_ssh { ShellGrammar::Ssh } else { ShellGrammar::HostAndCommand };
    let mut words = words.into_iter();
    let program = words.next().filter(|word| !word.is_empty());
    let program = program.ok_or("give a program, as in 'ssh -p 2222'")?.into();
    Ok(RemoteShell { program, arguments: words.map(OsString::from).collect(), grammar })
}

/// Words as rsync separates them: by spaces, but not within quotes, of which two are one that is meant.
fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = Vec::new();
    let (mut open, mut is_inside) = (None, false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == ' ' && open.is_none() {
            is_inside = false;
            continue;
        }
        if !is_inside {
            words.push(String::new());
            is_inside = true;
        }
        let Some(word) = words.last_mut() else { continue };
        match open {
            None if matches!(letter, '\'' | '"') => open = Some(letter),
            Some(quote) if letter == quote => {
                if letters.next_if_eq(&quote).is_some() {
                    word.push(quote);
                } else {
                    open = None;
                }
            }
            _ => word.push(letter),
        }
    }
    match open {
        Some(quote) => Err(format!("a {quote} is missing at its end")),
        None => Ok(words),
    }
}

/// The last name of a path.
pub fn last_name(word: &str) -> &str {
    Path::new(word).file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// How much is told, by `--info`: a level for each of rsync's names, where one is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    levels: [Option<u8>; INFO.len()],
    help: Option<HelpOf>,
}

/// Which option is asked what it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HelpOf {
    Info,
    Debug,
}

/// Names of `--info`, the level of `-v` at which rsync tells of it, and what is told.
const INFO: &[(&str, u8, &str)] = &[
    ("backup", 2, "files that are kept as backups"),
    ("copy", 1, "files that are made of others at the destination"),
    ("del", 1, "what is deleted at the destination"),
    ("flist", 1, "that the listing is sent or received"),
    ("misc", 1, "what belongs nowhere else (levels 1-2)"),
    ("mount", 2, "file systems that are mounted in the sources"),
    ("name", 1, "1) names of what is brought up to date, 2) of all"),
    ("nonreg", 0, "what is no regular file and is left out (level 0 silences)"),
    ("progress", u8::MAX, "1) how far each file is, 2) the whole"),
    ("remove", 2, "files that are removed from the sources"),
    ("skip", 2, "files that an option leaves out (levels 1-2)"),
    ("stats", 1, "figures at the end (levels 1-3)"),
    ("symsafe", 1, "links that lead out of the tree"),
];

/// Names of `--debug`.
const DEBUG: &[&str] = &[
    "acl", "backup", "bind", "chdir", "connect", "cmd", "del", "deltasum", "dup", "exit", "filter", "flist",
    "fuzzy", "genr", "hash", "hlink", "iconv", "io", "nstr", "own", "proto", "recv", "send", "time",
];

impl Told {
    /// Takes a value of `--info`, as in `progress2,stats2,name0`.
    ///
    /// # Errors
    /// A sentence with the names that there are.
    pub fn read(&mut self, text: &str) -> Result<(), String> {
        for (name, level) in items(text) {
            match (name.as_str(), INFO.iter().position(|(known, ..)| *known == name)) {
                ("all", _) => self.levels = [Some(level); INFO.len()],
                ("none", _) => self.levels = [Some(0); INFO.len()],
                ("help", _) => self.help = Some(HelpOf::Info),
                (_, Some(at)) => self.levels[at] = Some(level),
                (_, None) => {
                    let known = Vec::from_iter(INFO.iter().map(|(name, ..)| *name)).join(", ");
                    return Err(format!("{name:?} is no name of --info; there are {known}, all, none, help"));
                }
            }
        }
        Ok(())
    }

    /// Checks a value of `--debug`.
    ///
    /// # Errors
    /// A sentence with the names that there are.
    pub fn read_debug(&mut self, text: &str) -> Result<(), String> {
        for (name, _) in items(text) {
            match name.as_str() {
                "help" => self.help = Some(HelpOf::Debug),
                "all" | "none" => {}
                name if DEBUG.contains(&name) => {}
                name => {
                    let known = DEBUG.join(", ");
                    return Err(format!(
                        "{name:?} is no name of --debug; there are {known}, all, none, help"
                    ));
                }
            }
        }
        Ok(())
    }

    /// What `--info=help` or `--debug=help` prints, in rsync's form.
    pub fn help(&self) -> Option<String> {
        let rows: Vec<(&str, &str)> = match self.help? {
            HelpOf::Info => INFO.iter().map(|(name, _, told)| (*name, *told)).collect(),
            HelpOf::Debug => {
                DEBUG.iter().map(|name| (*name, "taken; there is nothing of it to see")).collect()
            }
        };
        let option = if self.help == Some(HelpOf::Info) { "info" } else { "debug" };
        let mut text =
            "Give NAME or NAME1 for level 1, NAME2 for level 2, and so on; NAME0 silences.\n\n".to_owned();
        let ends = [
            ("all", format!("all names of --{option} (all4: at level 4)")),
            ("none", "none of them (all0)".to_owned()),
            ("help", "this list".to_owned()),
        ];
        let line = |name: &str, told: &str| format!("{:<10} {told}\n", name.to_ascii_uppercase());
        rows.iter().for_each(|(name, told)| text.push_str(&line(name, told)));
        text.push('\n');
        ends.iter().for_each(|(name, told)| text.push_str(&line(name, told)));
        if self.help == Some(HelpOf::Info) {
            text.push_str("\nWhat -v, so often given, adds:\n");
            for level in 0..=2 {
                let added = INFO.iter().filter(|(_, at, _)| *at == level).map(|(name, ..)| *name);
                let added = Vec::from_iter(added).join(",").to_ascii_uppercase();
                text.push_str(&format!("{level}) {added}\n"));
            }
        }
        Some(text)
    }

    /// The level of an `--info` flag; `verbose` is the number of `-v` given.
    pub fn level(&self, name: &str, verbose: u8) -> u8 {
        let Some(at) = INFO.iter().position(|(known, ..)| *known == name) else { return 0 };
        self.levels[at].unwrap_or(verbose.saturating_add(1).saturating_sub(INFO[at].1))
    }

    /// Whether a name was given a level.
    pub fn says(&self, name: &str) -> bool {
        INFO.iter().position(|(known, ..)| *known == name).is_some_and(|at| self.levels[at].is_some())
    }
}

/// Names with their levels; 1 where there is none.
fn items(text: &str) -> impl Iterator<Item = (String, u8)> {
    text.split(',').filter(|item| !item.is_empty()).map(|item| {
        let name = item.trim_end_matches(|letter: char| letter.is_ascii_digit());
        (name.to_ascii_lowercase(), item[name.len()..].parse().unwrap_or(1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_are_split_as_rsync_splits_them() {
        let words = |text: &str| {
            let shell = remote_shell(text).expect(text);
            let rest = shell.arguments.iter().map(|word| word.to_string_lossy().into_owned());
            let all: Vec<_> = [shell.program.display().to_string()].into_iter().chain(rest).collect();
            (all.join("|"), shell.grammar)
        };
        for (text, expected, grammar) in [
            ("ssh", "ssh", ShellGrammar::Ssh),
            ("ssh -p 2222", "ssh|-p|2222", ShellGrammar::Ssh),
            ("  ssh   -i  /k  ", "ssh|-i|/k", ShellGrammar::Ssh),
            ("ssh -o 'ProxyCommand=nc %h %p'", "ssh|-o|ProxyCommand=nc %h %p", ShellGrammar::Ssh),
            ("ssh -o \"A 'b'\"", "ssh|-o|A 'b'", ShellGrammar::Ssh),
            ("ssh -o 'it''s'", "ssh|-o|it's", ShellGrammar::Ssh),
            ("/usr/bin/ssh -T", "/usr/bin/ssh|-T", ShellGrammar::Ssh),
            ("sshpass -f pw ssh -p 22", "sshpass|-f|pw|ssh|-p|22", ShellGrammar::Ssh),
            ("docker exec -i", "docker|exec|-i", ShellGrammar::HostAndCommand),
            ("/opt/ssh-wrapper", "/opt/ssh-wrapper", ShellGrammar::HostAndCommand),
        ] {
            assert_eq!(words(text), (expected.to_owned(), grammar), "{text}");
        }
        for bad in ["", "   ", "ssh -o 'x", "ssh \"", "''"] {
            remote_shell(bad).expect_err(bad);
        }
    }

    #[test]
    fn levels_are_those_of_rsync() {
        let told = |text: &str| {
            let mut told = Told::default();
            told.read(text).map(|()| told)
        };
        let level = |text: &str, name, verbose| told(text).expect(text).level(name, verbose);
        assert_eq!((level("", "name", 0), level("", "name", 1), level("", "name", 2)), (0, 1, 2));
        assert_eq!((level("", "skip", 1), level("", "skip", 2), level("", "progress", 9)), (0, 1, 0));
        assert_eq!((level("NAME0", "name", 2), level("progress2,Stats2", "stats", 0)), (0, 2));
        assert_eq!((level("all3", "del", 0), level("name,none", "name", 3)), (3, 0));
        assert!(told("del").expect("a name").says("del") && !told("del").expect("a name").says("name"));
        for bad in ["bogus", "name,x2", "2"] {
            told(bad).expect_err(bad);
        }
        let debug = |text: &str| Told::default().read_debug(text);
        assert!(debug("del2,FLIST,all4").is_ok() && debug("nothing").is_err());
        let help = told("help").expect("it is a name").help().expect("it is asked for");
        assert!(
            help.contains("PROGRESS   1)") && help.contains("\n1) COPY,DEL,FLIST,MISC,NAME,STATS,SYMSAFE\n")
        );
    }
}
