//! Which room may import what: the arrows of ARCHITECTURE.md.
//!
//! Cargo's graph keeps crates apart (`graph.rs`); this keeps rooms inside a crate apart.

use super::Finding;
use super::source::{File, Tree};
use std::path::Path;
use syn::visit::{self, Visit};

/// A folder and the paths that its production code must not name.
struct Room {
    folder: &'static str,
    forbidden: &'static [&'static str],
    reason: &'static str,
}

/// A folder that may name what its room must not.
struct Exemption {
    folder: &'static str,
    allowed: &'static str,
    #[expect(dead_code, reason = "for readers")]
    reason: &'static str,
}

const EXEMPTIONS: &[Exemption] = &[Exemption {
    folder: "crates/fobs-store/src/journal",
    allowed: "std::thread",
    reason: "a thread of its own has the device keep data, so that storing never waits; a lock is tried again",
}];

/// Every rule. A path stands for itself and all that is below it.
const ROOMS: &[Room] = &[
    Room {
        folder: "crates/fobs-proto/src",
        forbidden: &[
            "std::net",
            "std::fs",
            "std::io",
            "std::thread",
            "std::process",
            "std::env",
            "std::time::Instant",
            "std::time::SystemTime",
        ],
        reason: "the core is sans-I/O: time, packets and randomness come in as arguments",
    },
    Room {
        folder: "crates/fobs-proto/src/object",
        forbidden: &[
            "crate::wire",
            "crate::sender",
            "crate::receiver",
            "crate::session",
            "crate::recovery",
            "crate::congestion",
            "crate::loss_cause",
            "crate::Timestamp",
        ],
        reason: "object/ is index arithmetic; it knows no time and no machine",
    },
    Room {
        folder: "crates/fobs-proto/src/wire",
        forbidden: &[
            "crate::sender",
            "crate::receiver",
            "crate::session",
            "crate::recovery",
            "crate::congestion",
            "crate::loss_cause",
        ],
        reason: "wire/ turns bytes into checked views and back; it decides nothing",
    },
    Room {
        folder: "crates/fobs-proto/src/recovery",
        forbidden: &[
            "crate::wire",
            "crate::sender",
            "crate::receiver",
            "crate::session",
            "crate::congestion",
        ],
        reason: "recovery/ measures the path; machines and controllers consume what it finds",
    },
    Room {
        folder: "crates/fobs-proto/src/congestion",
        forbidden: &[
            "crate::wire",
            "crate::object",
            "crate::receiver",
            "crate::session",
            "crate::loss_cause",
        ],
        reason: "a controller sees samples and episodes, never a bitmap, a header or a verdict's making",
    },
    Room {
        folder: "crates/fobs-proto/src/loss_cause",
        forbidden: &[
            "crate::Rate",
            "crate::units",
            "crate::wire",
            "crate::sender",
            "crate::receiver",
            "crate::session",
            "crate::congestion",
            "crate::pacing",
        ],
        reason: "the classifier sees which packets were lost, never a rate or a window",
    },
    Room {
        folder: "crates/fobs-proto/src/receiver",
        forbidden: &["crate::sender", "crate::congestion", "crate::pacing"],
        reason: "sender and receiver are two machines; what they share lies in object/, wire/ or session/",
    },
    Room {
        folder: "crates/fobs-sim/src",
        forbidden: &["std::net", "std::thread", "std::time::Instant", "std::time::SystemTime"],
        reason: "the simulator has virtual time only",
    },
    Room {
        folder: "crates/fobs-model/src",
        forbidden: &["std::fs", "std::net::TcpStream", "std::net::UdpSocket", "std::process", "std::thread"],
        reason: "the model is data: it opens nothing and starts nothing",
    },
    Room {
        folder: "crates/fobs-filter/src",
        forbidden: &["std::fs", "std::net", "std::thread", "rustix"],
        reason: "a filter judges names; it opens no file",
    },
    Room {
        folder: "crates/fobs-store/src",
        forbidden: &["std::net", "std::thread"],
        reason: "storing knows no packet, session or thread",
    },
    Room {
        folder: "crates/fobs-channel/src/secure",
        forbidden: &["std::net", "std::thread"],
        reason: "secure/ knows no socket and no session",
    },
    Room {
        folder: "crates/fobs-model/src/rights",
        forbidden: &["rustix", "std::fs", "std::io", "std::net", "std::thread"],
        reason: "rights/ judges what a request says; it looks nothing up",
    },
    Room {
        folder: "crates/fobs-explain/src",
        forbidden: &["std::fs", "std::net", "std::thread"],
        reason: "an explanation is a pure function of a record",
    },
];

