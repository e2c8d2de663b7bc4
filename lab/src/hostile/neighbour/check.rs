//! What a run must leave as it was, and what it may not have given to the neighbour or taken from it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{MARK, NEIGHBOUR, SECRET};

/// Bits of a mode with which a file runs with its owner's or group's rights.
const SET_ID: u32 = 0o6000;

/// What is known of a file without its name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fact {
    inode: u64,
    mode: u32,
    owner: (u32, u32),
    time: (i64, i64),
    content: Vec<u8>,
    attributes: Vec<u8>,
}

/// A tree as it is: what each path is, and how many names it has.
#[derive(Debug)]
pub struct Snapshot(BTreeMap<PathBuf, (Fact, u64)>);

impl Snapshot {
    pub fn of(top: &Path) -> Result<Snapshot, String> {
        let mut facts = BTreeMap::new();
        visit(top, &mut |path, stat| {
            let content = match stat.file_type() {
                kind if kind.is_file() => fs::read(path).unwrap_or_default(),
                kind if kind.is_symlink() => {
                    fs::read_link(path).unwrap_or_default().into_os_string().into_encoded_bytes()
                }
                _ => Vec::new(),
            };
            let mut names = vec![0; 4096];
            let len = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
            names.truncate(len);
            let fact = Fact {
                inode: stat.ino(),
                mode: stat.mode(),
                owner: (stat.uid(), stat.gid()),
                time: (stat.mtime(), stat.mtime_nsec()),
                content,
                attributes: names,
            };
            let links = if stat.is_dir() { 0 } else { stat.nlink() };
            facts.insert(path.to_owned(), (fact, links));
        })?;
        Ok(Snapshot(facts))
    }

    /// What is different now: nothing but names that were taken from what is here may be.
    pub fn compare(&self, now: &Snapshot) -> Vec<String> {
        let mut findings = Vec::new();
        for (path, (before, links)) in &self.0 {
            let shown = path.display();
            match now.0.get(path) {
                None => findings.push(format!("{shown} is gone")),
                Some((after, _)) if after != before => findings.push(format!(
                    "{shown} was inode {} of {:?}, mode {:o}, and is inode {} of {:?}, mode {:o}{}",
                    before.inode,
                    before.owner,
                    before.mode,
                    after.inode,
                    after.owner,
                    after.mode,
                    if before.content == after.content { "" } else { ", with other content" }
                )),
                Some((_, more)) if more > links => findings.push(format!("{shown} gained a name")),
                Some(_) => {}
            }
        }
        let new = now.0.keys().filter(|path| !self.0.contains_key(*path));
        findings.extend(new.map(|path| format!("{} is new", path.display())));
        findings
    }
}

/// What another user's directory may hold: content of the neighbour's belongs to it, without rights of
/// others, and what is secret has its mode.
pub fn in_shared(directory: &Path) -> Result<Vec<String>, String> {
    let mut findings = Vec::new();
    visit(directory, &mut |path, stat| {
        if !stat.is_file() {
            return;
        }
        let content = fs::read(path).unwrap_or_default();
        let shown = path.display();
        let (owner, mode) = (stat.uid(), stat.mode() & 0o7777);
        if content.starts_with(MARK) && (owner != NEIGHBOUR || mode & SET_ID != 0) {
            findings.push(format!("{shown}: the neighbour's content is of user {owner}, mode {mode:o}"));
        }
        if content.starts_with(SECRET) && owner == NEIGHBOUR {
            findings.push(format!("{shown}: a secret belongs to the neighbour, mode {mode:o}"));
        }
    })?;
    Ok(findings)
}

/// What a directory may hold in which the neighbour may not write: what the source has, or nothing, and
/// never what is the neighbour's.
pub fn in_own(source: &Path, directory: &Path) -> Result<Vec<String>, String> {
    let mut findings = Vec::new();
    visit(directory, &mut |path, stat| {
        let shown = path.display();
        if stat.uid() == NEIGHBOUR {
            findings.push(format!("{shown} belongs to the neighbour"));
        }
        let Ok(below) = path.strip_prefix(directory) else { return };
        let is_ours = below.to_string_lossy().contains(".fobs-");
        if stat.is_file() && !is_ours && fs::read(path).ok() != fs::read(source.join(below)).ok() {
            findings.push(format!("{shown} has not the source's content"));
        }
    })?;
    Ok(findings)
}

/// What came to a destination of what lies outside the source, and only its owner may read.
pub fn brought(directory: &Path, outside: &Path) -> Result<Vec<String>, String> {
    let secrets = ["secret", "program"].map(|name| fs::read(outside.join(name)).unwrap_or_default());
    let mut findings = Vec::new();
    visit(directory, &mut |path, stat| {
        let has = |secret: &Vec<u8>| stat.is_file() && fs::read(path).is_ok_and(|content| content == *secret);
        if secrets.iter().any(has) {
            findings.push(format!("{} has what lies outside the source", path.display()));
        }
    })?;
    Ok(findings)
}

/// Visits what is below a directory, and itself; follows no link.
fn visit(top: &Path, take: &mut dyn FnMut(&Path, &fs::Metadata)) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot look at {}: {error}", top.display());
    let stat = fs::symlink_metadata(top).map_err(failed)?;
    take(top, &stat);
    if stat.is_dir() {
        for entry in fs::read_dir(top).map_err(failed)? {
            visit(&entry.map_err(failed)?.path(), take)?;
        }
    }
    Ok(())
}
