//! Asks other hosts how much room there is where jobs are to write, before these begin.
//!
//! The question is a command of the program that runs jobs (`fobs jobs room`), with the job's environment: it
//! reaches the host as the job itself will, and learns what that key or login may. A host that cannot say
//! holds up no job.

use std::ffi::OsString;
use std::io;
use std::thread;
use std::time::Duration;

use serde::Deserialize;

use super::core::Core;
use super::launch::{self, Order};
use super::needs::{Destination, Needs, Site};
use super::{Keeper, now};
use crate::job::{JobId, Owner, Spec};
use crate::schedule::{Inquiry, Measured, Moment, Told};

/// For how long a host's word is good, ms: another user of it may write meanwhile, so not longer than a large
/// file takes; and a host with a queue is asked twice a minute.
const GOOD_MS: u64 = 30_000;
/// How long it takes until a host that did not say is asked again, ms: it is of an older release, or its key
/// has a narrower right, or it is down, which the attempt finds out itself.
const UNTOLD_MS: u64 = 600_000;
/// How long a host may take: a job that would begin waits for it.
const PATIENCE: Duration = Duration::from_secs(20);
/// Hosts that are asked at once.
const AT_ONCE_MAX: usize = 4;
/// How often it is looked whether a host is to be asked.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Most destinations whose places are kept: each is asked about anew when it is forgotten.
const KNOWN_MAX: usize = 1000;

/// What the command prints.
#[derive(Debug, Deserialize)]
struct Answer {
    /// What names the file system on that host.
    disk: String,
    /// What is free there, bytes.
    free_bytes: u64,
    /// What of the job is there by its names, bytes, where it was looked for.
    #[serde(default)]
    there_bytes: Option<u64>,
}

/// A host that is asked.
#[derive(Debug)]
struct Question {
    id: JobId,
    spec: Spec,
    owner: Option<Owner>,
    counted: Option<u64>,
    /// What jobs that write on other hosts had still to write before it was asked.
    before: Measured,
}

/// Asks until the keeper ends, in threads of their own.
///
/// # Errors
/// Where no thread can be started.
pub(super) fn watch(keeper: &Keeper) -> io::Result<()> {
    let own = keeper.clone();
    let run = move || {
        while !own.has_ended() {
            let questions = own.core().questions(now());
            for question in questions {
                ask_apart(&own, question);
            }
            thread::sleep(LOOK_EVERY);
        }
    };
    thread::Builder::new().name("rooms".to_owned()).spawn(run).map(|_| ())
}

fn ask_apart(keeper: &Keeper, question: Question) {
    let (own, id) = (keeper.clone(), question.id);
    let run = move || {
        let answer = ask(&own, &question);
        own.core().answered(question, answer, now());
        own.0.wake.notify_all();
    };
    if thread::Builder::new().name("room".to_owned()).spawn(run).is_err() {
        let mut core = keeper.core();
        core.asked.remove(&id);
        core.untold(id, "no thread can be started to ask", now());
    }
}

/// Asks the host of a job.
fn ask(keeper: &Keeper, question: &Question) -> Result<Answer, String> {
    let (program, boot) = {
        let core = keeper.core();
        (core.config.program.clone(), core.boot.clone())
    };
    let need = question.counted.unwrap_or(0).to_string();
    let own = ["jobs", "room", "--need", &need, "--"].map(OsString::from);
    let words = question.spec.words.iter().map(|word| word.as_os_str().to_owned());
    let order = Order {
        own_program: &program,
        owner: question.owner,
        spec: &question.spec,
        words: [program.clone().into_os_string()].into_iter().chain(own).chain(words).collect(),
        added: Vec::new(),
    };
    let command = order.command().map_err(|error| format!("cannot ask: {error}"))?;
    let said = launch::ask(command, &boot, PATIENCE, || !keeper.has_ended())?;
    serde_json::from_str(said.trim()).map_err(|error| format!("cannot read the answer: {error}"))
}

