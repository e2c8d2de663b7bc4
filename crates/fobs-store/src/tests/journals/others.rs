//! Others who meet a journal: a second sink, and `fobs clean`.

use super::*;
use crate::leftovers::{Fate, search};

#[test]
fn a_second_sink_is_refused_and_names_the_first() {
    let world = World::new();
    make_tree(&world);
    let (_, first) = run(&world, Partial::Keep, 3);
    for keep in [Partial::Keep, Partial::Discard] {
        let error = open_sink(&world, keep).map(|_| ()).expect_err("it is in use");
        assert_eq!(error.kind, ErrorKind::Destination);
        assert!(error.message.contains("tester, process "), "{error}");
    }
    assert_eq!(ours(&world).len(), 2, "the first one's files stay");
    drop(first);
    run(&world, Partial::Keep, usize::MAX);
    expect_whole(&world);
}

#[test]
fn clean_removes_what_an_ended_copy_left_and_nothing_of_a_running_one() {
    let world = World::new();
    let total = make_tree(&world);
    let clean = || {
        let mut found = Vec::new();
        let mut each = |leftover: Leftover| found.push((leftover.kind, leftover.fate));
        search(&world.to(""), true, true, &mut each).expect("it can be read");
        found
    };
    let is_in_use = |found: &[(LeftoverKind, Fate)]| found.iter().all(|(_, fate)| *fate == Fate::InUse);
    let (first, sink) = run(&world, Partial::Keep, 3);
    let there = tree(&world.to(""));
    let found = clean();
    assert!(found.len() == 2 && is_in_use(&found), "{found:?}");
    assert_eq!(tree(&world.to("")), there);

    drop(sink);
    let said = LeftoverKind::Journal { of: None, files: 1, bytes: first.sent };
    // The thread that has the device keep it may hold the lock for one more call.
    let found = std::iter::repeat_with(clean).find(|found| !is_in_use(found));
    assert_eq!(found, Some(vec![(said, Fate::Removed)]), "with the partial file that it names");
    assert_eq!(ours(&world), Vec::<PathBuf>::new());
    assert!(world.to("a").exists(), "what is complete stays");
    let (second, _) = run(&world, Partial::Keep, usize::MAX);
    assert_eq!((second.sent, second.resumed), (total, 0));
    expect_whole(&world);
}
