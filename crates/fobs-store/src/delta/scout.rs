//! Goes through the file that is sent, ahead of what is read of it: finds the long pieces that are listed,
//! and asks for the short ones of what lies between. What is compared in place goes on by content once too
//! little is where it was.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::Instant;

use super::asks::{ASK_MAX, FineAsk, FineList};
use super::cut::Average;
use super::form::Cutting;
use super::lists::Coverage;
use super::means::Means;
use super::names::{NameLen, PieceName};
use super::pieces::Pieces;
use super::windows::Windows;
use crate::attributes::{Part, may_have_holes, part_at};

/// What is not found is asked for in parts of this length, bytes, so that an answer comes before the next.
const GAP_MAX: u64 = 1 << 20;
/// Around the place where a part is supposed in the basis, where that is not known, bytes.
const SLACK: u64 = 64 << 10;
/// How much of the basis must be listed ahead of the place that is looked at, bytes: what moved towards the
/// front by more is sent once more.
const AHEAD: u64 = 64 << 20;
/// A file has moved where this many pieces that follow each other are not where they were, or [`GAP_MAX`].
/// An image of which a twentieth was written has a row of 16 in one of 10^16 places.
const MOVED_PIECES: u64 = 64;
/// Likewise at the end of the file, where they are at least a part of it.
const MOVED_PIECES_LAST: u64 = 8;
const MOVED_PART_LAST: u64 = 4;
/// Where long pieces are not asked for more closely, one gap is: once this many pieces in all, and this part
/// of what was looked at, are not where they were, and the gap has more than a few.
const TRIED_PIECES: u64 = 32;
const TRIED_PART: u64 = 8;
const TRIED_GAP_PIECES: u64 = 8;
/// Where lines were put in and taken out, this part of such a gap is found, whose pieces are twice as long.
const TRIED_FOUND_PART: u64 = 4;

/// What a part of the file is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) at: u64,
    pub(super) end: u64,
    pub(super) is: Made,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    /// Of the basis, from here on.
    Of(u64),
    /// Of what nobody found.
    New,
    /// No long piece was found, and it is not asked for yet; whether its place in the basis is known.
    Open { exact: bool },
    /// Of what the answer says.
    Asked(FineAsk),
}

/// See the file's head.
pub(super) struct Scout {
    average: Average,
    cutting: Cutting,
    /// Where the list was in place, and is no more used.
    windows: Option<Windows>,
    pieces: Pieces,
    asks: bool,
    /// What is known and not used yet, in order.
    spans: VecDeque<Span>,
    /// From the place of the last thing that was found to its place in the basis.
    drift: i64,
    /// What is next is supposed to go on as the basis does.
    goes_on: bool,
    /// There is no hole before this place.
    data_until: u64,
    pub(super) ended: bool,
    /// Bytes that were found.
    pub(super) found: u64,
    /// Bytes that were not in place, and were not looked at more closely.
    missed: u64,
    /// More of that lets one gap be looked at.
    missed_max: u64,
    /// One is, and shows how to go on.
    tries: bool,
}

impl Scout {
    /// Of a file; none before its list begins.
    pub(super) fn new(means: &Means, file: impl AsFd, size: u64) -> Option<Scout> {
        let form = means.lists.form(means.row)?;
        let (average, cutting) = (form.average, form.cutting);
        Some(Scout {
            average,
            cutting,
            windows: None,
            pieces: Pieces::new((average, cutting), size),
            asks: average.is_long(),
            spans: VecDeque::new(),
            drift: 0,
            goes_on: cutting == Cutting::ByContent,
            data_until: if may_have_holes(file) { 0 } else { u64::MAX },
            ended: false,
            found: 0,
            missed: 0,
            missed_max: TRIED_PIECES << average.log(),
            tries: false,
        })
    }

    /// How it goes on: by content where too little was in its place.
    pub(super) fn cutting(&self) -> Cutting {
        self.cutting
    }

    /// How far it is.
    pub(super) fn at(&self) -> u64 {
        self.pieces.at()
    }

    /// Goes on at a place ahead: what lies before is not sent, or is known otherwise.
    pub(super) fn skip_to(&mut self, means: &Means, at: u64) {
        self.pass(means, u64::MAX);
        self.pieces.seek(self.piece_of(at));
    }

