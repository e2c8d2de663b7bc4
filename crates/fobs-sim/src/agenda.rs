//! The next event of each actor of the world, in a binary heap that knows the place of each slot. An actor
//! may move its event but has only one, so the agenda is never longer than the list of actors.

use crate::time::Nanos;

/// An actor's place in the agenda.
pub(crate) type Slot = u32;

const ABSENT: u32 = u32::MAX;

/// The next moment of every actor. Ties go to the lower slot: the order of events is part of a world.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    at: Vec<Nanos>,
    place: Vec<u32>,
    heap: Vec<Slot>,
}

impl Agenda {
    /// A slot for another actor, with nothing to do.
    pub(crate) fn add(&mut self) -> Slot {
        self.at.push(Nanos::MAX);
        self.place.push(ABSENT);
        (self.at.len() - 1) as Slot
    }

    /// The actor's next moment; `None` for nothing to do.
    pub(crate) fn set(&mut self, slot: Slot, at: Option<Nanos>) {
        let place = self.place[slot as usize];
        match at {
            None if place == ABSENT => {}
            None => self.remove(place as usize),
            Some(at) if place == ABSENT => {
                self.at[slot as usize] = at;
                self.place[slot as usize] = self.heap.len() as u32;
                self.heap.push(slot);
                self.rise(self.heap.len() - 1);
            }
            Some(at) => {
                let earlier = at < self.at[slot as usize];
                self.at[slot as usize] = at;
                if earlier { self.rise(place as usize) } else { self.sink(place as usize) }
            }
        }
    }

    /// Brings the actor's next moment forward, if it is later than `at` or there is none.
    pub(crate) fn hasten(&mut self, slot: Slot, at: Nanos) {
        if self.next_of(slot).is_none_or(|next| at < next) {
            self.set(slot, Some(at));
        }
    }

    /// When the actor is next due.
    pub(crate) fn next_of(&self, slot: Slot) -> Option<Nanos> {
        (self.place[slot as usize] != ABSENT).then(|| self.at[slot as usize])
    }

    /// Takes the earliest moment off the agenda.
    pub(crate) fn pop(&mut self) -> Option<(Nanos, Slot)> {
        let slot = *self.heap.first()?;
        self.remove(0);
        Some((self.at[slot as usize], slot))
    }

    /// The earliest moment.
    pub(crate) fn peek(&self) -> Option<Nanos> {
        self.heap.first().map(|slot| self.at[*slot as usize])
    }

    fn remove(&mut self, place: usize) {
        let slot = self.heap.swap_remove(place);
        self.place[slot as usize] = ABSENT;
        if let Some(moved) = self.heap.get(place).copied() {
            self.place[moved as usize] = place as u32;
            self.rise(place);
            self.sink(self.place[moved as usize] as usize);
        }
    }

    fn before(&self, a: Slot, b: Slot) -> bool {
        (self.at[a as usize], a) < (self.at[b as usize], b)
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if !self.before(self.heap[place], self.heap[parent]) {
                break;
            }
            self.swap(place, parent);
            place = parent;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let mut least = place;
            for child in [left, right] {
                if child < self.heap.len() && self.before(self.heap[child], self.heap[least]) {
                    least = child;
                }
            }
            if least == place {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.place[self.heap[a] as usize] = a as u32;
        self.place[self.heap[b] as usize] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn behaves_as_an_ordered_set() {
        let mut rng = Rng::new(7);
        let mut agenda = Agenda::default();
        let mut model: BTreeSet<(Nanos, Slot)> = BTreeSet::new();
        let slots: Vec<Slot> = (0..20).map(|_| agenda.add()).collect();
        for _ in 0..20_000 {
            let slot = rng.pick(&slots);
            let old = agenda.next_of(slot);
            match rng.range(0, 3) {
                0 => {
                    agenda.set(slot, None);
                    model.retain(|(_, s)| *s != slot);
                }
                1 => assert_eq!(agenda.pop(), model.pop_first()),
                2 => {
                    let at = rng.range(0, 50);
                    agenda.hasten(slot, at);
                    let wanted = old.map_or(at, |old| old.min(at));
                    model.retain(|(_, s)| *s != slot);
                    model.insert((wanted, slot));
                }
                _ => {
                    let at = rng.range(0, 50);
                    agenda.set(slot, Some(at));
                    model.retain(|(_, s)| *s != slot);
                    model.insert((at, slot));
                }
            }
            assert_eq!(agenda.peek(), model.first().map(|(at, _)| *at));
            assert_eq!(agenda.heap.len(), model.len());
        }
    }
}
