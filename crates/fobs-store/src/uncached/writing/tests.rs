use std::fs::File;
use std::os::unix::fs::FileExt;

use fobs_sys::PageBuffer;
use proptest::prelude::*;

use super::*;
use crate::uncached::Devices;

const WRITE: usize = 4 << 20;

/// A file, and how it is written; none where the file system of the tests does not write past the cache.
fn opened(devices: &Devices) -> Option<(File, LargeFile)> {
    let file = tempfile::tempfile().expect("a file");
    let large = devices.large_file(&Arc::new(file.try_clone().expect("a descriptor").into()));
    large.uncached.is_some().then_some((file, large))
}

fn write(large: &LargeFile, data: &[u8], at: u64) {
    large.write(data, at).expect("it can be written");
}

/// The ways of what was written, with their reasons and bytes.
fn ways(devices: &Devices) -> Vec<(CacheUse, Option<CacheReason>, u64)> {
    devices.written().rows().into_iter().map(|row| (row.way, row.why, row.bytes)).collect()
}

/// Through the cache, as this kernel and file system can.
fn through() -> CacheUse {
    let file: OwnedFd = tempfile::tempfile().expect("a file").into();
    write_once(&file, &[1], 0).expect("it can be written")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_is_written_is_there(
        writes in prop::collection::vec((0_usize..9_000_000, 0_usize..3_000_000, 0_usize..2), 1..8),
        whole in any::<bool>(),
    ) {
        let Some((file, large)) = opened(&Devices::new(true)) else { return Ok(()) };
        let mut buffer = PageBuffer::new(4 << 20).expect("memory");
        let mut expected = Vec::new();
        for (number, (at, len, shift)) in writes.into_iter().enumerate() {
            // As most are: places and lengths of whole pages.
            let (at, len) = if whole { (at & !4095, len & !4095) } else { (at, len) };
            let room = &mut buffer[shift * 17..][..len];
            room.iter_mut().enumerate().for_each(|(place, byte)| *byte = (place * 31 + number * 7) as u8);
            write(&large, room, at as u64);
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
    let devices = Devices::new(true);
    let Some((file, large)) = opened(&devices) else { return };
    let mut buffer = PageBuffer::new(WRITE + 4096).expect("memory");
    buffer.fill(7);
    // The end of a file is no multiple of a block.
    write(&large, &buffer[..WRITE + 5], 0);
    assert_eq!(file.metadata().expect("a file").len(), WRITE as u64 + 5);
    let uncached = large.uncached.as_ref().expect("it can");
    assert_eq!(uncached.passes(&buffer[..WRITE + 5], 0), WRITE);
    assert_eq!(uncached.passes(&buffer[1..WRITE], 0), 0, "its address");
    assert_eq!(uncached.passes(&buffer[..WRITE], 100), 0, "its place");
    assert!(!large.ways.with(|paces| paces.refused));
    assert_eq!(ways(&devices), [(CacheUse::Direct, None, WRITE as u64 + 5)]);
}

#[test]
fn a_file_system_that_refuses_gets_all_of_it_through_the_cache() {
    for refusal in [Errno::INVAL, Errno::OPNOTSUPP] {
        let devices = Devices::new(true);
        let Some((file, large)) = opened(&devices) else { return };
        let mut buffer = PageBuffer::new(2 * WRITE).expect("memory");
        buffer.iter_mut().enumerate().for_each(|(place, byte)| *byte = place as u8);
        faults::plan(faults::Call::Write, 1, refusal);
        write(&large, &buffer[..WRITE], 0);
        write(&large, &buffer[WRITE..2 * WRITE], WRITE as u64);
        assert!(!faults::forget(), "it was refused");
        // Not asked again.
        write(&large, &buffer[..WRITE], 2 * WRITE as u64);
        let mut found = vec![0; 2 * WRITE];
        file.read_exact_at(&mut found, 0).expect("it is there");
        assert!(found == buffer[..2 * WRITE]);
        let refused = (through(), Some(CacheReason::Refused), 2 * WRITE as u64);
        assert_eq!(ways(&devices), [(CacheUse::Direct, None, WRITE as u64), refused]);
    }
}

#[test]
fn a_full_device_is_an_error_either_way() {
    for spared in [0, 1] {
        let Some((_, large)) = opened(&Devices::new(true)) else { return };
        let buffer = PageBuffer::new(WRITE).expect("memory");
        faults::plan_for(faults::Call::Write, spared, Errno::NOSPC, faults::Lasts::On);
        let written: Vec<_> = (0..2).map(|part| large.write(&buffer, part * WRITE as u64)).collect();
        faults::forget();
        assert_eq!(written.last(), Some(&Err(Errno::NOSPC)), "{spared}");
    }
}

#[test]
fn each_way_is_told_with_its_reason() {
    let small = |devices: &Devices, large: &LargeFile, buffer: &[u8]| {
        write(large, buffer, 0);
        ways(devices)
    };
    let mut buffer = PageBuffer::new(WRITE).expect("memory");
    buffer.fill(3);
    let devices = Devices::new(true);
    if let Some((_, large)) = opened(&devices) {
        let told = small(&devices, &large, &buffer[..WRITE_MIN - 1]);
        assert_eq!(told, [(through(), Some(CacheReason::Pieces), WRITE_MIN as u64 - 1)]);
    }
    // Without fsync the first writes alternate, and are timed.
    let devices = Devices::new(false);
    if let Some((_, large)) = opened(&devices) {
        write(&large, &buffer, 0);
        write(&large, &buffer, WRITE as u64);
        let timed = (through(), Some(CacheReason::Timed), WRITE as u64);
        assert_eq!(ways(&devices), [timed, (CacheUse::Direct, None, WRITE as u64)]);
    }
    let mut devices = Devices::new(true);
    devices.use_cache();
    let file: OwnedFd = tempfile::tempfile().expect("a file").into();
    let large = devices.large_file(&Arc::new(file));
    assert!(!large.goes_beside(WRITE));
    let told = small(&devices, &large, &buffer);
    assert_eq!(told, [(CacheUse::Cached, Some(CacheReason::Asked), WRITE as u64)]);
}

#[test]
fn a_file_system_in_memory_has_no_other_way() {
    let Ok(file) = tempfile::tempfile_in("/dev/shm") else { return };
    let devices = Devices::new(true);
    let file = Arc::new(file.into());
    let large = devices.large_file(&file);
    if large.uncached.is_some() || write_once(&file, &[1], 0) == Ok(CacheUse::Uncached) {
        eprintln!("skipped: this kernel has one");
        return;
    }
    write(&large, &[1; 100], 0);
    let [row] = &devices.written().rows()[..] else { panic!("one row") };
    assert_eq!((row.file_system.as_str(), row.bytes), ("tmpfs", 100));
    assert_eq!((row.way, row.why), (CacheUse::Cached, Some(CacheReason::NoOther)));
}
