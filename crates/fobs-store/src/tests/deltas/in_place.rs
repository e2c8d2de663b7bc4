//! Files that have their old length, compared in place.

use super::*;

const LONG: usize = 40_000_000;

fn by_content(world: &World) -> Delta {
    play_with(world, NameKey::new([1; 32]), Cutting::ByContent)
}

#[test]
fn what_has_its_old_place_is_found_by_shorter_lists() {
    for len in [100_000, LEN, LONG] {
        let old = content(len, 1);
        for writes in [0, 1, 8] {
            let new = scattered(&old, writes);
            let (world, other) = (world_of(&old, &new), world_of(&old, &new));
            let (delta, content) = (ordinary(&world), by_content(&other));
            expect_equal(&world);
            assert_eq!((delta.listed, delta.unusable, delta.failures.len()), (1, 0, 0), "{delta:?}");
            assert!(delta.lists * 10 < content.lists * 8, "{len} {writes}: {delta:?} {content:?}");
            // Of each write the pages at its ends, at most.
            let sent = (writes * (4096 + 2 * 2048)) as u64;
            assert!(delta.matched >= len as u64 - sent, "{len} {writes}: {delta:?}");
            assert!(delta.wire < sent + 6000 * (1 + len as u64 / (1 << 20)), "{len} {writes}: {delta:?}");
        }
    }
}

#[test]
fn a_file_that_moved_costs_little_more_than_by_content() {
    for len in [100_000, LEN, LONG] {
        let old = content(len, 1);
        // Of the same length, and all or most of it elsewhere: by little, by more than is looked at around a
        // place, at the front, and in the middle.
        let moved = |at: usize, by: usize| [&old[..at], &content(by, 2), &old[at..len - by]].concat();
        let by = [1, len / 50, len / 10];
        for (at, by) in by.into_iter().flat_map(|by| [(0, by), (len / 2 + 77, by)]) {
            for swap in [false, true] {
                let new = moved(at, by);
                let (old, new) = if swap { (&new, &old) } else { (&old, &new) };
                let (world, other) = (world_of(old, new), world_of(old, new));
                let (delta, content) = (ordinary(&world), by_content(&other));
                expect_equal(&world);
                assert_eq!((delta.listed, delta.unusable, delta.failures.len()), (1, 0, 0), "{delta:?}");
                let (sent, other) = (delta.wire + delta.lists, content.wire + content.lists);
                let told = format!("{len} {at} {by} {swap}: {delta:?} {content:?}");
                assert!(sent < other + other / 10 + 20_000, "{told}");
            }
        }
    }
}

/// Lines taken out and others put in, in turn: each part between is where it was, or moved by one line.
/// `part` bytes lie between, and what is put in has the length of what is taken out.
fn lines_in_and_out(old: &[u8], part: usize, line: usize) -> Vec<u8> {
    let mut new = Vec::with_capacity(old.len());
    for (number, block) in old.chunks(2 * part).enumerate() {
        if block.len() < part + line {
            new.extend_from_slice(block);
            continue;
        }
        new.extend_from_slice(&block[line..part + line]);
        new.extend_from_slice(&content(line, number as u64));
        new.extend_from_slice(&block[part + line..]);
    }
    new
}

#[test]
fn lines_put_in_and_taken_out_of_a_file_that_keeps_its_length() {
    for len in [300_000, LEN, LONG] {
        let old = content(len, 1);
        for (part, line) in [(len / 12, 100), (len / 40, 37), (100_000, 1000), (250_000, 12_000)] {
            let new = lines_in_and_out(&old, part.min(len / 4), line);
            assert_eq!(new.len(), old.len());
            let (world, other) = (world_of(&old, &new), world_of(&old, &new));
            let (delta, content) = (ordinary(&world), by_content(&other));
            expect_equal(&world);
            assert_eq!((delta.listed, delta.unusable, delta.failures.len()), (1, 0, 0), "{delta:?}");
            let (sent, other) = (delta.wire + delta.lists, content.wire + content.lists);
            let told = format!("{len} {part} {line}: {delta:?} {content:?}");
            // Until it is seen, an eighth of a short file and one gap of a long one in four.
            assert!(sent < other + other / 4 + len as u64 / 8, "{told}");
        }
    }
}

