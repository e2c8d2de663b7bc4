//! Third-party copies over sessions: a ticket from the source, and the destination that fetches with it.

use super::Call;
use fobs_channel::secure::identity::PublicKey;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::listing::Entry;
use fobs_model::message::files::FileRequest;
use fobs_model::message::{Bytes, SecretText};
use fobs_model::options::{Carrier, DEFAULT_TCP_PORT, SignedTicket};
use std::time::Duration;

impl Call<'_> {
    /// Has the daemon sign a ticket with which another client may pull these names, at most `size` file
    /// bytes, within `life`: the key `holder` only, or the one that uses it first.
    ///
    /// # Errors
    /// `Denied` where this client may not read them itself, `Usage` for what no ticket can hold and over ssh,
    /// `RemoteMissing` at a server that is too old.
    pub fn ticket<N: AsRef<[u8]>>(
        self,
        names: &[N],
        size: u64,
        life: Duration,
        holder: Option<PublicKey>,
    ) -> Result<SignedTicket> {
        let remote = self.session.remote.clone();
        if remote.carrier != Carrier::Daemon {
            let message = "tickets are for daemons (fobs://host/path); over ssh use the login of each host";
            return Err(Error::new(ErrorKind::Usage, message));
        }
        let paths = names.iter().map(|name| Bytes(self.path(name.as_ref()))).collect();
        let port = remote.port.or(self.chosen().port).unwrap_or(DEFAULT_TCP_PORT);
        let holder = holder.map(|key| Bytes(key.as_bytes().to_vec()));
        let request = FileRequest::Ticket { paths, size, life_s: life.as_secs(), holder };
        let options = self.chosen();
        let (found, key) = self.with_caller(&options, |caller, manner| {
            let found = caller.ask(&request, manner)?;
            Ok((found, caller.server_key()))
        })?;
        let unclear =
            || Error::new(ErrorKind::Protocol, "the server gave no ticket; install the same version there");
        let text = found.into_iter().next().and_then(|entry| String::from_utf8(entry.name).ok());
        let (text, key) = text.zip(key).ok_or_else(unclear)?;
        Ok(SignedTicket { text, host: remote.host, port, key })
    }

    /// Has the daemon pull with a ticket into its directory `name`; returns the files that are in place, with
    /// their hashes. The data goes between the two daemons.
    ///
    /// # Errors
    /// `Denied` where this client may not write there, the daemon fetches nothing for clients, or the source
    /// refuses the ticket; `RemoteMissing` at a server that is too old.
    pub fn fetch(self, name: impl AsRef<[u8]>, ticket: &SignedTicket) -> Result<Vec<Entry>> {
        let request = FileRequest::Fetch {
            path: Bytes(self.path(name.as_ref())),
            ticket: SecretText::new(ticket.text.clone()),
            host: ticket.host.clone(),
            port: ticket.port,
            key: Bytes(ticket.key.as_bytes().to_vec()),
            picked: self.picked.clone().map(Box::new),
        };
        let options = self.chosen();
        self.with_caller(&options, |caller, manner| caller.ask(&request, manner))
    }
}
