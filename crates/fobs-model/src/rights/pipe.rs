//! The command of a key's line: fixed words, one of which may have the name that the client gives.

use crate::error::{Error, ErrorKind, Result};

/// Words of a command at most.
const WORDS_MAX: usize = 100;

/// A command that a server runs for a key: no shell reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipeCommand {
    words: Vec<Vec<Part>>,
}

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    /// `%k`
    Name,
}

impl PipeCommand {
    /// Reads words between white space; `%k` stands for the client's name, `%%` for `%`.
    ///
    /// # Errors
    /// `Usage` for no word, a NUL, another `%`, and a program that the client would choose.
    pub fn read(text: &[u8]) -> Result<PipeCommand> {
        if text.contains(&0) {
            return Err(wrong("has a NUL"));
        }
        let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let words = words.map(parts).collect::<Result<Vec<_>>>()?;
        match words.first() {
            None => return Err(wrong("names no program")),
            Some(program) if program.contains(&Part::Name) => return Err(wrong("has %k in its first word")),
            Some(_) if words.len() > WORDS_MAX => return Err(wrong("has more than 100 words")),
            Some(_) => {}
        }
        Ok(PipeCommand { words })
    }

    /// Whether the client gives a name.
    fn takes_name(&self) -> bool {
        self.words.iter().flatten().any(|part| *part == Part::Name)
    }

    /// The words for a client's name.
    ///
    /// # Errors
    /// `Denied` for a name that is no plain word, for none, and for one that the command does not take.
    pub fn words(&self, name: &str) -> Result<Vec<Vec<u8>>> {
        let refused = |why: &str| Err(Error::new(ErrorKind::Denied, why.to_owned()));
        if self.takes_name() && name.is_empty() {
            return refused(
                "the command of this key takes a name; write it behind the host, as in fobs://host/NAME",
            );
        }
        if !self.takes_name() && !name.is_empty() {
            return refused("the command of this key takes no name; write fobs://host/");
        }
        if !name.is_empty() && !is_pipe_name(name) {
            return refused(NOT_PLAIN);
        }
        let word = |parts: &Vec<Part>| {
            let bytes = parts.iter().map(|part| match part {
                Part::Text(text) => text.as_slice(),
                Part::Name => name.as_bytes(),
            });
            bytes.collect::<Vec<_>>().concat()
        };
        Ok(self.words.iter().map(word).collect())
    }
}

/// Why a name is refused.
pub const NOT_PLAIN: &str = "the name of a pipe begins with a letter or digit, and has letters, digits and . _ : + @ - \
                             only, at most 255; choose another one";

fn parts(word: &[u8]) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let mut text = Vec::new();
    let mut bytes = word.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            text.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'%') => text.push(b'%'),
            Some(b'k') => {
                parts.push(Part::Text(std::mem::take(&mut text)));
                parts.push(Part::Name);
            }
            _ => return Err(wrong("has a % that is neither %k nor %%")),
        }
    }
    parts.push(Part::Text(text));
    Ok(parts)
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::Usage, format!("pipe {what}; write it like pipe=\"zfs receive tank/%k\""))
}

/// Letters of a name of a pipe at most.
pub const NAME_LEN_MAX: usize = 255;

/// Whether a pipe can have this name: a word that no command reads as an option, a path or a pattern.
pub fn is_pipe_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:+@-".contains(&byte);
    let begins_well = name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
    begins_well && name.len() <= NAME_LEN_MAX && name.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str, name: &str) -> Result<Vec<String>> {
        let words = PipeCommand::read(text.as_bytes())?.words(name)?;
        Ok(words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect())
    }

    #[test]
    fn words_are_fixed_but_for_the_name() {
        assert_eq!(made(" zfs  receive\ttank/%k ", "home").unwrap(), ["zfs", "receive", "tank/home"]);
        assert_eq!(made("cat %k%k-%%k $HOME", "a").unwrap(), ["cat", "aa-%k", "$HOME"]);
        assert_eq!(made("/usr/bin/cat", "").unwrap(), ["/usr/bin/cat"]);
    }

    #[test]
    fn a_name_that_is_no_plain_word_is_refused() {
        for name in ["../root", "-F", "a b", "a/b", "", "a;rm", "%k"] {
            assert_eq!(made("zfs receive tank/%k", name).unwrap_err().kind, ErrorKind::Denied, "{name:?}");
        }
        assert_eq!(made("cat", "name").unwrap_err().kind, ErrorKind::Denied);
    }

    #[test]
    fn a_command_that_says_nothing_fixed_is_refused() {
        let many = "w ".repeat(WORDS_MAX + 1);
        for text in ["", "  ", "%k", "run%k x", "cat %n", "cat %", "cat \0", many.as_str()] {
            assert_eq!(PipeCommand::read(text.as_bytes()).unwrap_err().kind, ErrorKind::Usage, "{text:?}");
        }
    }

    #[test]
    fn names_of_pipes_are_plain_words() {
        let longest = "n".repeat(NAME_LEN_MAX);
        for name in ["home", "db1:home@2026-11-28", "A_b.c+d", "7", longest.as_str()] {
            assert!(is_pipe_name(name), "{name}");
        }
        let longer = "n".repeat(NAME_LEN_MAX + 1);
        for name in
            ["", "-o", ".", "..", "a/b", "a b", "a\n", "a\0", "$(x)", "a;b", "%k", "ä", "*", "a'", &longer]
        {
            assert!(!is_pipe_name(name), "{name:?}");
        }
    }
}
