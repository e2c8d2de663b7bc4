use std::fs::File;
use std::os::unix::fs::FileExt;

use fobs_sys::PageBuffer;
use proptest::prelude::*;

use super::*;

const WRITE: usize = 4 << 20;

/// A file and its second descriptor; none where the file system of the tests has no such thing.
fn opened(ways: &Ways) -> Option<(File, Uncached)> {
    let file = tempfile::tempfile().expect("a file");
    let uncached = Uncached::of(&file.try_clone().expect("a descriptor").into(), ways)?;
    Some((file, uncached))
}

fn write(file: &File, uncached: &Uncached, data: &[u8], at: u64) {
    let through = |rest: &[u8], at| file.write_all_at(rest, at).map_err(|_| Errno::IO);
    uncached.write(data, at, through).expect("it can be written");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_is_written_is_there(
        writes in prop::collection::vec((0_usize..9_000_000, 0_usize..3_000_000, 0_usize..2), 1..8),
        whole in any::<bool>(),
    ) {
        let Some((file, uncached)) = opened(&Ways::new(true)) else { return Ok(()) };
        let mut buffer = PageBuffer::new(4 << 20).expect("memory");
        let mut expected = Vec::new();
        for (number, (at, len, shift)) in writes.into_iter().enumerate() {
            // As most are: places and lengths of whole pages.
            let (at, len) = if whole { (at & !4095, len & !4095) } else { (at, len) };
            let room = &mut buffer[shift * 17..][..len];
            room.iter_mut().enumerate().for_each(|(place, byte)| *byte = (place * 31 + number * 7) as u8);
            write(&file, &uncached, room, at as u64);
            // Nothing that is written makes no file longer.
            if len > 0 && expected.len() < at + len {
                expected.resize(at + len, 0);
            }
            if len > 0 {
                expected[at..at + len].copy_from_slice(room);
            }
        }
        let mut found = vec![0; expected.len()];
        file.read_exact_at(&mut found, 0).expect("it is there");
        prop_assert!(found == expected);
        prop_assert_eq!(file.metadata().expect("a file").len(), expected.len() as u64);
    }
}

#[test]
fn a_large_write_passes_the_cache_where_it_can() {
    let ways = Ways::new(true);
    let Some((file, uncached)) = opened(&ways) else { return };
    let mut buffer = PageBuffer::new(WRITE + 4096).expect("memory");
    buffer.fill(7);
    // The end of a file is no multiple of a block.
    write(&file, &uncached, &buffer[..WRITE + 5], 0);
    assert_eq!(file.metadata().expect("a file").len(), WRITE as u64 + 5);
    assert_eq!(uncached.passes(&buffer[..WRITE + 5], 0), WRITE);
    assert_eq!(uncached.passes(&buffer[1..WRITE], 0), 0, "its address");
    assert_eq!(uncached.passes(&buffer[..WRITE], 100), 0, "its place");
    assert!(!ways.with(|paces| paces.refused));
}
