//! What `ssh` and the far side say on standard error: shown as text, whatever bytes it is, and kept where an
//! error needs it.

use std::io::{self, Read, Write};
use std::process::ChildStderr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use fobs_model::options::ShellGrammar;
use fobs_model::text::on_a_terminal;

/// The far end in messages: what another program than ssh reaches, a container or this host itself, is not
/// reached via ssh.
pub(super) fn described(host: &str, grammar: ShellGrammar) -> String {
    match grammar {
        ShellGrammar::Ssh => format!("{host} via ssh"),
        ShellGrammar::HostAndCommand => host.to_owned(),
    }
}

/// Bytes of the last words that are kept, and of those that are held.
const KEPT_BYTES_MAX: usize = 4096;

/// What loaders and shells say of a program that exists and cannot run.
const IS_THERE: &[&str] = &["shared librar", "cannot execute", "bad interpreter"];

/// What is done with the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Nothing,
    Last,
}

/// What is known of the far program.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Program {
    #[default]
    Expected,
    /// There is none, so words about it that come later say nothing new.
    Missing,
    Runs,
}

/// What has come.
#[derive(Debug, Default)]
pub(super) struct Words {
    last: Vec<u8>,
    /// From a line about the program on: probably the shell's, that there is none. Where so, an error or a
    /// second login says it.
    held: String,
    program: Program,
}

impl Words {
    /// The last of them, where they are kept.
    pub(super) fn last(&self) -> &[u8] {
        &self.last
    }

    /// Shows what is held; from here on nothing is.
    pub(super) fn release(words: &Mutex<Words>) {
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        words.program = Program::Runs;
        show(&std::mem::take(&mut words.held));
    }

    /// Forgets what is held: the program is not there. One that is there and lacks its loader, interpreter or
    /// a library ends likewise, and the words say why.
    pub(super) fn forget(words: &Mutex<Words>) {
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_there(&words.held) {
            words.held.clear();
            words.program = Program::Missing;
        }
    }

    /// Shows what is held at the end, where it is not about a program that is known to be missing.
    pub(super) fn end(words: &Mutex<Words>) {
        let is_missing = words.lock().unwrap_or_else(PoisonError::into_inner).program == Program::Missing;
        if !is_missing {
            Words::release(words);
        }
    }

    /// What of the next words is to be shown now; `program` is what the shell there was to run.
    fn take(&mut self, text: String, program: &str) -> String {
        let is_held = match self.program {
            Program::Runs => false,
            Program::Missing => !is_there(&text) && names(&text, program),
            Program::Expected => !self.held.is_empty() || names(&text, program),
        };
        if !is_held {
            return text;
        }
        self.held.push_str(&text);
        if self.held.len() > KEPT_BYTES_MAX { std::mem::take(&mut self.held) } else { String::new() }
    }
}

/// Whether this is what the far shell says where there is no such program; while it is not known to run.
pub(super) fn is_of_a_missing_one(text: &str, program: &str) -> bool {
    names(text, program) && !is_there(text)
}

/// Whether a loader or shell says so of a program that exists.
fn is_there(text: &str) -> bool {
    IS_THERE.iter().any(|said| text.contains(said))
}

/// Whether a text names this program: as a word, and not in the name of a host or user.
fn names(text: &str, program: &str) -> bool {
    let program = program.split_whitespace().next().unwrap_or_default();
    let in_a_name = |letter: char| letter.is_alphanumeric() || "_-./@".contains(letter);
    text.split(|letter| !in_a_name(letter)).any(|word| word.trim_end_matches('.') == program)
}

fn show(text: &str) {
    // Nobody may be there to see it.
    let _ = fobs_sys::without_sigpipe(|| io::stderr().write_all(text.as_bytes()));
}

