//! Which requests are possible.

use super::{FEATURES, LanesAsk, Open};
use crate::error::{Error, ErrorKind, Result};
use crate::name::Component;
use crate::options::bounds::{packet_size, tcp_buffer, udp_ports};
use crate::text::printable;
use fobs_proto::session::LANES_MAX;

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
        self.lanes.as_ref().map_or(Ok(()), LanesAsk::check)?;
        for name in &self.resuming.names {
            Component::new(name).map_err(|bad| {
                let message = format!("a source has a name that none can have: {bad}");
                Error::new(ErrorKind::Protocol, message)
            })?;
        }
        self.sync.as_ref().map_or(Ok(()), |sync| sync.check())
    }
}

impl LanesAsk {
    /// Refuses too few or too many lanes, and paths that are not numbered from 0 on.
    fn check(&self) -> Result<()> {
        let count = self.paths.len();
        if !(1..=LANES_MAX).contains(&count) {
            let message = format!("a session has 1 to {LANES_MAX} lanes, not {count}");
            return Err(Error::new(ErrorKind::Usage, message));
        }
        let mut paths = 0;
        for &path in &self.paths {
            if path > paths {
                let message = format!("a lane is of path {path}, and there are {paths} before it");
                return Err(Error::new(ErrorKind::Protocol, message));
            }
            paths = paths.max(path + 1);
        }
        let (known, families) = (|family: &u8| matches!(family, 0 | 4 | 6), &self.families);
        if !families.is_empty() && (families.len() != usize::from(paths) || !families.iter().all(known)) {
            let message = format!("{paths} paths have the IP versions {families:?}; each has 4, 6 or 0");
            return Err(Error::new(ErrorKind::Protocol, message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::ErrorKind;
    use crate::message::{FEATURES, LanesAsk, Message};

    #[test]
    fn lanes_are_one_to_sixteen_and_their_paths_in_order() {
        let of = |paths: &[u8], families: &[u8]| LanesAsk {
            paths: paths.to_vec(),
            window: 0,
            families: families.to_vec(),
        };
        let check = |paths: &[u8]| of(paths, &[]).check();
        assert_eq!(of(&[0, 1, 0], &[4, 6]).check(), Ok(()));
        for wrong in [&[4][..], &[4, 6, 4], &[4, 5]] {
            assert!(of(&[0, 1, 0], wrong).check().is_err(), "{wrong:?}");
        }
        for possible in [&[0][..], &[0, 0], &[0, 1], &[0, 1, 0, 2, 1], &[0; 16]] {
            assert_eq!(check(possible), Ok(()), "{possible:?}");
        }
        for (wrong, kind) in [
            (&[][..], ErrorKind::Usage),
            (&[0; 17], ErrorKind::Usage),
            (&[1, 0], ErrorKind::Protocol),
            (&[0, 2], ErrorKind::Protocol),
            (&[0, 255], ErrorKind::Protocol),
        ] {
            assert_eq!(check(wrong).map_err(|error| error.kind), Err(kind), "{wrong:?}");
        }
    }

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
