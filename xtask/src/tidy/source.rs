//! The files that git knows, read once.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of the repository.
pub struct File {
    /// Relative to the repository.
    pub path: PathBuf,
    /// Empty where the file is no text.
    pub text: String,
    /// Of a Rust source.
    pub syntax: Option<syn::File>,
}

/// All files of the repository.
#[derive(Default)]
pub struct Tree {
    /// In the order of their paths.
    pub files: Vec<File>,
}

impl Tree {
    /// Reads what git tracks or would track below `root`.
    pub fn read(root: &Path) -> Result<Tree, String> {
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .map_err(|error| format!("cannot run git: {error}"))?;
        if !listed.status.success() {
            return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr)));
        }
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let mut paths: Vec<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
        paths.sort_unstable();
        paths.dedup();
        let mut tree = Tree::default();
        for path in paths {
            // A file that was deleted but not committed is listed and not there.
            let Ok(bytes) = std::fs::read(root.join(path)) else { continue };
            tree.push(path, String::from_utf8(bytes).unwrap_or_default())?;
        }
        Ok(tree)
    }

    /// A tree of these paths and texts.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.push(path, (*text).to_owned()).expect("valid source");
        }
        tree
    }

    /// Adds a file.
    pub fn push(&mut self, path: &str, text: String) -> Result<(), String> {
        let syntax = if path.ends_with(".rs") {
            Some(syn::parse_file(&text).map_err(|error| format!("{path}: {error}"))?)
        } else {
            None
        };
        self.files.push(File { path: path.into(), text, syntax });
        Ok(())
    }

    /// The Rust sources.
    pub fn rust(&self) -> impl Iterator<Item = (&File, &syn::File)> {
        self.files.iter().filter_map(|file| Some((file, file.syntax.as_ref()?)))
    }

    /// The documents.
    pub fn documents(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.extension().is_some_and(|extension| extension == "md"))
    }
}
