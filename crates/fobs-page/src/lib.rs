//! What pages are drawn with: one style sheet for light and dark, and charts as SVG, without scripts and
//! without anything from the network.
//!
//! [`figures`] are the words for quantities, on pages and terminals. The explanation's page and that of jobs
//! are written by their own crates, with this. It knows nothing of what is measured.

#![forbid(unsafe_code)]

mod chart;
pub mod figures;

use maud::{Markup, html};

pub use chart::{Chart, Curve, Unit};

/// The style sheet of every page.
pub const STYLE: &str = include_str!("page.css");

/// A drawing's size: each is drawn twice, and the style sheet shows the one that fits the window. One drawing
/// that is only scaled has letters too small to read on a telephone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Of a window of a screen.
    Wide,
    /// Of a telephone.
    Narrow,
}

impl Size {
    /// Both.
    pub const ALL: &[Size] = &[Size::Wide, Size::Narrow];

    /// Width, SVG units: about the pixels that there are.
    pub fn width(self) -> f64 {
        match self {
            Size::Wide => 860.0,
            Size::Narrow => 360.0,
        }
    }

    /// Its name in the style sheet.
    pub fn class(self) -> &'static str {
        match self {
            Size::Wide => "wide",
            Size::Narrow => "narrow",
        }
    }
}

/// A colour of the style sheet, which has one value of it for light pages and one for dark ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// The usual one.
    Blue,
    /// Of what is at fault in part.
    Orange,
    /// Of what failed.
    Red,
    /// Of what is known less well, or matters less.
    Grey,
}

impl Colour {
    /// Its name in the style sheet.
    pub fn class(self) -> &'static str {
        match self {
            Colour::Blue => "blue",
            Colour::Orange => "orange",
            Colour::Red => "red",
            Colour::Grey => "grey",
        }
    }
}

/// An entry of a legend.
pub fn key(colour: Colour, name: &str) -> Markup {
    html! { span.key { i class=(colour.class()) {} (name) } }
}

/// A coordinate, to a tenth of an SVG unit.
pub fn at(place: f64) -> String {
    format!("{place:.1}")
}
