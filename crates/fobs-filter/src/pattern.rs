//! One pattern of a filter rule: where in a path it applies, and to what.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::glob::{Glob, PATTERN_LEN_MAX, Start, is_wild, mask_of};

/// What a path names, as far as patterns tell it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// A directory: patterns with a slash at the end apply too.
    Directory,
    /// Anything else.
    Other,
}

/// What a rule's pattern is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// The paths of the transfer.
    Path,
    /// The names of extended attributes (modifier `x`).
    Xattr,
}

/// A pattern, compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    /// As it was written.
    text: Box<[u8]>,
    /// What of the text is compared.
    compared: Range<u16>,
    /// For a pattern with wildcards.
    glob: Option<Glob>,
    place: Place,
    directories_only: bool,
    /// Ends in `***`: matches a directory and what is in it.
    ends_in_three: bool,
    /// Compared with the absolute path.
    absolute: bool,
    /// The directory of the filter file that a pattern with a slash in front comes from; shared by its rules.
    below: Option<Arc<[u8]>>,
}

/// What a path must be, or end in, for a pattern without wildcards to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fixed<'a> {
    /// This path.
    Path(Cow<'a, [u8]>),
    /// This number of last components, which are these.
    End(&'a [u8], usize),
    /// None is.
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The whole path.
    Whole,
    /// The whole path with a slash before it, which a `**` in front may match.
    WholeWithSlash,
    /// The last component.
    Name,
    /// This many components at the end.
    Trailing(u16),
    /// The path from its beginning or any slash on.
    AfterAnySlash,
}

/// Where a pattern was written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Origin<'a> {
    /// It is compared with absolute paths (modifier `/`).
    pub(super) absolute: bool,
    /// The directory of the per-directory filter file it stands in, if it stands in one.
    pub(super) directory: Option<&'a Arc<[u8]>>,
}

impl Pattern {
    /// Compiles a pattern of 1 to [`PATTERN_LEN_MAX`] bytes.
    pub(super) fn new(text: &[u8], origin: Origin<'_>) -> Option<Pattern> {
        if text.is_empty() || text.len() > PATTERN_LEN_MAX {
            return None;
        }
        let (body, directories_only) = match text {
            [body @ .., b'/'] if !body.is_empty() => (body, true),
            whole => (whole, false),
        };
        let wild = is_wild(body);
        let double_at = if wild { body.windows(2).position(|two| two == b"**") } else { None };
        let slashes = body.iter().filter(|&&byte| byte == b'/').count();
        let (anchored, rest) = match body.strip_prefix(b"/") {
            Some(rest) => (true, rest),
            None => (false, body),
        };
        let place = match double_at {
            None if slashes == 0 => Place::Name,
            _ if anchored => Place::Whole,
            None => Place::Trailing(slashes as u16 + 1),
            Some(0) => Place::WholeWithSlash,
            Some(_) => Place::AfterAnySlash,
        };
        let start = body.len() - rest.len();
        Some(Pattern {
            text: text.into(),
            compared: start as u16..body.len() as u16,
            glob: wild.then(|| Glob::new(rest)),
            place,
            directories_only,
            ends_in_three: double_at.is_some() && body.ends_with(b"***"),
            absolute: origin.absolute,
            below: origin
                .directory
                .filter(|below| anchored && !origin.absolute && !below.is_empty())
                .cloned(),
        })
    }

    /// Bytes that it takes beside itself, with what the allocator adds.
    pub(super) fn memory(&self) -> usize {
        const ALLOCATION: usize = 16;
        let glob = self.glob.as_ref().map_or(0, |glob| glob.memory() + 2 * ALLOCATION);
        self.text.len() + ALLOCATION + glob
    }

    /// The bytes that every path which matches has, as [`mask_of`] them.
    pub(super) fn mask(&self) -> u64 {
        self.glob.as_ref().map_or_else(|| mask_of(self.literal()), Glob::mask)
    }

    /// Whether only the last component is compared.
    pub(super) fn is_of_name(&self) -> bool {
        self.place == Place::Name
    }

