//! What limits a trial where what is injected need not: by controls, as in the simulator's cells.

use super::case::{Case, Drawn};
use super::matrix::Line;
use crate::sim::explain::{GAIN_MIN, TIE};

/// How often the link of a control is as wide.
const WIDER: f64 = 2.0;

/// With what a trial is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// The trial without its limit: its rate is recorded.
    Recorded,
    /// The trial without its limit, which is what limits where that gains enough. A faster copy is over
    /// before an outage, so a wider link proves nothing.
    Absence,
    /// That, and the trial over a wider link.
    Disturbance,
    /// That without what is beside it, and the same over a wider link, which the others would fill as well.
    Others,
}

impl Case {
    /// With what its trials are compared, if what limits them is not certain.
    pub fn compared(self) -> Option<Compared> {
        match self {
            Case::ReceiverBuffer => Some(Compared::Recorded),
            Case::Outage => Some(Compared::Absence),
            Case::Reordering | Case::NarrowWayBack => Some(Compared::Disturbance),
            Case::CubicFlows | Case::OnOffTraffic => Some(Compared::Others),
            _ => None,
        }
    }

    /// The same over a wider link.
    pub fn wider(self, drawn: &Drawn) -> Drawn {
        let drawn =
            if self.compared() == Some(Compared::Others) { drawn.undisturbed() } else { drawn.clone() };
        Drawn { rate_mbit: drawn.rate_mbit.map(|rate| WIDER * rate), ..drawn }
    }

    /// What `explain.limit` should say of a trial with its controls: what gains most, and what gains almost
    /// as much.
    pub fn expected_of(self, line: &Line) -> String {
        let (Some(own), Some(control)) = (line.goodput_bps, line.control_bps) else {
            return self.expected().to_owned();
        };
        let before = if self.compared() == Some(Compared::Others) { control } else { own };
        let wider = line.wider_bps.map(|wider| ("narrow_path", wider / before));
        let gains: Vec<(&str, f64)> = [(self.expected(), control / own)].into_iter().chain(wider).collect();
        let best = gains.iter().map(|(_, gain)| *gain).fold(0.0, f64::max);
        let right: Vec<&str> = gains
            .iter()
            .filter(|(_, gain)| *gain >= (TIE * best).max(GAIN_MIN))
            .map(|(name, _)| *name)
            .collect();
        // What costs nothing leaves the bottleneck.
        if right.is_empty() { "narrow_path".to_owned() } else { right.join("/") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gains_most_is_the_limit() {
        let line = |own: f64, control: f64, wider: f64| Line {
            goodput_bps: Some(own),
            control_bps: Some(control),
            wider_bps: Some(wider),
            ..Line::default()
        };
        let table = [
            (Case::Reordering, line(60.0, 140.0, 70.0), "reordering"),
            (Case::Reordering, line(110.0, 140.0, 200.0), "narrow_path"),
            (Case::Reordering, line(100.0, 140.0, 145.0), "reordering/narrow_path"),
            (Case::Outage, Line { wider_bps: None, ..line(60.0, 140.0, 0.0) }, "outage"),
            (Case::Outage, Line { wider_bps: None, ..line(139.0, 140.0, 0.0) }, "narrow_path"),
            // A wider link would be filled by the others as well: it counts without them.
            (Case::CubicFlows, line(30.0, 90.0, 170.0), "competing_traffic"),
            (Case::CubicFlows, line(70.0, 90.0, 170.0), "narrow_path"),
            (Case::CubicFlows, line(85.0, 90.0, 95.0), "narrow_path"),
        ];
        for (case, line, expected) in table {
            assert_eq!(case.expected_of(&line), expected, "{line:?}");
        }
    }

    #[test]
    fn a_wider_link_has_no_flows_beside_it() {
        let drawn =
            Drawn { rate_mbit: Some(100.0), flows: Some(3), outage_ms: Some(900), ..Drawn::default() };
        let wider = Case::CubicFlows.wider(&drawn);
        assert_eq!((wider.rate_mbit, wider.flows), (Some(200.0), None));
        assert_eq!(Case::Outage.wider(&drawn).outage_ms, Some(900));
    }
}
