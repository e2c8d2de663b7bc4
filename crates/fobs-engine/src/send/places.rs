//! What the sources have at a path, for a receiver that looks for directories which moved (protocol 7.8).

use crate::failure::unasked;
use crate::letters::Routed;
use crate::survey::violation;
use fobs_channel::control::ControlWriter;
use fobs_model::message::Message;
use fobs_store::SourcePlaces;
use fobs_store::survey::QUESTIONS_MAX;

/// Answers questions about paths.
pub(super) struct PlaceTeller {
    /// None where nothing is compared.
    places: Option<SourcePlaces>,
    writer: ControlWriter,
    asked: u32,
}

impl PlaceTeller {
    pub(super) fn new(places: Option<SourcePlaces>, writer: &ControlWriter) -> PlaceTeller {
        PlaceTeller { places, writer: writer.clone(), asked: 0 }
    }

    /// Answers a question.
    pub(super) fn tell(&mut self, path: &[u8]) -> Routed {
        let Some(places) = &self.places else { return Routed::Broken(unasked("questions about paths")) };
        self.asked += 1;
        if self.asked > QUESTIONS_MAX {
            return Routed::Broken(violation("it asks about more paths than may be"));
        }
        let Some(there) = places.has(path) else {
            return Routed::Broken(violation("it asks about a path that cannot be"));
        };
        // If the channel is broken the session ends anyway, with that error.
        match self.writer.post(&Message::PathThere { there }) {
            Ok(()) | Err(_) => Routed::Taken,
        }
    }
}
