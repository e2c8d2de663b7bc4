//! Where on this machine a host's programs may run: not where the emulator does, if it can be helped.
//!
//! The emulator has a processor of its own ([`realtime`](crate::link::realtime)). What sends is kept away
//! from it: to lose the processor for 20 us at every tick is not what networks do to senders. What receives
//! waits for packets that the emulator writes, and may run beside it where there are only two processors. All
//! tools are placed alike.

use crate::link::realtime::{own, processors};
use crate::plan::LoadSpec;
use crate::tool::Side;

/// The processors of a run.
pub struct Places<'a> {
    all: Vec<usize>,
    load: Option<&'a LoadSpec>,
}

impl<'a> Places<'a> {
    /// Those that this process may use, one of them perhaps under load.
    pub fn new(load: Option<&'a LoadSpec>) -> Places<'a> {
        Places { all: processors(), load }
    }

    /// Where the host's programs may run; nowhere in particular if empty.
    pub fn of(&self, host: &str, side: Side) -> Vec<usize> {
        let loaded = self.load.map(|load| load.cpu);
        if self.load.is_some_and(|load| load.host == host) {
            return loaded.into_iter().collect();
        }
        let quiet = without(&self.all, loaded);
        let apart = without(&quiet, own(&self.all));
        let enough = match side {
            Side::Sender => 1,
            Side::Receiver => 2,
        };
        if apart.len() >= enough { apart } else { quiet }
    }
}

fn without(processors: &[usize], one: Option<usize>) -> Vec<usize> {
    processors.iter().copied().filter(|cpu| Some(*cpu) != one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(all: &[usize], load: Option<&LoadSpec>, host: &str, side: Side) -> Vec<usize> {
        Places { all: all.to_vec(), load }.of(host, side)
    }

    #[test]
    fn senders_keep_away_from_the_emulator_and_receivers_where_there_is_room() {
        for (all, source, sink) in [
            (vec![0], vec![0], vec![0]),
            (vec![0, 1], vec![0], vec![0, 1]),
            (vec![0, 1, 2], vec![0, 1], vec![0, 1]),
            (vec![2, 4, 6, 7], vec![2, 4, 6], vec![2, 4, 6]),
        ] {
            assert_eq!(of(&all, None, "a", Side::Sender), source, "{all:?}");
            assert_eq!(of(&all, None, "b", Side::Receiver), sink, "{all:?}");
        }
    }

    #[test]
    fn a_host_under_load_has_the_loaded_processor_and_the_others_keep_away() {
        let load = LoadSpec { host: "b".to_owned(), cpu: 0, periods: Vec::new() };
        let of = |all: &[usize], host, side| of(all, Some(&load), host, side);
        assert_eq!(of(&[0, 1], "b", Side::Receiver), [0]);
        assert_eq!(of(&[0, 1], "a", Side::Sender), [1]);
        assert_eq!(of(&[0, 1, 2, 3], "a", Side::Sender), [1, 2]);
        assert!(of(&[0], "a", Side::Sender).is_empty());
    }
}
