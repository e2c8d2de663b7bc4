//! Which requests are possible.

use super::Open;
use crate::error::{Error, ErrorKind, Result};
use crate::name::Component;
use crate::options::bounds::{packet_size, tcp_buffer, udp_ports};

impl Open {
    /// Refuses a request with choices that no client's own check lets through.
    ///
    /// # Errors
    /// `Usage`, with the option and what is possible; `Protocol` for names that no source can have.
    pub fn check(&self) -> Result<()> {
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