/// Passes on what comes, in a thread that ends with the stream; keeps the last of it in `words`, and holds
/// what may say that `program` is not there.
pub(super) fn pass_on(mut stderr: ChildStderr, keep: Keep, program: String, words: Arc<Mutex<Words>>) {
    let read = move || {
        let (mut buffer, mut text) = ([0; 1024], Text::default());
        while let Ok(count @ 1..) = stderr.read(&mut buffer) {
            let shown = text.take(&buffer[..count]);
            let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
            show(&words.take(shown, &program));
            if keep == Keep::Last {
                words.last.extend_from_slice(&buffer[..count]);
                let excess = words.last.len().saturating_sub(KEPT_BYTES_MAX);
                words.last.drain(..excess);
            }
        }
    };
    // Without the thread its words are lost, and all else works.
    drop(thread::Builder::new().name("fobs-ssh-words".to_owned()).spawn(read));
}

/// Bytes that come in pieces, as text for a terminal: the far side may write anything.
#[derive(Debug, Default)]
struct Text {
    /// The beginning of a character whose end has not come.
    rest: Vec<u8>,
}

impl Text {
    fn take(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            Ok(_) => self.rest.len(),
            // More bytes may complete it.
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            // Invalid bytes are shown as such, and so is what follows them here.
            Err(_) => self.rest.len(),
        };
        let left = self.rest.split_off(whole);
        on_a_terminal(&std::mem::replace(&mut self.rest, left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_shown_and_never_sent() {
        let mut text = Text::default();
        let said =
            "Warning: \u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m caf\u{e9}\r\n\tline \u{202e}txt\n".as_bytes();
        let whole = text.take(said);
        assert!(
            whole.starts_with("Warning: \\u{1b}]0;title\\u{7}\\u{1b}[2J\\u{9b}31m café\n\tline"),
            "{whole:?}"
        );
        assert!(whole.ends_with("\\u{202e}txt\n"), "{whole:?}");
        // The same in pieces of any size.
        for size in 1..9 {
            let mut text = Text::default();
            let pieces: String = said.chunks(size).map(|piece| text.take(piece)).collect();
            assert_eq!(pieces, whole, "{size}");
        }
        assert_eq!(Text::default().take(b"a\xffb"), "a\\xffb");
    }

    #[test]
    fn words_about_the_program_wait_until_it_speaks() {
        for line in [
            "bash: line 1: fobs: command not found\n",
            "sh: 1: fobs: not found\n",
            "zsh:1: command not found: fobs\n",
            "fobs: Command not found.\n",
            "fish: Unknown command: fobs\nfish: \nfobs server\n^~~^\n",
        ] {
            let words = Mutex::new(Words::default());
            let take = |text: &str| words.lock().unwrap().take(text.to_owned(), "fobs");
            assert_eq!(take("Welcome\n"), "Welcome\n");
            assert_eq!(take(line), "", "{line}");
            assert_eq!(take("bye\n"), "");
            Words::forget(&words);
            assert_eq!(take("more\n"), "more\n");
            assert_eq!(take(line), "");
            // Its thread may be late.
            Words::end(&words);
            assert_eq!(take(line), "");
            Words::release(&words);
            assert_eq!(take(line), line);
        }
        for (program, lacking) in [
            ("fobs", "fobs: error while loading shared libraries: libm.so.6: cannot open\n"),
            ("./fobs", "bash: line 1: ./fobs: cannot execute: required file not found\n"),
        ] {
            let words = Mutex::new(Words::default());
            assert_eq!(words.lock().unwrap().take(lacking.to_owned(), program), "");
            Words::forget(&words);
            assert_eq!(words.into_inner().unwrap().held, lacking);
        }
        let mut words = Words::default();
        for line in [
            "fobs@far: Permission denied (publickey).\n",
            "Warning: Permanently added 'fobs.example.org' (ED25519) to the list of known hosts.\n",
            "ssh: connect to host fobs-1 port 22: Connection refused\n",
            "Permission denied, please try again.\n",
        ] {
            assert_eq!(words.take(line.to_owned(), "fobs"), line);
        }
        let path = "/opt/fobs --x";
        assert_eq!(words.take("bash: line 1: /opt/fobs: No such file or directory\n".into(), path), "");
        assert!(words.take("y".repeat(KEPT_BYTES_MAX), path).ends_with('y'), "it is bounded");
    }
}
