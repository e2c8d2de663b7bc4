//! Files with keys.

use std::path::Path;
use std::sync::LazyLock;
use std::time::UNIX_EPOCH;

use crate::tickets;
use fobs_channel::secure::authorized_keys;
use fobs_channel::secure::identity::{Identity, PublicKey};
use fobs_channel::secure::known_hosts::KnownHosts;
use fobs_channel::secure::ticket::{Ticket, seal};
use fobs_model::permit::{Needs, Permit};
use fobs_model::rights::Action;

const NAME: &str = "[data.example.org]:45600";

/// Authorized keys: no line gives a right above the root.
pub(super) fn authorized_keys(input: &[u8]) {
    let Ok(keys) = authorized_keys::parse(input) else { return };
    for line in input.split(|byte| *byte == b'\n') {
        let text = String::from_utf8_lossy(line);
        let Some(start) = text.find("fobs-ed25519") else { continue };
        let Some(found) = PublicKey::parse(&text[start..]).ok().and_then(|key| keys.lookup(&key)) else {
            continue;
        };
        let rights = found.rights;
        for path in rights.paths() {
            let mut parts = path.split(|byte| *byte == b'/');
            assert!(!path.contains(&0) && parts.all(|part| part != b".."), "{path:?}");
        }
        let permit = Permit::of_key(rights);
        for path in [&b".."[..], b"../x", b"a/../../x", b"a\0"] {
            assert!(Action::ALL.iter().all(|action| permit.check(&Needs::at(path, &[*action])).is_err()));
        }
    }
}

/// A private key in PEM, a public key as a line and in DER.
pub(super) fn identity(input: &[u8]) {
    if let Some(identity) = Identity::from_pem(input) {
        assert_eq!(PublicKey::parse(&identity.public().to_string()), Ok(identity.public()));
    }
    let line = PublicKey::parse(&String::from_utf8_lossy(input)).ok();
    for key in [line, PublicKey::from_spki_der(input)].into_iter().flatten() {
        assert_eq!(PublicKey::parse(&key.to_string()), Ok(key));
        assert_eq!(PublicKey::from_spki_der(&key.to_spki_der()), Some(key));
    }
}

/// Known hosts: a server that is named with one key is not known with another.
pub(super) fn known_hosts(input: &[u8]) {
    use fobs_channel::secure::known_hosts::Found;

    let hosts = KnownHosts::at(Path::new("known_hosts"));
    let shown = PublicKey::from_spki_der(&SPKI).expect("a key");
    let Ok(found) = hosts.find(input, NAME, &shown) else { return };
    let pinned = format!("{NAME} {shown}\n");
    let with_pin = [input, b"\n", pinned.as_bytes()].concat();
    assert_eq!(hosts.find(&with_pin, NAME, &shown).ok(), Some(Found::Same));
    let other = format!("{NAME} {}\n", Identity::generate().public());
    let with_other = [input, b"\n", other.as_bytes()].concat();
    let changed = hosts.find(&with_other, NAME, &shown);
    assert_eq!(changed.ok(), (found == Found::Same).then_some(Found::Same));
}

/// A ticket as text, the input as the payload of one that is validly signed, and the lines of a register:
/// what is accepted names only paths inside the root, and a line that is read is written the same.
pub(super) fn ticket(input: &[u8]) {
    static IDENTITY: LazyLock<Identity> = LazyLock::new(Identity::generate);

    let text = String::from_utf8_lossy(input);
    let _ = Ticket::peek(&text);
    assert!(Ticket::verify(&text, &IDENTITY.public(), UNIX_EPOCH).is_err(), "nobody has signed it");
    let sealed = seal(input, &IDENTITY).expect("any payload can be signed");
    if let Ok(ticket) = Ticket::verify(&sealed, &IDENTITY.public(), UNIX_EPOCH) {
        let _ = ticket.id();
        for path in ticket.paths() {
            assert!(!path.contains(&0) && path.split(|byte| *byte == b'/').all(|part| part != b".."));
        }
    }
    for (id, entry) in text.lines().filter_map(tickets::parse) {
        let line = tickets::line(&id, &entry);
        let again = tickets::parse(line.trim_end()).map(|(id, entry)| tickets::line(&id, &entry));
        assert_eq!(again, Some(line));
    }
}

/// The key of RFC 8032 section 7.1, test 1, as RFC 8410 wraps it.
const SPKI: [u8; 44] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00, 0xd7, 0x5a, 0x98, 0x01, 0x82,
    0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07, 0x3a, 0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6,
    0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a,
];
