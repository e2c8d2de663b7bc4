//! No circle among the rooms of a crate: of two rooms at most one names the other, directly or not.
//!
//! The children of a module, with all that is below each, are rooms; the module's own file is none of them.

use super::Finding;
use super::modules::{Crate, Module, crates};
use super::source::Tree;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The shortest circle among the children of each module of each crate.
pub fn check(tree: &Tree) -> Vec<Finding> {
    crates(tree).iter().flat_map(of_crate).collect()
}

/// The arrows between the children of one module, each with a pair of modules that makes it.
type Rooms<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a (Module, Module)>>;

fn of_crate(of: &Crate) -> Vec<Finding> {
    let mut floors: BTreeMap<&[String], Rooms> = BTreeMap::new();
    for pair in of.arrows.keys() {
        let (from, to) = pair;
        let shared = from.iter().zip(to).take_while(|(one, other)| one == other).count();
        if let (Some(room), Some(other)) = (from.get(shared), to.get(shared)) {
            floors.entry(&from[..shared]).or_default().entry(room).or_default().entry(other).or_insert(pair);
        }
    }
    let mut findings = Vec::new();
    for (parent, rooms) in &floors {
        let Some(circle) = shortest(rooms) else { continue };
        let (path, line) = &of.arrows[rooms[circle[0]][circle[1 % circle.len()]]];
        let place = if parent.is_empty() { "the crate".to_owned() } else { parent.join("::") };
        let mut names = circle.clone();
        names.push(circle[0]);
        let message = format!("a circle of rooms in {place}: {}; cut one of its arrows", names.join(" -> "));
        findings.push(Finding::new(path, *line, message));
    }
    findings
}

fn shortest<'a>(rooms: &Rooms<'a>) -> Option<Vec<&'a str>> {
    rooms.keys().filter_map(|room| from_here_to_here(rooms, room)).min_by_key(Vec::len)
}

/// The shortest way from a room back to it, without its end.
fn from_here_to_here<'a>(rooms: &Rooms<'a>, start: &'a str) -> Option<Vec<&'a str>> {
    let mut open = VecDeque::from([vec![start]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = open.pop_front() {
        for next in rooms.get(way[way.len() - 1]).into_iter().flat_map(|named| named.keys()) {
            if *next == start {
                return Some(way);
            }
            if seen.insert(*next) {
                open.push_back(way.iter().copied().chain([*next]).collect());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_found_wherever_it_is() {
        let found = |files: &[(&str, &str)]| {
            let mut all = vec![("crates/a/src/lib.rs", "mod one; mod two; mod three; pub use three::Thing;")];
            all.extend_from_slice(files);
            check(&Tree::of(&all)).into_iter().map(|finding| finding.message).collect::<Vec<_>>()
        };
        let one = ("crates/a/src/one.rs", "use crate::two::X;");
        let two = ("crates/a/src/two/mod.rs", "pub(crate) use deep::X; mod deep;");
        let three = ("crates/a/src/three.rs", "use crate::one::Y; pub struct Thing;");
        let deep = |text| ("crates/a/src/two/deep.rs", text);
        assert_eq!(found(&[one, two, three, deep("struct X;")]), [""; 0]);
        // Through a name that the root hands on, and through a test: the second counts for nothing.
        let circle = found(&[one, two, three, deep("use crate::Thing; pub struct X;")]);
        assert_eq!(
            circle,
            ["a circle of rooms in the crate: one -> two -> three -> one; cut one of its arrows"]
        );
        assert_eq!(found(&[one, two, three, deep("#[cfg(test)] mod tests { use crate::Thing; }")]), [""; 0]);
        // Below a folder, by relative paths.
        let up = ("crates/a/src/two/up.rs", "use super::deep::X;");
        let circle = found(&[two, deep("fn f() { super::up::g() }"), up]);
        assert_eq!(circle, ["a circle of rooms in two: deep -> up -> deep; cut one of its arrows"]);
    }
}
