use super::*;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::thread;

fn drawn() -> (UnixStream, Drawn, Stop) {
    let (near, far) = UnixStream::pair().unwrap();
    let stop = Stop::new().unwrap();
    let well = Well::new(far.into(), Box::new(|ended| ended));
    (near, well.draw(0, stop.clone()).unwrap(), stop)
}

fn all_of_it(drawn: &mut Drawn) -> Vec<u8> {
    let (mut all, mut room) = (Vec::new(), vec![0; 100_000]);
    loop {
        match drawn.read(&mut room).unwrap() {
            0 => return all,
            count => all.extend(&room[..count]),
        }
    }
}

#[test]
fn what_has_come_is_not_kept_for_what_is_late() {
    let (mut near, mut drawn, _) = drawn();
    for round in 0..40_u8 {
        let began = Instant::now();
        near.write_all(&[round; 5]).unwrap();
        assert_eq!(drawn.wait().unwrap(), More::Bytes);
        assert_eq!(all_of_it(&mut drawn), [round; 5]);
        // 20 ms at most by itself; the bound is for a busy host.
        assert!(began.elapsed() < Duration::from_secs(2), "round {round}");
    }
    drop(near);
    assert_eq!(drawn.wait().unwrap(), More::End);
}

#[test]
fn early_chunks_are_few() {
    let start = Instant::now();
    let mut pace = Pace::new(start);
    let mut early = 0;
    // One byte each 2 ms for a second.
    for at in (0..1000).step_by(2).map(|ms| start + Duration::from_millis(ms)) {
        pace.begin(at);
        if pace.patience(at) == QUIET {
            early += 1;
            pace.ends(at + QUIET);
        }
    }
    assert!((EARLY_MAX..=EARLY_MAX + 51).contains(&early), "{early}");
    assert_eq!(pace.patience(pace.began + AGE_MAX), Duration::ZERO);
}

#[test]
fn a_stop_ends_a_wait_for_bytes() {
    let (_near, mut drawn, stop) = drawn();
    let stopping = thread::spawn(move || stop.enough());
    assert_eq!(drawn.wait().unwrap(), More::End);
    stopping.join().unwrap();
}

#[test]
fn a_pipe_that_fails_ends_in_no_end_of_data() {
    let (mut near, mut drawn, stop) = drawn();
    near.write_all(b"half").unwrap();
    assert_eq!(drawn.wait().unwrap(), More::Bytes);
    let failing = thread::spawn(move || stop.fail());
    assert!(b"half".starts_with(&all_of_it(&mut drawn)));
    failing.join().unwrap();
    assert!(drawn.wait().is_err());
}

#[test]
fn an_end_that_was_none_is_an_error() {
    let (near, far) = UnixStream::pair().unwrap();
    let at_end = Box::new(|_| Err(io::Error::other("the other client is gone")));
    let mut drawn = Well::new(far.into(), at_end).draw(0, Stop::new().unwrap()).unwrap();
    drop(near);
    assert_eq!(drawn.wait().unwrap_err().to_string(), "the other client is gone");
}

#[test]
fn a_descriptor_that_fails_is_judged_too() {
    for judged in [Ok(()), Err("given up")] {
        let (near, mut far) = UnixStream::pair().unwrap();
        far.write_all(b"unread").unwrap();
        // The kernel says of this that the connection was reset.
        drop(near);
        let well = Well::new(far.into(), Box::new(move |_| judged.map_err(io::Error::other)));
        let said = well.draw(0, Stop::new().unwrap()).unwrap().wait().map_err(|error| error.to_string());
        assert_eq!(said, judged.map(|()| More::End).map_err(str::to_owned));
    }
}

#[test]
fn another_connection_goes_on_where_the_first_one_was_confirmed() {
    let (mut near, far) = UnixStream::pair().unwrap();
    let well = Well::new(far.into(), Box::new(|ended| ended));
    well.keep(100_000);
    let mut first = well.draw(0, Stop::new().unwrap()).unwrap();
    near.write_all(b"0123456789").unwrap();
    assert_eq!(first.wait().unwrap(), More::Bytes);
    assert_eq!(all_of_it(&mut first), b"0123456789");
    well.is_confirmed(4);
    assert!(well.draw(3, Stop::new().unwrap()).is_err() && well.draw(11, Stop::new().unwrap()).is_err());
    let mut second = well.draw(6, Stop::new().unwrap()).unwrap();
    assert!(first.wait().is_err() && first.read(&mut [0; 5]).is_err(), "it is over");
    near.write_all(b"ab").unwrap();
    assert_eq!(second.wait().unwrap(), More::Bytes);
    let mut got = Vec::new();
    while got.len() < 6 {
        assert_eq!(second.wait().unwrap(), More::Bytes);
        got.extend(all_of_it(&mut second));
    }
    assert_eq!((got.as_slice(), well.taken()), (&b"6789ab"[..], 12));
    drop(near);
    assert_eq!(second.wait().unwrap(), More::End);
    // The end is seen again over a third.
    let mut third = well.draw(12, Stop::new().unwrap()).unwrap();
    assert_eq!(third.wait().unwrap(), More::End);
}

#[test]
fn a_full_window_waits_for_a_confirmation() {
    let (near, far) = UnixStream::pair().unwrap();
    let well = Well::new(far.into(), Box::new(|ended| ended));
    well.keep(AHEAD_BYTES as u64);
    let mut drawn = well.draw(0, Stop::new().unwrap()).unwrap();
    let writing = thread::spawn(move || (&near).write_all(&vec![7; 4 * AHEAD_BYTES]).unwrap());
    let mut got = 0;
    while got < 4 * AHEAD_BYTES as u64 {
        assert_eq!(drawn.wait().unwrap(), More::Bytes);
        got += all_of_it(&mut drawn).len() as u64;
        assert!(got <= well.confirmed() + AHEAD_BYTES as u64, "{got}");
        let confirming = well.clone();
        // While it waits.
        thread::spawn(move || confirming.is_confirmed(got)).join().unwrap();
    }
    writing.join().unwrap();
    assert_eq!(drawn.wait().unwrap(), More::End);
}

#[test]
fn a_peer_that_confirms_what_it_has_not_got_ends_the_pipe() {
    let (mut near, far) = UnixStream::pair().unwrap();
    let well = Well::new(far.into(), Box::new(|ended| ended));
    well.keep(100_000);
    let mut first = well.draw(0, Stop::new().unwrap()).unwrap();
    near.write_all(&[1; 1000]).unwrap();
    assert_eq!((first.wait().unwrap(), all_of_it(&mut first).len()), (More::Bytes, 1000));
    let mut second = well.draw(10, Stop::new().unwrap()).unwrap();
    well.is_confirmed(u64::MAX);
    assert!(second.read(&mut [0; 5]).is_err());
}

#[test]
fn a_program_whose_bytes_nobody_wants_is_told_so() {
    let (mut near, mut drawn, stop) = drawn();
    stop.enough();
    assert_eq!(drawn.wait().unwrap(), More::End);
    let told = (0..100).map(|_| near.write_all(&[0; 1000])).find_map(io::Result::err);
    assert!(told.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe));
}
