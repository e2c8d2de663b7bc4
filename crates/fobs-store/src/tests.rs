//! Source and sink together, without a network between them.

mod alone;
mod apart;
mod beside;
mod bounds;
mod cuts;
mod deltas;
mod destinations;
mod faults;
mod hostile;
mod hostile_server;
mod inherited;
mod journals;
mod kept;
mod neighbour;
mod power;
mod privileges;
mod round_trip;
mod sources;
mod support;
mod syncs;
mod terms;
mod watched;
mod wire;
