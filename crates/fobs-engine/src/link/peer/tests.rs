use super::*;
use std::net::Ipv4Addr;

const START: Timestamp = Timestamp::ZERO;
const TOKEN: [u8; CHALLENGE_LEN] = [7; CHALLENGE_LEN];

fn at(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(192, 0, 2, host), port))
}

fn ip(host: u8) -> IpAddr {
    at(host, 0).ip()
}

fn peer(validation: PathValidation, candidates: &[SocketAddr]) -> PeerAddress {
    PeerAddress::new(validation, candidates.to_vec(), || TOKEN)
}

/// A server's peer, heard at `at(1, 1)`.
fn heard() -> PeerAddress {
    let mut peer = peer(PathValidation::Challenge { proven: Some(ip(1)) }, &[]);
    peer.handle_datagram(START, at(1, 1), 100, true);
    assert_eq!(peer.current(), Some(at(1, 1)));
    peer
}

fn challenge_to(to: SocketAddr) -> Option<PathPacket> {
    Some(PathPacket { to, header: Header::Challenge, body: TOKEN })
}

#[test]
fn traffic_moves_only_after_the_new_address_has_answered() {
    let mut peer = heard();
    peer.handle_datagram(START, at(2, 9), 100, true);
    assert_eq!((peer.current(), peer.moves()), (Some(at(1, 1)), 0));
    assert_eq!(peer.poll_packet(START), challenge_to(at(2, 9)));
    // Another token, and the right one from elsewhere.
    peer.handle_response(at(2, 9), &[8; CHALLENGE_LEN]);
    peer.handle_response(at(2, 9), &TOKEN[1..]);
    peer.handle_response(at(1, 1), &TOKEN);
    assert_eq!(peer.current(), Some(at(1, 1)));
    peer.handle_response(at(2, 9), &TOKEN);
    assert_eq!((peer.current(), peer.moves()), (Some(at(2, 9)), 1));
    assert_eq!(peer.poll_packet(START + CHALLENGE_EVERY), None);
}

#[test]
fn a_late_packet_from_elsewhere_starts_nothing() {
    let mut peer = heard();
    peer.handle_datagram(START, at(2, 9), 100, false);
    assert_eq!(peer.poll_packet(START), None);
}

#[test]
fn an_unproven_address_gets_three_times_what_it_sent() {
    let mut peer = heard();
    let (mut received, mut sent) = (0, 0);
    for beat in 0..100 {
        let now = START + CHALLENGE_EVERY * beat;
        if beat % 5 == 0 {
            peer.handle_datagram(now, at(2, 9), 20, true);
            received += 20;
        }
        while peer.poll_packet(now).is_some() {
            sent += PATH_DATAGRAM_LEN as u64;
        }
        assert!(sent <= 3 * received, "{sent} of {received}");
    }
    assert!(sent > received, "it was challenged");
}

#[test]
fn one_address_is_challenged_at_a_time() {
    let mut peer = heard();
    peer.handle_datagram(START, at(2, 9), 100, true);
    peer.handle_datagram(START, at(3, 9), 100, true);
    assert_eq!(peer.poll_packet(START), challenge_to(at(2, 9)));
    assert_eq!(peer.poll_packet(START), None);
    let later = START + CHALLENGE_HOLD;
    peer.handle_datagram(later, at(3, 9), 100, true);
    assert_eq!(peer.poll_packet(later), challenge_to(at(3, 9)));
}

#[test]
fn a_first_address_needs_proof_unless_the_control_channel_has_it() {
    let mut peer = peer(PathValidation::Challenge { proven: Some(ip(1)) }, &[]);
    peer.handle_datagram(START, at(2, 9), 100, true);
    assert_eq!(peer.current(), None, "a copy that came first");
    assert_eq!(peer.poll_packet(START), challenge_to(at(2, 9)));
    peer.handle_datagram(START, at(1, 1), 100, true);
    assert_eq!((peer.current(), peer.moves()), (Some(at(1, 1)), 0));
}

#[test]
fn a_first_address_without_any_proof_is_challenged_and_then_used() {
    let mut peer = peer(PathValidation::Challenge { proven: None }, &[]);
    peer.handle_datagram(START, at(1, 1), 100, true);
    assert_eq!(peer.current(), None);
    assert_eq!(peer.poll_packet(START), challenge_to(at(1, 1)));
    peer.handle_response(at(1, 1), &TOKEN);
    assert_eq!((peer.current(), peer.moves()), (Some(at(1, 1)), 0));
}

#[test]
fn a_client_takes_any_candidate_at_first_and_none_later() {
    let mut peer = peer(PathValidation::Challenge { proven: None }, &[at(1, 1), at(2, 1)]);
    assert_eq!((peer.current(), peer.others().collect()), (Some(at(1, 1)), vec![at(2, 1)]));
    peer.handle_datagram(START, at(2, 1), 100, true);
    assert_eq!((peer.current(), peer.others().next()), (Some(at(2, 1)), None));
    peer.handle_datagram(START, at(1, 1), 100, true);
    assert_eq!(peer.current(), Some(at(2, 1)));
    assert_eq!(peer.poll_packet(START), challenge_to(at(1, 1)));
}

#[test]
fn the_path_in_use_can_be_checked_within_bounds() {
    let mut peer = heard();
    for beat in 0..10 {
        let now = START + CHALLENGE_EVERY / 5 * beat;
        peer.check_path(now);
        let due = beat % 5 == 0;
        assert_eq!(peer.poll_packet(now), challenge_to(at(1, 1)).filter(|_| due), "{beat}");
    }
    peer.handle_response(at(1, 1), &TOKEN);
    assert_eq!((peer.current(), peer.moves()), (Some(at(1, 1)), 0));
}

#[test]
fn responses_go_where_traffic_goes() {
    let mut peer = heard();
    peer.handle_datagram(START, at(2, 9), 100, true);
    peer.handle_challenge(&[5; CHALLENGE_LEN]);
    peer.handle_challenge(&[6; CHALLENGE_LEN]);
    peer.handle_challenge(&[7; CHALLENGE_LEN + 1]);
    let response = PathPacket { to: at(1, 1), header: Header::Response, body: [6; CHALLENGE_LEN] };
    assert_eq!(peer.poll_packet(START), Some(response));
    assert_eq!(peer.poll_packet(START), challenge_to(at(2, 9)));
}

#[test]
fn a_peer_without_challenges_is_where_its_newest_packet_came_from() {
    let mut peer = peer(PathValidation::Newest, &[]);
    peer.handle_datagram(START, at(1, 1), 100, true);
    peer.handle_datagram(START, at(2, 1), 100, true);
    peer.handle_datagram(START, at(3, 1), 100, false);
    peer.handle_challenge(&TOKEN);
    assert_eq!((peer.current(), peer.moves()), (Some(at(2, 1)), 1));
    assert_eq!(peer.poll_packet(START), None);
}
