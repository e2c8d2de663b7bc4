//! The order in which rsync prints names: a directory, what is deleted in it, its files, its directories.

use std::cmp::Ordering;

/// Most bytes of lines that are held for their order: beyond, what is held is printed, and the order begins
/// anew.
const HELD_MAX: usize = 64 << 20;
/// What a line takes beside its bytes.
const LINE_BYTES: usize = 96;

/// Lines that wait for their order.
#[derive(Debug, Default)]
pub struct Held {
    lines: Vec<Held1>,
    bytes: usize,
}

#[derive(Debug)]
struct Held1 {
    path: Vec<u8>,
    directory: bool,
    deleted: bool,
    line: Vec<u8>,
}

impl Held {
    /// Takes a line; whether what is held has to be printed.
    pub fn take(&mut self, path: Vec<u8>, directory: bool, deleted: bool, line: Vec<u8>) -> bool {
        self.bytes += path.len() + line.len() + LINE_BYTES;
        self.lines.push(Held1 { path, directory, deleted, line });
        self.bytes > HELD_MAX
    }

    /// All that is held, in its order.
    pub fn release(&mut self) -> Vec<u8> {
        self.bytes = 0;
        let mut lines = std::mem::take(&mut self.lines);
        let gone: std::collections::HashSet<Vec<u8>> =
            lines.iter().filter(|it| it.deleted && it.directory).map(|it| it.path.clone()).collect();
        // What stands in the place of a directory that made way.
        let files: std::collections::HashSet<Vec<u8>> =
            lines.iter().filter(|it| !it.deleted && !it.directory).map(|it| it.path.clone()).collect();
        // The directory of the sources in which something was deleted: above all that was.
        let place = |it: &Held1| -> Option<usize> {
            if !it.deleted {
                return None;
            }
            let slashes = it.path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
            let mut end = 0;
            for at in slashes {
                if gone.contains(&it.path[..at]) || files.contains(&it.path[..at]) {
                    break;
                }
                end = at;
            }
            Some(end)
        };
        let mut placed: Vec<(Option<usize>, Held1)> = lines.drain(..).map(|it| (place(&it), it)).collect();
        placed.sort_by(|(one, a), (other, b)| match (one, other) {
            (None, None) => names((&a.path, a.directory), (&b.path, b.directory)),
            (Some(end), None) => deletion(&a.path[..*end], b),
            (None, Some(end)) => deletion(&b.path[..*end], a).reverse(),
            (Some(one), Some(other)) => match names((&a.path[..*one], true), (&b.path[..*other], true)) {
                // The last name goes first.
                Ordering::Equal => names((&b.path, b.directory), (&a.path, a.directory)),
                order => order,
            },
        });
        placed.into_iter().flat_map(|(_, it)| it.line).collect()
    }
}

/// Where a deletion in a directory stands beside an entry: behind the directory, before what is in it.
fn deletion(directory: &[u8], entry: &Held1) -> Ordering {
    if entry.directory && entry.path == directory {
        return Ordering::Greater;
    }
    names((directory, true), (&entry.path, entry.directory))
}

/// The order of two entries, each with whether it is a directory: within one directory files come first, and
/// a directory is followed by what is in it.
fn names((one, one_is_directory): (&[u8], bool), (other, other_is_directory): (&[u8], bool)) -> Ordering {
    let (mut one, mut other) = (one, other);
    loop {
        match (one.is_empty(), other.is_empty()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            (false, false) => {}
        }
        let (first, rest) = split(one);
        let (second, after) = split(other);
        if first == second && (rest.is_some() && after.is_some()) {
            (one, other) = (rest.unwrap_or_default(), after.unwrap_or_default());
            continue;
        }
        let (a, b) = (rest.is_some() || one_is_directory, after.is_some() || other_is_directory);
        if a != b {
            return a.cmp(&b);
        }
        let ends = |name: &[u8], is_directory: bool| {
            let end: &[u8] = if is_directory { b"/" } else { b"" };
            [name, end].concat()
        };
        return ends(first, a).cmp(&ends(second, b)).then(rest.is_some().cmp(&after.is_some()));
    }
}

/// The first component, and what follows it.
fn split(path: &[u8]) -> (&[u8], Option<&[u8]>) {
    match path.iter().position(|byte| *byte == b'/') {
        Some(at) => (&path[..at], Some(&path[at + 1..])),
        None => (path, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(entries: &[&str]) -> String {
        let mut held = Held::default();
        for entry in entries {
            let (deleted, name) = entry.strip_prefix('*').map_or((false, *entry), |name| (true, name));
            let path = name.strip_suffix('/').unwrap_or(name);
            let path = if path == "." { "" } else { path };
            let line = format!("{entry} ").into_bytes();
            held.take(path.as_bytes().to_vec(), name.ends_with('/'), deleted, line);
        }
        String::from_utf8(held.release()).expect("ASCII")
    }

    #[test]
    fn lines_come_in_the_order_of_rsync() {
        for (entries, expected) in [
            (&["d/x", "a", "d/", "./", "b.c/", "b/", "z"][..], "./ a z b.c/ b/ d/ d/x "),
            (&["d/e/f", "d/e/", "d/a", "d/", "d/e.x"], "d/ d/a d/e.x d/e/ d/e/f "),
            (&["*d/x", "*a", "d/", "b", "./", "*z", "d/k"], "./ *z *a b d/ *d/x d/k "),
            (&["*old/x/y", "*old/x/", "*old/", "*old/b", "./", "a"], "./ *old/x/y *old/x/ *old/b *old/ a "),
            (&["*c/k", "*c/a", "./", "c", "a/", "*a/x"], "./ *c/k *c/a c a/ *a/x "),
            (&["B", "a", "Z", "_"], "B Z _ a "),
        ] {
            assert_eq!(ordered(entries), expected, "{entries:?}");
        }
    }

    #[test]
    fn what_is_held_has_a_bound() {
        let mut held = Held::default();
        let full = (0..HELD_MAX).find(|_| held.take(vec![b'p'; 4000], false, false, vec![b'l'; 4000]));
        assert!(full.is_some_and(|count| count < HELD_MAX / 8000 + 1));
        assert!(!held.release().is_empty() && held.lines.is_empty());
    }
}
