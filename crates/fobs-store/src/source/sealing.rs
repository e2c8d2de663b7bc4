//! The end of a chunk: records and trailer behind its data.

use super::*;

impl Source {
    /// Appends records and trailer to the data and compresses the body if it becomes smaller. Returns the
    /// chunk's length.
    pub(super) fn seal(&mut self, buf: &mut [u8], data_len: usize) -> usize {
        let body_len = data_len + self.records.len();
        buf[data_len..body_len].copy_from_slice(&self.records);
        let mut layout = Layout {
            data_len,
            records_len: self.records.len(),
            encoding: Encoding::Plain,
            digest: digest(data_len, &self.records, &self.values),
        };
        let compressed = self.compression.as_mut().and_then(|it| it.compress(&buf[..body_len]));
        let stored_len = match compressed {
            Some(compressed) => {
                layout.encoding = Encoding::Zstd;
                buf[..compressed.len()].copy_from_slice(compressed);
                compressed.len()
            }
            None => body_len,
        };
        layout.encode(buf, stored_len)
    }
}
