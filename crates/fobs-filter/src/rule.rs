//! Filter rules as they are written: `- *.o`, `protect /keep`, `: .rules`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::glob::PATTERN_LEN_MAX;
use super::pattern::{Fixed, NameKind, Origin, Pattern, Subject};
use crate::path::show;
use fobs_model::filter_rules::Separator;

/// What a rule says of the names that it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// They are part of the transfer, and may be deleted.
    Include,
    /// They are left alone.
    Exclude,
}

/// The sides that a rule is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sides {
    /// As written without a side: both, but only the sender with `--delete-excluded`.
    Unsaid,
    /// What is transferred.
    Sender,
    /// What is deleted.
    Receiver,
    /// Both, even with `--delete-excluded`.
    Both,
}

/// A rule with a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternRule {
    pub(super) action: Action,
    pub(super) sides: Sides,
    pub(super) subject: Subject,
    /// Applies to names that do not match.
    negated: bool,
    /// Does not keep a directory from being deleted.
    pub(super) perishable: bool,
    pattern: Pattern,
}

impl PatternRule {
    pub(super) fn matches(&self, path: &[u8], kind: NameKind, top: &[u8], steps: &mut u64) -> bool {
        !path.is_empty() && self.pattern.matches(path, kind, top, steps) != self.negated
    }

    /// Whether it is compared with absolute paths.
    pub(super) fn is_absolute(&self) -> bool {
        self.pattern.is_absolute()
    }

    /// The pattern as it was written.
    pub(super) fn pattern_text(&self) -> &[u8] {
        self.pattern.text()
    }

    /// Bytes that it takes.
    pub(super) fn memory(&self) -> usize {
        // With the counters of its `Arc`.
        size_of::<PatternRule>() + 2 * size_of::<usize>() + self.pattern.memory()
    }

    /// What a path must be for it to match; `None` where that cannot be looked up.
    pub(super) fn fixed(&self, top: &[u8]) -> Option<Fixed<'_>> {
        if self.negated { None } else { self.pattern.fixed(top) }
    }

    /// Which bytes a path must have for it to match, and whether its last component alone must.
    pub(super) fn mask(&self) -> (u64, bool) {
        let mask = if self.negated { 0 } else { self.pattern.mask() };
        (mask, self.pattern.is_of_name())
    }

    /// Whether it says the same of the same names as `other`, or the opposite: the later one never counts.
    pub(super) fn is_hidden_by(&self, other: &PatternRule) -> bool {
        let conditions = |rule: &PatternRule| (rule.sides, rule.negated, rule.perishable);
        conditions(self) == conditions(other) && self.pattern == other.pattern
    }

    /// The rule as `--filter` takes it.
    pub(super) fn text(&self) -> Vec<u8> {
        let mut text = vec![self.action.character()];
        let of_xattrs = self.subject == Subject::Xattr;
        let (absolute, negated, perishable) = (self.pattern.is_absolute(), self.negated, self.perishable);
        let flags = [(absolute, b'/'), (negated, b'!'), (of_xattrs, b'x'), (perishable, b'p')];
        text.extend(flags.iter().filter(|(on, _)| *on).map(|(_, modifier)| modifier));
        text.extend_from_slice(self.sides.modifiers());
        text.push(b' ');
        text.extend_from_slice(self.pattern.text());
        text
    }
}

/// What the lines of a filter file are, from the rule that names the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStyle {
    /// The lines are patterns of this action, without prefixes.
    bare: Option<Action>,
    /// Several rules a line, separated by white space; no comments.
    words: bool,
    /// As a `.cvsignore`: a word `!` clears what stands before it.
    is_of_cvs: bool,
    sides: Sides,
    absolute: bool,
    perishable: bool,
    /// Rules with just `+ ` or `- ` in front, as `--exclude-from` reads them.
    old_prefixes: Option<Action>,
}

/// A filter file that every directory may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryFile {
    /// Its name, one component.
    pub(super) name: Vec<u8>,
    pub(super) style: FileStyle,
    /// Its rules are not those of subdirectories (modifier `n`).
    pub(super) local: bool,
}

