//! The register of tickets that were used, beside the server's identity: a restart forgets none.

use fobs_channel::secure::identity::PublicKey;
use fobs_channel::secure::ticket::{Ticket, TicketId};
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::text::hex;
use fobs_sys::named;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Most tickets that are remembered until they expire; with more, no further one is taken.
const TICKETS_MAX: usize = 100_000;
/// Most attempts with one ticket: a transfer whose connection broke comes again.
const ATTEMPTS_MAX: u32 = 32;
/// Largest register that is read, bytes: every line of 100,000 tickets' attempts.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// Which tickets were used by whom.
pub(super) struct Tickets {
    path: PathBuf,
    used: Mutex<Option<HashMap<TicketId, Use>>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Use {
    holder: [u8; 32],
    expires_s: u64,
    attempts: u32,
    is_spent: bool,
}

impl Tickets {
    pub(super) fn beside(identity: &Path) -> Tickets {
        let mut path = identity.as_os_str().to_owned();
        path.push(".tickets");
        Tickets { path: path.into(), used: Mutex::new(None) }
    }

    /// Takes a ticket for a transfer of `holder`: the first one, or a further attempt by the same key.
    pub(super) fn take(&self, ticket: &Ticket, holder: &PublicKey) -> Result<()> {
        let (id, now) = (ticket.id()?, seconds());
        let mut held = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let used = self.loaded(&mut held)?;
        used.retain(|_, entry| entry.expires_s > now);
        if used.len() >= TICKETS_MAX {
            return Err(denied("this server remembers too many used ones; try again later"));
        }
        let entry = used.entry(id).or_insert(Use {
            holder: *holder.as_bytes(),
            expires_s: ticket.expires_s,
            attempts: 0,
            is_spent: false,
        });
        if entry.is_spent || entry.holder != *holder.as_bytes() {
            return Err(denied("it was used already"));
        }
        if entry.attempts >= ATTEMPTS_MAX {
            return Err(denied("it was tried too often"));
        }
        entry.attempts += 1;
        let entry = entry.clone();
        self.note(&id, &entry)
    }

    /// Its transfer is over.
    pub(super) fn spend(&self, ticket: &Ticket) -> Result<()> {
        let id = ticket.id()?;
        let mut held = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        match self.loaded(&mut held)?.get_mut(&id) {
            Some(entry) => {
                entry.is_spent = true;
                let entry = entry.clone();
                self.note(&id, &entry)
            }
            None => Ok(()),
        }
    }

    fn loaded<'a>(
        &self,
        held: &'a mut Option<HashMap<TicketId, Use>>,
    ) -> Result<&'a mut HashMap<TicketId, Use>> {
        if held.is_none() {
            *held = Some(self.load().map_err(|error| self.broken(&error))?);
        }
        Ok(held.get_or_insert_default())
    }

    fn load(&self) -> std::io::Result<HashMap<TicketId, Use>> {
        let mut text = String::new();
        match named::open(&self.path) {
            Ok(file) => file.take(FILE_BYTES_MAX).read_to_string(&mut text)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        let now = seconds();
        let mut used: HashMap<TicketId, Use> = text.lines().filter_map(parse).collect();
        used.retain(|_, entry| entry.expires_s > now);
        self.rewrite(&used)?;
        Ok(used)
    }

    /// Leaves out what has expired, so that the file does not grow for ever.
    fn rewrite(&self, used: &HashMap<TicketId, Use>) -> std::io::Result<()> {
        let beside = self.path.with_extension("tickets-new");
        let mut file = named::create(&beside, 0o600)?;
        for (id, entry) in used {
            file.write_all(line(id, entry).as_bytes())?;
        }
        file.sync_all()?;
        std::fs::rename(&beside, &self.path)
    }

    /// Before the transfer begins: what is not on the disk could be used again after a crash.
    fn note(&self, id: &TicketId, entry: &Use) -> Result<()> {
        let written = named::append(&self.path, 0o600).and_then(|mut file| {
            file.write_all(line(id, entry).as_bytes())?;
            file.sync_data()
        });
        written.map_err(|error| self.broken(&error))
    }

    fn broken(&self, error: &std::io::Error) -> Error {
        let message = format!(
            "this server cannot keep its register of used tickets, {}: {error}; ask its operator",
            self.path.display()
        );
        Error::new(ErrorKind::Denied, message)
    }
}

pub(crate) fn line(id: &TicketId, entry: &Use) -> String {
    let word = if entry.is_spent { "spent" } else { "used" };
    let (id, holder) = (hex(id), hex(&entry.holder));
    format!("{id} {} {} {holder} {word}\n", entry.expires_s, entry.attempts)
}

/// A line that is torn or of another form says nothing.
pub(crate) fn parse(line: &str) -> Option<(TicketId, Use)> {
    let mut words = line.split(' ');
    let id = unhex(words.next()?)?;
    let expires_s = words.next()?.parse().ok()?;
    let attempts = words.next()?.parse().ok()?;
    let holder = unhex(words.next()?)?;
    let is_spent = match words.next()? {
        "spent" => true,
        "used" => false,
        _ => return None,
    };
    Some((id, Use { holder, expires_s, attempts, is_spent }))
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(bytes)
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn denied(why: &str) -> Error {
    Error::new(ErrorKind::Denied, format!("the ticket is refused: {why}; ask the source for another one"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs_channel::secure::identity::Identity;
    use fobs_model::message::Bytes;
    use std::time::Duration;

    fn ticket(life: u64) -> Ticket {
        let life = Duration::from_secs(life);
        Ticket::new(&[Bytes(b"a".to_vec())], 1, life, None, SystemTime::now()).unwrap()
    }

    #[test]
    fn a_spent_ticket_stays_spent_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let (path, holder) = (directory.path().join("id"), Identity::generate().public());
        let (tickets, one) = (Tickets::beside(&path), ticket(60));
        tickets.take(&one, &holder).unwrap();
        tickets.spend(&one).unwrap();
        for again in [tickets, Tickets::beside(&path)] {
            let error = again.take(&one, &holder).unwrap_err();
            assert!(error.message.contains("used already"), "{error}");
        }
    }

    #[test]
    fn the_first_key_keeps_a_ticket_and_may_come_again() {
        let directory = tempfile::tempdir().unwrap();
        let tickets = Tickets::beside(&directory.path().join("id"));
        let (holder, other) = (Identity::generate().public(), Identity::generate().public());
        let one = ticket(60);
        for _ in 0..ATTEMPTS_MAX {
            tickets.take(&one, &holder).unwrap();
            assert!(tickets.take(&one, &other).is_err());
        }
        assert!(tickets.take(&one, &holder).unwrap_err().message.contains("too often"));
    }

    #[test]
    fn without_a_register_no_ticket_is_taken() {
        let tickets = Tickets::beside(Path::new("/nonexistent/id"));
        let error = tickets.take(&ticket(60), &Identity::generate().public()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied);
    }
}
