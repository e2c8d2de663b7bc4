//! Hosts, routers and links, and the shortest route between two hosts.

use crate::link::LinkConfig;
use std::collections::{HashMap, VecDeque};

/// A link between two nodes of the topology, one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Edge {
    /// Node it leaves.
    pub from: String,
    /// Node it leads to.
    pub to: String,
    /// The link itself.
    pub link: LinkConfig,
}

impl Edge {
    /// A link from one node to another.
    pub fn new(from: &str, to: &str, link: LinkConfig) -> Edge {
        Edge { from: from.to_owned(), to: to.to_owned(), link }
    }
}

/// The route with the fewest links; among equals the one whose links come first in the list. `None` if there
/// is no route.
pub fn route(edges: &[Edge], from: &str, to: &str) -> Option<Vec<usize>> {
    let mut came_by: HashMap<&str, usize> = HashMap::new();
    let mut frontier = VecDeque::from([from]);
    while let Some(node) = frontier.pop_front() {
        if node == to {
            break;
        }
        for (id, edge) in edges.iter().enumerate().filter(|(_, edge)| edge.from == node) {
            if edge.to != from && !came_by.contains_key(edge.to.as_str()) {
                came_by.insert(&edge.to, id);
                frontier.push_back(&edge.to);
            }
        }
    }
    let mut route = Vec::new();
    let mut node = to;
    while node != from {
        let id = *came_by.get(node)?;
        route.push(id);
        node = &edges[id].from;
    }
    route.reverse();
    Some(route)
}

/// A route through given nodes; `None` if two of them are not neighbours.
pub fn route_through(edges: &[Edge], nodes: &[String]) -> Option<Vec<usize>> {
    let step = |pair: &[String]| edges.iter().position(|edge| edge.from == pair[0] && edge.to == pair[1]);
    nodes.windows(2).map(step).collect()
}

/// Pairs of hosts `s0 -> r0`, ... around one bottleneck: senders `s<i>`, receivers `r<i>`, routers `left` and
/// `right`.
#[derive(Debug, Clone)]
pub struct Dumbbell {
    /// Pairs.
    pub pairs: usize,
    /// Rate of the hosts' own interfaces, bits per second; they push back where they are the narrow place.
    pub interface_rate: u64,
    /// The link in the middle, data direction.
    pub bottleneck: LinkConfig,
    /// What the acks cross in the middle.
    pub back: LinkConfig,
}

impl Dumbbell {
    /// The links. The bottleneck is `links[0]`, the way back `links[1]`.
    pub fn edges(&self) -> Vec<Edge> {
        /// An interface's own queue: as long as a Linux transmit queue of 1000 full packets.
        const INTERFACE_QUEUE: u64 = 1_500_000;
        let mut edges = vec![
            Edge::new("left", "right", self.bottleneck.clone()),
            Edge::new("right", "left", self.back.clone()),
        ];
        for i in 0..self.pairs {
            let interface = |name: &str| LinkConfig::new(name, self.interface_rate, 0, INTERFACE_QUEUE);
            let (sender, receiver) = (format!("s{i}"), format!("r{i}"));
            edges.push(Edge::new(&sender, "left", interface(&format!("s{i}-left"))));
            edges.push(Edge::new("left", &sender, LinkConfig::wire(&format!("left-s{i}"), 0)));
            edges.push(Edge::new("right", &receiver, LinkConfig::wire(&format!("right-r{i}"), 0)));
            edges.push(Edge::new(&receiver, "right", interface(&format!("r{i}-right"))));
        }
        edges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: &str, to: &str) -> Edge {
        Edge::new(from, to, LinkConfig::wire(&format!("{from}-{to}"), 0))
    }

    #[test]
    fn the_shortest_route_is_taken() {
        let edges =
            [edge("a", "b"), edge("b", "c"), edge("c", "d"), edge("a", "x"), edge("x", "d"), edge("d", "a")];
        assert_eq!(route(&edges, "a", "d"), Some(vec![3, 4]));
        assert_eq!(route(&edges, "b", "x"), Some(vec![1, 2, 5, 3]));
        assert_eq!(route(&edges, "a", "nowhere"), None);
        let names = |list: &[&str]| list.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        assert_eq!(route_through(&edges, &names(&["a", "b", "c", "d"])), Some(vec![0, 1, 2]));
        assert_eq!(route_through(&edges, &names(&["a", "c"])), None);
    }
}
