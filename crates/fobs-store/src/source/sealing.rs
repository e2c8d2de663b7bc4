//! The end of a chunk: records and trailer behind its data.

use super::*;
use crate::chunk::TRAILER_LEN;

impl Source {
    /// Appends records and trailer to the data and compresses the body if it becomes smaller. Returns the
    /// chunk's length, and the chunk as a patch where that is shorter.
    pub(super) fn seal(&mut self, buf: &mut [u8], data_len: usize) -> (usize, Option<Patch>) {
        let body_len = data_len + self.records.len();
        buf[data_len..body_len].copy_from_slice(&self.records);
        let mut layout = Layout {
            data_len,
            records_len: self.records.len(),
            encoding: Encoding::Plain,
            form: Form::Whole,
            digest: digest(data_len, &self.records, &self.values),
        };
        self.compress_deltas();
        let patch = self.patch.build(&buf[..data_len], &self.records);
        if let Some(body) = patch {
            // The whole body leaves only where the patch fails: it is not worth the time to compress it.
            return (layout.encode(buf, body_len), Some(self.seal_patch(body, layout)));
        }
        self.patch.leaves_whole();
        let compressed = self.compressing().and_then(|it| it.compress(&buf[..body_len]));
        let stored_len = match compressed {
            Some(compressed) => {
                layout.encoding = Encoding::Zstd;
                buf[..compressed.len()].copy_from_slice(compressed);
                compressed.len()
            }
            None => body_len,
        };
        (layout.encode(buf, stored_len), None)
    }

    /// Compresses a chunk in which pieces are looked for, or of which differences are sent, whatever the user
    /// wants: a path on which that pays is slower than a core compresses.
    fn compress_deltas(&mut self) {
        self.compresses_delta = self.patch.counts().looked || self.patch.has_differences();
        if self.compresses_delta && self.compression.is_none() && self.of_deltas.is_none() {
            // Without memory for it they are sent as they are.
            self.of_deltas = Compression::new().ok();
        }
    }

    fn compressing(&mut self) -> Option<&mut Compression> {
        let of_deltas = self.of_deltas.as_mut().filter(|_| self.compresses_delta);
        self.compression.as_mut().or(of_deltas)
    }

    fn seal_patch(&mut self, mut body: Vec<u8>, layout: Layout) -> Patch {
        let mut layout = Layout { form: Form::Patch, ..layout };
        if let Some(compressed) = self.compressing().and_then(|it| it.compress(&body)) {
            layout.encoding = Encoding::Zstd;
            body.clear();
            body.extend_from_slice(compressed);
        }
        let body_len = body.len();
        body.resize(body_len + TRAILER_LEN, 0);
        layout.encode(&mut body, body_len);
        Patch { chunk: body, copied: self.patch.copied() }
    }
}
