//! Makes a record of a transfer's events.

use super::journal::{At, Journal, Measured};
use super::trace::{End, Head, Subject, Trace};
use fobs_model::event::{Event, Outcome};
use fobs_model::sample::{ReceiverSample, SenderSample};
use std::time::{Duration, Instant};

/// Records one transfer.
#[derive(Debug)]
pub struct Recorder {
    began: Instant,
    head: Head,
    journal: Journal,
    sessions: Sessions,
}

/// The connections of one transfer: the samples of each count from its beginning, and the record's go on.
#[derive(Debug, Default)]
struct Sessions {
    sender: Series<SenderSample>,
    receiver: Series<ReceiverSample>,
}

/// One end's samples.
#[derive(Debug, Default)]
struct Series<T> {
    /// The sum of the sessions before the present one.
    before: T,
    /// The newest sample, as it came.
    newest: T,
}

impl Sessions {
    fn add_up(&mut self, measured: Measured) -> Measured {
        match measured {
            Measured::Sender(sample) => {
                let of = &mut self.sender;
                if sample.is_anew(&of.newest) {
                    of.before = of.newest.after(&of.before);
                }
                of.newest = sample;
                Measured::Sender(of.newest.after(&of.before))
            }
            Measured::Receiver(sample) => {
                let of = &mut self.receiver;
                if sample.is_anew(&of.newest) {
                    of.before = of.newest.after(&of.before);
                }
                of.newest = sample;
                Measured::Receiver(of.newest.after(&of.before))
            }
            other => other,
        }
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder {
            began: Instant::now(),
            head: Head::default(),
            journal: Journal::new(),
            sessions: Sessions::default(),
        }
    }
}

impl Recorder {
    /// A recorder whose time begins now.
    pub fn new() -> Recorder {
        Recorder::default()
    }

    /// The record is of a copy of this.
    pub fn describe(&mut self, subject: Subject) {
        self.head.subject = subject;
    }

    /// Records an event, at the time of the call.
    pub fn record(&mut self, event: &Event) {
        let what = match event {
            Event::Started { control, transport, cipher, cc, .. } => {
                self.head = Head {
                    control: (*control).to_owned(),
                    transport: (*transport).to_owned(),
                    cipher: (*cipher).to_owned(),
                    cc: (*cc).to_owned(),
                    subject: std::mem::take(&mut self.head.subject),
                };
                return;
            }
            Event::Measured(measured) => self.sessions.add_up((**measured).clone()),
            // No other event measures anything.
            _ => return,
        };
        let at_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.journal.push(At { at_us, what });
    }

    /// Time since it was made.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The record so far, as if the transfer failed now.
    pub fn so_far(&self) -> Trace {
        let end = End::Failed { message: "it is not over".to_owned() };
        Trace { head: self.head.clone(), journal: self.journal.clone(), end }
    }

    /// The record of a transfer with this outcome.
    pub fn trace(&self, outcome: &Outcome) -> Trace {
        let end = match outcome {
            Ok(summary) => End::Done {
                bytes: summary.bytes,
                seconds: summary.seconds,
                packet_size: summary.packet_size,
                deadline_margin_s: summary.deadline_margin_s,
            },
            Err(error) => End::Failed { message: error.message.clone() },
        };
        Trace { head: self.head.clone(), journal: self.journal.clone(), end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(time_us: u64, packets_sent: u64, packets_lost: u64) -> Event {
        let sample =
            SenderSample { time_us, packets_sent, packets_lost, rtt_us: time_us, ..Default::default() };
        Event::Measured(Box::new(Measured::Sender(sample)))
    }

    fn receiver(time_us: u64, packets: u64) -> Event {
        let sample = ReceiverSample { time_us, packets, interface_drops: 9, ..Default::default() };
        Event::Measured(Box::new(Measured::Receiver(sample)))
    }

    #[test]
    fn a_record_keeps_what_is_copied_over_all_connections() {
        let names: Vec<String> = (0..20).map(|n| format!("{n}{}", "\u{7}".repeat(2000))).collect();
        let mut recorder = Recorder::new();
        recorder.describe(Subject::new(&names, "host:/data", "here", 1_800_000_000));
        for _ in 0..2 {
            recorder.record(&Event::Started {
                control: "ssh",
                key_exchange: None,
                walls: None,
                transport: "udp",
                cipher: "x",
                cc: "auto",
            });
        }
        let mut file = Vec::new();
        let trace = recorder.so_far();
        trace.write(&mut file).expect("a vector takes everything");
        let read = Trace::read(&file[..]).expect("its own record, on a line that is not too long");
        assert_eq!(read.head, trace.head);
        let Subject { sources, source_count, destination, .. } = read.head.subject;
        assert_eq!((sources.len(), source_count, &*destination), (8, 20, "host:/data"));
        let old = br#"{"record":"trace","v":1,"cc":"auto"}
{"record":"end","outcome":"failed","message":"x"}
"#;
        assert_eq!(Trace::read(&old[..]).expect("an older record").head.subject, Subject::default());
    }

    #[test]
    fn samples_of_several_connections_add_up() {
        let mut recorder = Recorder::new();
        for event in [
            sender(10, 100, 5),
            sender(20, 200, 6),
            receiver(25, 190),
            sender(5, 40, 0),
            receiver(6, 39),
            sender(15, 90, 1),
            // A connection that was over before the next one's first sample.
            sender(16, 3, 0),
        ] {
            recorder.record(&event);
        }
        let journal = recorder.so_far().journal;
        let sent: Vec<_> = journal
            .sender()
            .iter()
            .map(|at| (at.what.time_us, at.what.packets_sent, at.what.packets_lost, at.what.rtt_us))
            .collect();
        assert_eq!(
            sent,
            [(10, 100, 5, 10), (20, 200, 6, 20), (25, 240, 6, 5), (35, 290, 7, 15), (51, 293, 7, 16)]
        );
        let received: Vec<_> = journal
            .receiver()
            .iter()
            .map(|at| (at.what.time_us, at.what.packets, at.what.interface_drops))
            .collect();
        assert_eq!(received, [(25, 190, 9), (31, 229, 9)]);
    }
}
