//! rsync's rules by table.

use super::*;
use crate::survey::itemize::{ItemKind, Way};
use crate::walk::leads_out;

const ALL: Kept = Kept { modes: 0o7777, times: true };

fn meta(mtime_s: i64, mode: u32) -> Meta {
    Meta { mode, mtime_s, mtime_ns: 0 }
}

fn wanted(kind: WantedKind<'_>, size: u64, mtime_s: i64) -> Wanted<'_> {
    Wanted {
        kind,
        size,
        meta: meta(mtime_s, 0o644),
        owner: None,
        group: None,
        checksum: None,
        leads_out: false,
    }
}

fn there(kind: ThereKind, size: u64, mtime_s: i64) -> There {
    There {
        kind,
        size,
        meta: meta(mtime_s, 0o644),
        owner: 0,
        group: 0,
        checksum: None,
        acl_differs: false,
        xattrs_differ: false,
        atime_differs: false,
        hands: Hands::Ours,
    }
}

fn item(kind: WantedKind<'_>, changes: Changes) -> String {
    let kind = match kind {
        WantedKind::File => ItemKind::File,
        WantedKind::Directory => ItemKind::Directory,
        WantedKind::Symlink(_) => ItemKind::Symlink,
        WantedKind::Special(..) => ItemKind::Special,
    };
    changes.show(Way::Received, kind)
}

#[test]
fn a_file_is_sent_where_size_or_time_differs() {
    let is = |compare| SyncRules { compare, ..SyncRules::default() };
    let window = SyncRules { modify_window: 2, ..SyncRules::default() };
    for (rules, size, time, expected) in [
        (is(Compare::Time), 5, 100, (Action::Keep, ".f         ")),
        (is(Compare::Time), 6, 100, (Action::Send, ">f.s.......")),
        (is(Compare::Time), 5, 101, (Action::Send, ">f..t......")),
        (is(Compare::Time), 6, 99, (Action::Send, ">f.st......")),
        (is(Compare::Size), 5, 101, (Action::Keep, ".f..t......")),
        (is(Compare::Size), 6, 100, (Action::Send, ">f.s.......")),
        (is(Compare::Nothing), 5, 100, (Action::Send, ">f.........")),
        (is(Compare::Content), 5, 100, (Action::Send, ">fc........")),
        (is(Compare::Content), 6, 100, (Action::Send, ">fcs.......")),
        (window.clone(), 5, 102, (Action::Keep, ".f         ")),
        (window, 5, 103, (Action::Send, ">f..t......")),
    ] {
        let (action, changes) =
            rules.decide(&wanted(WantedKind::File, 5, 100), Some(&there(ThereKind::File, size, time)), ALL);
        assert_eq!((action, item(WantedKind::File, changes).as_str()), expected, "{rules:?} {size} {time}");
    }
}

#[test]
fn nanoseconds_make_no_file_new() {
    let mut source = wanted(WantedKind::File, 5, 100);
    source.meta.mtime_ns = 7;
    let (action, _) = SyncRules::default().decide(&source, Some(&there(ThereKind::File, 5, 100)), ALL);
    assert_eq!(action, Action::Keep);
}

#[test]
fn equal_contents_are_not_sent_whatever_their_times_are() {
    let rules = SyncRules { compare: Compare::Content, ..SyncRules::default() };
    let source = Wanted { checksum: Some([1; 32]), ..wanted(WantedKind::File, 5, 100) };
    let mut target = there(ThereKind::File, 5, 200);
    assert!(rules.compares_content(&source, &target));
    for (checksum, expected) in
        [(Some([1; 32]), ".f..t......"), (Some([2; 32]), ">fc.t......"), (None, ">fc.t......")]
    {
        target.checksum = checksum;
        let (_, changes) = rules.decide(&source, Some(&target), ALL);
        assert_eq!(item(WantedKind::File, changes), expected);
    }
    target.size = 6;
    assert!(!rules.compares_content(&source, &target));
    assert!(!SyncRules::default().compares_content(&source, &there(ThereKind::File, 5, 1)));
}

#[test]
fn what_is_not_there_is_made_or_left_out() {
    for (kind, expected) in [
        (WantedKind::File, ">f+++++++++"),
        (WantedKind::Directory, "cd+++++++++"),
        (WantedKind::Symlink(b"x"), "cL+++++++++"),
        (WantedKind::Special(SpecialKind::Fifo, Device { major: 0, minor: 0 }), "cS+++++++++"),
    ] {
        let (action, changes) = SyncRules::default().decide(&wanted(kind, 0, 1), None, ALL);
        assert_eq!((action, item(kind, changes).as_str()), (Action::Send, expected));
        let existing = SyncRules { absent: Absent::LeftOut, ..SyncRules::default() };
        assert_eq!(existing.decide(&wanted(kind, 0, 1), None, ALL).0, Action::LeaveOut);
    }
}

#[test]
fn a_rule_that_leaves_out_is_read_as_it_was_said() {
    use Likeness::{OtherAttributes, OtherContent, OtherType, Same, Unknown};
    let exists = [Unknown, OtherType, OtherContent, OtherAttributes, Same].map(LeftOut::Exists);
    let others = [LeftOut::Silently, LeftOut::Absent, LeftOut::BySize, LeftOut::Newer, LeftOut::Unsafe];
    for rule in exists.into_iter().chain(others) {
        assert_eq!(Changes::left_out(rule).rule(), Some(rule));
        // What a release reads that knows of no likeness.
        let is_there = Changes::left_out(rule).contains(Changes::CONTENT);
        assert_eq!(is_there, matches!(rule, LeftOut::Exists(_)), "{rule:?}");
    }
    assert_eq!(Changes::default().rule(), None);
}

#[test]
fn links_lead_out_as_rsync_sees_it() {
    for (path, target, expected) in [
        (&b"l"[..], &b"sub"[..], false),
        (b"l", b"./sub/.", false),
        (b"l", b"../x", true),
        (b"l", b"/etc/passwd", true),
        (b"l", b"", true),
        (b"l", b"sub/../../y", true),
        (b"l", b"sub/..", true),
        (b"sub/up", b"..", false),
        (b"sub/upup", b"../..", true),
        (b"d/l", b"../x", false),
        (b"d/l", b".././../x", true),
    ] {
        assert_eq!(leads_out(path, target), expected, "{path:?} {target:?}");
        let rules = SyncRules { safe_links: true, ..SyncRules::default() };
        let link = Wanted { leads_out: expected, ..wanted(WantedKind::Symlink(target), 0, 1) };
        assert_eq!(rules.decide(&link, None, ALL).0 == Action::LeaveOut, expected);
        assert_eq!(SyncRules::default().decide(&link, None, ALL).0, Action::Send);
    }
}

#[test]
fn an_append_leaves_what_is_not_shorter() {
    let rules = SyncRules { appends: true, ..SyncRules::default() };
    for (size, time, expected) in
        [(4, 1, Action::Send), (5, 1, Action::LeaveOut), (5, 9, Action::Keep), (6, 9, Action::LeaveOut)]
    {
        let target = there(ThereKind::File, size, time);
        let (action, _) = rules.decide(&wanted(WantedKind::File, 5, 9), Some(&target), ALL);
        assert_eq!(action, expected, "{size} {time}");
    }
    assert_eq!(rules.decide(&wanted(WantedKind::File, 5, 9), None, ALL).0, Action::Send);
}

#[test]
fn files_of_other_sizes_are_left_out() {
    let rules = SyncRules { size_min: Some(2), size_max: Some(4), ..SyncRules::default() };
    for target in [None, Some(there(ThereKind::File, 9, 1)), Some(there(ThereKind::Directory, 0, 1))] {
        for (size, is_taken) in [(0, false), (1, false), (2, true), (4, true), (5, false), (u64::MAX, false)]
        {
            let (action, _) = rules.decide(&wanted(WantedKind::File, size, 5), target.as_ref(), ALL);
            assert_eq!(action != Action::LeaveOut, is_taken, "{size} {target:?}");
        }
    }
    // Only files have a size.
    let link = rules.decide(&wanted(WantedKind::Symlink(b"far away"), 8, 5), None, ALL);
    assert_eq!(link.0, Action::Send);
}

#[test]
fn what_is_there_is_left_where_that_is_asked() {
    let left = SyncRules { present: Present::Left, ..SyncRules::default() };
    let decide = |kind, target| left.decide(&wanted(kind, 5, 9), Some(&there(target, 6, 1)), ALL).0;
    assert_eq!(decide(WantedKind::File, ThereKind::File), Action::LeaveOut);
    assert_eq!(decide(WantedKind::File, ThereKind::Directory), Action::LeaveOut);
    assert_eq!(decide(WantedKind::Symlink(b"a"), ThereKind::Symlink(b"b".to_vec())), Action::LeaveOut);
    assert_eq!(decide(WantedKind::Directory, ThereKind::Directory), Action::Keep);
    let newer = SyncRules { present: Present::UpdatedUnlessNewer, ..SyncRules::default() };
    for (time, expected) in [(8, Action::Send), (9, Action::Send), (10, Action::LeaveOut)] {
        let target = there(ThereKind::File, 6, time);
        assert_eq!(newer.decide(&wanted(WantedKind::File, 5, 9), Some(&target), ALL).0, expected, "{time}");
    }
    let link = there(ThereKind::Symlink(b"b".to_vec()), 6, 10);
    assert_eq!(newer.decide(&wanted(WantedKind::Symlink(b"a"), 5, 9), Some(&link), ALL).0, Action::Send);
}

#[test]
fn another_type_is_replaced() {
    for (kind, target, action) in [
        (WantedKind::File, ThereKind::Directory, Action::SendInPlaceOf),
        (WantedKind::Symlink(b"x"), ThereKind::Directory, Action::SendInPlaceOf),
        (WantedKind::File, ThereKind::Symlink(b"x".to_vec()), Action::Send),
        (WantedKind::Directory, ThereKind::File, Action::Send),
        (
            WantedKind::Special(SpecialKind::Fifo, Device { major: 0, minor: 0 }),
            ThereKind::Special(SpecialKind::Socket, Device { major: 0, minor: 0 }),
            Action::Send,
        ),
    ] {
        let (found, changes) =
            SyncRules::default().decide(&wanted(kind, 5, 9), Some(&there(target, 5, 9)), ALL);
        assert_eq!(found, action, "{kind:?}");
        assert!(changes.has(Changes::NEW), "{kind:?}");
    }
}

#[test]
fn links_and_devices_are_the_same_by_what_they_are() {
    let rules = SyncRules::default();
    for (kind, target, expected) in [
        (WantedKind::Symlink(b"a"), ThereKind::Symlink(b"a".to_vec()), (Action::Keep, ".L..t......")),
        (WantedKind::Symlink(b"a"), ThereKind::Symlink(b"b".to_vec()), (Action::Send, "cLc.t......")),
        (
            WantedKind::Special(SpecialKind::CharacterDevice, Device { major: 1, minor: 7 }),
            ThereKind::Special(SpecialKind::CharacterDevice, Device { major: 1, minor: 7 }),
            (Action::Keep, ".S..t......"),
        ),
        (
            WantedKind::Special(SpecialKind::CharacterDevice, Device { major: 1, minor: 7 }),
            ThereKind::Special(SpecialKind::CharacterDevice, Device { major: 1, minor: 8 }),
            (Action::Send, "cSc.t......"),
        ),
    ] {
        let (action, changes) = rules.decide(&wanted(kind, 3, 9), Some(&there(target, 3, 8)), ALL);
        assert_eq!((action, item(kind, changes).as_str()), expected);
    }
}

#[test]
fn metadata_counts_where_it_is_kept() {
    let mut source = wanted(WantedKind::File, 5, 100);
    let mut target = there(ThereKind::File, 5, 100);
    target.meta.mode = 0o600;
    (target.acl_differs, target.xattrs_differ) = (true, true);
    (source.owner, source.group) = (Some(1), Some(2));
    let shown = |source: &Wanted<'_>, target: &There, kept| {
        let (action, changes) = SyncRules::default().decide(source, Some(target), kept);
        assert_eq!(action, Action::Keep);
        item(source.kind, changes)
    };
    assert_eq!(shown(&source, &target, ALL), ".f...pog.ax");
    assert_eq!(shown(&source, &target, Kept { modes: 0, times: true }), ".f....og.ax");
    (source.owner, source.group) = (Some(0), None);
    (target.acl_differs, target.xattrs_differ) = (false, false);
    assert_eq!(shown(&source, &target, ALL), ".f...p.....");
    source.kind = WantedKind::Symlink(b"t");
    target.kind = ThereKind::Symlink(b"t".to_vec());
    assert_eq!(shown(&source, &target, ALL), ".L         ");
}

