//! The server under attack, where this test binary is its program.

use std::fmt::Debug;
use std::net::SocketAddr;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

use super::super::program::{SERVICE_VARIABLE, Service};
use super::super::right::known;
use crate::Server;
use fobs::server::serve_stdio;
use fobs_model::cancel::CancelToken;
use fobs_model::options::ServeOptions;
use fobs_store::SourcesHere;

/// Prints the log's sentences on standard error.
struct Printed;

impl Subscriber for Printed {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("fobs")
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut Sentence);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

struct Sentence;

impl Visit for Sentence {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            eprintln!("{value:?}");
        }
    }
}

/// Does nothing in a run of the tests: a hostile client starts it with a variable.
#[test]
fn serves_where_it_is_told_to() {
    let Ok(service) = std::env::var(SERVICE_VARIABLE) else { return };
    tracing::subscriber::set_global_default(Printed).unwrap();
    match serde_json::from_str(&service).unwrap() {
        Service::Daemon { port, udp_ports, root, state } => {
            let options = ServeOptions {
                listen: vec![SocketAddr::from(([127, 0, 0, 1], port))],
                identity: Some(state.join("server")),
                udp_ports,
                third_party: true,
                ..ServeOptions::new(root, state.join("authorized_keys"))
            };
            Server::bind(&options).unwrap().run(&CancelToken::new()).unwrap();
        }
        Service::Login { root, word, privileged } => {
            let right = known().into_iter().find(|it| it.word() == word && it.privileged == privileged);
            let restriction = right.and_then(|it| it.restriction(root)).unwrap();
            // What it says of the session's end was told to the client.
            let _ = serve_stdio(Some(&restriction), SourcesHere::default(), &CancelToken::new());
        }
    }
}
