use super::super::pair::pair;
use super::*;
use fobs_model::message::Message;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::thread;

/// A wait that only a broken program exceeds.
const LONG: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// Sends a record, waiting for room as the thread of the streams does.
fn send(lane: &ChannelLane, record: &[u8]) {
    while lane.try_send(record).unwrap() == Sent::Full {
        await_room(lane);
    }
}

fn await_room(lane: &ChannelLane) {
    let fd = lane.poll_fd();
    assert_eq!(poll(&mut [PollFd::new(&fd, PollFlags::OUT)], Some(&LONG)).unwrap(), 1, "no room ever");
}

/// Sends what the lane still holds.
fn flush(lane: &ChannelLane) {
    while lane.has_unsent() {
        await_room(lane);
        lane.drain().unwrap();
    }
}

fn failed(chunk: u32) -> Message {
    Message::Rejected { chunk, attempt: 0 }
}

/// The next record, which a thread that is busy reading brings.
fn next(lane: &ChannelLane) -> Vec<u8> {
    loop {
        match lane.try_recv().unwrap() {
            Some(record) => return record,
            None => thread::yield_now(),
        }
    }
}

#[test]
fn records_and_messages_pass_in_order_beside_each_other() {
    const RECORDS: usize = 200;
    let (mut left, mut right) = pair();
    let (out, _) = left.open_lane().unwrap();
    let (lane, _mailbox) = right.open_lane().unwrap();
    let writer = left.writer.clone();
    let messages = thread::spawn(move || (0..500).for_each(|chunk| writer.send(&failed(chunk)).unwrap()));
    let records = thread::spawn(move || {
        for index in 0..RECORDS {
            send(&out, &vec![index as u8; 1 + index * 331]);
        }
        flush(&out);
        out
    });
    let read = thread::spawn(move || {
        let chunks = (0..500).map(|_| right.reader.recv().unwrap());
        let all: Vec<_> = chunks.collect();
        let last = right.reader.recv();
        (all, last, right)
    });
    for index in 0..RECORDS {
        assert_eq!(next(&lane), vec![index as u8; 1 + index * 331], "record {index}");
    }
    messages.join().unwrap();
    drop(records.join().unwrap());
    left.writer.close();
    let (all, last, right) = read.join().unwrap();
    assert_eq!(all, (0..500).map(|chunk| Some(failed(chunk))).collect::<Vec<_>>());
    assert_eq!(last, Ok(None));
    assert_eq!(lane.try_recv().unwrap(), None, "the reader is still there");
    drop(right);
    assert_eq!(lane.try_recv().unwrap_err().kind, ErrorKind::Connect);
}

#[test]
fn a_message_waits_for_one_record_at_most() {
    let (mut left, mut right) = pair();
    let (out, _) = left.open_lane().unwrap();
    let (lane, _mailbox) = right.open_lane().unwrap();
    let record = vec![7; DATA_FRAME_BYTES_MAX];
    let mut sent = 0_usize;
    while out.try_send(&record).unwrap() == Sent::Taken {
        sent += 1;
        assert!(sent < 10_000, "nobody reads, and there is no bound");
    }
    left.writer.post(&failed(1)).unwrap();
    assert_eq!(out.try_send(&record).unwrap(), Sent::Full, "the message is before it");
    let reader = thread::spawn(move || (right.reader.recv().unwrap(), right));
    while sent > 0 {
        // The end of the last record, and the message, leave as there is room.
        out.drain().unwrap();
        match lane.try_recv().unwrap() {
            Some(taken) => {
                assert_eq!(taken.len(), record.len());
                sent -= 1;
            }
            None => thread::yield_now(),
        }
    }
    flush(&out);
    let (message, _right) = reader.join().unwrap();
    assert_eq!(message, Some(failed(1)));
    assert_eq!(lane.try_recv().unwrap(), None);
}

#[test]
fn a_full_lane_holds_the_reader_up_and_a_dropped_one_does_not() {
    let (mut left, mut right) = pair();
    let (out, _) = left.open_lane().unwrap();
    let (lane, _mailbox) = right.open_lane().unwrap();
    for index in 0..=RECORDS_WAITING_MAX as u8 + 1 {
        send(&out, &[index]);
    }
    left.writer.send(&failed(1)).unwrap();
    let reader = thread::spawn(move || (right.reader.recv().unwrap(), right));
    assert_eq!(next(&lane), [0]);
    drop(lane);
    assert_eq!(reader.join().unwrap().0, Some(failed(1)), "it goes on without the lane");
}

#[test]
fn mail_for_the_door_wakes_its_thread_and_is_nothing_else() {
    let (left, mut right) = pair();
    let (lane, mailbox) = right.open_lane().unwrap();
    let waker = Waker::new().unwrap();
    lane.attach(waker.clone());
    mailbox.attach(waker);
    for message in [
        Message::WantStreams { count: 3 },
        Message::WantStreams { count: 7 },
        Message::StreamsFailed { reason: "no".to_owned() },
        failed(1),
    ] {
        left.writer.send(&message).unwrap();
    }
    assert_eq!(right.reader.recv(), Ok(Some(failed(1))));
    let mail = DoorMail { wanted: Some(7), failed: Some("no".to_owned()) };
    assert_eq!((mailbox.take(), mailbox.take()), (mail, DoorMail::default()), "the newest, once");
}

#[test]
fn without_a_lane_data_frames_end_the_channel() {
    let (mut left, mut right) = pair();
    let (out, _mailbox) = left.open_lane().unwrap();
    send(&out, b"unasked");
    assert_eq!(right.reader.recv().unwrap_err().kind, ErrorKind::Protocol);
}

#[test]
fn data_frames_out_of_bounds_and_cut_ones_end_the_channel() {
    let framed = |length: u32, body: &[u8]| [&(1_u32 << 31 | length).to_be_bytes(), body].concat();
    let table = [
        (framed(0, b""), ErrorKind::Protocol),
        (framed(DATA_FRAME_BYTES_MAX as u32 + 1, b"x"), ErrorKind::Protocol),
        (framed(i32::MAX as u32, b"x"), ErrorKind::Protocol),
        (framed(9, b"12345678"), ErrorKind::Connect),
    ];
    for (bytes, kind) in table {
        let (left, mut right) = pair();
        let (lane, _mailbox) = right.open_lane().unwrap();
        left.writer.send_bytes(&bytes).unwrap();
        left.writer.close();
        assert_eq!(right.reader.recv().unwrap_err().kind, kind, "{bytes:?}");
        assert_eq!(lane.try_recv().unwrap(), None);
    }
}

#[test]
fn a_closed_channel_takes_no_records() {
    let (mut left, _right) = pair();
    let (out, _mailbox) = left.open_lane().unwrap();
    left.writer.close();
    assert_eq!(out.try_send(b"late").unwrap_err().kind, ErrorKind::Connect);
    assert_eq!(out.try_send(&[0; DATA_FRAME_BYTES_MAX + 1]).unwrap_err().kind, ErrorKind::Internal);
}
