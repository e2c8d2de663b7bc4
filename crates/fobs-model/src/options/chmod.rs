//! `--chmod`: changes to the modes of what is sent, in the notation of rsync(1): clauses like `D2755`,
//! `Fgo-w` or `u=rwX`, separated by commas.

use serde::{Deserialize, Serialize};

/// All bits of a mode.
const MODE_BITS: u32 = 0o7777;
/// Permission to execute, for everybody.
const EXECUTE: u32 = 0o111;
const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
const STICKY: u32 = 0o1000;

/// Changes to modes, in order. Empty changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Chmod(Vec<Clause>);

/// Which entries a clause is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum For {
    All,
    Directories,
    Files,
}

/// Which bits for execution a clause may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Executing {
    Any,
    /// None for a file that nobody could execute (`X`).
    Kept,
}

/// Whose permissions a clause copies (`g=u`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Whose {
    Owner,
    Group,
    Others,
}

/// Permissions of one that others get or lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Copied {
    from: Whose,
    /// The bits that may change.
    to: u32,
    /// Whether they are taken away.
    #[serde(default)]
    taken: bool,
}

impl Copied {
    fn apply(self, mode: u32, kept: u32) -> u32 {
        let shift = match self.from {
            Whose::Owner => 6,
            Whose::Group => 3,
            Whose::Others => 0,
        };
        let bits = (EXECUTE * (mode >> shift & 0o7)) & self.to;
        if self.taken { kept & !bits } else { kept | bits }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Clause {
    #[serde(rename = "for")]
    applies: For,
    /// Bits that stay.
    keep: u32,
    /// Bits that are set then.
    set: u32,
    executing: Executing,
    /// What is copied beside that, of a newer program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    copied: Option<Copied>,
}

impl Chmod {
    /// Reads the notation. A clause without `u`, `g`, `o` or `a` does not touch the bits of `umask`, as in
    /// chmod(1).
    ///
    /// # Errors
    /// One sentence that names the clause.
    pub fn parse(text: &str, umask: u32) -> Result<Chmod, String> {
        let clause = |text| {
            parse_clause(text, umask).ok_or_else(|| {
                format!(
                    "'{text}' in --chmod is no change of modes; write changes like D2755,F644 or go-w,u+X"
                )
            })
        };
        text.split(',').map(clause).collect::<Result<_, _>>().map(Chmod)
    }

    /// The changed mode of a directory, or of anything else but a symbolic link, which has none.
    pub fn apply(&self, mode: u32, is_directory: bool) -> u32 {
        let keeps_x = !is_directory && mode & EXECUTE == 0;
        self.0.iter().filter(|clause| clause.is_for(is_directory)).fold(mode & MODE_BITS, |mode, clause| {
            let set = match clause.executing {
                Executing::Kept if keeps_x => clause.set & !EXECUTE,
                _ => clause.set,
            };
            let changed = (mode & clause.keep) | set;
            clause.copied.map_or(changed, |copied| copied.apply(mode, changed)) & MODE_BITS
        })
    }

    /// Whether permissions of one are copied to others, which a program before 0.3 does not know.
    pub fn copies(&self) -> bool {
        self.0.iter().any(|clause| clause.copied.is_some())
    }
}

impl Clause {
    fn is_for(&self, is_directory: bool) -> bool {
        match self.applies {
            For::All => true,
            For::Directories => is_directory,
            For::Files => !is_directory,
        }
    }
}

fn parse_clause(text: &str, umask: u32) -> Option<Clause> {
    let (applies, text) = match text.as_bytes().first()? {
        b'D' => (For::Directories, text.trim_start_matches('D')),
        b'F' => (For::Files, text.trim_start_matches('F')),
        _ => (For::All, text),
    };
    if text.starts_with(|first: char| first.is_digit(8)) {
        // Not `from_str_radix` alone, which takes a sign.
        let digits = text.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
        let set = u32::from_str_radix(text, 8).ok().filter(|&mode| digits && mode <= MODE_BITS)?;
        return Some(Clause { applies, keep: 0, set, executing: Executing::Any, copied: None });
    }
    let at = text.find(['+', '-', '='])?;
    let (who, [operator, what @ ..]) = (&text[..at], &text.as_bytes()[at..]) else { return None };
    let who = Who::parse(who)?;
    if let [letter @ (b'u' | b'g' | b'o')] = what {
        return Some(copying(applies, &who, *operator, *letter, umask));
    }
    let (mut bits, mut special, mut executing) = (0, 0, Executing::Any);
    for letter in what {
        match letter {
            b'r' => bits |= 4,
            b'w' => bits |= 2,
            b'x' => bits |= 1,
            b'X' => {
                bits |= 1;
                executing = Executing::Kept;
            }
            // For nobody in particular it is setuid.
            b's' => special |= if who.special == 0 { SETUID } else { who.special },
            b't' => special |= STICKY,
            _ => return None,
        }
    }
    let bits = match who.places {
        0 => (EXECUTE * bits) & !umask,
        places => places * bits,
    };
    let places = if who.places == 0 { EXECUTE } else { who.places };
    let (keep, set) = match operator {
        b'+' => (MODE_BITS, bits | special),
        b'-' => (MODE_BITS & !(bits | special), 0),
        // As in rsync, the bits above the permissions stay unless one is named.
        _ => (MODE_BITS & !(places * 7) & !if special == 0 { 0 } else { who.special }, bits | special),
    };
    Some(Clause { applies, keep, set, executing, copied: None })
}

/// A clause whose permissions are those of the one whom `letter` names.
fn copying(applies: For, who: &Who, operator: u8, letter: u8, umask: u32) -> Clause {
    let (places, to) = match who.places {
        0 => (EXECUTE, (EXECUTE * 7) & !umask),
        places => (places, places * 7),
    };
    let from = match letter {
        b'u' => Whose::Owner,
        b'g' => Whose::Group,
        _ => Whose::Others,
    };
    // The bit above the permissions of each goes too, as in rsync.
    let above = [(0o100, SETUID), (0o010, SETGID), (0o001, STICKY)];
    let special = above.iter().filter(|(place, _)| places & place != 0).fold(0, |all, (_, bit)| all | bit);
    let keep = if operator == b'=' { MODE_BITS & !((places * 7) | special) } else { MODE_BITS };
    let copied = Some(Copied { from, to, taken: operator == b'-' });
    Clause { applies, keep, set: 0, executing: Executing::Any, copied }
}

/// Who a clause gives permissions to.
struct Who {
    /// The lowest bit of each one's three.
    places: u32,
    /// What `s` means for them.
    special: u32,
}

impl Who {
    fn parse(text: &str) -> Option<Who> {
        let mut who = Who { places: 0, special: 0 };
        for letter in text.bytes() {
            match letter {
                b'u' => {
                    who.places |= 0o100;
                    who.special |= SETUID;
                }
                b'g' => {
                    who.places |= 0o010;
                    who.special |= SETGID;
                }
                b'o' => who.places |= 0o001,
                b'a' => {
                    who.places |= 0o111;
                    who.special |= SETUID | SETGID;
                }
                _ => return None,
            }
        }
        Some(who)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn changed(text: &str, mode: u32, is_directory: bool) -> u32 {
        Chmod::parse(text, 0o022).expect(text).apply(mode, is_directory)
    }

    #[test]
    fn modes_change_as_rsync_changes_them() {
        for (text, mode, file, directory) in [
            ("755", 0o600, 0o755, 0o755),
            ("D2755,F644", 0o600, 0o644, 0o2755),
            ("Du=rwx,Fgo-w", 0o666, 0o644, 0o766),
            ("ug=rwx,o=rx", 0o4000, 0o4775, 0o4775),
            ("+X", 0o644, 0o644, 0o755),
            ("a+X", 0o100, 0o111, 0o111),
            ("+w", 0o444, 0o644, 0o644),
            ("-w", 0o666, 0o466, 0o466),
            ("=rw", 0o777, 0o644, 0o644),
            ("=", 0o1777, 0o1000, 0o1000),
            ("u+s", 0o755, 0o4755, 0o4755),
            ("g+s", 0o755, 0o2755, 0o2755),
            ("ug-s", 0o6755, 0o0755, 0o0755),
            ("+s", 0o755, 0o4755, 0o4755),
            ("a+s", 0o640, 0o6640, 0o6640),
            ("a=s", 0o751, 0o6000, 0o6000),
            ("a-s", 0o6751, 0o751, 0o751),
            ("g=u", 0o640, 0o660, 0o660),
            ("o=g", 0o751, 0o755, 0o755),
            ("u=o", 0o751, 0o151, 0o151),
            ("a=u", 0o2640, 0o666, 0o666),
            ("u=g", 0o4755, 0o555, 0o555),
            ("g=u", 0o2755, 0o775, 0o775),
            ("o=u", 0o1750, 0o757, 0o757),
            ("ug=o", 0o7755, 0o1555, 0o1555),
            ("g+u", 0o2640, 0o2660, 0o2660),
            ("=u", 0o751, 0o755, 0o755),
            ("g+u", 0o640, 0o660, 0o660),
            ("g-u", 0o751, 0o701, 0o701),
            ("ug=o", 0o640, 0o000, 0o000),
            ("g=u,Fo=g", 0o640, 0o666, 0o660),
            ("+t", 0o755, 0o1755, 0o1755),
            ("u=s,g=r", 0o2777, 0o6047, 0o6047),
            ("DD755", 0o600, 0o600, 0o755),
        ] {
            assert_eq!(changed(text, mode, false), file, "{text} of a file");
            assert_eq!(changed(text, mode, true), directory, "{text} of a directory");
        }
    }

    #[test]
    fn what_is_no_change_is_refused_by_name() {
        for bad in [
            "g=a", "u=go", "g=ur", "g=uX", "g=us", "", ",", "755,", "8", "77777", "7+5", "u", "ux", "u+7",
            "DF755", "uD=r", "+rwxq", "é", "u+é", "7é",
        ] {
            let error = Chmod::parse(bad, 0o022).expect_err(bad);
            assert!(error.contains("in --chmod"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_change_or_an_error(text in "[DFugoa+=rwxXst0-9,-]{0,12}|[ugoa]{0,2}[+=-][ugo]|\\PC{0,6}", mode: u32) {
            if let Ok(chmod) = Chmod::parse(&text, 0o077) {
                prop_assert!(chmod.apply(mode, false) <= MODE_BITS);
                let json = serde_json::to_string(&chmod).expect("it can be sent");
                prop_assert_eq!(serde_json::from_str::<Chmod>(&json).expect("it can be read"), chmod);
            }
        }
    }
}
