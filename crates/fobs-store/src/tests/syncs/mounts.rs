//! Other file systems at either end, with `-x` and `-xx`.

use super::*;

#[test]
fn what_a_walk_leaves_out_with_x_stays() {
    let Some(top) = with_tmpfs("syncs::mounts::what_a_walk_leaves_out_with_x_stays", "size=8m") else {
        return;
    };
    let (from, to) = (top.join("from"), top.join("to"));
    mount_in(&from.join("home"));
    mount_in(&from.join("deep/in/mnt"));
    write(&from.join("home/u"), "of the source");
    write(&from.join("f"), "f");
    for when in ALL_MOMENTS {
        for (path, content) in [("home/u", "kept"), ("home/in/v", "kept"), ("deep/in/mnt/w", "kept")] {
            write(&to.join(path), content);
        }
        write(&to.join("gone"), "g");
        write(&to.join("deep/in/gone"), "g");
        let synced = sync(&[slash(&from)], &to, &on_one(when), TOLD);
        let mut gone = synced.expect_clean().gone.clone();
        gone.sort();
        assert_eq!(gone, ["deep/in/gone", "gone"], "{when:?}");
        assert_eq!(fs::read_to_string(to.join("home/u")).expect("it is there"), "kept");
        let found = paths(&to);
        let kept = ["deep/in/mnt/w", "home/u", "home/in/v"];
        assert!(kept.iter().all(|path| found.iter().any(|it| it == path)), "{when:?}: {found:?}");
        // A receiver that knows of no parts deletes nothing at all, and says so.
        write(&to.join("gone"), "g");
        let form = ListingForm { parts: Parts::Failed, ..TOLD };
        let synced = sync(&[slash(&from)], &to, &on_one(when), form);
        assert!(synced.gone.is_empty() && to.join("gone").exists(), "{synced:?}");
        assert!(synced.failures.iter().any(|it| it.contains("older fobs")), "{synced:?}");
    }
    // Of a sender that does not tell, what comes empty is doubted.
    write(&to.join("gone"), "g");
    let form = ListingForm { parts: Parts::Untold, ..TOLD };
    let synced = sync(&[slash(&from)], &to, &on_one(DeleteWhen::During), form);
    assert_eq!(synced.expect_clean().gone, ["gone"]);
    assert!(to.join("home/u").exists() && to.join("deep/in/mnt/w").exists());
}

#[test]
fn with_two_x_a_mount_does_not_come_and_nothing_around_it_is_deleted() {
    let name = "syncs::mounts::with_two_x_a_mount_does_not_come_and_nothing_around_it_is_deleted";
    let Some(top) = with_tmpfs(name, "size=8m") else { return };
    let (from, to) = (top.join("from"), top.join("to"));
    for place in ["home", "deep/in/mnt", "alone/mnt"] {
        mount_in(&from.join(place));
        write(&from.join(place).join("u"), "of the source");
    }
    write(&from.join("deep/f"), "f");
    for when in ALL_MOMENTS {
        for path in ["home/u", "deep/in/mnt/w", "deep/in/z", "beside", "deep/gone"] {
            write(&to.join(path), "kept");
        }
        let options = on_one(when);
        let preserve = Preserve { file_systems: FileSystems::OneWithoutMounts, ..options.preserve };
        let synced = sync(&[slash(&from)], &to, &SyncOptions { preserve, ..options }, TOLD);
        assert_eq!(synced.expect_clean().gone, ["deep/gone"], "{when:?}");
        let expected =
            ["alone", "beside", "deep", "deep/f", "deep/in", "deep/in/mnt", "deep/in/mnt/w", "deep/in/z"];
        assert_eq!(paths(&to), [&expected[..], &["home", "home/u"]].concat(), "{when:?}");
        assert_eq!(fs::read_to_string(to.join("home/u")).expect("it is there"), "kept");
    }
}

#[test]
fn with_x_no_deletion_crosses_a_device() {
    let Some(top) = with_tmpfs("syncs::mounts::with_x_no_deletion_crosses_a_device", "size=8m") else {
        return;
    };
    let (from, to) = (top.join("from"), top.join("to"));
    write(&from.join("both/f"), "f");
    write(&from.join("becomes"), "a file");
    for place in ["mnt", "gone/mnt", "both/mnt", "becomes"] {
        mount_in(&to.join(place));
        write(&to.join(place).join("in/kept"), "kept");
    }
    write(&to.join("gone/file"), "g");
    for when in ALL_MOMENTS {
        write(&to.join("gone/file"), "g");
        let synced = sync(&[slash(&from)], &to, &on_one(when), TOLD);
        // What could not be stored keeps what is deleted late.
        let gone: &[&str] = if when == DeleteWhen::After { &[] } else { &["gone/file"] };
        assert_eq!(synced.gone, gone, "{when:?}");
        for place in ["mnt", "gone/mnt", "both/mnt", "becomes"] {
            assert!(to.join(place).join("in/kept").exists(), "{when:?}: {place}");
        }
        let told = |word: &str| synced.failures.iter().filter(|it| it.contains(word)).count();
        assert_eq!((told("make way for 'becomes'"), told("mnt'")), (1, 0), "{synced:?}");
    }
    // Without -x the contents go, and the mount points are named.
    let synced = sync(&[slash(&from)], &to, &options(DeleteWhen::During), TOLD);
    for place in ["mnt", "gone/mnt", "both/mnt"] {
        let sentence = format!("cannot delete '{place}': a file system is mounted there");
        assert!(synced.failures.iter().any(|it| it.starts_with(&sentence)), "{synced:?}");
        assert!(!to.join(place).join("in").exists(), "{place}");
    }
}