    /// What ends before a place is of no use any more.
    fn pass(&mut self, means: &Means, at: u64) {
        while let Some(span) = self.spans.front().copied().filter(|span| span.end <= at) {
            self.spans.pop_front();
            if let Made::Asked(ask) = span.is {
                means.lists.forget(&ask);
                self.tries = false;
            }
        }
    }

    /// Where the piece begins that a place is in, as far as that is known beforehand.
    fn piece_of(&self, at: u64) -> u64 {
        let len = self.average.bytes() as u64;
        if self.cutting == Cutting::InPlace { at / len * len } else { at }
    }

    /// Up to where the file can be looked at, where its basis is listed so far.
    pub(super) fn may_look_until(&self, coverage: Coverage) -> u64 {
        let listed = match (&self.windows, coverage) {
            (Some(windows), _) => windows.listed(),
            (None, Coverage::Until(listed)) => listed,
            (None, Coverage::Complete | Coverage::Broken) => u64::MAX,
        };
        let ahead = if self.cutting == Cutting::InPlace { 0 } else { AHEAD };
        if listed == u64::MAX { listed } else { listed.saturating_sub(ahead) }
    }

    /// Up to where it is known what the file is made of.
    pub(super) fn known_until(&self) -> u64 {
        let open = |span: &&Span| matches!(span.is, Made::Open { .. } | Made::Asked(_));
        self.spans.iter().find(open).map_or(self.at(), |span| span.at)
    }

    /// What the file is made of at a place, and nothing before.
    pub(super) fn span(&mut self, means: &Means, at: u64) -> Option<Span> {
        self.pass(means, at);
        self.spans.front().copied()
    }

    /// Goes on up to a place, at least to the end of what is open there if `size` is reached; stops early
    /// where too much is asked.
    pub(super) fn go(&mut self, means: &Means, file: impl AsFd, until: u64, size: u64) {
        let began = Instant::now();
        let (from, cutting) = (self.at(), self.cutting);
        if let Some(windows) = &mut self.windows {
            means.lists.is_at(means.row, from);
            windows.reach(means, from.saturating_add_signed(self.drift));
        }
        let goes_on = |scout: &Scout| !scout.ended && !scout.tries && scout.cutting == cutting;
        while goes_on(self) && self.at() < until && means.lists.may_ask() {
            self.pass_hole(means, &file, size);
            if let Some(span) = self.piece_as_listed(means, &file) {
                self.note(means, span, size);
                continue;
            }
            let piece = self.pieces.next(&file).ok().flatten();
            let Some((at, piece)) = piece else {
                // One that ended early or fails: the reader says so.
                self.ended = true;
                if !self.goes_by_content(means, size) {
                    self.ask(means, None);
                }
                break;
            };
            let (name, len) = (means.key.name(piece), piece.len() as u64);
            let expected = at.saturating_add_signed(self.drift);
            // No piece is longer than a MiB.
            let there = self.find(means, (name, len as u32), (expected, at));
            self.note(means, Span { at, end: at + len, is: there.map_or(Made::New, Made::Of) }, size);
        }
        means.pays.worked(self.at().saturating_sub(from), began.elapsed(), cutting);
    }

    /// Where a piece of the file at a place is in the basis.
    fn find(&self, means: &Means, piece: (PieceName, u32), (expected, at): (u64, u64)) -> Option<u64> {
        match &self.windows {
            Some(windows) => windows.find(piece, expected),
            None => means.lists.find(means.row, piece, expected, at),
        }
    }

    /// The piece of the basis that begins at a place.
    fn piece_at(&self, means: &Means, (there, at): (u64, u64)) -> Option<(u32, PieceName, NameLen)> {
        match &self.windows {
            Some(windows) => windows.piece_at(there),
            None => means.lists.piece_at(means.row, there, at),
        }
    }

