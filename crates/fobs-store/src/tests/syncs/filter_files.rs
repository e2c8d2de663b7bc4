//! Filter files of directories: those that cannot be used, those that are links, those that arrived.

use super::*;

/// A way in which a directory's filter file cannot be used.
#[derive(Debug, Clone, Copy)]
enum Unusable {
    /// A rule that no filter has.
    Nonsense,
    /// A rule that such a file may not have.
    Refused,
    /// More than it may hold.
    Large,
    /// A link that leads to itself.
    Loop,
}

impl Unusable {
    const ALL: &[Unusable] = &[Unusable::Nonsense, Unusable::Refused, Unusable::Large, Unusable::Loop];

    /// Lays such a file.
    fn lay(self, at: &Path) {
        let rules = |line: &str| format!("- secret\n{line}");
        match self {
            Unusable::Nonsense => write(at, &rules("no rule")),
            Unusable::Refused => write(at, &rules(". more")),
            Unusable::Large => write(at, &rules("- longer\n").repeat(10_000)),
            Unusable::Loop => symlink(at.file_name().expect("a name"), at).expect("a link"),
        }
    }
}

#[test]
fn where_a_filter_file_cannot_be_used_nothing_is_sent_or_deleted() {
    for (&how, despite_errors) in Unusable::ALL.iter().flat_map(|how| [(how, false), (how, true)]) {
        for when in ALL_MOMENTS {
            let world = World::new();
            for path in ["tree/sub/secret", "tree/sub/in/other", "tree/after/f"] {
                world.write(path, b"s");
            }
            how.lay(&world.from("tree/sub/.filt"));
            for path in ["sub/there", "extra"] {
                write(&world.to(path), "t");
            }
            let rules = SyncRules { despite_errors, ..SyncRules::default() };
            let options = with_rules(SyncOptions { rules, ..options(when) }, &[": .filt"]);
            let synced = sync(&[slash(&world.from("tree"))], &world.to(""), &options, TOLD);
            let told =
                synced.failures.iter().any(|why| why.contains("cannot use the filter file 'sub/.filt'"));
            assert!(told, "{how:?} {when:?}: {synced:?}");
            let below: Vec<_> = fs::read_dir(world.to("sub")).expect("it is there").flatten().collect();
            assert!(below.len() == 1 && world.to("sub/there").exists(), "{how:?} {when:?}: {below:?}");
            assert!(world.to("after/f").exists(), "{how:?} {when:?}: what comes after it is sent");
            assert!(despite_errors || world.to("extra").exists(), "{how:?} {when:?}: {synced:?}");
        }
    }
}

#[test]
fn filter_files_may_be_links_and_a_directory_is_none() {
    let world = World::new();
    for path in ["tree/in/secret", "tree/out/secret", "tree/none/f", "tree/named/f", "tree/.filt/f"] {
        world.write(path, b"s");
    }
    world.write("rules", b"- secret\n");
    world.write("tree/rules", b"- secret\n");
    for (target, at) in
        [("../rules", "tree/in/.filt"), ("../../rules", "tree/out/.filt"), ("x", "tree/none/.filt")]
    {
        symlink(target, world.from(at)).expect("a link");
    }
    fs::create_dir(world.from("tree/named/.filt")).expect("a directory");
    let options = SyncOptions { delete: None, ..with_rules(options(DeleteWhen::After), &[": .filt"]) };
    sync(&[slash(&world.from("tree"))], &world.to(""), &options, TOLD).expect_clean();
    assert!(!world.to("in/secret").exists() && !world.to("out/secret").exists());
    assert!(world.to("none/f").exists() && world.to("named/f").exists() && world.to(".filt/f").exists());
}

#[test]
fn a_link_among_the_filter_files_of_the_destination_holds_within_it() {
    for (target, holds) in [("../rules", true), ("../../outside", false)] {
        let world = World::new();
        world.write("tree/sub/f", b"f");
        write(&world.directory.path().join("outside"), "- kept\n");
        for (path, text) in [("rules", "- kept\n"), ("sub/kept", "k"), ("sub/gone", "g")] {
            write(&world.to(path), text);
        }
        symlink(target, world.to("sub/.filt")).expect("a link");
        let options = with_rules(options(DeleteWhen::During), &["P /rules", "P .filt", ": .filt"]);
        let synced = sync(&[slash(&world.from("tree"))], &world.to(""), &options, TOLD);
        assert!(world.to("sub/kept").exists(), "{target}: {synced:?}");
        assert_eq!(world.to("sub/gone").exists(), !holds, "{target}: {synced:?}");
        let told = synced.failures.iter().any(|why| why.contains("'sub/.filt': the link leads out"));
        assert_eq!(told, !holds, "{target}: {synced:?}");
    }
}

#[test]
fn late_deletions_follow_the_filter_files_that_arrived() {
    for (when, kept) in [(DeleteWhen::After, true), (DeleteWhen::During, false)] {
        let world = World::new();
        world.write("tree/sub/.filt", b"- keep*\n");
        world.write("tree/sub/deep/f", b"f");
        for path in ["sub/keep1", "sub/deep/keep2", "sub/gone", "keep3"] {
            write(&world.to(path), "k");
        }
        let options = with_rules(options(when), &[": .filt"]);
        sync(&[slash(&world.from("tree"))], &world.to(""), &options, TOLD).expect_clean();
        assert_eq!(world.to("sub/keep1").exists(), kept, "{when:?}");
        assert_eq!(world.to("sub/deep/keep2").exists(), kept, "{when:?}: it holds below too");
        assert!(!world.to("sub/gone").exists() && !world.to("keep3").exists(), "{when:?}");
        assert!(world.to("sub/.filt").exists());
    }
}
