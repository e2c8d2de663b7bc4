//! One pattern of a filter rule: where in a path it applies, and to what.

use super::glob::{Glob, PATTERN_LEN_MAX, Start, is_wild};

/// What a path names, as far as patterns tell it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// A directory: patterns with a slash at the end apply too.
    Directory,
    /// Anything else.
    Other,
}

/// A pattern, compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    /// As it was written.
    text: Vec<u8>,
    glob: Glob,
    /// The bytes to compare with, for a pattern without wildcards.
    literal: Option<Vec<u8>>,
    place: Place,
    directories_only: bool,
    /// Ends in `***`: matches a directory and what is in it.
    ends_in_three: bool,
    /// Compared with the absolute path.
    absolute: bool,
    /// The directory of the filter file that a pattern with a slash in front comes from.
    below: Vec<u8>,
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
    Trailing(usize),
    /// The path from its beginning or any slash on.
    AfterAnySlash,
}

/// Where a pattern was written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Origin<'a> {
    /// It is compared with absolute paths (modifier `/`).
    pub(super) absolute: bool,
    /// The directory of the per-directory filter file it stands in; empty for any other place.
    pub(super) directory: &'a [u8],
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
            None => Place::Trailing(slashes + 1),
            Some(0) => Place::WholeWithSlash,
            Some(_) => Place::AfterAnySlash,
        };
        Some(Pattern {
            text: text.to_vec(),
            glob: Glob::new(rest),
            literal: (!wild).then(|| rest.to_vec()),
            place,
            directories_only,
            ends_in_three: double_at.is_some() && body.ends_with(b"***"),
            absolute: origin.absolute,
            below: if anchored && !origin.absolute { origin.directory.to_vec() } else { Vec::new() },
        })
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
    /// that, without slashes around it.
    pub(super) fn matches(&self, path: &[u8], kind: NameKind, top: &[u8]) -> bool {
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
            Place::Trailing(count) => match trailing(&pieces, count) {
                Some(offset) => Start::At(offset),
                None => return false,
            },
            Place::Whole | Place::WholeWithSlash | Place::Name => Start::At(0),
        };
        match (&self.literal, start) {
            (Some(literal), Start::At(offset)) => {
                pieces.iter().copied().flatten().skip(offset).eq(literal.iter())
            }
            _ => self.glob.matches(&pieces, start),
        }
    }

    /// The path below the directory whose filter file the pattern comes from.
    fn inside<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        match self.below.is_empty() {
            true => Some(path),
            false => path.strip_prefix(&self.below[..])?.strip_prefix(b"/"),
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
