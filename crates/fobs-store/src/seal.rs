//! Chunks of any content with a digest that fits, for tests and fuzzing.

use super::attributes::hash_hole;
use super::chunk::{Encoding, Form, Item, Items, Layout, TRAILER_LEN, digest};
use super::tree_hash::hash_extent;

/// Data and records of a chunk whose body is not compressed; nothing is verified.
pub fn open_chunk(chunk: &[u8]) -> Option<(&[u8], &[u8])> {
    let (layout, body) = Layout::decode(chunk).ok()?;
    (layout.encoding == Encoding::Plain && layout.form == Form::Whole).then(|| body.split_at(layout.data_len))
}

/// A chunk of any bytes as its records; its digest is right where one can be made.
pub fn seal(data: &[u8], records: &[u8]) -> Vec<u8> {
    let mut values = Vec::new();
    for item in Items::new(data, records) {
        match item {
            Ok(Item::Extent { offset, data, tail }) => hash_extent(data, offset, tail, &mut values),
            Ok(Item::Hole { offset, len, tail }) => hash_hole(offset, len, tail, &mut values),
            _ => {}
        }
    }
    let digest = digest(data.len(), records, &values);
    let (data_len, records_len) = (data.len(), records.len());
    let mut chunk = [data, records, &[0; TRAILER_LEN]].concat();
    Layout { data_len, records_len, encoding: Encoding::Plain, form: Form::Whole, digest }
        .encode(&mut chunk, data_len + records_len);
    chunk
}