    /// The next piece, if it is the one that the basis has at that place: it needs no cutting. One try after
    /// each piece that was found, so that bytes which changed are hashed twice once.
    fn piece_as_listed(&mut self, means: &Means, file: impl AsFd) -> Option<Span> {
        if !std::mem::take(&mut self.goes_on) {
            return None;
        }
        let (at, there) = (self.at(), self.at().saturating_add_signed(self.drift));
        let (len, name, names) = self.piece_at(means, (there, at))?;
        let is_it = |piece: &[u8]| names.listed(means.key.name(piece)) == name;
        // One that cannot be read fails where it is cut, too.
        let found = self.pieces.next_if(&file, len as usize, is_it).unwrap_or(false);
        found.then(|| Span { at, end: at + u64::from(len), is: Made::Of(there) })
    }

    fn pass_hole(&mut self, means: &Means, file: impl AsFd, size: u64) {
        if self.at() < self.data_until {
            return;
        }
        match part_at(file, self.at(), size, u64::MAX) {
            Part::Hole { len, .. } => {
                self.ask(means, None);
                let behind = self.at().saturating_add(len);
                let next = if behind < size { self.piece_of(behind) } else { behind };
                if next > self.at() {
                    self.pieces.seek(next);
                } else {
                    // It is shorter than a piece.
                    self.data_until = behind;
                }
            }
            Part::Data { len } => self.data_until = self.at().saturating_add(len),
        }
    }

    /// A long piece was found or not.
    fn note(&mut self, means: &Means, span: Span, size: u64) {
        let len = span.end - span.at;
        if let Made::Of(there) = span.is {
            self.ask(means, Some(there));
            self.drift = there.wrapping_sub(span.at) as i64;
            self.goes_on = self.cutting == Cutting::ByContent;
            self.found += len;
            means.pays.found(len, len);
            return self.push(span);
        }
        let is_in_place = self.cutting == Cutting::InPlace;
        if !self.asks && !is_in_place || is_in_place && means.lists.is_behind(means.row, span.at) {
            means.pays.found(len, 0);
            return self.push(span);
        }
        match self.spans.back_mut() {
            Some(Span { end, is: Made::Open { .. }, .. }) if *end == span.at => *end = span.end,
            last => {
                let exact = last.is_some_and(|last| last.end == span.at && matches!(last.is, Made::Of(_)));
                self.spans.push_back(Span { is: Made::Open { exact }, ..span });
            }
        }
        if self.goes_by_content(means, size) {
            return;
        }
        if self.spans.back().is_some_and(|open| open.end - open.at >= GAP_MAX) {
            self.ask(means, None);
        }
    }

    /// Whether too little of what was compared in place is there, from what was looked at last on: that is
    /// looked at again, by content.
    fn goes_by_content(&mut self, means: &Means, size: u64) -> bool {
        let is_open = |span: &Span| matches!(span.is, Made::Open { .. });
        let Some(run) = self.spans.back().copied().filter(is_open) else { return false };
        let (len, pieces) = (run.end - run.at, (run.end - run.at) >> self.average.log());
        let is_long = len >= GAP_MAX || pieces >= MOVED_PIECES;
        let is_last = self.ended && pieces >= MOVED_PIECES_LAST && len >= size / MOVED_PART_LAST;
        if self.cutting != Cutting::InPlace || !(is_long || is_last) {
            return false;
        }
        self.spans.pop_back();
        self.go_by_content(means, run.at, size);
        self.ended = false;
        true
    }

    /// By content from a place on.
    fn go_by_content(&mut self, means: &Means, at: u64, size: u64) {
        self.cutting = Cutting::ByContent;
        self.pieces = Pieces::new((self.average, self.cutting), size);
        self.pieces.seek(at);
        self.windows = Some(Windows::from(means, self.average, at));
    }

    /// Appends, to the last one if it goes on like that.
    fn push(&mut self, span: Span) {
        let Some(last) = self.spans.back_mut().filter(|last| last.end == span.at) else {
            return self.spans.push_back(span);
        };
        match (last.is, span.is) {
            (Made::New, Made::New) => last.end = span.end,
            (Made::Of(there), Made::Of(next)) if there.checked_add(last.end - last.at) == Some(next) => {
                last.end = span.end;
            }
            _ => self.spans.push_back(span),
        }
    }