impl Core {
    /// The hosts that are to be asked now. A job whose destination was asked about a moment ago takes that
    /// place.
    fn questions(&mut self, now: Moment) -> Vec<Question> {
        let mut due = self.schedule.inquiries(now);
        let asked_ms = |core: &Core, id: JobId| match core.needs.get(&id).map(|needs| &needs.site) {
            Some(Site::There { asked_ms }) => *asked_ms,
            _ => 0,
        };
        // Of those in one place the one that was asked for longest ago: each has other files there.
        due.sort_by_key(|inquiry| (asked_ms(self, inquiry.id), inquiry.id));
        let mut questions = Vec::new();
        for Inquiry { id, place } in due {
            let is_asked = place
                .as_ref()
                .is_some_and(|place| self.asked.values().any(|asked| asked.as_ref() == Some(place)));
            if self.asked.contains_key(&id) || is_asked || self.takes_known_place(id, now) {
                continue;
            }
            if self.asked.len() >= AT_ONCE_MAX {
                break;
            }
            let Ok(record) = self.store.job(id) else { continue };
            let before = self.left_of(|_, needs| matches!(needs.site, Site::There { .. }));
            let counted = self.needs.get(&id).and_then(|needs| needs.counted);
            if let Some(Needs { site, .. }) = self.needs.get_mut(&id) {
                *site = Site::There { asked_ms: now.ms };
            }
            self.asked.insert(id, place);
            questions.push(Question { id, spec: record.spec, owner: record.owner, counted, before });
        }
        questions
    }

    /// Whether the same destination was asked about, and has room for all of the job.
    fn takes_known_place(&mut self, id: JobId, now: Moment) -> bool {
        if self.schedule.place_of(id).is_some() {
            return false;
        }
        let Ok(record) = self.store.job(id) else { return false };
        let Some(place) = self.known.get(&destination(&record.spec, record.owner)) else { return false };
        let left = self.needs.get(&id).and_then(Needs::left);
        self.schedule.takes_known(id, place, left, now)
    }

    fn answered(&mut self, question: Question, answer: Result<Answer, String>, now: Moment) {
        let Question { id, spec, owner, before, .. } = question;
        self.asked.remove(&id);
        let Answer { disk, free_bytes, there_bytes } = match answer {
            Ok(answer) => answer,
            Err(why) => return self.untold(id, &why, now),
        };
        let host = spec.destinations.first().map(String::as_str).unwrap_or_default();
        let place = format!("{host} disk {disk}");
        if let (Some(needs), Some(bytes)) = (self.needs.get_mut(&id), there_bytes) {
            needs.is_there(bytes);
        }
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(destination(&spec, owner), place.clone());
        let left_bytes = self.needs.get(&id).and_then(Needs::left);
        let until_ms = now.ms.saturating_add(GOOD_MS);
        self.schedule.told(Told { id, place, free_bytes, until_ms, left_bytes, before }, now);
    }

    /// Without a thread no host is asked: jobs begin without.
    pub(super) fn ask_nobody(&mut self, now: Moment) {
        for Inquiry { id, .. } in self.schedule.inquiries(now) {
            self.untold(id, "no thread can be started to ask", now);
        }
    }

    /// A host does not say how much room there is: the job begins as one to an older host does.
    pub(super) fn untold(&mut self, id: JobId, why: &str, now: Moment) {
        self.schedule.set_untold(id, now.ms.saturating_add(UNTOLD_MS));
        let text = format!("it begins without a look at the room where it writes: {why}");
        self.say(id, 0, text, now);
    }
}

fn destination(spec: &Spec, owner: Option<Owner>) -> Destination {
    (
        owner.map(|owner| owner.uid),
        spec.destinations.clone(),
        spec.room_there.as_ref().map(|there| there.as_os_str().to_owned()),
    )
}
