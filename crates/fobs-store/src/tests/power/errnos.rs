//! Each call of a sync fails in its turn, once or from then on: what failed is told in a sentence with its
//! reason, nothing is lost, nothing is deleted late, and the same command completes the tree.

use std::collections::BTreeSet;

use rustix::fs::getxattr;
use rustix::io::Errno;

use super::ERRNOS;
use super::model::{Content, Files, Unfinished};
use super::play::{KEPT, Scene, XATTR, place, recording};
use crate::errno::reason;
use crate::faults::{Call, Lasts, forget, plan_for, struck};
use crate::recorder;
use fobs_model::name::ours::{is_journal, suffix_in};

/// What a sync calls that can fail.
const CALLS: [Call; 15] = [
    Call::MakeFile,
    Call::MakeDirectory,
    Call::MakeLink,
    Call::Link,
    Call::Rename,
    Call::RenameToNew,
    Call::Unlink,
    Call::RemoveDirectory,
    Call::Write,
    Call::Sync,
    Call::Mode,
    Call::Times,
    Call::Xattr,
    Call::Record,
    Call::Lock,
];

/// What is said of what cannot be done because something else failed.
const FOLLOWING: [&str; 2] = ["nothing was deleted", "was not stored"];

/// A run in which the call after `spared` fails.
#[derive(Debug, Clone, Copy)]
struct Trial {
    spared: u32,
    errno: Errno,
    lasts: Lasts,
}

/// Which call failed; `None` if there are fewer.
fn try_out(scene: &Scene, trial: Trial) -> Option<Call> {
    let (before, wanted) = scene.before_and_after();
    let to = place();
    let known = before.put_at(to.path());
    recorder::begin(recording(1, known, 1));
    plan_for(Call::Any, trial.spared, trial.errno, trial.lasts);
    let failures = scene.run(to.path(), &mut || ());
    forget();
    let failed = struck();
    if let Some(call) = failed {
        let told = format!("{trial:?}, {call:?}: {failures:?}");
        let there = Files::read(to.path(), &|real| (real, None));
        let messages: Vec<_> = failures.stored.iter().chain(&failures.deleted).collect();
        let has_reason = |message: &&String| message.contains(&reason(trial.errno));
        let follows = |message: &&String| FOLLOWING.iter().any(|words| message.contains(words));
        assert!(messages.iter().all(|it| (has_reason(it) || follows(it)) && it.contains("; ")), "{told}");
        assert!(messages.is_empty() || messages.iter().any(has_reason), "{told}");
        expect_nothing_lost(&before, &there, wanted, &told);
        if !failures.stored.is_empty() {
            let there = there.paths();
            for kept in [&b"extraneous"[..], b"gone/with/it"] {
                assert!(there.contains_key(kept), "'{}' was deleted; {told}", kept.escape_ascii());
            }
        } else if failures.deleted.is_empty() {
            let differs = scene.differs(&without_ours(&there), Unfinished::None);
            assert_eq!(differs, None, "nothing was told; {told}");
        }
        let again = scene.run(to.path(), &mut || ()).all();
        assert_eq!(again, Vec::<String>::new(), "once more; {told}");
        let there = Files::read(to.path(), &|real| (real, None));
        assert_eq!(scene.differs(&there, Unfinished::None), None, "once more; {told}");
        let mut value = [0; 16];
        assert_eq!(getxattr(to.path().join(KEPT), XATTR, &mut value[..]), Ok(5), "once more; {told}");
    }
    recorder::end();
    failed
}

/// Each file has its old content or the new one, and what is there before is still there, unless it is to go.
fn expect_nothing_lost(before: &Files, there: &Files, wanted: &Files, told: &str) {
    let (before, there, wanted) = (before.paths(), there.paths(), wanted.paths());
    for (path, (node, _)) in &there {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let is_of = |tree: &std::collections::BTreeMap<Vec<u8>, (&super::model::Node, Vec<u8>)>| {
            tree.get(path).is_some_and(|(known, _)| known.content == node.content)
        };
        let is_known = matches!(node.content, Content::Directory(_)) || is_of(&before) || is_of(&wanted);
        let is_ours = suffix_in(name).is_some() || is_journal(name);
        assert!(is_known || is_ours, "'{}' has neither content; {told}", path.escape_ascii());
    }
    for path in before.keys().filter(|path| wanted.contains_key(*path)) {
        assert!(there.contains_key(path), "'{}' is gone; {told}", path.escape_ascii());
    }
}

/// Without journals and unfinished files.
fn without_ours(files: &Files) -> Files {
    let mut files = files.clone();
    for node in files.nodes.values_mut() {
        if let Content::Directory(entries) = &mut node.content {
            entries.retain(|name, _| suffix_in(name).is_none() && !is_journal(name));
        }
    }
    files
}

#[test]
fn each_call_that_fails_is_told_and_loses_nothing() {
    let mut failed: BTreeSet<Call> = BTreeSet::new();
    for (fsync, delta) in [(false, false), (true, false), (false, true)] {
        let scene = Scene::of_faults(fsync, delta);
        for lasts in [Lasts::Once, Lasts::On] {
            for spared in 0.. {
                let first = spared as usize % ERRNOS.len();
                let errnos = if cfg!(feature = "long") { &ERRNOS[..] } else { &ERRNOS[first..=first] };
                let called: Vec<_> = errnos
                    .iter()
                    .map(|errno| try_out(&scene, Trial { spared, errno: *errno, lasts }))
                    .collect();
                failed.extend(called.iter().copied().flatten());
                if called.contains(&None) {
                    assert!(spared > 50, "a sync makes more calls than that");
                    break;
                }
            }
        }
    }
    let never: Vec<_> = CALLS.iter().filter(|call| !failed.contains(call)).collect();
    assert_eq!(never, Vec::<&Call>::new(), "these were never made to fail");
}
