//! Every verb and option under every right, through a real daemon: what docs/security.md allows happens, and
//! what it does not is refused by name, changes nothing and tells nothing.

use super::stage::{BASE, SECRETS, Stage};
use super::tables::{allowed, needed};
use fobs::doctor::{Checkup, DiskFacts};
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind};
use fobs_model::message::{PathRole, PipeRequest};
use fobs_model::name::{BackupSuffix, RelPath};
use fobs_model::options::sync::{Absent, Compare, Delete, DeleteWhen, Present, Report, SyncOptions};
use fobs_model::options::{Location, TransferOptions};
use fobs_model::permit::{Commands, Needs, Permit};
use fobs_model::rights::{Access, PipeCommand, PipeNames, Rights};
use std::sync::Arc;
use std::time::Duration;

type Done = Result<Vec<String>, Error>;

/// A request: how its row in docs/security.md begins, the option that its refusal names, and what it does.
struct Play {
    row: &'static str,
    option: &'static str,
    name: &'static str,
    act: Box<dyn Fn(&Stage) -> Done>,
}

const PUSH: &str = "push: `fobs cp`";
const DELETE: &str = "push with `--delete`";
const LOOK: &str = "push with `--link-dest`";
const COMPARE_DEST: &str = "push with `--compare-dest`";
const PULL: &str = "pull: files";

fn play(
    row: &'static str,
    name: &'static str,
    option: &'static str,
    act: impl Fn(&Stage) -> Done + 'static,
) -> Play {
    Play { row, option, name, act: Box::new(act) }
}

/// A sync to the daemon.
fn sync(row: &'static str, name: &'static str, option: &'static str, change: fn(&mut SyncOptions)) -> Play {
    play(row, name, option, move |stage| pushed(stage, stage.sync(&change)))
}

/// A sync from it.
fn back(row: &'static str, name: &'static str, option: &'static str, change: fn(&mut SyncOptions)) -> Play {
    play(row, name, option, move |stage| {
        let (outcome, told) = stage.pull(stage.sync(&change));
        outcome.map(|_| told)
    })
}

fn pushed(stage: &Stage, options: TransferOptions) -> Done {
    let (outcome, told) = stage.push(options);
    outcome.map(|_| told)
}

fn named(name: &str) -> String {
    format!("{BASE}/{name}")
}

fn delete(when: DeleteWhen) -> Option<Delete> {
    Some(Delete { when, max: None })
}

