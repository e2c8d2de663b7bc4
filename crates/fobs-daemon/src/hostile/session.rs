//! Good sessions, as clients have had them: what the client says, and what it waits for.
//!
//! `sessions/*.jsonl` holds them, a line for each step. Most are recorded (`recorder.rs`); those of verbs
//! that the command line does not have are written by hand in the same form.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A step of a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Step {
    /// Sends a message.
    Say(Value),
    /// Waits for a message of this type.
    Hear(String),
    /// Sends a chunk by the lane.
    Chunk(Chunk),
    /// From here on acknowledges the data that comes by the lane.
    Take,
    /// Sends bytes as they are.
    Raw(#[serde(skip)] Vec<u8>),
}

/// A chunk of a push.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Chunk {
    /// Its bytes, in base64.
    pub(super) bytes: String,
    /// Whether it is the object's last one.
    pub(super) last: bool,
}

impl Chunk {
    pub(super) fn decoded(&self) -> Vec<u8> {
        STANDARD.decode(&self.bytes).unwrap_or_default()
    }

    pub(super) fn of(bytes: &[u8], last: bool) -> Chunk {
        Chunk { bytes: STANDARD.encode(bytes), last }
    }
}

/// The carriers of the control channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// `fobs server` over its standard streams, as ssh runs it.
    Ssh,
    /// A daemon over TLS.
    Tls,
}

impl Way {
    /// In the name of a case.
    pub fn name(self) -> &'static str {
        match self {
            Way::Ssh => "ssh",
            Way::Tls => "tls",
        }
    }
}

/// A good session.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) name: &'static str,
    pub(super) steps: Vec<Step>,
    /// What a right must be to take the session to its end.
    pub(super) needs: Needs,
}

/// What a good session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    Read,
    Write,
    /// To write, and to remove, compare or replace.
    Change,
    Both,
}

const BOTH: &[Way] = &[Way::Ssh, Way::Tls];
/// A daemon expands no patterns.
const SSH: &[Way] = &[Way::Ssh];
/// Tickets are of daemons.
const TLS: &[Way] = &[Way::Tls];

/// Every session: its name, text, needs and carriers.
const ALL: &[(&str, &str, Needs, &[Way])] = &[
    ("push-object", include_str!("sessions/push-object.jsonl"), Needs::Write, BOTH),
    ("push", include_str!("sessions/push.jsonl"), Needs::Write, BOTH),
    ("sync-push", include_str!("sessions/sync-push.jsonl"), Needs::Change, BOTH),
    ("sync-names", include_str!("sessions/sync-names.jsonl"), Needs::Change, BOTH),
    ("sync-dry", include_str!("sessions/sync-dry.jsonl"), Needs::Change, BOTH),
    ("pull", include_str!("sessions/pull.jsonl"), Needs::Read, BOTH),
    ("pull-pattern", include_str!("sessions/pull-pattern.jsonl"), Needs::Read, SSH),
    ("sync-pull", include_str!("sessions/sync-pull.jsonl"), Needs::Both, BOTH),
    ("pull-object", include_str!("sessions/pull-object.jsonl"), Needs::Read, BOTH),
    ("pull-range", include_str!("sessions/pull-range.jsonl"), Needs::Read, BOTH),
    ("kept", include_str!("sessions/kept.jsonl"), Needs::Write, BOTH),
    ("list", include_str!("sessions/list.jsonl"), Needs::Read, BOTH),
    ("stat", include_str!("sessions/stat.jsonl"), Needs::Read, BOTH),
    ("remove", include_str!("sessions/remove.jsonl"), Needs::Change, BOTH),
    ("make-directory", include_str!("sessions/make-directory.jsonl"), Needs::Write, BOTH),
    ("hash", include_str!("sessions/hash.jsonl"), Needs::Read, BOTH),
    ("ticket", include_str!("sessions/ticket.jsonl"), Needs::Read, TLS),
    ("redeem", include_str!("sessions/redeem.jsonl"), Needs::Read, TLS),
    ("fetch", include_str!("sessions/fetch.jsonl"), Needs::Both, TLS),
    ("probe", include_str!("sessions/probe.jsonl"), Needs::Write, BOTH),
];

