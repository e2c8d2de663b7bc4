//! Earlier versions that the sender has: where the new file is not like them, and where they are found by
//! what is remembered of them.

use super::known::{put, trained};
use super::*;

/// Beside the wire's own overhead: half a window that is judged at once, and short pieces at two edges.
const AN_EDGE: u64 = (1 << 19) + 150_000;

fn run_beside(world: &World, beside: Beside) -> Delta {
    let mut between = |_| ();
    run(world, Play { beside, ..Play::ordinary(&mut between) })
}

fn with_earlier(old: &[u8], new: &[u8]) -> Delta {
    let world = world_of(old, new);
    let at = world.to("../v1.bin");
    put(&at, old, 0);
    let delta = run_beside(&world, Beside::Earlier(at));
    expect_equal(&world);
    assert_eq!((delta.unusable, &delta.failures), (0, &Vec::new()), "{delta:?}");
    delta
}

#[test]
fn what_moved_since_an_earlier_version_is_found_by_the_list() {
    let old = content(2 * LEN, 1);
    for at in [1, LEN / 2, LEN] {
        let put_in = [&old[..at], b"what was put in", &old[at..]].concat();
        let taken_out = [&old[..at], &old[at + 9..]].concat();
        for new in [put_in, taken_out] {
            let delta = with_earlier(&old, &new);
            assert!(delta.wire < AN_EDGE, "at {at}: {delta:?}");
        }
    }
}

#[test]
fn a_part_made_anew_costs_itself_beside_an_earlier_version() {
    let old = content(3 * LEN, 1);
    let mut new = trained(&old);
    let part = LEN..LEN + LEN / 2;
    new[part.clone()].copy_from_slice(&content(part.len(), 9));
    let delta = with_earlier(&old, &new);
    let changed = part.len() as u64 + (new.len() as u64) * 6 / 100;
    assert!(delta.wire < changed + 2 * AN_EDGE, "{delta:?}");
}

#[test]
fn numbers_that_all_changed_a_little_are_sent_as_differences() {
    let old = content(2 * LEN, 1);
    let mut new = old.clone();
    for number in new.chunks_exact_mut(4) {
        number[0] = number[0].wrapping_add(1 + number[1] % 3);
    }
    let delta = with_earlier(&old, &new);
    assert!(delta.wire < new.len() as u64 / 2, "{delta:?}");
}

#[test]
fn rows_of_one_length_that_moved_are_found_by_the_list() {
    let row =
        |number: u64| format!("row {number:012} {}\n", &blake3::hash(&number.to_le_bytes()).to_hex()[..20]);
    let rows: Vec<String> = (0..100_000).map(row).collect();
    let old = rows.concat().into_bytes();
    let new =
        [&rows[..10_000].concat(), &row(1_000_000), &rows[10_000..].concat()].map(String::as_bytes).concat();
    let delta = with_earlier(&old, &new);
    assert!(delta.wire < AN_EDGE, "{delta:?}");
}

/// Alternately a MiB is like the earlier version, and one has moved: what is looked for ahead in the one, and
/// asked for, is not used.
#[test]
fn parts_that_moved_between_parts_that_did_not_are_found() {
    const WINDOW: usize = 1 << 20;
    let old = content(24 * WINDOW, 1);
    let mut new = old.clone();
    for (number, window) in new.chunks_mut(WINDOW).enumerate() {
        window.iter_mut().step_by(32 << 10).for_each(|byte| *byte ^= 1);
        if number % 2 == 1 {
            window.rotate_left(5);
        }
    }
    let world = world_of(&old, &new);
    let at = world.to("../v1.bin");
    put(&at, &old, 0);
    let mut between = |_| ();
    // A chunk is empty while its answers have not come: waited for in vain, the file would not be there.
    let play = Play { beside: Beside::Earlier(at), chunks: 2000, ..Play::ordinary(&mut between) };
    let delta = run(&world, play);
    expect_equal(&world);
    assert!(delta.wire < 4_000_000 && delta.unusable == 0, "{delta:?}");
}

