//! `-R`: sources keep the whole path that was given. They become names below the directories before `/./`, or
//! where the paths begin, as `--files-from` has them.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use fobs::options::Location;
use fobs::options::sync::SyncOptions;
use fobs::{RelPath, Result};

use super::name_list::{Ending, NameList};
use super::usage;

/// Turns sources into the directories where their paths begin, and the names below them; no names where one
/// directory is all. `words` are what the sources were given as.
///
/// # Errors
/// `Usage` for paths that `..` leads out of their directory.
pub fn names(sources: &mut Vec<Location>, words: &[OsString], options: &mut SyncOptions) -> Result<()> {
    if let ([source], [word]) = (&mut sources[..], words)
        && let Some(plain) = without_path(source, word)?
    {
        *source = plain;
        return Ok(());
    }
    let mut list = NameList::new();
    for (source, word) in sources.drain(..).zip(words) {
        let shown = word.to_string_lossy();
        let ending = Ending::of(word.as_bytes());
        let (top, name) = split(source, &shown)?;
        list.push(top, name.unwrap_or_default(), ending);
    }
    match list.whole() {
        Some(whole) => sources.push(whole.clone()),
        None => *sources = list.into_options(options),
    }
    Ok(())
}

/// A source whose path is one name, as it is without `-R`: like any other it gets the destination's.
fn without_path(source: &Location, word: &OsString) -> Result<Option<Location>> {
    let (top, name) = split(source.clone(), &word.to_string_lossy())?;
    let is_one = |name: &RelPath| !name.is_empty() && !name.as_bytes().contains(&b'/');
    let Some(name) = name.filter(|name| is_one(name) && Ending::of(word.as_bytes()) == Ending::Name) else {
        return Ok(None);
    };
    let joined = |top: &[u8]| [top, name.as_bytes()].concat();
    Ok(match top {
        Location::Local(top) => {
            Some(Location::Local(OsString::from_vec(joined(top.as_os_str().as_bytes())).into()))
        }
        Location::Remote(remote) => {
            Some(Location::Remote(fobs::options::Remote { path: joined(&remote.path), ..remote }))
        }
        Location::Stdio => None,
    })
}

/// The directory before a source's name, and the name; none where the source is the directory.
fn split(source: Location, shown: &str) -> Result<(Location, Option<RelPath>)> {
    match source {
        Location::Local(path) => {
            let (top, name) = split_path(path.as_os_str().as_bytes(), shown)?;
            Ok((Location::Local(OsString::from_vec(top).into()), name))
        }
        Location::Remote(mut remote) => {
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

    type Split = (Vec<(String, Vec<String>)>, Vec<u32>);

    /// The places with the names below each, and which names have a slash.
    fn named(paths: &[&str]) -> std::result::Result<Split, String> {
        let words: Vec<OsString> = paths.iter().map(OsString::from).collect();
        let mut sources: Vec<Location> = words.iter().map(|path| parse(path).expect("a place")).collect();
        let mut options = SyncOptions::default();
        names(&mut sources, &words, &mut options).map_err(|error| error.to_string())?;
        let top = |source: &Location| match source {
            Location::Local(path) => path.display().to_string(),
            Location::Remote(remote) => format!("{}:{}", remote.host, remote.path.escape_ascii()),
            Location::Stdio => "-".to_owned(),
        };
        let text = |name: RelPath| String::from_utf8(name.as_bytes().to_vec()).expect("text");
        let mut names = options.names.unwrap_or_default().into_iter().map(text);
        let mut counts = options.names_of_each.iter();
        let split = sources.iter().map(|source| {
            let count = counts.next().map_or(usize::MAX, |count| *count as usize);
            (top(source), names.by_ref().take(count).collect())
        });
        Ok((split.collect(), options.names_with_slash))
    }

    #[test]
    fn paths_are_kept_from_where_they_begin() {
        for (paths, places, with_slash) in [
            (&["a/b/c"][..], &[("./", &["a/b/c"][..])][..], &[][..]),
            (&["a//b/", "./c"], &[("./", &["a/b", "c"])], &[0]),
            (&["/etc/passwd", "/home"], &[("/", &["etc/passwd", "home"])], &[]),
            (&["/a/./b/c", "/a/./d/."], &[("/a/", &["b/c", "d"])], &[1]),
            (&["h:/a/b"], &[("h:/", &["a/b"])], &[]),
            // One name is a source as without -R.
            (&["h:b"], &[("h:./b", &[])], &[]),
            (&["/a/./b"], &[("/a/b", &[])], &[]),
            (&["/a/./b/"], &[("/a/", &["b"])], &[0]),
            (&["h:a/b", "h:c"], &[("h:./", &["a/b", "c"])], &[]),
            (&["/a/./", "/a/./b"], &[("/a/", &["", "b"])], &[0]),
            (&["."], &[("./", &[])], &[]),
            (&["/a", "b", "c"], &[("/", &["a"]), ("./", &["b", "c"])], &[]),
            (&["h:a/./x", "h:b/./y", "h:~/z"], &[("h:a/", &["x"]), ("h:b/", &["y"]), ("h:./", &["z"])], &[]),
            // Of equal paths the first counts, so that places stay in their order.
            (&["a/./x", "b/./y/", "a/./y"], &[("a/", &["x"]), ("b/", &["y"]), ("a/", &["y"])], &[1]),
        ] {
            let place = |(top, names): &(&str, &[&str])| {
                ((*top).to_owned(), names.iter().map(|name| (*name).to_owned()).collect())
            };
            let expected = (places.iter().map(place).collect(), with_slash.to_vec());
            assert_eq!(named(paths), Ok(expected), "{paths:?}");
        }
        let said = named(&["a/../b"]).expect_err("it is refused");
        assert!(said.contains("'..'"), "{said}");
    }

    #[test]
    fn names_of_many_places_have_few_sources() {
        let words: Vec<OsString> = (0..1000).map(|at| format!("p{}/./f{at}", at % 3).into()).collect();
        let mut sources: Vec<Location> = words.iter().map(|path| parse(path).expect("a place")).collect();
        let mut options = SyncOptions::default();
        names(&mut sources, &words, &mut options).expect("good paths");
        let total: u32 = options.names_of_each.iter().sum();
        assert!(sources.len() == options.names_of_each.len() && sources.len() < 70, "{}", sources.len());
        assert_eq!((total, options.names.expect("there are names").len()), (1000, 1000));
    }
}
