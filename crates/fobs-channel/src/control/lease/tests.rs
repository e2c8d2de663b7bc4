use super::*;
use crate::control::Sent;
use crate::control::pair::pair;
use std::thread;

fn both() -> (Kept, Kept) {
    let (left, right) = pair();
    (Kept::new(left, Side::Client), Kept::new(right, Side::Server))
}

fn rejected(chunk: u32) -> Message {
    Message::Rejected { chunk, attempt: 0 }
}

#[test]
fn transfers_follow_one_another_and_do_not_mix() {
    let (mut client, mut server) = both();
    let mut there = server.lease();
    for round in 0..3 {
        let mut here = client.lease();
        here.writer.send(&rejected(round)).unwrap();
        assert_eq!(there.reader.recv(), Ok(Some(rejected(round))));
        there.writer.send(&rejected(100)).unwrap();
        assert_eq!(here.reader.recv(), Ok(Some(rejected(100))));
        // The client goes on before the server has ended the transfer.
        here.writer.close();
        drop(here);
        let mut next = client.lease();
        next.writer.send(&rejected(50)).unwrap();
        let thread = thread::spawn(move || {
            let heard = next.reader.recv();
            next.writer.close();
            (heard, next.reader.recv())
        });
        assert_eq!(there.reader.recv(), Ok(None), "the client has said that it is over");
        assert_eq!(there.reader.recv(), Ok(None));
        let stale = there.writer.clone();
        there.writer.send(&rejected(101)).unwrap();
        there.writer.close();
        drop(there);
        assert!(stale.send(&rejected(7)).is_err(), "a writer of an ended transfer is silent");
        there = server.lease();
        assert_eq!(there.reader.recv(), Ok(Some(rejected(50))));
        there.writer.send(&rejected(51)).unwrap();
        there.writer.close();
        let (heard, end) = thread.join().unwrap();
        assert_eq!(heard, Ok(Some(rejected(51))), "nothing of the transfer before");
        assert_eq!(end, Ok(None));
        assert_eq!(there.reader.recv(), Ok(None));
        drop(there);
        there = server.lease();
    }
}

#[test]
fn a_transfer_that_has_begun_is_the_first_lease() {
    let (left, mut right) = pair();
    let mut client = Kept::new(left, Side::Client);
    let here = client.lease();
    here.writer.send(&rejected(1)).unwrap();
    assert_eq!(right.reader.recv(), Ok(Some(rejected(1))));
    let (mut server, there) = Kept::within(right, Side::Server);
    // It reads no more of it.
    there.writer.close();
    drop(there);
    let mut here = here;
    assert_eq!(here.reader.recv(), Ok(None));
    here.writer.close();
    drop(here);
    client.lease().writer.send(&rejected(2)).unwrap();
    assert_eq!(server.lease().reader.recv(), Ok(Some(rejected(2))));
}

#[test]
fn a_client_that_asked_and_did_not_listen_ends_the_channel() {
    let (mut client, mut server) = both();
    client.lease().writer.send(&rejected(1)).unwrap();
    let mut there = server.lease();
    assert!(!matches!(there.reader.recv(), Ok(Some(Message::Over))));
    assert!(client.lease().writer.send(&rejected(2)).is_err());
}

#[test]
fn a_lease_of_a_client_that_asked_for_nothing_leaves_no_trace() {
    let (mut client, mut server) = both();
    let unused = client.lease();
    unused.writer.close();
    drop(unused);
    let (here, mut there) = (client.lease(), server.lease());
    here.writer.send(&rejected(1)).unwrap();
    assert_eq!(there.reader.recv(), Ok(Some(rejected(1))));
}

#[test]
fn the_end_of_the_channel_is_one_for_all_leases() {
    let (mut client, mut server) = both();
    let (mut here, mut there) = (client.lease(), server.lease());
    here.writer.send(&rejected(1)).unwrap();
    assert_eq!(there.reader.recv(), Ok(Some(rejected(1))));
    server.close();
    drop((there, server));
    assert_eq!(here.reader.recv(), Ok(None));
    here.writer.close();
    drop(here);
    let error = client.lease().reader.recv().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Connect, "{error}");
}

#[test]
fn the_secret_of_the_channel_is_for_no_lease() {
    let (mut left, _right) = pair();
    left.exporter = Some(crate::secure::schedule::SessionSecret::new([7; 32]));
    let mut kept = Kept::new(left, Side::Client);
    assert!(kept.lease().exporter.is_none(), "the other side may not have the same first one");
}

#[test]
fn outside_a_lease_the_word_is_heard() {
    let (left, mut right) = pair();
    left.writer.send(&Message::Over).unwrap();
    assert_eq!(right.reader.recv(), Ok(Some(Message::Over)));
}

#[test]
fn a_lane_ends_with_its_transfer_and_leaves_nothing_to_the_next() {
    let (mut client, mut server) = both();
    let (mut here, mut there) = (client.lease(), server.lease());
    let (out, _) = here.open_lane().unwrap();
    let (lane, _mailbox) = there.open_lane().unwrap();
    here.writer.send(&rejected(1)).unwrap();
    assert_eq!(there.reader.recv(), Ok(Some(rejected(1))));
    assert_eq!(out.try_send(b"first").unwrap(), Sent::Taken);
    // The server is done, and the client does not know yet.
    there.writer.close();
    drop((there, lane));
    assert_eq!(out.try_send(b"late").unwrap(), Sent::Taken);
    assert_eq!(here.reader.recv(), Ok(None));
    here.writer.close();
    assert!(out.try_send(b"too late").is_err());
    drop((here, out));
    let (mut here, mut there) = (client.lease(), server.lease());
    let (out, _) = here.open_lane().unwrap();
    let (lane, _mailbox) = there.open_lane().unwrap();
    here.writer.send(&rejected(2)).unwrap();
    assert_eq!(out.try_send(b"second").unwrap(), Sent::Taken);
    here.writer.send(&rejected(3)).unwrap();
    assert_eq!(there.reader.recv(), Ok(Some(rejected(2))));
    assert_eq!(there.reader.recv(), Ok(Some(rejected(3))));
    assert_eq!(lane.try_recv().unwrap().as_deref(), Some(&b"second"[..]), "nothing of the one before");
    assert_eq!(lane.try_recv().unwrap(), None);
}