    /// What a path must be, for a pattern that has one text which can be looked up. `top` as for
    /// [`matches`](Self::matches).
    pub(super) fn fixed(&self, top: &[u8]) -> Option<Fixed<'_>> {
        let literal = self.literal();
        match (self.place, &self.below) {
            _ if self.glob.is_some() => None,
            (Place::Name, _) => Some(Fixed::End(literal, 1)),
            // Its end may reach above the top.
            (Place::Trailing(_), _) if self.absolute => None,
            (Place::Trailing(count), _) => Some(Fixed::End(literal, count.into())),
            (Place::Whole, None) if self.absolute && !top.is_empty() => {
                let inside = literal.strip_prefix(top).and_then(|rest| rest.strip_prefix(b"/"));
                Some(inside.map_or(Fixed::Never, |path| Fixed::Path(path.into())))
            }
            (Place::Whole, None) => Some(Fixed::Path(literal.into())),
            (Place::Whole, Some(below)) => Some(Fixed::Path([below, &b"/"[..], literal].concat().into())),
            (Place::WholeWithSlash | Place::AfterAnySlash, _) => None,
        }
    }

    /// What is compared, without wildcards or with.
    fn literal(&self) -> &[u8] {
        self.text.get(usize::from(self.compared.start)..usize::from(self.compared.end)).unwrap_or_default()
    }

    /// As it was written.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether it is compared with absolute paths.
    pub(super) fn is_absolute(&self) -> bool {
        self.absolute
    }

    /// Whether it applies to `path`, which is relative to the transfer's top. `top` is the absolute path of
    /// that, without slashes around it. Adds the work that it takes to `steps`.
    pub(super) fn matches(&self, path: &[u8], kind: NameKind, top: &[u8], steps: &mut u64) -> bool {
        if self.directories_only && kind != NameKind::Directory {
            return false;
        }
        let Some(path) = self.inside(path) else { return false };
        let name = match self.place {
            Place::Name => path.rsplit(|&byte| byte == b'/').next().unwrap_or(path),
            _ => path,
        };
        let mut pieces: [&[u8]; 4] = [b"", b"", name, b""];
        match self.place {
            Place::Name => {}
            _ if self.absolute && !top.is_empty() => (pieces[0], pieces[1]) = (top, b"/"),
            Place::WholeWithSlash => pieces[1] = b"/",
            _ => {}
        }
        if self.ends_in_three && kind == NameKind::Directory {
            pieces[3] = b"/";
        }
        let start = match self.place {
            Place::AfterAnySlash => Start::AfterAnySlash,
            Place::Trailing(count) => match trailing(&pieces, count.into()) {
                Some(offset) => Start::At(offset),
                None => return false,
            },
            Place::Whole | Place::WholeWithSlash | Place::Name => Start::At(0),
        };
        match (&self.glob, start) {
            (Some(glob), start) => glob.matches(&pieces, start, steps),
            (None, Start::At(offset)) => {
                *steps += 1;
                let len: usize = pieces.iter().map(|piece| piece.len()).sum();
                let literal = self.literal();
                len - offset == literal.len() && pieces.iter().copied().flatten().skip(offset).eq(literal)
            }
            // Only patterns with wildcards may begin anywhere.
            (None, Start::AfterAnySlash) => false,
        }
    }

    /// The path below the directory whose filter file the pattern comes from.
    fn inside<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        match &self.below {
            None => Some(path),
            Some(below) => path.strip_prefix(&**below)?.strip_prefix(b"/"),
        }
    }
}

/// Where the last `count` components of the text begin; `None` if it has fewer.
fn trailing(pieces: &[&[u8]; 4], count: usize) -> Option<usize> {
    let len: usize = pieces.iter().map(|piece| piece.len()).sum();
    let slashes = pieces.iter().rev().flat_map(|piece| piece.iter().rev()).enumerate();
    let mut left = count;
    for (from_end, &byte) in slashes {
        if byte == b'/' {
            left -= 1;
            if left == 0 {
                return Some(len - from_end);
            }
        }
    }
    (left == 1).then_some(0)
}