/// Those that push.
fn pushes() -> Vec<Play> {
    vec![
        play(PUSH, "cp -r", "", |stage| pushed(stage, stage.copy())),
        play(PUSH, "cp -rp", "", |stage| pushed(stage, TransferOptions { preserve: true, ..stage.copy() })),
        play(PUSH, "cp of a small file", "", |stage| {
            let (outcome, told) = stage.push_from("new", stage.served.options());
            outcome.map(|_| told)
        }),
        play(PUSH, "object in a message", "", |stage| {
            stage.session().send(named("object"), b"small").map(|_| Vec::new())
        }),
        play(PUSH, "large object", "", |stage| {
            stage.session().send(named("object"), &[7; 100_000]).map(|_| Vec::new())
        }),
        sync(PUSH, "sync -a", "", |_| ()),
        sync(PUSH, "sync -ai", "", |sync| sync.report = Report::Changed),
        sync(PUSH, "sync -aii", "", |sync| sync.report = Report::All),
        sync(PUSH, "sync -aI", "", |sync| sync.rules.compare = Compare::Nothing),
        sync(PUSH, "sync -aH", "", |sync| sync.preserve.hard_links = true),
        sync(PUSH, "sync -a --files-from", "", |sync| {
            sync.names = Some(vec![RelPath::new(b"new".to_vec()).unwrap()])
        }),
        sync(PUSH, "sync -a --remove-source-files", "", |sync| sync.remove_source_files = true),
        sync(DELETE, "sync --delete", "--delete", |sync| sync.delete = delete(DeleteWhen::During)),
        sync(DELETE, "sync --delete-before", "--delete", |sync| sync.delete = delete(DeleteWhen::Before)),
        sync(DELETE, "sync --delete-after", "--delete", |sync| sync.delete = delete(DeleteWhen::After)),
        sync(DELETE, "only deletions", "--delete", |sync| {
            (sync.delete, sync.only_delete) = (delete(DeleteWhen::Before), true);
        }),
        sync(DELETE, "making way", "--delete", |sync| sync.rules.makes_way = true),
        sync(DELETE, "sync -n --delete", "--delete", |sync| {
            (sync.delete, sync.dry_run) = (delete(DeleteWhen::During), true);
        }),
        sync("push with `--backup`", "sync --backup", "--backup", |sync| {
            sync.backup = BackupSuffix::new(b"~".to_vec()).ok()
        }),
        sync("push with `--backup`", "sync --backup-dir", "--backup", |sync| {
            sync.backup_dir = Some(b"older".to_vec());
        }),
        sync(PUSH, "sync --inplace", "", |sync| sync.rules.in_place = true),
        sync(PUSH, "sync -E", "", |sync| sync.rules.executability = true),
        sync(LOOK, "sync --link-dest", "--link-dest", |sync| sync.link_dest = vec![b"older".to_vec()]),
        sync(COMPARE_DEST, "sync --compare-dest", "--compare-dest", |sync| {
            sync.link_dest = vec![b"older".to_vec()];
            sync.basis_use = fobs_model::options::sync::BasisUse::LeftOut;
        }),
        sync(LOOK, "sync -n", "--dry-run", |sync| sync.dry_run = true),
        sync(LOOK, "sync -n -ii", "--dry-run", |sync| (sync.dry_run, sync.report) = (true, Report::All)),
        sync(LOOK, "sync -u", "--update", |sync| sync.rules.present = Present::UpdatedUnlessNewer),
        sync(LOOK, "sync --size-only", "--size-only", |sync| sync.rules.compare = Compare::Size),
        sync(LOOK, "sync --existing", "--existing", |sync| sync.rules.absent = Absent::LeftOut),
        sync(LOOK, "sync --ignore-existing", "--ignore-existing", |sync| sync.rules.present = Present::Left),
        sync("push with `-c`", "sync -c", "--checksum", |sync| sync.rules.compare = Compare::Content),
        play("push with `-c`", "cp --checksum", "--checksum", |stage| {
            pushed(stage, TransferOptions { checksum: true, ..stage.copy() })
        }),
        play("push with `-c`", "cp --append-verify", "--append-verify", |stage| {
            pushed(stage, TransferOptions { append_verify: true, ..stage.copy() })
        }),
    ]
}

/// Those that pull, and those about files by name.
fn others() -> Vec<Play> {
    vec![
        play(PULL, "pull of a tree", "", |stage| stage.pull(stage.copy()).0.map(|_| Vec::new())),
        play(PULL, "pull of a range", "", |stage| {
            stage.session().read_range(named("same"), 1, &mut [0; 2]).map(|_| Vec::new())
        }),
        play(PULL, "pull of an object", "", |stage| {
            stage.session().recv(named("same"), 100).map(|_| Vec::new())
        }),
        back(PULL, "sync back", "", |_| ()),
        back(PULL, "sync back -n", "", |sync| sync.dry_run = true),
        back(PULL, "sync back --delete", "", |sync| sync.delete = delete(DeleteWhen::During)),
        back("pull with `-c`", "sync back -c", "--checksum", |sync| sync.rules.compare = Compare::Content),
        back("pull with `--remove", "sync back, removing", "--remove-source-files", |sync| {
            sync.remove_source_files = true;
        }),
        play("`list`", "list", "", |stage| stage.session().list(BASE).map(|_| Vec::new())),
        play("`stat`", "stat", "", |stage| stage.session().stat(named("same")).map(|_| Vec::new())),
        play("`remove`", "remove", "", |stage| stage.session().remove(named("same")).map(|()| Vec::new())),
        play("`remove`", "remove a tree", "", |stage| {
            stage.session().remove_tree(named("dir")).map(|()| Vec::new())
        }),
        play("`make_directory`", "make a directory", "", |stage| {
            stage.session().make_directory(named("made")).map(|()| Vec::new())
        }),
        play("`make_directory`", "make directories", "", |stage| {
            stage.session().make_directories(named("made/lower")).map(|()| Vec::new())
        }),
        play("`hash`", "hash", "", |stage| {
            stage.session().hash(&[named("same")], 1 << 16).map(|_| Vec::new())
        }),
        play("`room`", "room", "", |stage| stage.session().room(named("same")).map(|_| Vec::new())),
        play("`ticket`", "ticket", "", |stage| {
            let life = Duration::from_secs(60);
            stage.session().call().ticket(&[named("same")], 100, life, None).map(|_| Vec::new())
        }),
        play("`fetch`", "fetch", "", |stage| {
            stage.session().call().fetch(named("got"), &stage.ticket()).map(|_| Vec::new())
        }),
    ]
}

