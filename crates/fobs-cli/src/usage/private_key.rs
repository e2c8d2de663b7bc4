//! A private key that would be sent: `-i KEY` names one for `fobs cp`, ssh and scp, and for rsync `-i` takes
//! no value, so that the key is the first source.

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;

/// Longest first line that is looked at, bytes.
const LINE_MAX: u64 = 64;

/// Why the word behind `fobs sync -i` is not sent, if it is a private key.
pub fn as_a_source(words: &[OsString]) -> Option<String> {
    if words.get(1)? != "sync" {
        return None;
    }
    let options = words.windows(2).take_while(|pair| pair[0] != "--");
    let key =
        options.filter(|pair| pair[0] == "-i").find(|pair| is_private_key(Path::new(&pair[1])))?[1].display();
    Some(format!(
        "-i lists what changes and takes no value in fobs sync, so the private key '{key}' would be copied; \
         to log in with it, write --identity '{key}'; to copy it, write --itemize-changes '{key}'"
    ))
}

fn is_private_key(path: &Path) -> bool {
    let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
    let mut begin = Vec::new();
    let mut read = || fobs::named::open(path)?.take(LINE_MAX).read_to_end(&mut begin);
    if !is_file || read().is_err() {
        return false;
    }
    let line = begin.split(|&byte| byte == b'\n').next().unwrap_or_default();
    line.starts_with(b"-----BEGIN ") && line.trim_ascii_end().ends_with(b"PRIVATE KEY-----")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_behind_the_letter_of_a_list_is_not_sent() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = |name: &str| folder.path().join(name).display().to_string();
        for (name, text) in [
            ("openssh", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn\n"),
            ("fobs", "-----BEGIN PRIVATE KEY-----\r\nMFEC\n"),
            ("public", "ssh-ed25519 AAAA ann\n"),
            ("empty", ""),
        ] {
            std::fs::write(path(name), text).expect("a file of ours");
        }
        let sent = |line: &[&str]| {
            let words: Vec<OsString> = ["fobs"].iter().chain(line).map(OsString::from).collect();
            as_a_source(&words)
        };
        for key in ["openssh", "fobs"] {
            let key = path(key);
            for line in
                [&["sync", "-a", "-i", &key, "data", "h:"][..], &["sync", "-i", &key, "-a", "data", "h:"]]
            {
                let why = sent(line).expect("it is a key");
                assert!(why.contains(&format!("--identity '{key}'")), "{why}");
            }
            for line in [
                &["cp", "-i", &key, "data", "h:"][..],
                &["sync", "-ai", &key, "h:"],
                &["sync", "--itemize-changes", &key, "h:"],
                &["sync", "-a", "--", "-i", &key, "h:"],
            ] {
                assert_eq!(sent(line), None, "{line:?}");
            }
        }
        for other in ["public", "empty", "missing", "."] {
            assert_eq!(sent(&["sync", "-i", &path(other), "h:"]), None, "{other}");
        }
        assert_eq!(sent(&["sync", "-i"]), None);
    }
}