impl Session {
    /// The carriers that can have it.
    pub(super) fn ways(&self) -> &'static [Way] {
        ALL.iter().find(|(name, ..)| *name == self.name).map_or(&[], |(_, _, _, ways)| ways)
    }
}

/// Every session that is played.
pub(super) fn all() -> Vec<Session> {
    let parsed = ALL.iter().map(|&(name, text, needs, _)| Session { name, steps: parse(text), needs });
    parsed.collect()
}

/// Whether a client shows a ticket, which gives it the right to read what the ticket names.
pub(super) fn has_ticket(steps: &[Step]) -> bool {
    steps.iter().any(|step| matches!(step, Step::Say(message) if message.to_string().contains(TICKET)))
}

/// The steps of a file.
///
/// # Panics
/// If a line is no step: the files are part of this program.
pub(super) fn parse(text: &str) -> Vec<Step> {
    let step = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let mut steps: Vec<Step> = text.lines().filter(|line| !line.is_empty()).map(step).collect();
    for step in &mut steps {
        // So that servers of tests beside each other do not take each other's ports.
        if let Step::Say(message) = step
            && message["type"] == "open"
        {
            message["udp_ports"] = json!(PORTS);
        }
        // The order of a directory's entries is the file system's.
        if let Step::Say(message) = step
            && message["type"] == "complete"
        {
            message["root"] = json!(ROOT);
        }
    }
    steps
}

/// In a message: the UDP ports of the server, which the player fills in.
pub(super) const PORTS: &str = "@ports@";
/// A ticket of the daemon for all that is below the part of the tree, likewise.
pub(super) const TICKET: &str = "@ticket@";
/// The root of what the server has sent, likewise.
pub(super) const ROOT: &str = "@root@";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_of_steps_and_begin_with_hello() {
        for session in all() {
            let Some(Step::Say(hello)) = session.steps.first() else { panic!("{}", session.name) };
            assert_eq!(hello["type"], "hello", "{}", session.name);
            assert!(session.steps.len() > 2, "{}", session.name);
        }
    }

    /// Members of an object that the other one lacks, at any depth.
    fn lacking(whole: &Value, has: &Value, at: &str, lacks: &mut Vec<String>) {
        let Value::Object(members) = whole else { return };
        for (name, member) in members {
            let at = format!("{at}.{name}");
            match has.get(name) {
                Some(known) => lacking(member, known, &at, lacks),
                None if has.is_null() => {}
                None => lacks.push(at),
            }
        }
    }

    #[test]
    fn sessions_have_every_member_that_this_build_knows() {
        let how = "record the sessions again: hostile record target/debug/fobs src/hostile/sessions";
        let said = |name: &str, kind: &str| -> Value {
            let session = all().into_iter().find(|it| it.name == name).unwrap();
            let found = session.steps.into_iter().find_map(|step| match step {
                Step::Say(message) if message["type"] == kind => Some(message),
                _ => None,
            });
            found.unwrap()
        };
        let mut lacks = Vec::new();
        let sync = serde_json::to_value(fobs_model::options::sync::SyncOptions::default()).unwrap();
        lacking(&sync, &said("sync-push", "open")["sync"], "sync", &mut lacks);
        assert!(lacks.is_empty(), "{lacks:?}; {how}");
        let features = said("sync-push", "hello")["features"].clone();
        for feature in fobs_model::message::FEATURES {
            assert!(features.as_array().unwrap().contains(&json!(feature)), "{feature}; {how}");
        }
        for action in ["list", "stat", "remove", "make_directory", "ticket", "fetch", "hash"] {
            let request = json!({ "type": "files", "action": action });
            let played = |step: &Step| matches!(step, Step::Say(it) if it["type"] == request["type"] && it["action"] == request["action"]);
            assert!(all().iter().any(|session| session.steps.iter().any(played)), "{action} is not played");
        }
    }
}
