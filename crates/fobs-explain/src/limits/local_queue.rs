//! The sending host's own queue is full.

use super::facts::unknown;
use super::{Place, Row, Stage};

pub(super) const ROW: Row = Row {
    stages: |_| &[Stage::LocalSocket],
    place: Place::Network,
    phrase: |_| "the sender's own network interface was the limit".to_owned(),
    evidence: |_, sender| vec![format!("this host refused {} packets", sender.packets_refused)],
    fix: |_| "a faster network interface, or less other traffic on it".to_owned(),
    prediction: unknown,
};
