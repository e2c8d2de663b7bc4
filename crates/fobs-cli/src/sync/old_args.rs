//! `--old-args`: the path of a source on another host is divided as a shell there would do it, which may give
//! several names.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use fobs::Result;
use fobs::options::{Carrier, Location};

use super::usage;
use crate::args::sync::SyncArgs;
use crate::location;

/// Most names that all sources become: more than a command line has room for.
const NAMES_MAX: usize = 100_000;

/// The words of the sources, each source on another host divided where that is asked for.
///
/// # Errors
/// `Usage` for a quote without its end.
pub fn divided(args: &SyncArgs, words: &[OsString]) -> Result<Vec<OsString>> {
    let is_asked = args.chosen.sync.old_args.unwrap_or_else(|| {
        // As rsync: where the line says nothing of it.
        let named = std::env::var("RSYNC_OLD_ARGS").unwrap_or_default();
        !args.has("secluded-args") && named.parse::<i32>().is_ok_and(|level| level > 0)
    });
    if is_asked { all(words) } else { Ok(words.to_vec()) }
}

fn all(words: &[OsString]) -> Result<Vec<OsString>> {
    let mut all = Vec::new();
    for word in words {
        all.extend(parts(word)?);
        if all.len() > NAMES_MAX {
            return Err(usage(format!(
                "--old-args: the sources are more than {NAMES_MAX} names; give fewer"
            )));
        }
    }
    Ok(all)
}

/// What a word stands for: each name with the host in front.
fn parts(word: &OsStr) -> Result<Vec<OsString>> {
    let bytes = word.as_bytes();
    let path = match bytes.strip_prefix(b":") {
        Some(path) => path.to_vec(),
        None => match location::parse(word)? {
            Location::Remote(remote) if remote.carrier == Carrier::Ssh => remote.path,
            _ => return Ok(vec![word.to_owned()]),
        },
    };
    // An address with a scheme has its path in another form.
    let Some(host) = bytes.strip_suffix(&path[..]).filter(|_| !path.is_empty()) else {
        return Ok(vec![word.to_owned()]);
    };
    let names = shlex::bytes::split(&path).ok_or_else(|| {
        let shown = word.to_string_lossy();
        usage(format!(
            "--old-args: a quote or a backslash in '{shown}' has nothing behind it; write it twice"
        ))
    })?;
    if names.is_empty() {
        return Ok(vec![word.to_owned()]);
    }
    Ok(names.into_iter().map(|name| OsString::from_vec([host, &name[..]].concat())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Result<Vec<String>> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        all(&words).map(|all| all.into_iter().map(|word| word.into_string().expect("text")).collect())
    }

    #[test]
    fn far_sources_are_divided_as_a_shell_does_it() {
        for (words, expected) in [
            (&["host:one two"][..], &["host:one", "host:two"][..]),
            (&["ann@host:/a/b\\ c  'd e'/ f"], &["ann@host:/a/b c", "ann@host:d e/", "ann@host:f"]),
            (&["host:a b", ":c d", "here and there"], &["host:a", "host:b", ":c", ":d", "here and there"]),
            (&["host:", "host:x*"], &["host:", "host:x*"]),
            (&["host:  "], &["host:  "]),
        ] {
            assert_eq!(of(words).expect("good words"), expected, "{words:?}");
        }
        let error = of(&["host:it's"]).expect_err("a quote is open");
        assert!(error.message.contains("'host:it's'"), "{error}");
    }
}
