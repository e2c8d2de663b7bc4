//! The changelog's next section, from the files of `changes/` (changes/README.md).

use std::fs;
use std::path::Path;

/// Kinds of changes, in the order of a section.
pub const KINDS: &[&str] = &["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];

/// A release: its version, and its date as `YYYY-MM-DD`.
pub struct Release {
    /// Such as `0.3.0`.
    pub version: String,
    /// Such as `2027-01-31`.
    pub date: String,
}

/// The kind and the entry of a change.
///
/// # Errors
///
/// A sentence where it does not begin with a kind.
pub fn parse(text: &str) -> Result<(&str, &str), String> {
    let (kind, entry) = text.split_once(':').unwrap_or_default();
    if KINDS.contains(&kind) && !entry.trim().is_empty() {
        Ok((kind, entry.trim()))
    } else {
        Err(format!("a change begins with one of {}, a colon and its text", KINDS.join(", ")))
    }
}

/// The section of the changes below `root`. With a release it goes into CHANGELOG.md, and they are removed.
///
/// # Errors
///
/// A sentence where a file cannot be read or written, or a change has no kind.
pub fn make(root: &Path, release: Option<&Release>) -> Result<String, String> {
    let said = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let folder = root.join("changes");
    let listed = fs::read_dir(&folder).map_err(|error| said(&folder, error))?;
    let mut paths: Vec<_> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "md") && !path.ends_with("README.md"));
    paths.sort();
    let texts = paths.iter().map(|path| fs::read_to_string(path).map_err(|error| said(path, error)));
    let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
    let named = paths.iter().zip(&texts);
    let changes =
        named.map(|(path, text)| parse(text).map_err(|error| format!("{}: {error}", path.display())));
    let section = section(&changes.collect::<Result<Vec<_>, _>>()?);
    if let Some(release) = release {
        let path = root.join("CHANGELOG.md");
        let changelog = fs::read_to_string(&path).map_err(|error| said(&path, error))?;
        let changelog = insert(&changelog, release, &section)?;
        fs::write(&path, changelog).map_err(|error| said(&path, error))?;
        paths.iter().try_for_each(|path| fs::remove_file(path).map_err(|error| said(path, error)))?;
    }
    Ok(section)
}

fn section(changes: &[(&str, &str)]) -> String {
    let mut section = String::new();
    for &kind in KINDS {
        let entries: Vec<&str> =
            changes.iter().filter(|(of, _)| *of == kind).map(|(_, entry)| *entry).collect();
        if entries.is_empty() {
            continue;
        }
        section += &format!("### {kind}\n\n");
        for entry in entries {
            // Links of a change are relative to its folder, those of the changelog to the one above.
            section += &format!("- {}\n", entry.replace("](../", "](").replace('\n', "\n  "));
        }
        section.push('\n');
    }
    section
}

/// The changelog with a section before that of the release before.
fn insert(changelog: &str, release: &Release, section: &str) -> Result<String, String> {
    let at = changelog.find("\n## [").ok_or("CHANGELOG.md has no section of an earlier release")? + 1;
    let heading = format!("## [{}] - {}\n\n", release.version, release.date);
    Ok([&changelog[..at], &heading, section, &changelog[at..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_a_kind() {
        assert_eq!(parse("Added: `--x`.\n"), Ok(("Added", "`--x`.")));
        assert!(parse("Added `--x`: more.").is_err());
        assert!(parse("Added:\n").is_err());
    }

    #[test]
    fn a_section_has_the_order_of_kinds_and_links_from_the_root() {
        let changes =
            [("Fixed", "One,\nin two lines."), ("Added", "[Two](../docs/a.md)."), ("Fixed", "Three.")];
        let made = section(&changes);
        assert_eq!(
            made,
            "### Added\n\n- [Two](docs/a.md).\n\n### Fixed\n\n- One,\n  in two lines.\n- Three.\n\n"
        );
        let release = Release { version: "0.3.0".to_owned(), date: "2027-01-31".to_owned() };
        let changelog = insert("# Changelog\n\n## [0.2.0] - 2026-11-24\n", &release, &made).unwrap();
        let begin = "# Changelog\n\n## [0.3.0] - 2027-01-31\n\n### Added\n";
        assert!(changelog.starts_with(begin) && changelog.ends_with("- Three.\n\n## [0.2.0] - 2026-11-24\n"));
    }
}