#[test]
fn what_is_longer_by_pages_is_compared_in_place_after_others() {
    let world = World::new();
    let (old, grown) = (content(1 << 20, 1), content(64 << 10, 2));
    for number in 0..4 {
        let name = format!("f{number}");
        let new =
            if number % 2 == 0 { scattered(&old, 3) } else { [&scattered(&old, 3), &grown[..]].concat() };
        world.write(&name, &new);
        fs::create_dir_all(world.to("")).expect("our own place");
        fs::write(world.to(&name), &old).expect("a file");
        let long_ago = std::time::SystemTime::UNIX_EPOCH;
        File::open(world.to(&name)).and_then(|file| file.set_modified(long_ago)).expect("own file");
    }
    let delta = ordinary(&world);
    for name in ["f0", "f1", "f2", "f3"] {
        assert_eq!(fs::read(world.to(name)).expect("a file"), fs::read(world.from(name)).expect("a file"));
    }
    let sent = 12 * 4096 + 2 * grown.len() as u64;
    assert!((delta.unusable, delta.listed) == (0, 4) && delta.wire < sent + 12 * 4096, "{delta:?}");
}

#[test]
fn holes_of_what_has_its_place_are_passed() {
    let (old, len) = (content(LEN, 1), 64_u64 << 20);
    for data_at in [0, 5000, 1 << 20, len - LEN as u64] {
        let world = world_of(b"", b"");
        for (path, byte) in [(world.to("f"), 0), (world.from("f"), 7)] {
            let file = File::create(path).expect("own file");
            file.set_len(len).expect("own file");
            file.write_all_at(&old, data_at).expect("it can be written");
            file.write_all_at(&[byte; 300], data_at + 12_345).expect("it can be written");
            let day = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(u64::from(byte));
            file.set_modified(day).expect("own file");
        }
        let delta = ordinary(&world);
        expect_equal(&world);
        assert!(delta.unusable == 0 && delta.wire < 30_000, "{data_at}: {delta:?}");
    }
}

#[test]
fn a_basis_with_other_holes_is_the_same_file() {
    let world = world_of(&vec![0; LONG], b"");
    let file = File::create(world.from("f")).expect("own file");
    file.set_len(LONG as u64).expect("own file");
    file.write_all_at(b"data", LONG as u64 / 2).expect("own file");
    let delta = ordinary(&world);
    expect_equal(&world);
    assert!(delta.wire < 100_000 && delta.unusable == 0, "{delta:?}");
}

#[test]
fn dense_changes_of_pages_are_found() {
    // Of each page of 8 KiB a header, as a database writes them: no long piece is left.
    let old = content(LONG / 2, 1);
    let mut new = old.clone();
    for page in new.chunks_mut(8192) {
        let end = page.len().min(24);
        page[..end].fill(9);
    }
    let world = world_of(&old, &new);
    let delta = ordinary(&world);
    expect_equal(&world);
    assert!(delta.matched > new.len() as u64 / 2 && delta.unusable == 0, "{delta:?}");
}

#[test]
fn a_half_built_image_goes_on() {
    let old = content(LONG / 2, 1);
    let new = scattered(&old, 20);
    for chunks in [1, 3] {
        let world = world_of(&old, &new);
        let (mut between, key) = (|_| (), NameKey::new([1; 32]));
        let play = Play {
            key,
            terms: Terms::default(),
            // No multiple of a piece.
            data_max: 3 << 16,
            cutting: Cutting::InPlace,
            chunks,
            ..Play::ordinary(&mut between)
        };
        run(&world, play);
        let delta = ordinary(&world);
        expect_equal(&world);
        assert_eq!(delta.resumed, (chunks * 3) as u64 * 65_536);
        assert!(delta.wire < LONG as u64 / 60, "{delta:?}");
    }
}

/// Zeros at both ends and in between, which become holes, in a file that is written where it stands
/// (RsyncProject/rsync 53 and 114).
#[test]
fn a_file_written_where_it_stands_gets_holes_and_loses_them() {
    let alter: fn(&mut SyncOptions) = |options| {
        options.rules.in_place = true;
        options.preserve.sparse = true;
    };
    let data = content(400_000, 1);
    let zeros = vec![0; 300_000];
    let shapes = [
        [&zeros[..], &data, &zeros].concat(),
        [&data[..], &zeros, &data].concat(),
        [&data[..200_000], &zeros, &data[200_000..], &zeros].concat(),
        zeros.clone(),
        data.clone(),
    ];
    for (old, new) in shapes.iter().flat_map(|old| shapes.iter().map(move |new| (old, new))) {
        for cutting in CUTTINGS {
            let world = world_of(old, new);
            let before = fs::metadata(world.to("f")).expect("it stands").ino();
            let mut between = |_| ();
            let delta = run(&world, Play { alter, cutting, ..Play::ordinary(&mut between) });
            expect_equal(&world);
            assert_eq!(fs::metadata(world.to("f")).expect("it stands").ino(), before);
            assert!(delta.failures.is_empty(), "{} to {}: {delta:?}", old.len(), new.len());
        }
    }
}
