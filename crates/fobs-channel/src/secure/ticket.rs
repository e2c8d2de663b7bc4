//! Tickets: a server's signed permission for one pull by a client whose key it does not know (protocol 2.13).
//!
//! A ticket is `PAYLOAD.SIGNATURE`, in base64; the payload is JSON. The signature is Ed25519 by the server's
//! own key over a context string and the payload as it stands, so nothing is parsed before it is verified.

use super::identity::{Identity, PublicKey};
use aws_lc_rs::rand::fill;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::Bytes;
use fobs_model::rights::normalised;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What is signed begins with it, so that no other signature of the key can be taken for a ticket.
const CONTEXT: &[u8] = b"fobs ticket 1\0";
/// The direction of tickets.
const PULL: &str = "pull";
/// Longest ticket, bytes: it fits a control frame with room for the rest of the message.
pub(crate) const TICKET_LEN_MAX: usize = 512 << 10;
/// Most paths of a ticket: a shard of a cluster transfer names that many.
pub(crate) const TICKET_PATHS_MAX: usize = 1000;
/// Longest life of a ticket: the register of used ones is kept for that long.
pub(crate) const LIFE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// What a ticket permits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Random; a ticket is used once.
    id: Bytes,
    /// What may be read: these paths and what is below them, relative and normalised.
    pub(crate) paths: Vec<Bytes>,
    /// Seen from its holder: `pull` is the only one.
    direction: String,
    /// Most file bytes of the transfer.
    pub size: u64,
    /// Seconds since 1970 by the clock of the server that signs, which alone looks at it.
    pub expires_s: u64,
    /// The only key that may use it, 32 bytes; that which uses it first where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder: Option<Bytes>,
}

/// The number of a ticket.
pub type TicketId = [u8; 16];

impl Ticket {
    /// A ticket to read these paths.
    ///
    /// # Errors
    /// `Denied` for a path that leaves the root, `Usage` for what no ticket can hold.
    pub fn new(
        paths: &[Bytes],
        size: u64,
        life: Duration,
        holder: Option<PublicKey>,
        now: SystemTime,
    ) -> Result<Ticket> {
        if paths.is_empty() || paths.len() > TICKET_PATHS_MAX {
            return Err(usage(format!("a ticket is for 1 to {TICKET_PATHS_MAX} paths, not {}", paths.len())));
        }
        if life.is_zero() || life > LIFE_MAX {
            return Err(usage(format!("a ticket is good for 1 to {} seconds", LIFE_MAX.as_secs())));
        }
        let paths = paths.iter().map(|path| inside(&path.0).map(Bytes)).collect::<Result<_>>()?;
        let mut id = [0; 16];
        fill(&mut id).map_err(|_| Error::new(ErrorKind::Internal, "the system gave no random bytes"))?;
        Ok(Ticket {
            id: Bytes(id.to_vec()),
            paths,
            direction: PULL.to_owned(),
            size,
            expires_s: seconds(now) + life.as_secs(),
            holder: holder.map(|key| Bytes(key.as_bytes().to_vec())),
        })
    }

    /// The ticket as text.
    pub fn sign(&self, identity: &Identity) -> Result<String> {
        let payload = serde_json::to_vec(self)
            .map_err(|error| Error::new(ErrorKind::Internal, format!("cannot write the ticket: {error}")))?;
        let text = seal(&payload, identity)?;
        if text.len() > TICKET_LEN_MAX {
            Err(usage("the paths are too long for one ticket; ask for several".to_owned()))
        } else {
            Ok(text)
        }
    }

    /// Reads a ticket that `key` has signed and that has not expired.
    ///
    /// # Errors
    /// `Denied`, with the reason.
    pub fn verify(text: &str, key: &PublicKey, now: SystemTime) -> Result<Ticket> {
        let (payload, signature) = split(text)?;
        let public = UnparsedPublicKey::new(&ED25519, key.as_bytes());
        if public.verify(&signed(&payload), &signature).is_err() {
            return Err(denied("this server's key has not signed it, or it was altered"));
        }
        let ticket = parse(&payload)?;
        if ticket.expires_s <= seconds(now) {
            return Err(denied("it has expired"));
        }
        if ticket.direction != PULL {
            return Err(denied("it is for another direction"));
        }
        // A valid signature does not permit a path that leaves the root.
        ticket.paths.iter().try_for_each(|path| inside(&path.0).map(drop))?;
        Ok(ticket)
    }

    /// What a ticket says, without any proof: for its holder, who only needs to know what to ask for.
    pub fn peek(text: &str) -> Result<Ticket> {
        parse(&split(text)?.0)
    }

    /// Its number, by which a server knows that it was used.
    pub fn id(&self) -> Result<TicketId> {
        TicketId::try_from(self.id.0.as_slice()).map_err(|_| denied("its number is malformed"))
    }

    /// Whether a key may use it.
    pub fn may_be_held_by(&self, key: &PublicKey) -> bool {
        self.holder.as_ref().is_none_or(|holder| holder.0 == key.as_bytes())
    }

    /// What it lets its holder read, raw bytes below the root.
    pub fn paths(&self) -> Vec<Vec<u8>> {
        self.paths.iter().map(|path| path.0.clone()).collect()
    }
}

/// `PAYLOAD.SIGNATURE` of any payload.
pub fn seal(payload: &[u8], identity: &Identity) -> Result<String> {
    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(identity.pkcs8_der())
        .map_err(|_| Error::new(ErrorKind::Internal, "the server's key cannot sign; report this bug"))?;
    let signature = pair.sign(&signed(payload));
    Ok(format!("{}.{}", STANDARD_NO_PAD.encode(payload), STANDARD_NO_PAD.encode(signature)))
}

fn parse(payload: &[u8]) -> Result<Ticket> {
    serde_json::from_slice(payload).map_err(|_| denied("it is malformed"))
}

fn split(text: &str) -> Result<(Vec<u8>, Vec<u8>)> {
    let parts = text.split_once('.').filter(|_| text.len() <= TICKET_LEN_MAX);
    let decode = |part: &str| STANDARD_NO_PAD.decode(part).map_err(|_| denied("it is malformed"));
    let (payload, signature) = parts.ok_or_else(|| denied("it is malformed"))?;
    Ok((decode(payload)?, decode(signature)?))
}

fn inside(path: &[u8]) -> Result<Vec<u8>> {
    normalised(path).ok_or_else(|| denied("it names a path that leaves what the server serves"))
}

fn signed(payload: &[u8]) -> Vec<u8> {
    [CONTEXT, payload].concat()
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn denied(why: &str) -> Error {
    Error::new(ErrorKind::Denied, format!("the ticket is refused: {why}; ask the source for another one"))
}

fn usage(why: String) -> Error {
    Error::new(ErrorKind::Usage, why)
}

#[cfg(test)]
mod tests;
