use super::*;
use std::io::Read;
use std::os::unix::net::UnixStream;

fn pair() -> (StreamOutlet<UnixStream>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (StreamOutlet::new(ours, ReadDeadline::default()), theirs)
}

/// Pushes frames until the stream takes no more and the memory is full; their number.
fn fill(outlet: &impl Outlet, frame: &[u8]) -> usize {
    let mut count = 0;
    while outlet.push(frame, Load::Message).unwrap().is_some() {
        outlet.drain().unwrap();
        count += 1;
        assert!(count < 1_000_000, "there is no bound");
    }
    count
}

#[test]
fn a_peer_that_reads_nothing_makes_nobody_wait() {
    let (outlet, mut theirs) = pair();
    let count = fill(&outlet, &[7; 1000]);
    assert!(!outlet.is_empty());
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        theirs.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let deadline = Instant::now() + Duration::from_secs(30);
    let mark = push_in_time(&outlet, &[8; 1000], deadline).unwrap();
    wait_for(&outlet, mark, deadline).unwrap();
    assert!(outlet.is_empty());
    outlet.close();
    let bytes = reader.join().unwrap();
    assert_eq!(bytes.len(), (count + 1) * 1000);
    assert!(bytes.ends_with(&[7, 8]) || bytes.ends_with(&[8; 1000]), "in order");
}

#[test]
fn waiting_for_a_peer_that_reads_nothing_ends_in_time() {
    let (outlet, _theirs) = pair();
    fill(&outlet, &[7; 1000]);
    let soon = Instant::now() + Duration::from_millis(20);
    assert_eq!(push_in_time(&outlet, &[7; 1000], soon).unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert_eq!(wait_for(&outlet, Mark(u64::MAX), soon).unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[test]
fn what_was_taken_leaves_before_the_end() {
    let (outlet, mut theirs) = pair();
    outlet.push(b"last words", Load::Message).unwrap().expect("room");
    outlet.close();
    let mut text = String::new();
    theirs.read_to_string(&mut text).unwrap();
    assert_eq!(text, "last words");
    outlet.close();
    assert_eq!(outlet.push(b"more", Load::Message).unwrap_err().kind(), io::ErrorKind::NotConnected);
}

#[test]
fn a_frame_of_any_size_is_taken_by_an_empty_outlet() {
    let (outlet, _theirs) = pair();
    assert!(outlet.push(&vec![1; WAITING_MAX + 1], Load::Data).unwrap().is_some());
    assert!(outlet.push(&[1], Load::Message).unwrap().is_none());
}

#[test]
fn messages_that_wait_are_told_from_data_that_waits() {
    let (outlet, mut theirs) = pair();
    let mark = outlet.push(&vec![1; WAITING_MAX], Load::Data).unwrap().expect("it is empty");
    outlet.drain().unwrap();
    assert!(!outlet.is_empty() && outlet.has_no_message());
    let reader = std::thread::spawn(move || theirs.read_exact(&mut vec![0; WAITING_MAX]).map(|()| theirs));
    wait_for(&outlet, mark, Instant::now() + Duration::from_secs(30)).unwrap();
    let _theirs = reader.join().unwrap().unwrap();
    assert!(outlet.is_empty() && outlet.has_no_message());
    outlet.push(b"m", Load::Message).unwrap().expect("room");
    assert!(!outlet.has_no_message());
    outlet.push(b"d", Load::Data).unwrap().expect("room");
    assert!(!outlet.has_no_message());
    outlet.drain().unwrap();
    assert!(outlet.has_no_message());
}

#[test]
fn a_full_pipe_makes_no_write_wait_in_either_way() {
    for writes in [Writes::AtOnce, Writes::Pieces] {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let content: Vec<u8> = (0..WAITING_MAX).map(|index| (index % 251) as u8).collect();
        let mut waiting = Waiting { writes, ..Waiting::default() };
        waiting.push(&content, Load::Data);
        let (told, hears) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            waiting.drain(&mut writer).unwrap();
            told.send((waiting, writer)).unwrap();
        });
        let back = hears.recv_timeout(Duration::from_secs(30));
        let (mut waiting, mut writer) = back.expect("nobody reads, and still it ends");
        let left = waiting.bytes.len();
        assert!(0 < left && left < content.len(), "{writes:?}: a pipe holds some of it: {left}");
        assert_eq!(waiting.writes, writes, "this kernel knows both ways");
        let taker = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).map(|_| bytes)
        });
        let deadline = Instant::now() + Duration::from_secs(30);
        while !waiting.is_empty() {
            waiting.drain(&mut writer).unwrap();
            assert!(Instant::now() < deadline, "{writes:?}: it never leaves");
        }
        drop(writer);
        assert!(taker.join().unwrap().unwrap() == content, "{writes:?}: in order");
    }
}

/// A pipe of which the ordinary write is counted.
struct Counted(io::PipeWriter, usize);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1 += 1;
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl AsFd for Counted {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[test]
fn a_stream_that_knows_no_other_way_is_written_in_pieces() {
    let (mut reader, writer) = io::pipe().unwrap();
    for (writes, count) in [(Writes::AtOnce, 0), (Writes::Pieces, 10)] {
        let mut counted = Counted(writer.try_clone().unwrap(), 0);
        let mut waiting = Waiting { writes, ..Waiting::default() };
        waiting.push(&[3; 10 * PIECE_BYTES], Load::Message);
        waiting.drain(&mut counted).unwrap();
        assert_eq!((counted.1, waiting.is_empty()), (count, true), "{writes:?}");
        reader.read_exact(&mut [0; 10 * PIECE_BYTES]).unwrap();
    }
}
