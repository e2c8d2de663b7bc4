use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn paths(names: &[&str]) -> Vec<Bytes> {
    names.iter().map(|name| Bytes(name.as_bytes().to_vec())).collect()
}

fn ticket(identity: &Identity) -> String {
    Ticket::new(&paths(&["data/x"]), 10, HOUR, None, at(1000)).unwrap().sign(identity).unwrap()
}

#[test]
fn a_signed_ticket_is_read_until_it_expires() {
    let identity = Identity::generate();
    let text = ticket(&identity);
    let read = Ticket::verify(&text, &identity.public(), at(1000 + 3599)).unwrap();
    assert_eq!((read.paths(), read.size), (vec![b"data/x".to_vec()], 10));
    let error = Ticket::verify(&text, &identity.public(), at(1000 + 3600)).unwrap_err();
    assert_eq!((error.kind, error.message.contains("expired")), (ErrorKind::Denied, true), "{error}");
}

#[test]
fn a_ticket_of_another_key_is_refused() {
    let text = ticket(&Identity::generate());
    let error = Ticket::verify(&text, &Identity::generate().public(), at(1000)).unwrap_err();
    assert!(error.message.contains("not signed"), "{error}");
}

#[test]
fn no_altered_character_is_accepted() {
    let identity = Identity::generate();
    let text = ticket(&identity);
    for index in 0..text.len() {
        let mut altered = text.clone().into_bytes();
        altered[index] = if altered[index] == b'A' { b'B' } else { b'A' };
        let altered = String::from_utf8(altered).unwrap();
        // The last character of base64 may have bits that stand for nothing; those are refused as well.
        assert!(Ticket::verify(&altered, &identity.public(), at(1000)).is_err(), "character {index}");
    }
}

#[test]
fn a_path_that_leaves_the_root_is_refused_even_if_signed() {
    let identity = Identity::generate();
    for name in ["../x", "a/../../x", "a\0b", ".."] {
        assert_eq!(Ticket::new(&paths(&[name]), 1, HOUR, None, at(0)).unwrap_err().kind, ErrorKind::Denied);
        let mut ticket = Ticket::new(&paths(&["a"]), 1, HOUR, None, at(1000)).unwrap();
        ticket.paths = paths(&["a", name]);
        let text = ticket.sign(&identity).unwrap();
        let error = Ticket::verify(&text, &identity.public(), at(1000)).unwrap_err();
        assert!(error.message.contains("leaves"), "{error}");
    }
}

#[test]
fn only_its_holder_may_use_a_ticket_that_names_one() {
    let (one, other) = (Identity::generate().public(), Identity::generate().public());
    let bound = Ticket::new(&paths(&["a"]), 1, HOUR, Some(one), at(0)).unwrap();
    assert!(bound.may_be_held_by(&one) && !bound.may_be_held_by(&other));
    let free = Ticket::new(&paths(&["a"]), 1, HOUR, None, at(0)).unwrap();
    assert!(free.may_be_held_by(&other));
}

#[test]
fn lives_and_lists_have_bounds() {
    let long = LIFE_MAX + Duration::from_secs(1);
    for (names, life) in
        [(vec!["a"], long), (vec!["a"], Duration::ZERO), (vec![], HOUR), (vec!["a"; 1001], HOUR)]
    {
        let error = Ticket::new(&paths(&names), 1, life, None, at(0)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage);
    }
}
