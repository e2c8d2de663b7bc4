//! `--old-args`: a path on another host is read as a shell there would do it, so quotes are its own, and a
//! source may be several names, also by braces (`{a,b}`, `{1..9}`). Of variables only `$HOME` in front is
//! known.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use fobs::Result;
use fobs::options::{Carrier, Location};

use super::{braces, usage};
use crate::args::sync::SyncArgs;
use crate::location;

/// Most names that all sources become: more than a command line has room for.
const NAMES_MAX: usize = 100_000;

/// The words of the sources, each source on another host divided where that is asked for.
///
/// # Errors
/// `Usage` for a quote without its end.
pub fn divided(args: &SyncArgs, words: &[OsString]) -> Result<Vec<OsString>> {
    if is_asked(args) { all(words) } else { Ok(words.to_vec()) }
}

/// The word of the destination, without the quotes of a shell where that is asked for.
///
/// # Errors
/// `Usage` for a quote without its end, and for several names.
pub fn unquoted(args: &SyncArgs, word: &OsStr) -> Result<OsString> {
    if is_asked(args) { one(word) } else { Ok(word.to_owned()) }
}

fn is_asked(args: &SyncArgs) -> bool {
    args.chosen.sync.old_args.unwrap_or_else(|| {
        // As rsync: where the line says nothing of it.
        let named = std::env::var("RSYNC_OLD_ARGS").unwrap_or_default();
        !args.has("secluded-args") && named.parse::<i32>().is_ok_and(|level| level > 0)
    })
}

fn one(word: &OsStr) -> Result<OsString> {
    let names = parts(word)?;
    let [name] = names.as_slice() else {
        let shown = word.to_string_lossy();
        return Err(usage(format!(
            "--old-args: the destination '{shown}' is {} names; write quotes around the path, within those of your shell",
            names.len()
        )));
    };
    Ok(name.clone())
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
    let shown = || word.to_string_lossy();
    let path = braces::expanded(&path)
        .ok_or_else(|| usage(format!("--old-args: the braces in '{}' stand for too many names", shown())))?;
    let names = shlex::bytes::split(&path).ok_or_else(|| {
        usage(format!(
            "--old-args: a quote or a backslash in '{}' has nothing behind it; write it twice",
            shown()
        ))
    })?;
    if names.is_empty() {
        return Ok(vec![word.to_owned()]);
    }
    let at_home = |name: Vec<u8>| match name.strip_prefix(b"$HOME").or(name.strip_prefix(b"${HOME}")) {
        Some(rest) if matches!(rest, [] | [b'/', ..]) => {
            [b"~/", rest.strip_prefix(b"/").unwrap_or(rest)].concat()
        }
        _ => name,
    };
    let names = names.into_iter().map(at_home);
    Ok(names.map(|name| OsString::from_vec([host, &name[..]].concat())).collect())
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
            (&["host:{a,b c}"], &["host:{a,b", "host:c}"]),
            (
                &["host:x{1..3}/{y,'z w'}"],
                &["host:x1/y", "host:x1/z w", "host:x2/y", "host:x2/z w", "host:x3/y", "host:x3/z w"],
            ),
            (&["host:'{a,b}' \\{c,d} {e} {}"], &["host:{a,b}", "host:{c,d}", "host:{e}", "host:{}"]),
            (&["host:$HOME/a $HOMER ${HOME}"], &["host:~/a", "host:$HOMER", "host:~/"]),
        ] {
            assert_eq!(of(words).expect("good words"), expected, "{words:?}");
        }
        assert_eq!(one(OsStr::new("host:\"/vol/x\\ y\" ")).expect("a good word"), "host:/vol/x\\ y");
        assert_eq!(one(OsStr::new("host:'x y'/z")).expect("a good word"), "host:x y/z");
        assert_eq!(one(OsStr::new("it's here")).expect("a local name"), "it's here");
        assert!(one(OsStr::new("host:x y")).expect_err("two").message.contains("2 names"));
        let error = of(&["host:it's"]).expect_err("a quote is open");
        assert!(error.message.contains("'host:it's'"), "{error}");
    }
}
