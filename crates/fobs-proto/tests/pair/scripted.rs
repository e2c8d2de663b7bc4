//! Scenes with a script.

use crate::path::MS;
use crate::world::{End, Hosts, Setup, World};
use fobs_proto::congestion::Auto;

fn auto() -> Box<Auto> {
    Box::new(Auto::new(1200))
}

#[test]
fn one_byte_arrives() {
    let mut world = World::new(Setup::new(1, vec![1], auto()));
    assert_eq!(world.run(), End::Complete);
    assert_eq!(world.verified, Some(10 * MS));
}

#[test]
fn x() {
    let mut setup = Setup::new(1, vec![4 << 20; 4], auto());
    setup.hosts = Hosts::ordinary();
    let mut world = World::new(setup);
    assert_eq!(world.run(), End::Complete);
    println!("{}", world.describe());
}
