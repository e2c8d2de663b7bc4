//! Addresses of explanations that a browser can follow without a header.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;

use super::Problem;
use crate::job::JobId;
use crate::secret;

/// Most tickets at once: the oldest is no longer good then.
const TICKETS_MAX: usize = 64;
/// How long one is good: the page may be loaded again.
const GOOD_FOR: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, Default)]
pub(super) struct Tickets(Arc<Mutex<VecDeque<Ticket>>>);

#[derive(Debug)]
struct Ticket {
    text: String,
    job: JobId,
    since: Instant,
}

/// Whether a text has the form of a ticket.
pub(super) fn is_ticket(text: &str) -> bool {
    text.len() == secret::LETTERS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl Tickets {
    pub(super) fn give(&self, job: JobId) -> Result<String, Problem> {
        let text = secret::new()
            .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()))?;
        let mut tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tickets.len() >= TICKETS_MAX {
            tickets.pop_front();
        }
        tickets.push_back(Ticket { text: text.clone(), job, since: Instant::now() });
        Ok(text)
    }

    pub(super) fn job(&self, text: &str) -> Option<JobId> {
        let tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = tickets.iter().find(|ticket| secret::is_same(&ticket.text, text))?;
        (found.since.elapsed() < GOOD_FOR).then_some(found.job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_for_its_job_and_their_number_is_bounded() {
        let tickets = Tickets::default();
        let first = tickets.give(JobId(1)).expect("random numbers");
        assert!(is_ticket(&first) && !is_ticket("1") && !is_ticket("../../v1/jobs"));
        let second = tickets.give(JobId(2)).expect("random numbers");
        assert_eq!([tickets.job(&first), tickets.job(&second)], [Some(JobId(1)), Some(JobId(2))]);
        assert_eq!(tickets.job(""), None);
        (0..TICKETS_MAX).for_each(|_| drop(tickets.give(JobId(3)).expect("random numbers")));
        assert_eq!(tickets.job(&first), None);
        assert_eq!(tickets.0.lock().expect("whole").len(), TICKETS_MAX);
    }
}