/// The row of docs/security.md that begins so: whether each right allows all that it needs.
fn expected(row: &str) -> Vec<bool> {
    let (allowed, needed) = (allowed(), needed());
    let mut rows = needed.iter().filter(|(request, _)| request.starts_with(row));
    let (Some((_, needs)), None) = (rows.next(), rows.next()) else { panic!("one row begins with {row:?}") };
    let may = |need: &String, right: usize| {
        allowed.iter().find(|(action, _)| action == need).expect("an action").1[right]
    };
    (0..Access::ALL.len()).map(|right| needs.iter().all(|need| may(need, right))).collect()
}

/// Plays one request and checks it against what is expected.
#[track_caller]
fn perform(stage: &Stage, play: &Play, right: &str, may: bool, refusals: &[&str]) {
    stage.fresh();
    let before = stage.standing();
    let done = (play.act)(stage);
    let what = format!("{} with {right}", play.name);
    match (may, done) {
        (true, Ok(_)) => {}
        (true, Err(error)) => panic!("{what}: {error:?}"),
        (false, Ok(told)) => panic!("{what} is not refused: {told:?}"),
        (false, Err(error)) => {
            assert_eq!(error.kind, ErrorKind::Denied, "{what}: {error:?}");
            let is_named = refusals.iter().any(|refusal| error.message.contains(refusal));
            assert!(is_named, "{what}: {error:?}");
            // The option is named where the same without it would do.
            let plain = if play.row.starts_with("pull") { PULL } else { PUSH };
            let access = refusals.iter().find_map(|refusal| Access::from_name(refusal.as_bytes()));
            let names_option =
                access.is_some_and(|access| expected(plain)[access as usize]) && refusals.len() == 1;
            assert!(!names_option || error.message.contains(play.option), "{what}: {error:?}");
            assert!(SECRETS.iter().all(|secret| !error.message.contains(secret)), "{what}: {error:?}");
            assert_eq!(stage.standing(), before, "{what}");
        }
    }
}

#[test]
fn every_request_under_every_right_is_as_printed() {
    let stage = Stage::new(false);
    let plays: Vec<Play> = pushes().into_iter().chain(others()).collect();
    for (column, access) in Access::ALL.iter().copied().enumerate() {
        for right in [access.name().to_owned(), format!("{},path=\"{BASE}\"", access.name())] {
            stage.served.authorize_client_with(&right);
            for play in &plays {
                perform(&stage, play, &right, expected(play.row)[column], &[access.name()]);
            }
        }
    }
    for (request, _) in needed() {
        let played = plays.iter().any(|play| request.starts_with(play.row));
        let elsewhere = request.starts_with("patterns")
            || request.contains("fobs doctor")
            || request.contains("fobs pipe");
        assert!(played || elsewhere, "{request} is played by no test");
    }
}