impl DirectoryFile {
    /// The rule as `--filter` takes it.
    pub(super) fn text(&self) -> Vec<u8> {
        let FileStyle { bare, words, is_of_cvs, sides, absolute, perishable, old_prefixes: _ } = self.style;
        let mut text = vec![b':'];
        // `C` says three of the others too.
        text.extend(if is_of_cvs { Some(b'C') } else { bare.map(Action::character) });
        let (local, words) = (self.local && !is_of_cvs, words && !is_of_cvs);
        let flags = [(local, b'n'), (words, b'w'), (absolute, b'/'), (perishable, b'p')];
        text.extend(flags.iter().filter(|(on, _)| *on).map(|(_, modifier)| modifier));
        text.extend_from_slice(sides.modifiers());
        text.push(b' ');
        text.extend_from_slice(&self.name);
        text
    }
}

/// A rule as it was written, before files are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Written {
    Pattern(Arc<PatternRule>),
    DirectoryFile(Arc<DirectoryFile>),
    /// Rules of a file that is read now.
    File {
        name: Vec<u8>,
        style: FileStyle,
    },
    /// Rules before this one do not count.
    Clear,
}

impl Sides {
    /// Whether a rule for these sides is for `side`.
    pub(super) fn include(self, side: Side, delete_excluded: bool) -> bool {
        match self {
            Sides::Unsaid => side == Side::Sender || !delete_excluded,
            Sides::Both => true,
            Sides::Sender => side == Side::Sender,
            Sides::Receiver => side == Side::Receiver,
        }
    }

    fn modifiers(self) -> &'static [u8] {
        match self {
            Sides::Unsaid => b"",
            Sides::Sender => b"s",
            Sides::Receiver => b"r",
            Sides::Both => b"sr",
        }
    }
}

impl Action {
    fn character(self) -> u8 {
        match self {
            Action::Include => b'+',
            Action::Exclude => b'-',
        }
    }
}

/// The side that judges a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What is transferred.
    Sender,
    /// What may be deleted.
    Receiver,
}

impl FileStyle {
    /// Any rules: `--filter`, and a merge file without modifiers.
    pub(super) const RULES: FileStyle = FileStyle {
        bare: None,
        words: false,
        is_of_cvs: false,
        sides: Sides::Unsaid,
        absolute: false,
        perishable: false,
        old_prefixes: None,
    };

    /// Patterns of one action: `--exclude`, `--include` and their `-from`.
    pub(super) const fn patterns(action: Action) -> FileStyle {
        FileStyle { old_prefixes: Some(action), ..FileStyle::RULES }
    }

    /// Whether its rules can be for `side`: each may say its own.
    pub(super) fn is_for(self, side: Side) -> bool {
        self.sides == Sides::Unsaid || self.sides.include(side, false)
    }

    /// The rules in a file's text, each as written.
    pub(super) fn split(self, text: &[u8], separator: Separator) -> Vec<&[u8]> {
        let lines = text.split(move |&byte| match separator {
            Separator::Line => matches!(byte, b'\n' | b'\r'),
            Separator::Nul => byte == 0,
        });
        if self.words {
            lines
                .flat_map(|line| line.split(u8::is_ascii_whitespace))
                .filter(|word| !word.is_empty())
                .collect()
        } else {
            lines.filter(|line| !matches!(line, [] | [b'#' | b';', ..])).collect()
        }
    }

