//! Which host a command is for, and which blocks are for that host.

use std::ffi::OsStr;

use fobs::Result;
use fobs::options::{Carrier, Location};

use crate::location;

/// The other host of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// Its name as typed, in small letters; `None` for all hosts.
    pub host: Option<String>,
    /// How it is reached; `None` if not known.
    pub carrier: Option<Carrier>,
}

impl Target {
    /// That of the first location on another host.
    pub fn of_locations<'a>(arguments: impl Iterator<Item = &'a OsStr>) -> Target {
        let remote =
            arguments.filter_map(|argument| location::parse(argument).ok()).find_map(
                |location| match location {
                    Location::Remote(remote) => Some(remote),
                    Location::Local(_) | Location::Stdio => None,
                },
            );
        remote.map_or_else(Target::default, |remote| Target {
            host: Some(remote.host.to_lowercase()),
            carrier: Some(remote.carrier),
        })
    }

    /// That of an argument that names a host only.
    ///
    /// # Errors
    /// Those of [`location::host`].
    pub fn of_host(argument: &OsStr) -> Result<Target> {
        let remote = location::host(argument)?;
        Ok(Target { host: Some(remote.host.to_lowercase()), carrier: Some(remote.carrier) })
    }

    /// Whether a block's pattern is for it. `*` stands for any letters, `?` for one; `ssh://` or `fobs://` in
    /// front limits it to that carrier.
    pub fn matches(&self, pattern: &str) -> bool {
        let pattern = pattern.to_lowercase();
        let (carrier, name) = match (pattern.strip_prefix("ssh://"), pattern.strip_prefix("fobs://")) {
            (Some(name), _) => (Some(Carrier::Ssh), name),
            (_, Some(name)) => (Some(Carrier::Daemon), name),
            _ => (None, pattern.as_str()),
        };
        let same_way = carrier.is_none_or(|carrier| self.carrier == Some(carrier));
        same_way && self.host.as_ref().is_some_and(|host| is_like(host, name))
    }
}

/// Whether a name is like a pattern with `*` and `?`.
fn is_like(name: &str, pattern: &str) -> bool {
    let (name, pattern): (Vec<char>, Vec<char>) = (name.chars().collect(), pattern.chars().collect());
    let (mut at, mut wanted) = (0, 0);
    // Where the last `*` stands, and the first letter that it does not cover yet.
    let mut star: Option<(usize, usize)> = None;
    while at < name.len() {
        match pattern.get(wanted) {
            Some('*') => {
                star = Some((wanted, at));
                wanted += 1;
            }
            Some(&letter) if letter == '?' || letter == name[at] => {
                at += 1;
                wanted += 1;
            }
            _ => {
                let Some((place, covered)) = star else { return false };
                star = Some((place, covered + 1));
                (at, wanted) = (covered + 1, place + 1);
            }
        }
    }
    pattern[wanted..].iter().all(|&letter| letter == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(argument: &str) -> Target {
        Target::of_host(OsStr::new(argument)).expect(argument)
    }

    #[test]
    fn patterns_match_names_and_carriers() {
        for (pattern, argument, expected) in [
            ("a.example.org", "a.example.org", true),
            ("A.Example.org", "me@a.EXAMPLE.org:", true),
            ("*.example.org", "a.example.org", true),
            ("*.example.org", "example.org", false),
            ("*", "fobs://h", true),
            ("n??", "n12", true),
            ("n??", "n1", false),
            ("*a*b", "xaybzb", true),
            ("*a*b", "xaybz", false),
            ("ssh://h", "h:", true),
            ("ssh://h", "fobs://h", false),
            ("fobs://*", "fobs://h/x", true),
            ("fobs://*", "h", false),
            ("", "h", false),
        ] {
            assert_eq!(target(argument).matches(pattern), expected, "{pattern} {argument}");
        }
        assert!(!Target::default().matches("*"), "a block is for a host");
    }

    #[test]
    fn many_stars_are_matched_quickly() {
        assert!(!is_like(&"a".repeat(255), &format!("{}b", "*a".repeat(200))));
    }

    #[test]
    fn the_host_of_a_copy_is_that_of_its_first_remote() {
        let words = ["big.tar", "./a:b", "me@H.example.org:dir", "fobs://other/"].map(OsStr::new);
        let expected = Target { host: Some("h.example.org".to_owned()), carrier: Some(Carrier::Ssh) };
        assert_eq!(Target::of_locations(words.into_iter()), expected);
    }
}
