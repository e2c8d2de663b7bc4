use super::*;
use crate::job::{JobId, Phase, Spec, Word};
use crate::schedule::Begin;

fn spec() -> Spec {
    Spec::new(["cp", "a", "b"].map(Word::from).to_vec(), "/x".into())
}

fn standing(spec: &Spec, now_ms: u64) -> Standing {
    Standing::of(Begin::new(spec, now_ms))
}

fn open(directory: &tempfile::TempDir) -> Store {
    let (store, said) = Store::open(directory.path()).expect("a state");
    assert_eq!(said, None);
    store
}

fn submit(store: &mut Store, spec: &Spec) -> JobId {
    match store.submit(spec, None, 5, &standing(spec, 5)).expect("room") {
        Submitted::New(id) => id,
        Submitted::Known(id) => panic!("{id} is there"),
    }
}

#[test]
fn a_job_survives_the_end_of_its_keeper() {
    let home = tempfile::tempdir().expect("a directory");
    let mut store = open(&home);
    let id = submit(&mut store, &spec());
    let mut changed = store.job(id).expect("it is there").standing;
    changed.phase = Phase::Running;
    changed.message = Some("why".to_owned());
    store.set_standing(id, &changed).expect("written");
    let mut attempt = store.begin_attempt(id, "mark", 7).expect("written");
    attempt.process = Some(12);
    attempt.boot = Some("boot".to_owned());
    store.set_attempt(&attempt).expect("written");
    store.add_lines(id, &[Line { at_ms: 8, attempt: 1, text: "é".repeat(LINE_BYTES_MAX) }]).expect("written");
    drop(store);
    let store = open(&home);
    assert_eq!(store.job(id).expect("kept").standing, changed);
    assert_eq!(store.last_attempt(id).expect("read"), Some(attempt));
    assert_eq!(store.lines(id).expect("read")[0].text.len(), LINE_BYTES_MAX);
    assert_eq!(store.open_jobs().expect("read").len(), 1);
}

#[test]
fn the_same_key_is_one_job_and_other_work_is_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let mut store = open(&home);
    let keyed = Spec { key: Some("nightly".to_owned()), ..spec() };
    let id = submit(&mut store, &keyed);
    let again = Spec { priority: 3, ..keyed.clone() };
    assert_eq!(store.submit(&again, None, 6, &standing(&again, 6)).expect("known"), Submitted::Known(id));
    let other = Spec { words: vec!["cp".into(), "c".into(), "d".into()], ..keyed.clone() };
    let refused = store.submit(&other, None, 6, &standing(&other, 6)).expect_err("another command");
    assert!(matches!(refused, StoreError::Key { .. }), "{refused}");
    let elsewhere = Spec { directory: "/y".into(), ..keyed };
    store.submit(&elsewhere, None, 6, &standing(&elsewhere, 6)).expect_err("another directory");
    assert_eq!(store.jobs().expect("read").len(), 1);
}

#[test]
fn a_job_after_one_that_is_not_there_is_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let mut store = open(&home);
    let after = Spec { after: vec![JobId(7)], ..spec() };
    let refused = store.submit(&after, None, 5, &standing(&after, 5)).expect_err("no job 7");
    assert!(matches!(refused, StoreError::NoJob(JobId(7))), "{refused}");
}

#[test]
fn a_second_process_does_not_write() {
    let home = tempfile::tempdir().expect("a directory");
    let store = open(&home);
    let refused = Store::open(home.path()).expect_err("locked");
    let own = format!("process {}", std::process::id());
    assert!(matches!(&refused, StoreError::Taken(why) if why.contains(&own)), "{refused}");
    drop(store);
    open(&home);
}

#[test]
fn a_broken_file_is_set_aside_and_said() {
    let home = tempfile::tempdir().expect("a directory");
    for round in 0..5 {
        let mut store = open(&home);
        let id = submit(&mut store, &spec());
        assert_eq!(id, JobId(1), "a new file in round {round}");
        drop(store);
        let bytes = fs::read(home.path().join(FILE)).expect("a file");
        // No head, and a page that is cut off.
        let broken = if round % 2 == 0 { vec![b'x'; 4096] } else { bytes[..4096].to_vec() };
        fs::write(home.path().join(FILE), broken).expect("own file");
        let (store, said) = Store::open(home.path()).expect("a new one");
        let said = said.expect("a sentence");
        assert!(said.contains("jobs.db.broken-"), "{said}");
        assert_eq!(store.jobs().expect("read"), []);
        drop(store);
        fs::remove_file(home.path().join(FILE)).expect("own file");
    }
    let kept = fs::read_dir(home.path()).expect("own").flatten();
    let kept = kept.filter(|entry| entry.file_name().to_string_lossy().contains("broken"));
    assert_eq!(kept.count(), BROKEN_MAX);
}

#[test]
fn the_file_of_a_later_release_is_left_alone() {
    let home = tempfile::tempdir().expect("a directory");
    let store = open(&home);
    store.db.pragma_update(None, "user_version", 99).expect("written");
    drop(store);
    let refused = Store::open(home.path()).expect_err("not ours to read");
    assert!(matches!(refused, StoreError::Later(99)), "{refused}");
}

#[test]
fn the_state_is_its_users_alone() {
    let home = tempfile::tempdir().expect("a directory");
    let directory = home.path().join("a/b");
    let (mut store, _) = Store::open(&directory).expect("a state");
    submit(&mut store, &spec());
    let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    let files: Vec<PathBuf> =
        fs::read_dir(&directory).expect("own").flatten().map(|entry| entry.path()).collect();
    assert!(files.len() >= 2, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{file:?}");
    }
}

#[test]
fn history_has_bounds_and_keeps_what_is_waited_for() {
    let home = tempfile::tempdir().expect("a directory");
    let mut store = open(&home);
    for number in 0..10 {
        let id = submit(&mut store, &spec());
        let mut over = store.job(id).expect("there").standing;
        over.phase = Phase::Done;
        over.ended_ms = Some(100 + number);
        store.set_standing(id, &over).expect("written");
        store.begin_attempt(id, "m", 1).expect("written");
    }
    submit(&mut store, &Spec { after: vec![JobId(1)], ..spec() });
    assert_eq!(store.forget(Keep { since_ms: 103, count: 4 }, None).expect("written"), 5);
    let left: Vec<u64> = store.jobs().expect("read").iter().map(|job| job.id.0).collect();
    assert_eq!(left, [1, 7, 8, 9, 10, 11]);
    assert_eq!(store.attempts(JobId(3)).expect("read"), []);
    assert_eq!(submit(&mut store, &spec()), JobId(12), "no number is given twice");
    assert_eq!(store.forget(Keep { since_ms: u64::MAX, count: u64::MAX }, None).expect("written"), 4);
}

#[test]
fn attempts_and_lines_have_bounds() {
    let home = tempfile::tempdir().expect("a directory");
    let mut store = open(&home);
    let id = submit(&mut store, &spec());
    let line = |number: u64| Line { at_ms: number, attempt: 1, text: number.to_string() };
    let lines: Vec<Line> = (0..LINES_MAX + 5).map(line).collect();
    store.add_lines(id, &lines).expect("written");
    let kept = store.lines(id).expect("read");
    assert_eq!((kept.len() as u64, kept[0].at_ms), (LINES_MAX, 5));
    for _ in 0..205 {
        store.begin_attempt(id, "m", 1).expect("written");
    }
    assert_eq!(store.attempts(id).expect("read").len(), 200);
}
