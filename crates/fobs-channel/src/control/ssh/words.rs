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

/// Bytes of the last words that are kept.
const KEPT_BYTES_MAX: usize = 4096;

/// What is done with the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Nothing,
    Last,
}

/// Passes on what comes, in a thread that ends with the stream; keeps the last of it in `words`.
pub(super) fn pass_on(mut stderr: ChildStderr, keep: Keep, words: Arc<Mutex<Vec<u8>>>) {
    let read = move || {
        let (mut buffer, mut text) = ([0; 1024], Text::default());
        while let Ok(count @ 1..) = stderr.read(&mut buffer) {
            let shown = text.take(&buffer[..count]);
            // Nobody may be there to see it.
            let _ = fobs_sys::without_sigpipe(|| io::stderr().write_all(shown.as_bytes()));
            if keep == Keep::Last {
                let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
                words.extend_from_slice(&buffer[..count]);
                let excess = words.len().saturating_sub(KEPT_BYTES_MAX);
                words.drain(..excess);
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
}
