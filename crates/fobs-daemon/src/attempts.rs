//! Sessions by the transfer that they serve: a client that comes again takes the place of its own older
//! session, which may not have noticed yet that its client is gone.

use fobs_channel::secure::identity::PublicKey;
use fobs_model::cancel::{CancelHook, CancelToken};
use fobs_model::error::{Error, ErrorKind};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A transfer: the key of its client, and the identifier that the client chose at random.
type Transfer = (PublicKey, [u8; 16]);

/// What ends one session. The server's own end does it, too, with its reason.
pub(super) struct SessionStop {
    pub(super) token: CancelToken,
    _hook: CancelHook,
}

impl SessionStop {
    pub(super) fn below(server: &CancelToken) -> SessionStop {
        let token = CancelToken::new();
        let (session, above) = (token.clone(), server.clone());
        let hook = server.on_cancel(move || match above.check() {
            Err(reason) => session.cancel_because(reason),
            Ok(()) => session.cancel(),
        });
        SessionStop { token, _hook: hook }
    }
}

/// The newest session of each transfer.
#[derive(Clone, Default)]
pub(super) struct Attempts(Arc<Mutex<HashMap<Transfer, Attempt>>>);

struct Attempt {
    visit: u64,
    token: CancelToken,
}

/// Holds a session's entry. Dropping it removes the entry, unless a newer session has taken it.
pub(super) struct AttemptGuard {
    attempts: Attempts,
    transfer: Transfer,
    visit: u64,
}

impl Attempts {
    /// Notes a session; ends an older one of the same transfer. `visit` is unique.
    pub(super) fn enter(
        &self,
        key: PublicKey,
        transfer_id: [u8; 16],
        visit: u64,
        token: CancelToken,
    ) -> AttemptGuard {
        let transfer = (key, transfer_id);
        let older = self.newest().insert(transfer, Attempt { visit, token });
        if let Some(older) = older {
            let why = "this transfer goes on in a newer session of the same client";
            older.token.cancel_because(Error::new(ErrorKind::Connect, why));
        }
        AttemptGuard { attempts: self.clone(), transfer, visit }
    }

    fn newest(&self) -> MutexGuard<'_, HashMap<Transfer, Attempt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AttemptGuard {
    fn drop(&mut self) {
        let mut newest = self.attempts.newest();
        if newest.get(&self.transfer).is_some_and(|attempt| attempt.visit == self.visit) {
            newest.remove(&self.transfer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs_channel::secure::identity::Identity;

    #[test]
    fn a_newer_session_ends_the_older_one_of_its_transfer_only() {
        let attempts = Attempts::default();
        let (ann, bob) = (Identity::generate().public(), Identity::generate().public());
        let server = CancelToken::new();
        let stops: Vec<_> = (0..4).map(|_| SessionStop::below(&server)).collect();
        let enter = |key, id: u8, visit: u64| {
            attempts.enter(key, [id; 16], visit, stops[visit as usize].token.clone())
        };
        let ended = || stops.iter().map(|stop| stop.token.is_cancelled()).collect::<Vec<_>>();
        let first = enter(ann, 1, 0);
        let _others = [enter(ann, 2, 1), enter(bob, 1, 2)];
        assert_eq!(ended(), [false; 4]);
        let second = enter(ann, 1, 3);
        assert_eq!(ended(), [true, false, false, false]);
        let reason = stops[0].token.check().unwrap_err();
        assert_eq!(reason.kind, ErrorKind::Connect, "its client may be told, and comes again");
        drop(first);
        assert_eq!(attempts.newest().len(), 3, "the newer one's entry stays");
        drop(second);
        assert_eq!(attempts.newest().len(), 2);
        server.cancel_because(Error::new(ErrorKind::Connect, "restart"));
        assert_eq!(stops[1].token.check().unwrap_err().message, "restart");
    }
}
