//! Deltas of short files: many at once, none of which costs more than it saves.

use super::elsewhere::altered;
use super::*;
use crate::delta::is_worth_listing;

/// Lines of a source file, of which these are changed.
fn lines(seed: usize, len: usize, changed: &[usize]) -> Vec<u8> {
    let line = |number: usize| {
        let version = if changed.contains(&number) { "changed" } else { "as it was" };
        let word = blake3::hash(&(seed * 10_000 + number).to_le_bytes()).to_hex();
        format!("    let value_{number} = {}; // {version}\n", &word[..20])
    };
    let mut text: Vec<u8> = Vec::new();
    (0..).map(line).take_while(|_| len > 0).find(|line| {
        text.extend_from_slice(line.as_bytes());
        text.len() >= len
    });
    text
}

fn put_old(world: &World, name: &str, old: &[u8]) {
    fs::create_dir_all(world.to("")).expect("our own place");
    fs::write(world.to(name), old).expect("a file");
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    File::open(world.to(name)).and_then(|file| file.set_modified(long_ago)).expect("own file");
}

#[test]
fn many_short_files_send_the_lines_that_changed() {
    let world = World::new();
    let (mut all, mut longest) = (0, 0);
    for number in 0..400 {
        let len = 2500 + number * 29;
        let (old, new) = (lines(number, len, &[]), lines(number, len, &[number % 30]));
        (all, longest) = (all + new.len() as u64, longest.max(new.len()));
        world.write(&format!("f{number}"), &new);
        put_old(&world, &format!("f{number}"), &old);
    }
    assert!(longest < 16 << 10, "{longest}");
    let delta = ordinary(&world);
    for number in 0..400 {
        let name = format!("f{number}");
        let came = fs::read(world.to(&name)).expect("a file");
        assert!(came == fs::read(world.from(&name)).expect("a file"), "{name}");
    }
    assert_eq!((delta.listed, delta.unusable), (400, 0), "{delta:?}");
    // rsync with blocks of 700 bytes sends at least one of them a file.
    assert!(delta.wire < all / 7 && delta.lists < all / 30, "{all}: {delta:?}");
}

#[test]
fn lengths_on_both_sides_of_a_bound_make_deltas() {
    // Of a chunk a patch saves an eighth at least, so the old file is not much shorter here.
    for (from, to) in [(16_000, 17_000), (17_000, 16_000), (14_000, 40_000), (40_000, 12_000), (700, 900)] {
        let world = World::new();
        world.write("f", &lines(1, to, &[]));
        put_old(&world, "f", &lines(1, from, &[]));
        let delta = ordinary(&world);
        expect_equal(&world);
        assert_eq!((delta.listed, delta.unusable), (1, 0), "{from} {to}: {delta:?}");
        assert!(delta.matched > from.min(to) as u64 / 2, "{from} {to}: {delta:?}");
    }
}

#[test]
fn a_list_is_short_beside_the_file_that_comes() {
    for (basis, file, is_worth) in [
        (511, 4096, false),
        (4096, 511, false),
        (512, 512, true),
        (8 << 10, 8 << 10, true),
        (1 << 20, 10 << 10, false),
        (1 << 20, 1 << 20, true),
        (1 << 40, 1 << 20, false),
        (1 << 40, 1 << 40, true),
        (u64::MAX, u64::MAX, true),
        (512, 1 << 40, true),
    ] {
        assert_eq!(is_worth_listing(basis, file), is_worth, "{basis} {file}");
    }
    // A log that began anew: its long predecessor is not listed for a few lines.
    let world = World::new();
    world.write("f", &lines(1, 3000, &[]));
    put_old(&world, "f", &content(LEN, 1));
    let delta = ordinary(&world);
    expect_equal(&world);
    assert_eq!((delta.listed, delta.lists), (0, 0), "{delta:?}");
}

#[test]
fn a_short_file_is_made_of_that_of_link_dest() {
    let world = World::new();
    world.write("f", &lines(1, 9000, &[7]));
    fs::create_dir_all(world.to("")).expect("our own place");
    fs::create_dir_all(world.to("../yesterday")).expect("our own place");
    fs::write(world.to("../yesterday/f"), lines(1, 9000, &[])).expect("a file");
    let delta = altered(&world, |options| options.link_dest = vec![b"../yesterday".to_vec()]);
    expect_equal(&world);
    assert!(delta.listed == 1 && delta.matched > 7000, "{delta:?}");
}
