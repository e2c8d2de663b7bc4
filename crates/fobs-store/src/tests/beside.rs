//! A receiver whose threads write the parts of a file beside each other, in one thread: in an order that is
//! drawn.

use std::collections::VecDeque;

use fobs_model::error::Result;
use fobs_rng::Rng;

use super::super::*;

/// A chunk, what it was unpacked into, and how it is written.
struct Part {
    chunk: Vec<u8>,
    scratch: Vec<u8>,
    apart: Apart,
    written: Option<WrittenApart>,
}

/// Chunks that are begun; none where no file is written so.
pub struct Beside {
    rng: Rng,
    begun: VecDeque<Part>,
}

impl Beside {
    pub fn new(seed: u64) -> Beside {
        Beside { rng: Rng::new(seed), begun: VecDeque::new() }
    }

    /// How many are begun.
    pub fn begun(&self) -> usize {
        self.begun.len()
    }

    /// Stores the next chunk; `check` is called after each write.
    pub fn store(
        &mut self,
        sink: &mut Sink,
        (chunk, verified, scratch): (&[u8], Verified, &[u8]),
        note: &mut dyn FnMut(SinkEvent),
        check: &mut dyn FnMut(),
    ) -> Result<()> {
        match sink.begin_next(chunk, verified, scratch)? {
            Begun::Apart(apart) => {
                let (chunk, scratch) = (chunk.to_vec(), scratch.to_vec());
                self.begun.push_back(Part { chunk, scratch, apart, written: None });
                while self.rng.below(2) == 0 && self.write_one() {
                    check();
                }
                self.settle(sink, note)
            }
            Begun::InTurn(verified) => {
                while self.write_one() {
                    check();
                }
                self.settle(sink, note)?;
                sink.apply(chunk, verified, scratch, note)
            }
        }
    }

    /// Writes any of those that are not written; whether there was one.
    fn write_one(&mut self) -> bool {
        let mut left: Vec<_> = self.begun.iter_mut().filter(|part| part.written.is_none()).collect();
        if left.is_empty() {
            return false;
        }
        let any = self.rng.below(left.len());
        left[any].write();
        true
    }

    /// Settles those before the first that is not written.
    pub fn settle(&mut self, sink: &mut Sink, note: &mut dyn FnMut(SinkEvent)) -> Result<()> {
        while let Some(part) = self.begun.pop_front_if(|part| part.written.is_some()) {
            sink.settle(part.written.expect("it is"), note)?;
        }
        Ok(())
    }
}

impl Part {
    fn write(&mut self) {
        self.written = Some(self.apart.write(&self.chunk, &self.scratch));
    }
}
