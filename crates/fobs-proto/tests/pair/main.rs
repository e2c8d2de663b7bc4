//! The golden tables of `auto` and of the family, in a virtual world of their own until fobs-sim makes them.

#![allow(dead_code)]

mod auto;
mod controllers;
mod golden;
mod path;
mod rng;
mod world;
