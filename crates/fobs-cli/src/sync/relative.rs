//! `-R`: sources keep the whole path that was given. They become names below one directory, as `--files-from`
//! has them: that before `/./`, or where the paths begin.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use fobs::options::Location;
use fobs::{RelPath, Result};

use super::usage;

/// Where the paths of all sources begin, and the names below it; no names where one of them is all of it.
/// `sources` become that one place; `words` are what they were given as.
///
/// # Errors
/// `Usage` for paths that begin at several places, or that `..` leads out of theirs.
pub fn names(sources: &mut Vec<Location>, words: &[OsString]) -> Result<Option<Vec<RelPath>>> {
    let mut names = Vec::new();
    let mut is_whole = false;
    let mut beginning: Option<Location> = None;
    for (source, word) in sources.drain(..).zip(words) {
        let shown = word.to_string_lossy();
        let (top, name) = split(source, &shown)?;
        if *beginning.get_or_insert_with(|| top.clone()) != top {
            return Err(usage(format!(
                "-R with '{shown}' and others that begin elsewhere: run it once for each directory in which names \
                 begin (/, this one, or what stands before /./)"
            )));
        }
        match name {
            Some(name) => names.push(name),
            None => is_whole = true,
        }
    }
    sources.extend(beginning);
    Ok((!is_whole).then_some(names))
}

/// The directory before a source's name, and the name; none where the source is the directory.
fn split(source: Location, shown: &str) -> Result<(Location, Option<RelPath>)> {
    match source {
        Location::Local(path) => {
            let (top, name) = split_path(path.as_os_str().as_bytes(), shown)?;
            Ok((Location::Local(OsString::from_vec(top).into()), name))
        }
        Location::Remote(mut remote) => {
            if remote.path.iter().any(|byte| b"*?[".contains(byte)) {
                return Err(usage(format!(
                    "-R with '{shown}': a pattern for the other host does not go with it; name the directory, and \
                     give --include and --exclude"
                )));
            }
            let (top, name) = split_path(&remote.path, shown)?;
            remote.path = top;
            Ok((Location::Remote(remote), name))
        }
        Location::Stdio => Err(usage("'-' has no path that could be kept: leave out -R")),
    }
}

fn split_path(path: &[u8], shown: &str) -> Result<(Vec<u8>, Option<RelPath>)> {
    let cut = path.windows(3).position(|three| three == b"/./");
    let (top, rest) = match cut {
        Some(at) => (&path[..=at], &path[at + 3..]),
        None if path.starts_with(b"/") => path.split_at(1),
        // The home of a user.
        None if path.starts_with(b"~") => {
            let at = path.iter().position(|&byte| byte == b'/').map_or(path.len(), |at| at + 1);
            path.split_at(at)
        }
        None => (&b"./"[..], path),
    };
    let parts: Vec<&[u8]> =
        rest.split(|&byte| byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
    if parts.contains(&&b".."[..]) {
        return Err(usage(format!("-R with '{shown}': a name with '..' has no place below the destination")));
    }
    if parts.is_empty() {
        return Ok((top.to_vec(), None));
    }
    let name = RelPath::new(parts.join(&b'/')).map_err(|why| usage(format!("'{shown}': {why}")))?;
    Ok((top.to_vec(), Some(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::parse;

    fn named(paths: &[&str]) -> std::result::Result<(Vec<u8>, Option<Vec<String>>), String> {
        let words: Vec<OsString> = paths.iter().map(OsString::from).collect();
        let mut sources: Vec<Location> = words.iter().map(|path| parse(path).expect("a place")).collect();
        let names = names(&mut sources, &words).map_err(|error| error.to_string())?;
        let top = match sources.as_slice() {
            [Location::Local(path)] => path.as_os_str().as_bytes().to_vec(),
            [Location::Remote(remote)] => remote.path.clone(),
            other => panic!("{other:?}"),
        };
        let text = |name: RelPath| String::from_utf8(name.as_bytes().to_vec()).expect("text");
        Ok((top, names.map(|names| names.into_iter().map(text).collect())))
    }

    #[test]
    fn paths_are_kept_from_where_they_begin() {
        for (paths, top, names) in [
            (&["a/b/c"][..], "./", Some(&["a/b/c"][..])),
            (&["a//b/", "./c"], "./", Some(&["a/b", "c"])),
            (&["/etc/passwd", "/home"], "/", Some(&["etc/passwd", "home"])),
            (&["/a/./b/c", "/a/./d/."], "/a/", Some(&["b/c", "d"])),
            (&["h:/a/b"], "/", Some(&["a/b"])),
            (&["h:a/b", "h:c"], "./", Some(&["a/b", "c"])),
            (&["/a/./", "/a/./b"], "/a/", None),
            (&["."], "./", None),
        ] {
            let expected = names.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            assert_eq!(named(paths), Ok((top.as_bytes().to_vec(), expected)), "{paths:?}");
        }
        for (paths, why) in [
            (&["/a", "b"][..], "elsewhere"),
            (&["a/../b"], "'..'"),
            (&["h:/a/*.c"], "pattern"),
            (&["h:a", "i:a"], "elsewhere"),
        ] {
            let said = named(paths).expect_err("it is refused");
            assert!(said.contains(why), "{paths:?}: {said}");
        }
    }
}