    /// Parses one rule; `directory` is that of the per-directory file which it stands in. The error is one
    /// sentence without the rule.
    pub(super) fn parse(self, rule: &[u8], directory: Option<&Arc<[u8]>>) -> Result<Vec<Written>, String> {
        let mut parts = Parts { is_shown: directory.is_none(), ..Parts::new(self) };
        let rest = parts.prefix(rule)?;
        if self.sides != Sides::Unsaid {
            if parts.sides != Sides::Unsaid {
                return Err("a side is said of its file already".to_owned());
            }
            parts.sides = self.sides;
        }
        match parts.kind {
            Kind::Clear => Ok(vec![Written::Clear]),
            Kind::File | Kind::DirectoryFile if rest.is_empty() && parts.is_of_cvs => {
                parts.file(CVS_FILE, directory)
            }
            _ if rest.is_empty() => Err("it has no pattern".to_owned()),
            _ if rest.len() > PATTERN_LEN_MAX => {
                Err(format!("its pattern is longer than {PATTERN_LEN_MAX} bytes"))
            }
            Kind::Pattern => {
                let origin = Origin { absolute: parts.absolute, directory };
                Ok(vec![Written::Pattern(parts.pattern(rest, origin)?)])
            }
            Kind::File | Kind::DirectoryFile => parts.file(rest, directory),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pattern,
    File,
    DirectoryFile,
    Clear,
}

/// What the prefix of a rule says.
struct Parts {
    kind: Kind,
    action: Action,
    sides: Sides,
    negated: bool,
    subject: Subject,
    perishable: bool,
    absolute: bool,
    /// Of a file's rules.
    bare: Option<Action>,
    words: bool,
    local: bool,
    excludes_itself: bool,
    /// Its lines are those of a `.cvsignore` (modifier `C`).
    is_of_cvs: bool,
    /// Whether an error may repeat what was written.
    is_shown: bool,
    container: FileStyle,
}

/// The rules with a long name, and their character.
const NAMES: &[(&[u8], u8)] = &[
    (b"exclude", b'-'),
    (b"include", b'+'),
    (b"hide", b'H'),
    (b"show", b'S'),
    (b"protect", b'P'),
    (b"risk", b'R'),
    (b"merge", b'.'),
    (b"dir-merge", b':'),
    (b"clear", b'!'),
    (b"cvs-exclude", b'C'),
];

impl Parts {
    fn new(container: FileStyle) -> Parts {
        Parts {
            kind: Kind::Pattern,
            action: container.bare.or(container.old_prefixes).unwrap_or(Action::Exclude),
            sides: Sides::Unsaid,
            negated: false,
            subject: Subject::Path,
            perishable: container.perishable,
            absolute: container.absolute,
            bare: None,
            words: false,
            local: false,
            excludes_itself: false,
            is_of_cvs: false,
            is_shown: true,
            container,
        }
    }

    /// Reads the prefix; returns what follows it.
    fn prefix<'a>(&mut self, rule: &'a [u8]) -> Result<&'a [u8], String> {
        if self.container.is_of_cvs && rule == b"!" {
            self.kind = Kind::Clear;
            return Ok(b"");
        }
        if self.container.bare.is_some() {
            return Ok(rule);
        }
        if self.container.old_prefixes.is_some() {
            return Ok(match rule {
                [b'-', b' ', rest @ ..] => {
                    self.action = Action::Exclude;
                    rest
                }
                [b'+', b' ', rest @ ..] => {
                    self.action = Action::Include;
                    rest
                }
                [b'!'] => {
                    self.kind = Kind::Clear;
                    b""
                }
                whole => whole,
            });
        }
        let (character, rest) = first_word(rule);
        let says_side = self.rule(character)?;
        if self.kind == Kind::Clear {
            return if rest.is_empty() {
                Ok(b"")
            } else {
                Err("nothing may follow '!' or 'clear'".to_owned())
            };
        }
        let end = rest.iter().position(|byte| matches!(byte, b' ' | b'_')).unwrap_or(rest.len());
        for &modifier in &rest[..end] {
            self.modifier(modifier, says_side)?;
        }
        Ok(rest.get(end + 1..).unwrap_or_default())
    }

    /// Takes the rule's character; returns whether it says a side.
    fn rule(&mut self, character: Option<u8>) -> Result<bool, String> {
        self.action = Action::Exclude;
        match character {
            Some(b'-') => {}
            Some(b'+') => self.action = Action::Include,
            Some(b'S') => (self.action, self.sides) = (Action::Include, Sides::Sender),
            Some(b'H') => self.sides = Sides::Sender,
            Some(b'R') => (self.action, self.sides) = (Action::Include, Sides::Receiver),
            Some(b'P') => self.sides = Sides::Receiver,
            Some(b'.') => self.kind = Kind::File,
            Some(b':') => self.kind = Kind::DirectoryFile,
            Some(b'!') => self.kind = Kind::Clear,
            Some(b'C') => return Err(NO_CVS.to_owned()),
            _ => return Err("it begins with none of + - S H R P . : ! or their names".to_owned()),
        }
        Ok(self.sides != Sides::Unsaid)
    }

