//! Loss without a queue, as a policer or a very shallow buffer makes it.

use super::super::findings::Overload;
use super::super::params::Params;

/// Counts phases in a row with unexplained loss.
#[derive(Debug, Default)]
pub(crate) struct PolicerDetector {
    phases: u32,
}

impl PolicerDetector {
    /// Takes the end of a phase, and whether more was lost in it than chance explains.
    pub(crate) fn on_phase(&mut self, unexplained: bool, p: &Params) -> Overload {
        self.phases = if unexplained { self.phases + 1 } else { 0 };
        self.finding(p)
    }

    /// A drain begins: it shows anew what the path loses by itself.
    pub(crate) fn forget(&mut self) {
        self.phases = 0;
    }

    pub(crate) fn finding(&self, p: &Params) -> Overload {
        match self.phases {
            0 => Overload::None,
            n if n >= p.in_a_row => Overload::Persistent,
            _ => Overload::Suspected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_losses_in_consecutive_phases_persist() {
        let (mut policer, p) = (PolicerDetector::default(), Params::default());
        let seen = [true, false, true, true].map(|unexplained| policer.on_phase(unexplained, &p));
        assert_eq!(seen, [Overload::Suspected, Overload::None, Overload::Suspected, Overload::Persistent]);
    }
}
