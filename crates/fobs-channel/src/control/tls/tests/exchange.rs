//! The exchange of keys, and their renewal.

use super::*;
use rustls::HandshakeKind;
use rustls::crypto::aws_lc_rs::kx_group::{SECP256R1, SECP384R1};

/// The groups of 0.2.0, the preferred one first.
const RELEASE_0_2: [&dyn SupportedKxGroup; 4] = [X25519, SECP256R1, SECP384R1, X25519MLKEM768];
/// Bytes of a client's first flight that one segment carries on a path of 1500 bytes, with timestamps; those
/// of the server's fit two.
const SEGMENT: usize = 1448;

fn connections(
    client: &[&'static dyn SupportedKxGroup],
    server: &[&'static dyn SupportedKxGroup],
) -> (Connection, Connection) {
    let alpn = [LEVEL_2.alpn, ALPN];
    let identity = Identity::generate();
    let client = client_config_with(provider_with(client), &identity, &alpn).unwrap();
    let mut server = server_config_with(provider_with(server), &Identity::generate(), &alpn).unwrap();
    server.enable_secret_extraction = true;
    let server = ServerConnection::new(Arc::new(server)).unwrap();
    (bare_client(client).into(), server.into())
}

/// Everything that one has for the other; its bytes.
fn pass(from: &mut Connection, to: &mut Connection) -> usize {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        to.read_tls(&mut rest).unwrap();
        to.process_new_packets().unwrap();
    }
    bytes.len()
}

/// How a handshake went: the group at both ends, whether a round trip was lost, and the bytes of both first
/// flights.
fn shake(client: &mut Connection, server: &mut Connection) -> (&'static str, HandshakeKind, [usize; 2]) {
    let flights = [pass(client, server), pass(server, client)];
    while client.is_handshaking() || server.is_handshaking() {
        pass(client, server);
        pass(server, client);
    }
    let group = |end: &Connection| name_of(end.negotiated_key_exchange_group().unwrap().name());
    assert_eq!(group(client), group(server));
    (group(client), client.handshake_kind().unwrap(), flights)
}

#[test]
fn keys_are_exchanged_as_both_ends_can_and_in_one_round_trip() {
    let hybrid = "X25519MLKEM768";
    for (client, server, group) in [
        (KEY_EXCHANGES, KEY_EXCHANGES, hybrid),
        // 0.2.0 has the hybrid, goes by its client's preference, and as a client sends no share for it.
        (KEY_EXCHANGES, &RELEASE_0_2, hybrid),
        (&RELEASE_0_2, KEY_EXCHANGES, "X25519"),
        // Programs of others.
        (KEY_EXCHANGES, &[X25519], "X25519"),
        (&[X25519], KEY_EXCHANGES, "X25519"),
        (&[X25519MLKEM768], KEY_EXCHANGES, hybrid),
    ] {
        let (mut ours, mut theirs) = connections(client, server);
        let (chosen, kind, flights) = shake(&mut ours, &mut theirs);
        assert_eq!((chosen, kind), (group, HandshakeKind::Full), "{client:?} {server:?}");
        assert!(flights[0] <= SEGMENT && flights[1] <= 2 * SEGMENT, "{flights:?}");
    }
}

#[test]
fn both_ends_of_a_channel_name_the_hybrid() {
    let (client, server) = channels();
    assert_eq!([client.key_exchange, server.key_exchange], [Some("X25519MLKEM768"); 2]);
}

#[test]
fn a_channel_renews_its_keys_as_often_as_it_is_asked() {
    let (mut client, mut server) = channels();
    // A peer allows 32 renewals without data between them.
    for round in 0..100 {
        server.writer.send(&rejected(round)).unwrap();
        server.writer.renew_keys().unwrap();
        assert_eq!(client.reader.recv(), Ok(Some(rejected(round))));
        client.writer.send(&rejected(round)).unwrap();
        assert_eq!(server.reader.recv(), Ok(Some(rejected(round))));
    }
    // From both ends at once.
    for end in [&client, &server] {
        end.writer.renew_keys().unwrap();
        end.writer.send(&rejected(7)).unwrap();
    }
    assert_eq!(client.reader.recv(), Ok(Some(rejected(7))));
    assert_eq!(server.reader.recv(), Ok(Some(rejected(7))));
    server.writer.close();
    assert!(server.writer.renew_keys().is_err(), "it is closed");
    assert_eq!(client.reader.recv(), Ok(None));
}

/// What [`Outlet::renew_keys`](super::super::super::outlet::Outlet) relies on: the library's records begin
/// anew with other keys, in both directions.
#[test]
fn a_renewal_replaces_the_keys_of_both_directions() {
    let counts = |renews: bool| {
        let (mut client, mut server) = connections(KEY_EXCHANGES, KEY_EXCHANGES);
        shake(&mut client, &mut server);
        for _ in 0..5 {
            server.writer().write_all(b"before").unwrap();
            client.writer().write_all(b"before").unwrap();
            pass(&mut server, &mut client);
            pass(&mut client, &mut server);
        }
        if renews {
            server.refresh_traffic_keys().unwrap();
            pass(&mut server, &mut client);
        }
        client.writer().write_all(b"after").unwrap();
        pass(&mut client, &mut server);
        let Connection::Server(server) = server else { unreachable!("it is the server's") };
        let secrets = server.dangerous_extract_secrets().unwrap();
        (secrets.tx.0, secrets.rx.0)
    };
    assert_eq!(counts(false), (5, 6));
    assert_eq!(counts(true), (0, 1), "records are counted from the change of keys");
}