    fn modifier(&mut self, modifier: u8, says_side: bool) -> Result<(), String> {
        let of_file = matches!(self.kind, Kind::File | Kind::DirectoryFile);
        match modifier {
            b'/' => self.absolute = true,
            b'!' if !of_file => self.negated = true,
            b'p' => self.perishable = true,
            b's' if !says_side => self.side(Sides::Sender),
            b'r' if !says_side => self.side(Sides::Receiver),
            b'+' if of_file && self.bare.is_none() => self.bare = Some(Action::Include),
            b'-' if of_file && self.bare.is_none() => self.bare = Some(Action::Exclude),
            b'e' if of_file => self.excludes_itself = true,
            b'n' if of_file => self.local = true,
            b'w' if of_file => self.words = true,
            b'C' if of_file && !says_side && self.bare.is_none() => {
                (self.is_of_cvs, self.bare) = (true, Some(Action::Exclude));
                (self.words, self.local) = (true, true);
            }
            b'C' => return Err(NO_CVS.to_owned()),
            // As rsync: a file's rules say it each for itself.
            b'x' if of_file => {}
            b'x' => self.subject = Subject::Xattr,
            _ if !self.is_shown => return Err("one of its letters is no modifier that fits it".to_owned()),
            other => {
                return Err(format!("'{}' is no modifier that fits it", show(&[other])));
            }
        }
        Ok(())
    }

    fn side(&mut self, side: Sides) {
        self.sides = match self.sides {
            Sides::Unsaid => side,
            same if same == side => side,
            _ => Sides::Both,
        };
    }

    /// The style of the file that the rule names.
    fn style(&self) -> FileStyle {
        FileStyle {
            bare: self.bare,
            words: self.words,
            is_of_cvs: self.is_of_cvs,
            sides: self.sides,
            absolute: self.absolute,
            perishable: self.perishable,
            old_prefixes: None,
        }
    }

    fn pattern(&self, text: &[u8], origin: Origin<'_>) -> Result<Arc<PatternRule>, String> {
        let pattern = Pattern::new(text, origin).ok_or("it has no pattern")?;
        let (action, sides, negated, perishable) = (self.action, self.sides, self.negated, self.perishable);
        Ok(Arc::new(PatternRule { action, sides, subject: self.subject, negated, perishable, pattern }))
    }

    /// The rules for the file that the rule names, in a file of this directory.
    fn file(&self, name: &[u8], directory: Option<&Arc<[u8]>>) -> Result<Vec<Written>, String> {
        let file = match self.kind {
            Kind::File if directory.is_some() => {
                return Err(
                    "a file in a directory can name a file of each directory, with ':', and none to be read at once"
                        .to_owned(),
                );
            }
            Kind::DirectoryFile if name.contains(&b'/') || matches!(name, b"." | b"..") => {
                return Err(
                    "a filter file of each directory is a name without '/': those of directories above the source are not read"
                        .to_owned(),
                );
            }
            Kind::DirectoryFile => {
                let (style, local) = (self.style(), self.local);
                Written::DirectoryFile(Arc::new(DirectoryFile { name: name.to_vec(), style, local }))
            }
            _ => Written::File { name: name.to_vec(), style: self.style() },
        };
        // As rsync: what a file in a directory excludes of itself is protected even with --delete-excluded.
        let of_itself = if directory.is_some() { Sides::Both } else { Sides::Unsaid };
        self.with_self(name, of_itself, file)
    }

    /// The rule for a file, after the one that excludes the file itself (modifier `e`).
    fn with_self(&self, name: &[u8], sides: Sides, file: Written) -> Result<Vec<Written>, String> {
        let mut rules = Vec::new();
        if self.excludes_itself {
            let own = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
            let plain = Parts { sides, ..Parts::new(FileStyle::RULES) };
            rules.push(Written::Pattern(plain.pattern(own, Origin::default())?));
        }
        rules.push(file);
        Ok(rules)
    }
}

/// What a rule with the modifier `C` names where it names nothing.
const CVS_FILE: &[u8] = b".cvsignore";
const NO_CVS: &str = "the patterns of CVS (-C) are not built; write them as rules";

/// The character of a rule, and what follows it: modifiers, a space, a pattern.
fn first_word(rule: &[u8]) -> (Option<u8>, &[u8]) {
    for &(name, character) in NAMES {
        match rule.strip_prefix(name) {
            Some(rest @ ([] | [b' ' | b'_' | b'\t', ..])) => return (Some(character), rest),
            Some([b',', rest @ ..]) => return (Some(character), rest),
            _ => {}
        }
    }
    match rule {
        [character, b',', rest @ ..] | [character, rest @ ..] => (Some(*character), rest),
        [] => (None, rule),
    }
}
