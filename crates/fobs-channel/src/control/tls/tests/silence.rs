//! Hosts that accept and say nothing.

use super::*;

#[test]
fn a_chosen_timeout_ends_the_opening_of_a_silent_host() {
    let (_silent, port) = listen();
    let limit = Some(Duration::from_secs(1));
    let dialed = Dialed { host: "127.0.0.1", port, family: AddressFamily::Any, limit };
    let error = connect_within(&dialed, &Identity::generate(), &CancelToken::new(), |_| Ok(())).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
    assert!(error.message.contains("for 1 s"), "{error}");
}
