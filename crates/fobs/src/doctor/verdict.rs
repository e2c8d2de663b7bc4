//! What will limit a transfer, and the whole diagnosis as text.

use super::facts::{Examination, PathFacts, PathOutcome};
use super::findings::{Finding, Known, Mend, Spot, Subject, findings};
use fobs_explain::{FASTER_DESTINATION, FASTER_SOURCE};
use fobs_model::error::ErrorKind;
use fobs_model::words::rate;
use serde::Serialize;

/// A key's limit of up to this multiple of what the path carried is what held it back.
const KEY_NEAR: f64 = 1.15;
/// Columns of a finding's name.
const NAME_COLUMNS: usize = 15;

/// What was found, and what follows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// Everything that was found, in order.
    pub findings: Vec<Finding>,
    /// What limits a transfer to the other end, or sending from here where no other end was examined; `None`
    /// if nothing was measured.
    pub forth: Option<Bottleneck>,
    /// What limits a transfer from the other end, or receiving here.
    pub back: Option<Bottleneck>,
    /// Both in one line.
    pub verdict: String,
    /// What is fine, what limits and what to type, in a line each: the last ones of the text.
    pub summary: [String; 3],
    /// Why no transfer is possible at all; `None` if one is.
    #[serde(serialize_with = "code")]
    pub failure: Option<ErrorKind>,
    /// The other end's name.
    #[serde(skip)]
    peer: Option<String>,
}

fn code<S: serde::Serializer>(kind: &Option<ErrorKind>, to: S) -> Result<S::Ok, S::Error> {
    kind.map(ErrorKind::code).serialize(to)
}

/// The narrowest part of the way of a byte.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bottleneck {
    /// The rate that it allows, bits per second.
    pub bps: f64,
    /// Where it is.
    pub spot: Spot,
    /// What it is.
    pub subject: Subject,
    /// What mends it, with the rate that the next narrowest part allows; `None` if nothing is known to.
    pub mend: Option<Mend>,
}

/// What will limit a transfer: a pure function of the facts.
pub fn diagnose(facts: &Examination) -> Diagnosis {
    let findings = findings(facts);
    let peer = facts.there.as_ref();
    let proven = facts.proven_bps();
    let forth = [Spot::Here, Spot::Forth, Spot::There];
    let forth = bottleneck(&findings, forth, peer.map(|peer| &peer.there), proven);
    let back = |tried| bottleneck(&findings, [Spot::There, Spot::Back, Spot::Here], tried, proven);
    let back = match peer {
        // Nothing came back: that is said once.
        Some(peer) if peer.back.is_none() => None,
        Some(peer) => back(peer.back.as_ref()),
        None => back(None),
    };
    let failure = peer.and_then(|peer| match &peer.there.outcome {
        PathOutcome::Carried(_) => None,
        PathOutcome::Blocked { .. } => Some(ErrorKind::Connect),
        PathOutcome::Failed { kind, .. } => Some(*kind),
    });
    let name = peer.map(|peer| peer.name.clone());
    let verdict = verdict(forth.as_ref(), back.as_ref(), name.as_deref(), failure);
    let diagnosis =
        Diagnosis { findings, forth, back, verdict, summary: Default::default(), failure, peer: name };
    Diagnosis { summary: diagnosis.summed_up(), ..diagnosis }
}

