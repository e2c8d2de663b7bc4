//! The receiver's part: the list of a basis, in segments.

use rustix::io::Errno;

use super::form::{ListForm, WireForm};
use super::list::SegmentWriter;
use super::lists::ListPart;
use super::names::NameKey;
use super::offers::{Offer, Offers};
use super::pieces::Pieces;
use super::readable::BasisBytes;

/// A segment names no more of its basis than this, bytes: the sender waits for it, and it may be in vain.
const SEGMENT_SPAN: u64 = 8 << 20;

/// A basis to list.
#[derive(Debug)]
pub struct BasisJob {
    /// Its row.
    pub row: u64,
    form: ListForm,
    size: u64,
    bytes: BasisBytes,
}

/// A part of the list of a basis.
#[derive(Debug)]
pub struct Segment {
    /// Bytes of the basis before it.
    pub first: u64,
    /// How it is written.
    pub form: WireForm,
    /// Its pieces ([`PieceList`](super::PieceList)).
    pub pieces: Vec<u8>,
    /// Whether it is the last.
    pub last: bool,
}

impl Segment {
    /// As the sender takes it.
    pub fn part_of(&self, row: u64) -> ListPart<'_> {
        let Segment { first, form, ref pieces, last } = *self;
        ListPart { row, first, form, pieces, last }
    }
}

impl Offers {
    /// The next basis to list; waits for it. `None`: there is none any more.
    pub fn next_job(&self) -> Option<BasisJob> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            let listed_to = state.listed_to;
            let form = |offer: &Offer| {
                ListForm::of((offer.sizes.basis, offer.sizes.file), offer.average, offer.cutting)
            };
            let open = |offer: &Offer| Some((offer.row, form(offer), offer.sizes, offer.open()?.bytes()));
            // What is supposed is not listed, even once it is open.
            let is_listed = |offer: &&Offer| offer.row >= listed_to && offer.supposed.is_none();
            let mut left = state.offers.iter().filter(is_listed);
            if let Some((row, form, sizes, bytes)) = left.find_map(open) {
                let job = BasisJob { row, form, size: sizes.basis, bytes };
                state.listed_to = job.row + 1;
                return Some(job);
            }
            if state.complete {
                return None;
            }
            state = self.wait(state);
        }
    }
}

impl BasisJob {
    /// Lists the basis in segments, as far as that is of use; one that cannot be read any more ends there.
    ///
    /// # Errors
    /// That of `send`.
    pub fn list<E>(
        self,
        offers: &Offers,
        key: &NameKey,
        send: &mut dyn FnMut(Segment) -> Result<(), E>,
    ) -> Result<(), E> {
        let BasisJob { row, form, size, bytes } = self;
        let ListForm { average, cutting, .. } = form;
        let (mut pieces, mut writer) = (Pieces::new((average, cutting), size), SegmentWriter::new(form));
        let segment = |first, pieces, last| Segment { first, form: form.wire(), pieces, last };
        let mut first = 0;
        if !offers.goes_on(row, 0) {
            return send(segment(first, Vec::new(), true));
        }
        loop {
            let piece: Result<_, Errno> = pieces.next(&bytes);
            // One that shrinks or fails is as long as it was read.
            let piece = piece.ok().flatten().map(|(_, piece)| (piece.len(), key.name(piece)));
            if let Some((len, name)) = piece {
                writer.push(len, name);
                if !writer.is_full() && pieces.at() - first < SEGMENT_SPAN {
                    continue;
                }
            }
            let last = piece.is_none() || !offers.goes_on(row, pieces.at());
            send(segment(first, writer.take(), last))?;
            first = cutting.next_begins(pieces.at(), average);
            if last {
                return Ok(());
            }
        }
    }
}