#[test]
fn times_that_are_not_kept_become_those_of_the_transfer() {
    let without = Kept { modes: 0o7777, times: false };
    let (action, changes) = SyncRules::default().decide(
        &wanted(WantedKind::File, 5, 100),
        Some(&there(ThereKind::File, 5, 101)),
        without,
    );
    assert_eq!((action, item(WantedKind::File, changes).as_str()), (Action::Send, ">f..T......"));
    let directory = |omit_directory_times| {
        let rules = SyncRules { omit_directory_times, ..SyncRules::default() };
        let target = there(ThereKind::Directory, 0, 101);
        rules.decide(&wanted(WantedKind::Directory, 0, 100), Some(&target), ALL).1
    };
    assert_eq!(item(WantedKind::Directory, directory(false)), ".d..t......");
    assert_eq!(item(WantedKind::Directory, directory(true)), ".d         ");
}

#[test]
fn what_others_may_have_put_there_is_sent_not_dressed() {
    let rules = SyncRules::default();
    let plain = wanted(WantedKind::File, 5, 100);
    let roots = Wanted { owner: Some(0), ..plain };
    let program = Wanted { meta: meta(100, 0o4755), ..plain };
    let looser = Wanted { meta: meta(100, 0o666), ..plain };
    let file = |hands, owner| There { hands, owner, ..there(ThereKind::File, 5, 100) };
    let labelled = There { xattrs_differ: true, ..file(Hands::Others, 7) };
    for (wanted, there, action) in [
        (plain, file(Hands::Others, 7), Action::Keep),
        (looser, file(Hands::Others, 7), Action::Keep),
        (roots, file(Hands::Others, 7), Action::Send),
        (roots, file(Hands::Others, 0), Action::Keep),
        (roots, file(Hands::Ours, 7), Action::Keep),
        (program, file(Hands::Others, 7), Action::Send),
        (program, file(Hands::Ours, 0), Action::Keep),
        (plain, labelled, Action::Send),
        (plain, file(Hands::Linked, 0), Action::Keep),
        (looser, file(Hands::Linked, 0), Action::Send),
        (looser, file(Hands::Moved, 0), Action::Send),
        (plain, file(Hands::Moved, 0), Action::Keep),
    ] {
        let (decided, changes) = rules.decide(&wanted, Some(&there), ALL);
        assert_eq!(decided, action, "{wanted:?} {there:?}");
        assert_eq!(changes.update() == Update::Transfer, action == Action::Send, "{wanted:?} {there:?}");
    }
}