/// The narrowest part of the way from `sender` over `path` to `receiver`.
fn bottleneck(
    findings: &[Finding],
    [sender, path, receiver]: [Spot; 3],
    tried: Option<&PathFacts>,
    proven: Option<f64>,
) -> Option<Bottleneck> {
    // What was carried without a drop fits the buffer of a receiver that is as busy as it was then.
    let spared = tried.and_then(PathFacts::carried).is_some_and(|carried| carried.socket_drops == 0);
    let bound = |finding: &Finding| match finding.spot {
        spot if spot == sender || spot == path => finding.sends_bps,
        spot if spot == receiver && finding.subject == Subject::SocketBuffers && spared => None,
        spot if spot == receiver => finding.receives_bps,
        _ => None,
    };
    let mut bounds: Vec<(f64, &Finding)> =
        findings.iter().filter_map(|finding| Some((bound(finding)?, finding))).collect();
    // Of equal bounds that of the path is named, which shows what both ends handle.
    let is_own = |finding: &Finding| finding.subject == Subject::Packets;
    bounds.sort_by(|one, other| one.0.total_cmp(&other.0).then(is_own(one.1).cmp(&is_own(other.1))));
    let &(mut bps, mut narrowest) = bounds.first()?;
    // The path was tried under the key's own limit, and carried a little less.
    let of_key = |bound: &&(f64, &Finding)| bound.1.subject == Subject::Key && bound.0 <= bps * KEY_NEAR;
    if let Some(&(limit, key)) = bounds.iter().find(of_key) {
        (bps, narrowest) = (limit, key);
    }
    let next = bounds.iter().find(|(_, other)| other.subject != narrowest.subject).map(|(bps, _)| *bps);
    let mend = match narrowest.subject {
        Subject::Disk => {
            let action = if narrowest.spot == receiver { FASTER_DESTINATION } else { FASTER_SOURCE };
            Some(Mend { action: action.to_owned(), predicted_bps: next })
        }
        _ => narrowest.mend.clone().map(|mend| Mend {
            predicted_bps: match (mend.predicted_bps, next) {
                (Some(predicted), Some(next)) => Some(predicted.min(next)),
                (predicted, _) => predicted,
            },
            ..mend
        }),
    };
    let mend = mend.map(|mend| mend.within(proven, bps));
    Some(Bottleneck { bps, spot: narrowest.spot, subject: narrowest.subject, mend })
}

fn verdict(
    forth: Option<&Bottleneck>,
    back: Option<&Bottleneck>,
    peer: Option<&str>,
    failure: Option<ErrorKind>,
) -> String {
    if let (Some(_), Some(name)) = (failure, peer) {
        let mend = forth.and_then(|forth| forth.mend.as_ref());
        let mend = mend.map_or_else(String::new, |mend| format!("; what would help: {}", mend.action));
        return format!("UDP carries no data between here and {name}, so copies go over TCP{mend}");
    }
    let (to, from) = match peer {
        Some(name) => (format!("a copy to {name}"), format!("a copy from {name}")),
        None => ("sending from here".to_owned(), "receiving here".to_owned()),
    };
    let parts = [(to, forth), (from, back)];
    let parts = parts.iter().filter_map(|(what, limit)| Some(part(what, (*limit)?))).collect::<Vec<_>>();
    parts.join("; ")
}

fn part(what: &str, limit: &Bottleneck) -> String {
    let mend = match &limit.mend {
        None => String::new(),
        Some(Mend { action, predicted_bps: None }) => format!(" (what would help: {action})"),
        Some(Mend { action, predicted_bps: Some(bps) }) => {
            format!(" (what would help: {action}; predicted: up to {})", rate(*bps))
        }
    };
    if limit.is_refused() {
        format!("{what} is not allowed with this key")
    } else {
        format!("{what} is limited to about {} by {}{mend}", rate(limit.bps), limit.what())
    }
}

impl Bottleneck {
    /// Whether the key does not allow the direction at all.
    fn is_refused(&self) -> bool {
        self.subject == Subject::Key && self.bps == 0.0
    }

    /// What it is, in a few words.
    fn what(&self) -> String {
        let place = match self.spot {
            Spot::Here => " here",
            Spot::There => " there",
            Spot::Forth | Spot::Back => "",
        };
        match self.subject {
            Subject::Udp => "what the path between the hosts carries".to_owned(),
            Subject::Key => "what this client's key is allowed".to_owned(),
            Subject::Packets => format!("the packets that the CPUs handle{place}"),
            subject => format!("the {}{place}", subject.name()),
        }
    }
}

