//! `fobs ctl`: changes a running copy.

use std::sync::Arc;

use fobs::options::{CongestionControl, TransferOptions};
use fobs::{CancelToken, Error, ErrorKind, Result, Steering};

use crate::args::CtlArgs;
use crate::explain::Recording;
use crate::live::{Answer, Ask, Change, Snapshot, ask};

/// Runs `fobs ctl`.
///
/// # Errors
/// `Usage` for what is no change, `NoSource` without such a copy, `Denied` for another user's.
pub fn run(args: &CtlArgs) -> Result<()> {
    let changes =
        args.changes.iter().map(|change| change.parse()).collect::<std::result::Result<Vec<Change>, _>>();
    for change in changes.map_err(|why| Error::new(ErrorKind::Usage, why))? {
        request(args.id, change)?;
    }
    Ok(())
}

/// Asks a copy to change.
///
/// # Errors
/// As [`run`]; `Usage` with the reason where the copy cannot change so.
pub fn request(id: u32, change: Change) -> Result<()> {
    match ask(id, &Ask::Change(change.to_string()))? {
        Answer::Refused(why) => Err(Error::new(ErrorKind::Usage, format!("{change}: {why}"))),
        Answer::Changed | Answer::Status(_) => Ok(()),
    }
}

/// What a running copy or sync answers on its socket.
pub fn answer(
    recording: &Arc<Recording>,
    steering: &Steering,
    options: &TransferOptions,
    cancel: &CancelToken,
) -> impl Fn(Ask) -> Answer + Send + 'static {
    let (recording, steering, cancel) = (recording.clone(), steering.clone(), cancel.clone());
    let cc = options.congestion_control;
    move |ask| match ask {
        Ask::Status => {
            let snapshot = recording.snapshot();
            Answer::Status(Box::new(Snapshot { paused: steering.is_paused(), ..snapshot }))
        }
        Ask::Change(change) => apply(&change, &steering, cc, &cancel),
    }
}

/// What a running pipe answers: a change is one of both directions.
pub fn answer_of_pipe(
    snapshot: impl Fn() -> Snapshot + Send + 'static,
    steering: [Steering; 2],
    cc: CongestionControl,
    cancel: CancelToken,
) -> impl Fn(Ask) -> Answer + Send + 'static {
    move |ask| match ask {
        Ask::Status => {
            let paused = steering.iter().all(Steering::is_paused);
            Answer::Status(Box::new(Snapshot { paused, ..snapshot() }))
        }
        Ask::Change(change) => {
            let answers = steering.each_ref().map(|steering| apply(&change, steering, cc, &cancel));
            let refused = answers.into_iter().find(|answer| *answer != Answer::Changed);
            refused.unwrap_or(Answer::Changed)
        }
    }
}

/// Does what was asked of a copy with this algorithm.
fn apply(text: &str, steering: &Steering, cc: CongestionControl, cancel: &CancelToken) -> Answer {
    let change: Change = match text.parse() {
        Ok(change) => change,
        Err(why) => return Answer::Refused(why),
    };
    if !steering.reaches_sender() && change != Change::Cancel {
        let why = "its sender cannot be changed meanwhile: it runs an older fobs, or between two other hosts";
        return Answer::Refused(why.to_owned());
    }
    match change {
        Change::Rate(limit) => steering.set_rate(limit),
        Change::Priority(_) if cc != CongestionControl::Auto => {
            return Answer::Refused(format!("a priority is for --cc auto, and this copy has --cc {cc}"));
        }
        Change::Priority(priority) => steering.set_priority(priority),
        Change::Pause => steering.pause(),
        Change::Resume => steering.resume(),
        Change::Cancel => cancel.cancel(),
    }
    Answer::Changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_does_what_it_can_and_says_what_it_cannot() {
        let (steering, cancel) = (Steering::new(), CancelToken::new());
        let told = |text: &str, cc| apply(text, &steering, cc, &cancel);
        let fixed = CongestionControl::Fixed { bits_per_second: 1 };
        assert_eq!(told("pause", CongestionControl::Auto), Answer::Changed);
        assert!(steering.is_paused());
        assert_eq!(told("resume", fixed), Answer::Changed);
        assert!(!steering.is_paused());
        assert_eq!(told("priority=scavenger", CongestionControl::Auto), Answer::Changed);
        for (text, words) in [("priority=scavenger", "--cc fixed"), ("faster", "is no change")] {
            let Answer::Refused(why) = told(text, fixed) else { panic!("{text}") };
            assert!(why.contains(words), "{why}");
        }
        assert!(!cancel.is_cancelled());
        assert_eq!(told("cancel", fixed), Answer::Changed);
        assert!(cancel.is_cancelled());
    }

    #[test]
    fn a_pipe_changes_in_both_directions() {
        let (steering, cancel) = ([Steering::new(), Steering::new()], CancelToken::new());
        let shown = || Snapshot { bytes: 7, ..Snapshot::default() };
        let answer = answer_of_pipe(shown, steering.clone(), CongestionControl::Auto, cancel.clone());
        let is_paused = || match answer(Ask::Status) {
            Answer::Status(status) => (status.paused, status.bytes),
            other => panic!("{other:?}"),
        };
        assert_eq!((is_paused(), answer(Ask::Change("pause".to_owned()))), ((false, 7), Answer::Changed));
        assert!(is_paused().0 && steering.iter().all(Steering::is_paused));
        // An older program sends.
        steering[1].is_in_vain();
        assert!(
            matches!(answer(Ask::Change("resume".to_owned())), Answer::Refused(why) if why.contains("older"))
        );
        assert_eq!(answer(Ask::Change("cancel".to_owned())), Answer::Changed);
        assert!(cancel.is_cancelled());
    }
}
