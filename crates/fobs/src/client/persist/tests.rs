use super::*;
use std::cell::RefCell;

const MINUTE: Duration = Duration::from_secs(60);

fn broken() -> Error {
    Error::new(ErrorKind::Connect, "it broke; mend it")
}

fn failed(error: Error, verified_at: Option<Instant>) -> Attempt<u32> {
    Attempt { outcome: Err(error), verified_at, remedy: Remedy::Reconnect }
}

/// Plays attempts; the outcome, how many there were, and the waits between them.
fn play(timeout: Duration, attempt: impl Fn(u32) -> Attempt<u32>) -> (Result<u32>, u32, Vec<Duration>) {
    let (waits, count) = (RefCell::new(Vec::new()), RefCell::new(0));
    let tell = |interlude: Interlude<'_>| waits.borrow_mut().push(interlude.wait);
    let outcome = persist(timeout, &CancelToken::new(), tell, || {
        *count.borrow_mut() += 1;
        attempt(*count.borrow() - 1)
    });
    (outcome, count.into_inner(), waits.into_inner())
}

#[test]
fn a_transfer_that_broke_goes_on_until_it_is_complete() {
    let (outcome, count, waits) = play(MINUTE, |number| match number {
        0 => failed(broken(), Some(Instant::now())),
        _ => Attempt { outcome: Ok(7), verified_at: None, remedy: Remedy::Reconnect },
    });
    assert_eq!((outcome, count, waits), (Ok(7), 2, vec![WAIT_FIRST]));
}

#[test]
fn a_first_call_that_fails_is_not_repeated() {
    let (outcome, count, _) = play(MINUTE, |_| failed(broken(), None));
    assert_eq!((outcome, count), (Err(broken()), 1));
}

#[test]
fn errors_that_no_connection_mends_are_not_repeated() {
    for &kind in ErrorKind::ALL {
        let error = Error::new(kind, "why");
        let mends = matches!(
            kind,
            ErrorKind::Connect
                | ErrorKind::Timeout
                | ErrorKind::Ssh
                | ErrorKind::Socket
                | ErrorKind::Interrupted
        );
        assert_eq!(is_of_the_connection(&error, &CancelToken::new()), mends, "{kind:?}");
        if !mends {
            let (outcome, count, _) = play(MINUTE, |_| failed(error.clone(), Some(Instant::now())));
            assert_eq!((outcome, count), (Err(error), 1));
        }
    }
    let ends = |_| Attempt { remedy: Remedy::None, ..failed(broken(), Some(Instant::now())) };
    let (outcome, count, _) = play(MINUTE, ends);
    assert_eq!((outcome, count), (Err(broken()), 1));
}

#[test]
fn nothing_is_repeated_once_the_user_has_cancelled() {
    let cancel = CancelToken::new();
    let count = RefCell::new(0);
    let outcome = persist(
        MINUTE,
        &cancel,
        |_| cancel.cancel(),
        || {
            *count.borrow_mut() += 1;
            failed(broken(), Some(Instant::now()))
        },
    );
    assert_eq!((outcome.unwrap_err().kind, count.into_inner()), (ErrorKind::Interrupted, 1));
    let outcome = persist(MINUTE, &cancel, |_| (), || failed(broken(), Some(Instant::now())));
    assert_eq!(outcome, Err(broken()), "no second attempt");
}

#[test]
fn waits_double_until_something_new_arrives() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut patience = Patience::new(10 * MINUTE);
    let seconds = |next| match next {
        Next::In(wait) => wait.as_secs(),
        other => panic!("{other:?}"),
    };
    let waits: Vec<u64> = [Some(start), None, None, None, None, None, None]
        .into_iter()
        .map(|verified_at| seconds(patience.after_failure(at(5), verified_at)))
        .collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
    assert_eq!(seconds(patience.after_failure(at(90), Some(start))), 30, "nothing new");
    assert_eq!(seconds(patience.after_failure(at(100), Some(at(99)))), 1);
    assert_eq!(seconds(patience.after_failure(at(101), None)), 2);
    assert_eq!(seconds(patience.after_failure(at(697), None)), 2, "no longer than the time left");
    assert_eq!(patience.after_failure(at(699), None), Next::GiveUp);
}

#[test]
fn silence_that_used_up_the_time_is_reported_as_it_is() {
    let start = Instant::now();
    let mut patience = Patience::new(MINUTE);
    assert_eq!(patience.after_failure(start + MINUTE, Some(start)), Next::Fail);
}

#[test]
fn the_user_reads_what_broke_and_when_it_goes_on() {
    let text = Interlude { error: &broken(), wait: Duration::from_secs(4) }.to_string();
    assert_eq!(text, "it broke; the next attempt follows in 4 s");
}

#[test]
fn giving_up_names_the_time_and_the_last_error() {
    let started = Instant::now();
    let timeout = Duration::from_millis(1200);
    let (outcome, count, _) = play(timeout, |number| failed(broken(), (number == 0).then_some(started)));
    let error = outcome.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert!(error.message.contains("--timeout") && error.message.contains("it broke"), "{error}");
    assert!(count > 1);
}
