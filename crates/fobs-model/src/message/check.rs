//! Which requests are possible.

use super::{FEATURES, Open};
use crate::error::{Error, ErrorKind, Result};
use crate::name::Component;
use crate::options::bounds::{packet_size, tcp_buffer, udp_ports};
use crate::text::printable;

/// How much of a feature's name is shown, characters.
const FEATURE_CHARS_MAX: usize = 60;

impl Open {
    /// Refuses a request with choices that no client's own check lets through.
    ///
    /// # Errors
    /// `Usage`, with the option and what is possible; `Protocol` for names that no source can have.
    pub fn check(&self) -> Result<()> {
        if let Some(unknown) = self.must.iter().find(|feature| !FEATURES.contains(&feature.as_str())) {
            let shown = printable(unknown, FEATURE_CHARS_MAX);
            let message = format!(
                "this server has an older fobs, which does not know {shown:?}: install the same version there"
            );
            return Err(Error::new(ErrorKind::Usage, message));
        }
        packet_size(self.payload_size)?;
        udp_ports(self.udp_ports)?;
        tcp_buffer(self.sending.tcp_buffer)?;
        for name in &self.resuming.names {
            Component::new(name).map_err(|bad| {
                let message = format!("a source has a name that none can have: {bad}");
                Error::new(ErrorKind::Protocol, message)
            })?;
        }
        self.sync.as_ref().map_or(Ok(()), |sync| sync.check())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::ErrorKind;
    use crate::message::{FEATURES, Message};

    #[test]
    fn a_part_of_a_request_that_nobody_knows_here_is_refused_by_name() {
        let open = |must: &str| {
            let json = format!(
                r#"{{"type": "open", "direction": "pull", "paths": [], "recursive": false, "preserve": false,
                    "compress": false, "payload_size": 0, "ack_every": 0, "must": [{must}]}}"#
            );
            match serde_json::from_str(&json).expect("a message") {
                Message::Open(open) => open.check(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(open(""), Ok(()));
        let known = FEATURES.iter().map(|feature| format!("{feature:?}")).collect::<Vec<_>>().join(",");
        assert_eq!(open(&known), Ok(()));
        let error = open(r#""names", "max-size""#).expect_err("unknown");
        assert!(error.kind == ErrorKind::Usage && error.message.contains("max-size"), "{error}");
    }
}
