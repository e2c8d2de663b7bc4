//! The schedule in virtual time: random worlds over seeds, and what single rules promise.

mod disks;
mod elsewhere;
mod fair;
mod rooms;
mod world;

use super::*;
use crate::job::{Window, Word};
use world::World;

const HOUR_MS: u64 = 3_600_000;

fn at(ms: u64) -> Moment {
    Moment { ms, day_second: u32::try_from(ms / 1000 % 86_400).expect("a second of a day") }
}

fn spec() -> Spec {
    Spec::new(["cp", "a", "b"].map(Word::from).to_vec(), "/".into())
}

fn add(schedule: &mut Schedule, id: u64, spec: &Spec, now_ms: u64) {
    schedule.add(JobId(id), spec, Begin::new(spec, now_ms));
}

fn code(code: i32) -> Ending {
    Ending { exit_code: Some(code), ..Ending::default() }
}

#[test]
fn random_worlds_keep_all_promises() {
    for seed in 0..200 {
        World::random(seed).play();
    }
}

#[test]
fn a_low_priority_begins_at_last() {
    let mut schedule = Schedule::new(Limits { total: 1, per_host: 1, per_source: 1 });
    add(&mut schedule, 1, &Spec { priority: -10, ..spec() }, 0);
    add(&mut schedule, 2, &Spec { priority: 10, ..spec() }, 0);
    let mut now = 0;
    for id in 3.. {
        // There are always two urgent ones.
        add(&mut schedule, id, &Spec { priority: 10, ..spec() }, now);
        let actions = schedule.tick(at(now));
        let [Action::Start(begun)] = actions[..] else { panic!("{actions:?}") };
        if begun == JobId(1) {
            break;
        }
        now += 600_000;
        assert!(now <= 21 * AGING_MS, "it waits since {now} ms");
        schedule.ended(begun, &code(0), at(now));
    }
    assert!(now > 19 * AGING_MS, "priorities count: {now}");
}

#[test]
fn a_failure_that_may_pass_is_tried_again_and_others_not() {
    let mut schedule = Schedule::new(Limits::default());
    add(&mut schedule, 1, &Spec { retries: 1, ..spec() }, 0);
    add(&mut schedule, 2, &spec(), 0);
    assert_eq!(schedule.tick(at(0)), [Action::Start(JobId(1)), Action::Start(JobId(2))]);
    assert_eq!(schedule.ended(JobId(2), &code(4), at(5)), (After::Failed, vec![]));
    assert_eq!(schedule.ended(JobId(1), &code(35), at(5)), (After::Waiting, vec![]));
    assert_eq!(schedule.tick(at(6)), []);
    let why = schedule.why(JobId(1), at(6)).expect("it waits");
    assert_eq!(why.to_string(), "failed once of 2, and is tried again");
    let wake = schedule.wake_ms(at(6)).expect("it is tried again");
    assert_eq!(why.until_ms(), Some(wake));
    assert_eq!(schedule.tick(at(wake)), [Action::Start(JobId(1))]);
    assert_eq!(schedule.ended(JobId(1), &code(35), at(wake)), (After::Failed, vec![]));
    assert!(schedule.is_empty());
}

#[test]
fn a_job_that_waits_for_another_ends_with_its_failure() {
    let mut schedule = Schedule::new(Limits::default());
    add(&mut schedule, 1, &spec(), 0);
    add(&mut schedule, 2, &Spec { after: vec![JobId(1)], ..spec() }, 0);
    add(&mut schedule, 3, &Spec { after: vec![JobId(2)], ..spec() }, 0);
    assert_eq!(schedule.tick(at(0)), [Action::Start(JobId(1))]);
    assert_eq!(schedule.why(JobId(2), at(0)).expect("it waits").to_string(), "waits until 1 has succeeded");
    let (after, over) = schedule.ended(JobId(1), &code(1), at(1));
    let of = |id, by| Action::End(JobId(id), Over::Predecessor(JobId(by)));
    assert_eq!((after, over), (After::Failed, vec![of(2, 1), of(3, 2)]));
    assert!(schedule.is_empty());
}

#[test]
fn a_window_stops_what_runs_and_lets_it_go_on() {
    let mut schedule = Schedule::new(Limits::default());
    let night = Window::parse("20:00-06:00").expect("a window");
    add(&mut schedule, 1, &Spec { between: Some(night), ..spec() }, 0);
    assert_eq!(schedule.tick(at(5 * HOUR_MS)), [Action::Start(JobId(1))]);
    assert_eq!(schedule.wake_ms(at(5 * HOUR_MS)), Some(6 * HOUR_MS));
    assert_eq!(schedule.tick(at(6 * HOUR_MS)), [Action::Stop(JobId(1), Halt::Window)]);
    assert_eq!(schedule.tick(at(6 * HOUR_MS)), [], "once");
    assert_eq!(schedule.ended(JobId(1), &code(20), at(6 * HOUR_MS)).0, After::Waiting);
    assert_eq!(schedule.begin_of(JobId(1)).expect("it waits").failures, 0);
    assert_eq!(schedule.wake_ms(at(6 * HOUR_MS)), Some(20 * HOUR_MS));
    assert_eq!(schedule.tick(at(19 * HOUR_MS)), []);
    assert_eq!(schedule.tick(at(20 * HOUR_MS)), [Action::Start(JobId(1))]);
    // It was done before it heard that it is to stop.
    schedule.tick(at(30 * HOUR_MS));
    assert_eq!(schedule.ended(JobId(1), &code(0), at(30 * HOUR_MS)).0, After::Done);
}

