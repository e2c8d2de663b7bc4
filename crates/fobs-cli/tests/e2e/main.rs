//! The `fobs` binary from outside: real processes, real sockets, real files.
//!
//! One integration-test binary. `case` gives every test its place, its deadline and its seed; `net` gives it
//! two hosts (network namespaces where root may make them, the loopback otherwise); `daemon`, `sshd` and
//! `remote` give it the other end; `files` makes content and compares trees. The remaining modules are the
//! tests, one theme each.

mod case;
mod daemon;
mod files;
mod middleman;
mod needs;
mod net;
mod packets;
mod process;
mod remote;
mod sshd;
mod sync_rows;
mod sync_said;
mod sync_trees;
mod sync_words;
mod sync_xattrs;

mod arguments;
mod changing;
mod coming_from;
mod completions;
mod copies;
mod crash;
mod doctor;
mod documents;
mod explain;
mod hostile;
mod hostile_rewrite;
mod hostile_servers;
mod hosts;
mod interrupts;
mod jobs;
mod jobs_page;
mod jobs_paths;
mod jobs_rooms;
mod jobs_system;
mod jobs_when;
mod keys;
mod lanes;
mod live;
mod logins;
mod memory;
mod neighbours;
mod options;
mod outages;
mod packaging;
mod pipe;
mod pipe_again;
mod pipe_faults;
mod pipe_names;
mod privileges;
mod refusals;
mod reports;
mod restricted;
mod resume;
mod rights;
mod serving;
mod session;
mod small_paths;
mod storage;
mod streams;
mod sync;
mod sync_attributes;
mod sync_codes;
mod sync_deltas;
mod sync_found;
mod sync_hosts;
mod sync_keeps;
mod sync_known;
mod sync_lines;
mod sync_links;
mod sync_named;
mod sync_names;
mod sync_options;
mod sync_places;
mod sync_public;
mod sync_sources;
mod systemd;
mod trees;
mod walls;
mod wire;