    /// Asks for the short pieces of what is open, behind which the place in the basis is known or not.
    fn ask(&mut self, means: &Means, behind: Option<u64>) {
        let drift = self.drift;
        let Some(open) = self.spans.back_mut() else { return };
        let Made::Open { exact } = open.is else { return };
        let (supposed, len) = (open.at.saturating_add_signed(drift), open.end - open.at);
        if self.cutting == Cutting::InPlace {
            let ask = if self.asks {
                Some(FineAsk::closely(means.row, (open.at, len), means.pays.gaps().cutting()))
            } else {
                self.missed += len;
                self.tries = self.missed >= self.missed_max.max(self.pieces.at() / TRIED_PART)
                    && len >= TRIED_GAP_PIECES << self.average.log();
                self.tries.then(|| FineAsk::shifted(means.row, (open.at, len), self.average))
            };
            open.is = ask.map_or(Made::New, Made::Asked);
            match ask {
                Some(ask) => means.lists.ask(ask),
                None => means.pays.found(len, 0),
            }
            return;
        }
        let from = if exact { supposed } else { supposed.saturating_sub(SLACK) };
        let between = behind.and_then(|behind| behind.checked_sub(from)).filter(|gap| *gap <= ASK_MAX);
        let len = between.unwrap_or(len + supposed - from + SLACK).min(ASK_MAX);
        let ask = FineAsk::closely(means.row, (from, len), Cutting::ByContent);
        // Something was put in, and nothing taken out.
        open.is = if len == 0 { Made::New } else { Made::Asked(ask) };
        if len > 0 {
            means.lists.ask(ask);
        } else {
            means.pays.found(open.end - open.at, 0);
        }
    }

    /// Takes the answers that are there; whether there was one.
    pub(super) fn hear(&mut self, means: &Means, file: impl AsFd, size: u64) -> bool {
        let asked = |span: &Span| match span.is {
            Made::Asked(ask) => Some(ask),
            _ => None,
        };
        let mut heard = self.windows.as_mut().is_some_and(|windows| windows.hear(means));
        loop {
            let next = self.spans.iter().enumerate().find_map(|(at, span)| Some((at, asked(span)?)));
            let Some((at, ask)) = next else { return heard };
            let Some(list) = means.lists.answered(&ask) else { return heard };
            heard = true;
            let mut behind = self.spans.split_off(at);
            let Some(gap) = behind.pop_front() else { return heard };
            let drift = self.look_closer(means, (&file, size), gap, &list);
            if !behind.iter().any(|span| matches!(span.is, Made::Of(_))) {
                self.drift = drift;
            }
            self.spans.append(&mut behind);
        }
    }

    /// Finds the short pieces of a part; from the place of the last one to its place in the basis.
    fn look_closer(
        &mut self,
        means: &Means,
        (file, size): (impl AsFd, u64),
        gap: Span,
        list: &FineList,
    ) -> i64 {
        let began = Instant::now();
        let cut = (list.form.average, list.form.cutting);
        let mut pieces = Pieces::within(cut, gap.at..gap.end);
        let mut drift = match self.spans.back() {
            Some(Span { at, is: Made::Of(there), .. }) => there.wrapping_sub(*at) as i64,
            _ => self.drift,
        };
        let (mut at, mut found) = (gap.at, 0);
        while let Ok(Some((begins, piece))) = pieces.next(&file) {
            let len = piece.len() as u64;
            let name = list.form.names.listed(means.key.name(piece));
            // No piece is longer than a MiB.
            let there = list.table.find(name, len as u32, begins.saturating_add_signed(drift));
            at = begins + len;
            if let Some(there) = there {
                drift = there.wrapping_sub(begins) as i64;
                found += len;
            }
            self.push(Span { at: begins, end: at, is: there.map_or(Made::New, Made::Of) });
        }
        if at < gap.end {
            // It cannot be read any more: the reader says so.
            self.push(Span { at, end: gap.end, is: Made::New });
        }
        self.found += found;
        means.pays.worked(0, began.elapsed(), list.form.cutting);
        means.pays.found(gap.end - gap.at, found);
        let gap = gap.end - gap.at;
        if self.cutting == Cutting::InPlace && self.asks {
            means.pays.gaps().looked(list.form.cutting, gap, found);
        } else if std::mem::take(&mut self.tries) {
            self.missed = self.missed.saturating_sub(found);
            if found > gap / TRIED_FOUND_PART {
                self.go_by_content(means, self.at(), size);
            } else {
                self.missed_max = 2 * self.missed;
            }
        }
        drift
    }
}