impl Diagnosis {
    /// Everything for a person, in lines; the last three say what is fine, what limits and what to type.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut last = None;
        for finding in &self.findings {
            if last != Some(finding.spot) {
                last = Some(finding.spot);
                text += &format!("{}:\n", self.heading(finding.spot));
            }
            text += &format!("  {:NAME_COLUMNS$} {}\n", finding.subject.name(), finding.text);
            if let Some(allowed) = allowed(finding) {
                text += &format!("  {:NAME_COLUMNS$}   {allowed}\n", "");
            }
            if let Some(Mend { action, predicted_bps }) = &finding.mend {
                let gain =
                    predicted_bps.map_or_else(String::new, |bps| format!("; predicted: up to {}", rate(bps)));
                text += &format!("  {:NAME_COLUMNS$}   what would help: {action}{gain}\n", "");
            }
        }
        text + "\n" + &self.summary.join("\n") + "\n"
    }

    /// What is fine, what limits, and what to type.
    fn summed_up(&self) -> [String; 3] {
        let limits = || self.forth.iter().chain(&self.back);
        let (mut fine, mut unknown): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
        for subject in self.findings.iter().map(|finding| finding.subject) {
            let of_it = || self.findings.iter().filter(|finding| finding.subject == subject);
            let is_limit = limits().any(|limit| limit.subject == subject);
            let kind = if of_it().any(|finding| finding.known == Known::Unknown) {
                &mut unknown
            } else if is_limit || of_it().any(|finding| finding.mend.is_some()) {
                continue;
            } else {
                &mut fine
            };
            if !kind.contains(&subject.name()) {
                kind.push(subject.name());
            }
        }
        let mut fine = if fine.is_empty() { "nothing that was measured".to_owned() } else { fine.join(", ") };
        if !unknown.is_empty() {
            fine += &format!("; not measured: {}", unknown.join(", "));
        }
        [
            format!("[+] fine:   {fine}"),
            format!("[!] limits: {}", self.limits()),
            format!("[>] type:   {}", self.to_type()),
        ]
    }

    fn limits(&self) -> String {
        let (to, from) = match (&self.peer, self.failure) {
            (Some(name), Some(_)) => {
                return format!("UDP carries no data between here and {name}, so copies go over TCP");
            }
            (Some(name), None) => (format!("to {name}"), format!("from {name}")),
            (None, _) => ("sending".to_owned(), "receiving".to_owned()),
        };
        let said = |way: &str, limit: &Bottleneck| {
            if limit.is_refused() {
                format!("{way} nothing: this key does not allow it")
            } else {
                format!("{way} about {}, {}", rate(limit.bps), limit.what())
            }
        };
        let all = [(to, &self.forth), (from, &self.back)];
        let all: Vec<String> =
            all.iter().filter_map(|(way, limit)| Some(said(way, limit.as_ref()?))).collect();
        if all.is_empty() { "nothing was measured".to_owned() } else { all.join("; ") }
    }

    fn to_type(&self) -> String {
        let shown = |mend: &Mend| match mend.predicted_bps {
            Some(bps) => format!("{} (up to {})", mend.action, rate(bps)),
            None => mend.action.clone(),
        };
        let mut acts: Vec<String> = Vec::new();
        for mend in self.forth.iter().chain(&self.back).filter_map(|limit| limit.mend.as_ref()) {
            if !acts.iter().any(|act| act.starts_with(&mend.action)) {
                acts.push(shown(mend));
            }
        }
        if !acts.is_empty() {
            return acts.join("; ");
        }
        match self.findings.iter().find_map(|finding| finding.mend.as_ref()) {
            Some(mend) => format!("nothing for these limits; for faster hosts and paths: {}", mend.action),
            None => "nothing: no setting makes it faster".to_owned(),
        }
    }

    fn heading(&self, spot: Spot) -> String {
        let name = self.peer.as_deref().unwrap_or("the other host");
        match spot {
            Spot::Here => "This host".to_owned(),
            Spot::There => format!("Host {name}"),
            Spot::Forth => format!("Path to {name}"),
            Spot::Back => format!("Path from {name}"),
        }
    }
}

/// What a finding allows, in words.
fn allowed(finding: &Finding) -> Option<String> {
    match (finding.subject, finding.sends_bps, finding.receives_bps) {
        (Subject::Udp, ..) => None,
        (Subject::SocketBuffers, _, Some(bps)) => {
            Some(format!("holds what arrives in 10 ms, the pause of a busy receiver, at up to {}", rate(bps)))
        }
        (_, Some(sends), Some(receives)) if sends == receives => Some(format!("limits to {}", rate(sends))),
        (_, Some(sends), Some(receives)) => {
            Some(format!("limits sending to {}, receiving to {}", rate(sends), rate(receives)))
        }
        (_, Some(sends), None) => Some(format!("limits sending to {}", rate(sends))),
        (_, None, Some(receives)) => Some(format!("limits receiving to {}", rate(receives))),
        (_, None, None) => None,
    }
}