#[test]
fn a_run_that_is_due_while_the_last_one_runs_is_skipped() {
    let mut schedule = Schedule::new(Limits::default());
    add(&mut schedule, 1, &Spec { every_ms: Some(HOUR_MS), ..spec() }, 0);
    assert_eq!(schedule.tick(at(0)), [Action::Start(JobId(1))]);
    assert_eq!(schedule.wake_ms(at(0)), Some(HOUR_MS));
    assert_eq!(schedule.tick(at(HOUR_MS)), [Action::Skip(JobId(1))]);
    assert_eq!(schedule.ended(JobId(1), &code(0), at(HOUR_MS + 5)).0, After::Repeats(Outlook::Done));
    assert_eq!(schedule.tick(at(HOUR_MS + 6)), []);
    assert_eq!(schedule.tick(at(2 * HOUR_MS)), [Action::Start(JobId(1))], "on the grid of its first run");
    assert_eq!(schedule.ended(JobId(1), &code(4), at(2 * HOUR_MS + 1)).0, After::Repeats(Outlook::Never));
    assert_eq!(
        schedule.begin_of(JobId(1)).map(|begin| (begin.skipped, begin.next_ms)),
        Some((1, 3 * HOUR_MS))
    );
    // Nobody was there for a day: it runs once, not 24 times.
    assert_eq!(schedule.tick(at(30 * HOUR_MS + 7)), [Action::Start(JobId(1))]);
    assert_eq!(schedule.ended(JobId(1), &code(0), at(30 * HOUR_MS + 8)).0, After::Repeats(Outlook::Done));
    assert_eq!(schedule.begin_of(JobId(1)).map(|begin| begin.next_ms), Some(31 * HOUR_MS));
}

#[test]
fn orders_of_users_count_in_every_phase() {
    let mut schedule = Schedule::new(Limits::default());
    for id in 1..=3 {
        add(&mut schedule, id, &spec(), 0);
    }
    assert_eq!(schedule.pause(JobId(3)), Some(After::Paused));
    assert_eq!(schedule.tick(at(0)).len(), 2);
    assert_eq!(schedule.pause(JobId(1)), Some(After::Stopping(Halt::Paused)));
    assert_eq!(schedule.cancel(JobId(1)), Some((After::Stopping(Halt::Cancelled), vec![])));
    assert_eq!(
        schedule.pause(JobId(1)),
        Some(After::Stopping(Halt::Paused)),
        "the order that ends more counts"
    );
    assert_eq!(schedule.ended(JobId(1), &code(20), at(1)).0, After::Cancelled);
    assert_eq!(schedule.pause(JobId(2)), Some(After::Stopping(Halt::Paused)));
    assert_eq!(schedule.resume(JobId(2), at(2)), Some(After::Waiting));
    assert_eq!(schedule.ended(JobId(2), &code(20), at(3)).0, After::Waiting, "resumed before it had stopped");
    assert_eq!(schedule.tick(at(4)), [Action::Start(JobId(2))]);
    assert_eq!(schedule.resume(JobId(3), at(5)), Some(After::Waiting));
    assert_eq!(schedule.tick(at(5)), [Action::Start(JobId(3))]);
    assert_eq!(schedule.ended(JobId(3), &code(0), at(6)).0, After::Done);
    assert_eq!(
        (schedule.cancel(JobId(3)), schedule.pause(JobId(3)), schedule.resume(JobId(3), at(7))),
        (None, None, None)
    );
}

#[test]
fn a_reason_names_the_limit_and_who_holds_it() {
    let mut schedule = Schedule::new(Limits { total: 2, per_host: 1, per_source: 1 });
    let to = |host: &str, source: &str| Spec {
        destinations: vec![host.to_owned()],
        sources: vec![source.to_owned()],
        ..spec()
    };
    add(&mut schedule, 1, &to("a", "disk"), 0);
    add(&mut schedule, 2, &to("a", "b"), 0);
    add(&mut schedule, 3, &to("b", "disk"), 0);
    assert_eq!(schedule.tick(at(0)), [Action::Start(JobId(1))]);
    let why = |schedule: &Schedule, id| schedule.why(JobId(id), at(0)).expect("it waits");
    assert_eq!(why(&schedule, 2), Reason::Host { host: "a".to_owned(), running: 1 });
    assert_eq!(why(&schedule, 3), Reason::Source { source: "disk".to_owned(), running: 1 });
    add(&mut schedule, 4, &to("c", "c"), 0);
    assert_eq!(schedule.tick(at(0)), [Action::Start(JobId(4))], "what does not fit holds up no other");
    assert_eq!(why(&schedule, 2), Reason::Total { running: 2 });
    assert_eq!(schedule.why(JobId(1), at(0)), None);
}

#[test]
fn a_deadline_ends_what_waits_and_what_runs() {
    let mut schedule = Schedule::new(Limits { total: 1, ..Limits::default() });
    for id in 1..=2 {
        add(&mut schedule, id, &Spec { deadline_ms: Some(100), ..spec() }, 0);
    }
    assert_eq!(schedule.tick(at(0)), [Action::Start(JobId(1))]);
    assert_eq!(schedule.wake_ms(at(0)), Some(100));
    let due = schedule.tick(at(100));
    assert_eq!(due, [Action::Stop(JobId(1), Halt::Deadline), Action::End(JobId(2), Over::Deadline)]);
    assert_eq!(schedule.ended(JobId(1), &code(20), at(101)).0, After::Failed);
    assert!(schedule.is_empty() && schedule.running() == 0);
}