/// What is remembered of the file at a place, which had been sent as `f`.
fn remembered(place: &Path) -> Remembered {
    let file = File::open(place).expect("it is there");
    let stat = file.metadata().expect("it is open");
    let identity = Identity {
        size: stat.len(),
        mtime_s: stat.mtime(),
        mtime_ns: u32::try_from(stat.mtime_nsec()).expect("below a second"),
        inode: stat.ino(),
    };
    let mut sent = Remembered::default();
    sent.add(b"f".to_vec(), (std::os::unix::ffi::OsStrExt::as_bytes(place.as_os_str()).to_vec(), identity));
    sent
}

#[test]
fn a_version_that_was_sent_is_found_where_it_is_now() {
    let old = content(2 * LEN, 1);
    let new = trained(&old);
    type Change = fn(&Path);
    let changes: [(&str, Change, bool); 6] = [
        ("where it was", |_| (), true),
        ("renamed", |at| fs::rename(at, at.with_extension("old")).expect("own file"), true),
        (
            "copied with its time, and written anew",
            |at| {
                let time = at.metadata().and_then(|stat| stat.modified()).expect("own file");
                fs::copy(at, at.with_extension("bak")).expect("own file");
                let copy = File::options().write(true).open(at.with_extension("bak")).expect("own file");
                copy.set_modified(time).expect("own file");
                fs::write(at, b"another").expect("own file");
            },
            true,
        ),
        ("written anew", |at| fs::write(at, content(2 * LEN, 5)).expect("own file"), false),
        ("gone", |at| fs::remove_file(at).expect("own file"), false),
        (
            "a link to it",
            |at| {
                fs::rename(at, at.with_file_name("elsewhere")).expect("own file");
                std::os::unix::fs::symlink("elsewhere", at).expect("own place");
            },
            true,
        ),
    ];
    for (what, change, is_found) in changes {
        let world = world_of(&old, &new);
        let at = world.to("../run/w.bin");
        put(&at, &old, 500);
        let sent = remembered(&at);
        change(&at);
        let delta = run_beside(&world, Beside::Sent(sent));
        expect_equal(&world);
        let is_short = delta.wire < new.len() as u64 * 6 / 100;
        assert_eq!((is_short, delta.unusable), (is_found, 0), "{what}: {delta:?}");
    }
}

#[test]
fn a_destination_that_has_another_version_than_remembered_gets_the_new_one() {
    let (old, other) = (content(2 * LEN, 1), content(2 * LEN, 2));
    let new = trained(&old);
    let world = world_of(&other, &new);
    let at = world.to("../run/w.bin");
    put(&at, &old, 500);
    let delta = run_beside(&world, Beside::Sent(remembered(&at)));
    expect_equal(&world);
    assert!(delta.unusable <= 8 && delta.failures.is_empty(), "{delta:?}");
}

#[test]
fn the_file_itself_is_no_earlier_version() {
    // It was sent, and what stands at the destination is another one since.
    let (old, new) = (content(2 * LEN, 1), content(2 * LEN, 2));
    let world = world_of(&old, &new);
    let delta = run_beside(&world, Beside::Sent(remembered(&world.from("f"))));
    expect_equal(&world);
    assert_eq!(delta.unusable, 0, "{delta:?}");
}

#[test]
fn what_is_sent_is_noted_where_it_is() {
    let old = content(2 * LEN, 1);
    let world = world_of(&old, &trained(&old));
    world.write("short", b"not worth it");
    let mut source = Source::open(spec(&[&world.from("")])).expect("it can be read");
    let sent = source.note_versions();
    let mut buf = vec![0; CHUNK_LEN_MAX];
    while !source.next_chunk(&mut buf, 1 << 20).expect("it can be read").is_final {}
    let [version] = &sent.take()[..] else { panic!("one file is long") };
    let place = world.from("f").canonicalize().expect("it is there");
    assert_eq!(version.place, std::os::unix::ffi::OsStrExt::as_bytes(place.as_os_str()));
    assert_eq!(version.root, *blake3::hash(&fs::read(&place).expect("own file")).as_bytes());
    assert!(version.path.ends_with(b"f"), "{version:?}");
}
