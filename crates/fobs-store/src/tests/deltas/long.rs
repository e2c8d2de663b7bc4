//! Files of which long pieces are listed, and short ones where those have changed.

use super::*;

const LONG: usize = 40_000_000;

/// What rsync 3 sends beside its own messages: sums of 4 and of 2 bytes or more for each block, which is as
/// long as the root of the size, and each block that changed.
fn rsyncs(len: usize, changed_blocks: usize) -> u64 {
    let block = (len as f64).sqrt();
    ((len as f64 / block) * 6.5 + changed_blocks as f64 * block) as u64
}

#[test]
fn a_long_file_sends_less_than_rsync_does() {
    let old = content(LONG, 1);
    let front = [&old[..5_000], &content(10_007, 2), &old[5_000..]].concat();
    let cut = old[1_234_567..].to_vec();
    let grown = [&old[..], &content(300_000, 3)].concat();
    let swapped = [&old[LONG / 2..], &old[..LONG / 2]].concat();
    for (what, new, sent, blocks) in [
        ("nothing", old.clone(), 0, 0),
        ("one write", scattered(&old, 1), 4096, 1),
        ("writes", scattered(&old, 40), 40 * 4096, 60),
        ("in front", front, 10_007, 2),
        ("cut", cut, 0, 1),
        ("grown", grown, 300_000, 48),
        ("swapped", swapped, 0, 7),
    ] {
        let world = world_of(&old, &new);
        let delta = ordinary(&world);
        expect_equal(&world);
        assert_eq!((delta.unusable, delta.listed, delta.failures.len()), (0, 1, 0), "{what}: {delta:?}");
        assert!(delta.wire + delta.lists < rsyncs(LONG, blocks), "{what}: {delta:?}");
        assert!(delta.wire < sent + 15_000 * (1 + blocks as u64 / 2), "{what}: {delta:?}");
        assert!(delta.lists < LONG as u64 / 700, "{what}: {delta:?}");
    }
}

#[test]
fn what_changed_everywhere_is_found_by_short_pieces() {
    let old = content(LONG / 2, 1);
    // A change in every 15 kB, with what moves all behind it: no long piece is left.
    let mut new = Vec::new();
    for (number, part) in old.chunks(15_000).enumerate() {
        new.extend_from_slice(part);
        new.extend_from_slice(&content(20 + number % 7, number as u64));
    }
    for (old, new) in [(&old, &new), (&new, &old)] {
        let world = world_of(old, new);
        let delta = ordinary(&world);
        expect_equal(&world);
        assert!(delta.matched > LONG as u64 / 2 * 6 / 10, "{delta:?}");
        assert!(delta.lists < LONG as u64 / 100, "{delta:?}");
    }
}

#[test]
fn names_that_mislead_by_chance_cost_a_chunk_and_no_file() {
    let old = content(LONG / 2, 1);
    let new = scattered(&old, 20);
    let world = world_of(&old, &new);
    let delta = play(&world, NameKey::new(MISLEADING));
    expect_equal(&world);
    assert!(delta.failures.is_empty(), "{delta:?}");
    // Pieces of zeros are all as long as each other.
    let world = world_of(&vec![0; LONG / 2], &vec![1; LONG / 2]);
    let delta = play(&world, NameKey::new(MISLEADING));
    expect_equal(&world);
    assert!(delta.unusable > 0 && delta.failures.is_empty(), "{delta:?}");
}

#[test]
fn a_long_basis_may_change_at_any_moment() {
    let old = content(LONG / 2, 1);
    let new = scattered(&old, 20);
    for (how, meddle) in MEDDLING {
        for (moment, cutting) in
            [0, 2].into_iter().flat_map(|moment| CUTTINGS.map(|cutting| (moment, cutting)))
        {
            let world = world_of(&old, &new);
            let basis = world.to("f");
            let mut between = |number: usize| {
                if number == moment {
                    meddle(&basis);
                }
            };
            let (key, terms) = (NameKey::new([1; 32]), Terms::default());
            let play = Play { key, terms, cutting, ..Play::ordinary(&mut between) };
            let delta = run(&world, play);
            expect_equal(&world);
            assert_eq!(delta.failures, Vec::<String>::new(), "{how}, {moment}");
        }
    }
}

#[test]
fn holes_of_a_long_file_are_not_looked_through() {
    let old = content(LONG / 2, 1);
    let world = world_of(&old, b"");
    let file = File::create(world.from("f")).expect("own file");
    for (at, part) in [(0, &old[..LONG / 4]), (1 << 30, &old[LONG / 4..])] {
        file.write_all_at(part, at).expect("it can be written");
    }
    file.sync_all().expect("own file");
    let delta = ordinary(&world);
    expect_equal(&world);
    assert!(delta.matched > LONG as u64 / 2 * 95 / 100, "{delta:?}");
}

proptest! {
    #![proptest_config(cases(8))]
    #[test]
    fn any_edit_of_a_long_file_arrives(
        len in 16_777_216_usize..20_000_000,
        edits in prop::collection::vec(edit(), 0..12),
        groups in 1_usize..64,
        misleading: bool,
        back: bool,
        cutting in prop::sample::select(CUTTINGS.to_vec()),
    ) {
        let old = content(len, 5);
        let new = edited(old.clone(), &edits);
        let (old, new) = if back { (new, old) } else { (old, new) };
        let world = world_of(&old, &new);
        let (terms, mut between) = (Terms::default(), |_| ());
        let key = if misleading { NameKey::new(MISLEADING) } else { NameKey::new([3; 32]) };
        let play = Play { alter: |_| (), key, terms, data_max: groups << 16, beside: Beside::Nothing, cutting, chunks: usize::MAX, between: &mut between };
        let delta = run(&world, play);
        prop_assert_eq!(fs::read(world.to("f")).expect("a file"), new);
        prop_assert_eq!(delta.failures, Vec::<String>::new());
        prop_assert!(misleading || delta.unusable == 0);
    }
}

#[test]
fn zeros_and_repeats_are_found_once() {
    let world = world_of(&vec![0; LEN], &vec![0; 2 * LEN]);
    let delta = ordinary(&world);
    expect_equal(&world);
    assert!(delta.wire < 20_000, "{delta:?}");
    let line = b"the same line over and over, of no useful length\n";
    let world = world_of(&line.repeat(LEN / line.len()), &line.repeat(LEN / line.len() - 100));
    let delta = ordinary(&world);
    expect_equal(&world);
    assert!(delta.wire < LEN as u64 / 15, "{delta:?}");
}