/// What is imported where it must not be.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, syntax) in tree.rust().filter(|(file, _)| !is_test(file)) {
        let rooms: Vec<&Room> = ROOMS.iter().filter(|room| file.path.starts_with(room.folder)).collect();
        if rooms.is_empty() {
            continue;
        }
        let mut paths = Paths::default();
        paths.visit_file(syntax);
        for (path, line) in paths.found {
            let exempt =
                |folder: &Exemption| file.path.starts_with(folder.folder) && is_below(&path, folder.allowed);
            if EXEMPTIONS.iter().any(exempt) {
                continue;
            }
            for room in &rooms {
                if let Some(forbidden) = room.forbidden.iter().find(|forbidden| is_below(&path, forbidden)) {
                    let message = format!("`{forbidden}` is not for {}: {}", room.folder, room.reason);
                    findings.push(Finding::new(&file.path, line, message));
                }
            }
        }
    }
    findings.dedup();
    findings
}

/// Tests may drive a room with anything.
pub(super) fn is_test(file: &File) -> bool {
    let in_folder = file.path.components().any(|part| part.as_os_str() == "tests");
    in_folder || file.path.file_name().is_some_and(|name| Path::new(name) == Path::new("tests.rs"))
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// All paths that production code names, with their lines.
#[derive(Default)]
pub(super) struct Paths {
    pub(super) found: Vec<(String, usize)>,
}

impl Paths {
    fn take_use(&mut self, tree: &syn::UseTree, before: &str) {
        let join = |name: &syn::Ident| match before {
            "" => name.to_string(),
            _ => format!("{before}::{name}"),
        };
        match tree {
            syn::UseTree::Path(path) => self.take_use(&path.tree, &join(&path.ident)),
            syn::UseTree::Name(name) => self.found.push((join(&name.ident), name.ident.span().start().line)),
            syn::UseTree::Rename(name) => {
                self.found.push((join(&name.ident), name.ident.span().start().line))
            }
            syn::UseTree::Glob(glob) => {
                self.found.push((before.to_owned(), glob.star_token.spans[0].start().line));
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.take_use(item, before)),
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let tests = module.attrs.iter().any(|attribute| {
            attribute.path().is_ident("cfg")
                && matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string() == "test")
        });
        if !tests {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.take_use(&item.tree, "");
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let Some(first) = path.segments.first() {
            let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.found.push((names.join("::"), first.ident.span().start().line));
        }
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn imports_and_paths_across_a_wall_are_found() {
        let table = [
            ("crates/fobs-proto/src/object/a.rs", "use crate::wire::Ack;", 1),
            ("crates/fobs-proto/src/object/a.rs", "use crate::{ChunkId, wire::{Ack, Header}};", 1),
            ("crates/fobs-proto/src/object/a.rs", "use crate::wire_like::X;", 0),
            ("crates/fobs-proto/src/object/a.rs", "fn f() { crate::sender::g() }", 1),
            ("crates/fobs-proto/src/object/a.rs", "#[cfg(test)] mod tests { use crate::wire::Ack; }", 0),
            ("crates/fobs-proto/src/object/tests.rs", "use crate::wire::Ack;", 0),
            ("crates/fobs-proto/src/a.rs", "fn f() -> std::time::Instant { std::time::Instant::now() }", 1),
            ("crates/fobs-proto/src/a.rs", "use std::time::Duration;", 0),
            ("crates/fobs-engine/src/a.rs", "use std::net::UdpSocket;", 0),
            ("crates/fobs-store/src/a.rs", "use std::thread::{self, Builder};", 1),
        ];
        for (path, text, expected) in table {
            assert_eq!(findings(path, text), expected, "{path}: {text}");
        }
    }
}
