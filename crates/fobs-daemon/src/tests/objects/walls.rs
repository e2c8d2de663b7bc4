//! A connection that is kept outlives the rights with which it was made.

use super::{connections, open};
use crate::served::{Served, content};
use fobs_model::error::ErrorKind;
use std::fs;

#[test]
fn a_key_that_gets_more_rights_has_them_on_a_connection_that_is_kept() {
    let served = Served::start(|_| ());
    fs::create_dir(served.root().join("in")).unwrap();
    fs::write(served.root().join("in/object"), content(1000)).unwrap();
    served.authorize_client_with("read-only,path=\"in\"");
    let session = open(&served);
    assert!(session.recv("in/object", 1000).unwrap() == content(1000));
    assert_eq!(session.send("in/object", b"new").unwrap_err().kind, ErrorKind::Denied);
    assert_eq!(connections(&served), 1);
    served.authorize_client();
    for name in ["in/object", "elsewhere"] {
        // Small, and large enough for the engine.
        for data in [content(10), content(3 << 20)] {
            session.send(name, &data).unwrap();
            assert!(fs::read(served.root().join(name)).unwrap() == data, "{name}");
        }
    }
    // The first connection could not reach it any more, whatever the line says now.
    assert_eq!(connections(&served), 2);
    // Less rights need no other connection.
    served.authorize_client_with("read-only");
    assert!(session.recv("in/object", 4 << 20).unwrap() == content(3 << 20));
    assert_eq!(session.send("in/object", b"new").unwrap_err().kind, ErrorKind::Denied);
}
