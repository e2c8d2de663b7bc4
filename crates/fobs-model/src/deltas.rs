//! What of a transfer came from files that the receiver had, and why the rest was sent (protocol 7.9).

use serde::{Deserialize, Serialize};

/// Which file a delta is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The one that has the name.
    SameName,
    /// What an interrupted run left of another version.
    Unfinished,
    /// One of `--link-dest` or its kin.
    Elsewhere,
    /// One of the same size and time under another name.
    Moved,
    /// One of a similar name.
    Similar,
    /// The source itself, where both ends are this host: that counts as sent.
    Source,
}

/// Bytes that came from what the receiver had, by the file that they came from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Matched {
    /// [`Origin::SameName`]
    pub same_name: u64,
    /// [`Origin::Unfinished`]
    pub unfinished: u64,
    /// [`Origin::Elsewhere`]
    pub elsewhere: u64,
    /// [`Origin::Moved`]
    pub moved: u64,
    /// [`Origin::Similar`]
    pub similar: u64,
}

/// Why bytes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Because {
    /// Nothing is there of which a delta could be made, or the file is small.
    NoBasis,
    /// They were looked for, and are not there.
    New,
    /// Nothing, or too little, of what was looked for was found.
    Hopeless,
    /// Sending files whole takes less time.
    Faster,
    /// To see how fast files go whole.
    Trial,
}

/// Bytes of files that are sent, by the reason. None where nothing was looked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Literal {
    /// [`Because::NoBasis`]
    pub no_basis: u64,
    /// [`Because::New`]
    pub new: u64,
    /// [`Because::Hopeless`]
    pub hopeless: u64,
    /// [`Because::Faster`]
    pub whole_is_faster: u64,
    /// [`Because::Trial`]
    pub trial: u64,
}

/// Both, of a transfer in which deltas were possible.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeltaFigures {
    /// What was there.
    pub matched: Matched,
    /// What was sent.
    pub literal: Literal,
}

impl Matched {
    /// Adds bytes.
    pub fn add(&mut self, origin: Origin, bytes: u64) {
        let sum = match origin {
            Origin::SameName => &mut self.same_name,
            Origin::Unfinished => &mut self.unfinished,
            Origin::Elsewhere => &mut self.elsewhere,
            Origin::Moved => &mut self.moved,
            Origin::Similar => &mut self.similar,
            Origin::Source => return,
        };
        *sum = sum.saturating_add(bytes);
    }

    /// Adds another.
    pub fn add_all(&mut self, other: &Matched) {
        for (sum, (more, _)) in self.parts_mut().into_iter().zip(other.parts()) {
            *sum = sum.saturating_add(more);
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.parts().iter().fold(0, |sum, (bytes, _)| sum.saturating_add(*bytes))
    }

    /// Each with its words.
    pub fn parts(&self) -> [(u64, &'static str); 5] {
        let Matched { same_name, unfinished, elsewhere, moved, similar } = *self;
        [
            (same_name, "in files of the same name"),
            (unfinished, "in files that an interrupted run left"),
            (elsewhere, "in directories of --link-dest and its kin"),
            (moved, "in files under another name"),
            (similar, "in files of a similar name"),
        ]
    }

    fn parts_mut(&mut self) -> [&mut u64; 5] {
        let Matched { same_name, unfinished, elsewhere, moved, similar } = self;
        [same_name, unfinished, elsewhere, moved, similar]
    }
}

impl Literal {
    /// Adds bytes.
    pub fn add(&mut self, because: Because, bytes: u64) {
        let sum = match because {
            Because::NoBasis => &mut self.no_basis,
            Because::New => &mut self.new,
            Because::Hopeless => &mut self.hopeless,
            Because::Faster => &mut self.whole_is_faster,
            Because::Trial => &mut self.trial,
        };
        *sum = sum.saturating_add(bytes);
    }

    /// Adds another.
    pub fn add_all(&mut self, other: &Literal) {
        for (sum, (more, _)) in self.parts_mut().into_iter().zip(other.parts()) {
            *sum = sum.saturating_add(more);
        }
    }

    /// Each with its words.
    pub fn parts(&self) -> [(u64, &'static str); 5] {
        let Literal { no_basis, new, hopeless, whole_is_faster, trial } = *self;
        [
            (new, "that are not there"),
            (no_basis, "of files without an earlier version there, or small"),
            (hopeless, "of files of which too little was found"),
            (whole_is_faster, "because whole files went faster"),
            (trial, "to see how fast whole files go"),
        ]
    }

    fn parts_mut(&mut self) -> [&mut u64; 5] {
        let Literal { no_basis, new, hopeless, whole_is_faster, trial } = self;
        [new, no_basis, hopeless, whole_is_faster, trial]
    }
}

impl DeltaFigures {
    /// Adds another.
    #[must_use]
    pub fn and(mut self, other: &DeltaFigures) -> DeltaFigures {
        self.matched.add_all(&other.matched);
        self.literal.add_all(&other.literal);
        self
    }

    /// Whether there is more to say than that nothing was there.
    pub fn are_telling(&self) -> bool {
        self.matched.total() > 0 || self.literal.hopeless > 0 || self.literal.whole_is_faster > 0
    }

    /// A sentence for people, with amounts as `show` writes them; none where deltas were not possible.
    pub fn sentence(&self, show: &dyn Fn(u64) -> String) -> Option<String> {
        let listed = |parts: &[(u64, &'static str)]| {
            let parts = parts.iter().filter(|(bytes, _)| *bytes > 0);
            parts.map(|(bytes, words)| format!("{} {words}", show(*bytes))).collect::<Vec<_>>().join(", ")
        };
        let (there, sent) = (listed(&self.matched.parts()), listed(&self.literal.parts()));
        match (there.is_empty(), sent.is_empty()) {
            (true, true) => None,
            (false, true) => Some(format!("deltas: found {there}")),
            (true, false) => Some(format!("deltas: sent {sent}")),
            (false, false) => Some(format!("deltas: found {there}; sent {sent}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_origin_and_reason_is_counted_and_named() {
        let mut figures = DeltaFigures::default();
        assert_eq!(figures.sentence(&|bytes| bytes.to_string()), None);
        let origins =
            [Origin::SameName, Origin::Unfinished, Origin::Elsewhere, Origin::Moved, Origin::Similar];
        for (at, origin) in origins.into_iter().enumerate() {
            figures.matched.add(origin, 10 + at as u64);
        }
        let reasons = [Because::New, Because::NoBasis, Because::Hopeless, Because::Faster, Because::Trial];
        for (at, because) in reasons.into_iter().enumerate() {
            figures.literal.add(because, 20 + at as u64);
        }
        assert_eq!(figures.matched.total(), 10 + 11 + 12 + 13 + 14);
        let twice = figures.and(&figures);
        assert_eq!(twice.matched.total(), 2 * figures.matched.total());
        let text = figures.sentence(&|bytes| format!("{bytes} B")).expect("there is something");
        for number in (10..15).chain(20..25) {
            assert!(text.contains(&format!("{number} B ")), "{number}: {text}");
        }
    }
}
