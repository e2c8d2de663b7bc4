//! Source and sink together, without a network between them.

mod destinations;
mod hostile;
mod round_trip;
mod sources;
mod support;
mod wire;