#[test]
fn a_read_only_server_leaves_every_key_its_first_column() {
    let stage = Stage::new(true);
    let read_only = |row| expected(row)[Access::ReadOnly as usize];
    for (column, access) in Access::ALL.iter().copied().enumerate() {
        stage.served.authorize_client_with(access.name());
        for play in pushes().into_iter().chain(others()) {
            let may = read_only(play.row) && expected(play.row)[column];
            perform(&stage, &play, access.name(), may, &["this server is read-only", access.name()]);
        }
    }
}

#[test]
fn nothing_is_done_outside_the_subtree_of_a_key() {
    let stage = Stage::new(false);
    for &access in Access::ALL {
        stage.served.authorize_client_with(&format!("{},path=\"elsewhere\"", access.name()));
        for play in pushes().into_iter().chain(others()) {
            perform(
                &stage,
                &Play { option: "", ..play },
                access.name(),
                false,
                &["no right to", access.name()],
            );
        }
    }
}

#[test]
fn the_disk_is_tried_only_where_that_is_printed() {
    let stage = Stage::new(false);
    let (path, disk) = (expected("`fobs doctor`: the path"), expected("`fobs doctor`: the disk"));
    for (column, access) in Access::ALL.iter().copied().enumerate() {
        stage.fresh();
        stage.served.authorize_client_with(access.name());
        let Location::Remote(remote) = stage.served.remote(BASE) else { panic!("a remote") };
        let checkup = Checkup {
            directory: stage.source(),
            remote: Some(remote),
            options: stage.served.options(),
            time: Duration::from_millis(50),
            whole: None,
        };
        let before = stage.standing();
        let examined = checkup.run(Arc::new(|_| ()), &CancelToken::new());
        assert_eq!(examined.is_ok(), path[column], "{}", access.name());
        let there = examined.unwrap().there.expect("there is another end");
        match there.host.disk {
            DiskFacts::Measured(_) => assert!(disk[column], "{}", access.name()),
            DiskFacts::Unmeasured { reason } => {
                assert!(!disk[column] && reason.contains(access.name()), "{}: {reason}", access.name());
            }
        }
        assert_eq!(stage.standing(), before);
    }
}

#[test]
fn pipes_are_for_the_lines_that_name_them() {
    let command = PipeRequest::command(b"cat".to_vec());
    let name = PipeRequest::Name { name: "db".to_owned() };
    let listen = PipeRequest::Listen { name: "db".to_owned(), wait_ms: 1 };
    for &access in Access::ALL {
        let rights = Rights::new(access);
        let pipe = PipeCommand::read(b"cat %k").unwrap();
        for (rights, may_run, may_join) in [
            (rights.clone(), false, false),
            (rights.clone().with_pipe(Some(pipe)), true, false),
            (rights.with_pipe_names(PipeNames::Allowed), false, true),
        ] {
            let permit = Permit::of_key(rights);
            let runs = matches!(permit.commands(), Commands::OfTheKey(_));
            let may = |request| permit.check(&Needs::of_pipe(request, runs)).is_ok();
            assert_eq!(runs, may_run);
            assert_eq!(may(&name), may_run || may_join, "{}", access.name());
            assert_eq!(may(&listen), may_join, "{}", access.name());
            // The server does not run it even where it runs another one.
            assert!(!may(&command) || runs);
            let read_only = permit.clone().read_only();
            assert!(read_only.check(&Needs::of_pipe(&name, runs)).is_ok() == (may_join && !runs));
        }
    }
}

#[test]
fn patterns_are_expanded_only_where_that_is_printed() {
    for (column, access) in Access::ALL.iter().copied().enumerate() {
        let permit = Permit::of_key(Rights::new(access));
        let sources = permit.check(&Needs::of_expansion(b"*", PathRole::Sources));
        assert_eq!(sources.is_ok(), expected("patterns in the names")[column], "{}", access.name());
        let place = permit.check(&Needs::of_expansion(b"~", PathRole::Destination));
        assert_eq!(place.is_ok(), expected(PUSH)[column], "{}", access.name());
    }
}
