use super::*;
use crate::control::ControlWriter;
use crate::control::pair::pair;
use fobs_model::message::Message;
use fobs_rng::Rng;
use std::thread;

fn notice(text: &str) -> Message {
    Message::Notice { text: text.to_owned() }
}

/// Reads the channel around branches until it ends; what its messages said.
fn read_all(mut channel: ControlChannel) -> thread::JoinHandle<Vec<String>> {
    thread::spawn(move || {
        let mut said = Vec::new();
        while let Ok(Some(message)) = channel.reader.recv() {
            if let Message::Notice { text } = message {
                said.push(text);
            }
        }
        said
    })
}

/// Both ends of two branches, and the channels around them.
fn branched() -> ((Vec<ControlChannel>, ControlChannel), (Vec<ControlChannel>, ControlChannel)) {
    let (mut left, mut right) = pair();
    ((left.branch(2).unwrap(), left), (right.branch(2).unwrap(), right))
}

fn say_until_end(writer: &ControlWriter, texts: &[String]) {
    texts.iter().for_each(|text| writer.send(&notice(text)).unwrap());
    writer.close();
}

fn heard(mut channel: ControlChannel) -> Vec<String> {
    let mut said = Vec::new();
    while let Some(message) = channel.reader.recv().unwrap() {
        let Message::Notice { text } = message else { panic!("{message:?}") };
        said.push(text);
    }
    said
}

#[test]
fn branches_and_messages_keep_to_themselves() {
    let ((ours, left), (theirs, right)) = branched();
    let writer = left.writer.clone();
    let (reads_left, reads_right) = (read_all(left), read_all(right));
    let mut rng = Rng::new(7);
    let texts: Vec<Vec<String>> = (0..2)
        .map(|branch| (0..200).map(|n| format!("{branch} {n} {}", "x".repeat(rng.below(20_000)))).collect())
        .collect();
    let senders: Vec<_> = ours
        .into_iter()
        .zip(texts.clone())
        .map(|(branch, texts)| thread::spawn(move || say_until_end(&branch.writer, &texts)))
        .collect();
    writer.send(&notice("beside them")).unwrap();
    let readers: Vec<_> = theirs.into_iter().map(|branch| thread::spawn(move || heard(branch))).collect();
    for (reader, texts) in readers.into_iter().zip(texts) {
        assert!(reader.join().unwrap() == texts, "all of it, in order, and then its end");
    }
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    writer.close();
    assert_eq!(reads_right.join().unwrap(), ["beside them"]);
    drop(reads_left);
}

#[test]
fn a_branch_whose_reader_rests_holds_up_nothing_else() {
    let ((ours, left), (theirs, right)) = branched();
    let writer = left.writer.clone();
    let (_reads_left, reads_right) = (read_all(left), read_all(right));
    let [resting, busy] = <[ControlChannel; 2]>::try_from(ours).unwrap();
    let [unread, read] = <[ControlChannel; 2]>::try_from(theirs).unwrap();
    let texts: Vec<String> = (0..64).map(|n| format!("{n} {}", "y".repeat(100_000))).collect();
    // More than the window and the sockets between hold.
    let all = texts.clone();
    let stuck = thread::spawn(move || say_until_end(&resting.writer, &all));
    let all = texts.clone();
    let flows = thread::spawn(move || say_until_end(&busy.writer, &all));
    assert!(heard(read) == texts);
    flows.join().unwrap();
    assert!(!stuck.is_finished(), "6 MB wait for a reader");
    writer.send(&notice("still heard")).unwrap();
    assert!(heard(unread) == texts, "and what waited is all there");
    stuck.join().unwrap();
    writer.close();
    assert_eq!(reads_right.join().unwrap(), ["still heard"]);
}

#[test]
fn a_channel_that_breaks_ends_its_branches_with_an_error() {
    let ((ours, left), (mut theirs, right)) = branched();
    let _reads = read_all(right);
    ours[0].writer.send(&notice("before")).unwrap();
    assert_eq!(theirs[0].reader.recv().unwrap(), Some(notice("before")));
    left.writer.close();
    drop(left);
    assert_eq!(theirs[0].reader.recv().unwrap_err().kind, ErrorKind::Connect, "and not at a clean end");
    assert_eq!(theirs[1].reader.recv().unwrap_err().kind, ErrorKind::Connect);
}

#[test]
fn frames_that_break_the_rules_end_the_channel() {
    let too_much = [&[BYTES, 0][..], &vec![0; PIECE_BYTES]].concat();
    for (frame, times) in [
        (vec![BYTES], 1),
        (vec![BYTES, 2, 1], 1),
        (vec![END, 0, 1], 1),
        (vec![3, 0], 1),
        (vec![TAKEN, 0, 0, 1], 1),
        (vec![TAKEN, 0, 0, 0, 0, 1], 1),
        (vec![TAKEN, 1, 255, 255, 255, 255], 1),
        (too_much, WINDOW_BYTES / PIECE_BYTES + 1),
    ] {
        let (left, mut right) = pair();
        let branches = right.branch(2).unwrap();
        let told = frame.clone();
        let sending = thread::spawn(move || {
            // The other side ends it before all has gone.
            let _ = (0..times).try_for_each(|_| left.writer.send_bytes(&encode_data(&told)));
            left
        });
        assert_eq!(
            right.reader.recv().unwrap_err().kind,
            ErrorKind::Protocol,
            "{:?}",
            &frame[..2.min(frame.len())]
        );
        drop((branches, right));
        drop(sending.join());
    }
}

#[test]
fn a_branch_keeps_the_deadline_of_its_channel() {
    let ((_ours, _left), (mut theirs, _right)) = branched();
    theirs[1].set_read_deadline(Some(Instant::now() + Duration::from_millis(30)));
    assert_eq!(theirs[1].reader.recv().unwrap_err().kind, ErrorKind::Timeout);
}
