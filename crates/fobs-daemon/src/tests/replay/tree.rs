//! The tree that transcripts are about: the same wherever it is made, so that its root is.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::{fs, io};

/// Files and their lengths: one of fifty packets, one that shares its chunk, and an empty one.
const FILES: [(&str, usize); 3] = [("tree/large", 60_000), ("tree/sub/small", 1_000), ("tree/sub/empty", 0)];
/// A link and its target.
const LINK: (&str, &str) = ("tree/link", "large");

fn content(name: &str, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(name.as_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// Makes the tree below a directory that does not exist yet.
pub fn write(below: &Path) -> io::Result<()> {
    fs::create_dir_all(below.join("tree/sub"))?;
    for (name, len) in FILES {
        fs::write(below.join(name), content(name, len))?;
    }
    symlink(LINK.1, below.join(LINK.0))
}

/// Fails unless the tree is below this directory, and nothing else.
pub fn compare(below: &Path) -> io::Result<()> {
    let differs =
        |name: &str| io::Error::other(format!("{} is not what was copied", below.join(name).display()));
    for (name, len) in FILES {
        if fs::read(below.join(name))? != content(name, len) {
            return Err(differs(name));
        }
    }
    let counts = [("", 1), ("tree", 3), ("tree/sub", 2)];
    for (name, count) in counts {
        if fs::read_dir(below.join(name))?.count() != count {
            return Err(differs(name));
        }
    }
    if fs::read_link(below.join(LINK.0))? == Path::new(LINK.1) { Ok(()) } else { Err(differs(LINK.0)) }
}
