//! Colours of the figures: each has a value for light and one for dark backgrounds.
//!
//! Figures are drawn in the light colours. On a dark background the page's style sheet replaces them: a CSS
//! rule takes precedence over an SVG attribute, so a rule for `[fill="#0072B2"]` recolours all elements drawn
//! with it.

use std::fmt::Write;

use plotters::style::RGBColor;

/// A colour for light and dark backgrounds.
#[derive(Clone, Copy)]
pub struct Ink {
    light: RGBColor,
    dark: RGBColor,
}

/// Text: titles of axes, labels of ticks, values.
pub const TEXT: Ink = ink((0x2A, 0x2F, 0x36), (0xDD, 0xE1, 0xE6));
/// Axes, whiskers without a series, reference values.
pub const AXIS: Ink = ink((0x6E, 0x77, 0x81), (0x8C, 0x96, 0xA1));
/// Grid lines.
pub const GRID: Ink = ink((0xE3, 0xE6, 0xEA), (0x2E, 0x34, 0x3C));
/// Background of a heat map's cell without a valid run.
pub const EMPTY: Ink = ink((0xF1, 0xF3, 0xF5), (0x22, 0x27, 0x2E));

/// Colours of series, in order of use, after Okabe and Ito (2008): distinguishable with the common colour
/// blindnesses. Without their yellow (unreadable on white) and with a darker orange, for a contrast of 3 to 1
/// on both backgrounds. Marks differ in shape, too.
pub const SERIES: [Ink; 7] = [
    ink((0x00, 0x72, 0xB2), (0x4F, 0xB0, 0xEE)),
    ink((0xD5, 0x5E, 0x00), (0xF0, 0x82, 0x33)),
    ink((0x00, 0x9E, 0x73), (0x2B, 0xC4, 0x99)),
    ink((0xB8, 0x56, 0x8C), (0xE3, 0x96, 0xC1)),
    ink((0xBF, 0x84, 0x00), (0xF0, 0xBC, 0x42)),
    ink((0x3D, 0x95, 0xC9), (0x9A, 0xD8, 0xFA)),
    ink((0x4B, 0x4F, 0x58), (0xB9, 0xBF, 0xC8)),
];

const fn ink(light: (u8, u8, u8), dark: (u8, u8, u8)) -> Ink {
    Ink { light: RGBColor(light.0, light.1, light.2), dark: RGBColor(dark.0, dark.1, dark.2) }
}

impl Ink {
    /// The colour for drawing.
    pub fn colour(self) -> RGBColor {
        self.light
    }
}

/// Colour of the `index`th series; after the last, colours repeat with other marks.
pub fn series(index: usize) -> Ink {
    SERIES[index % SERIES.len()]
}

/// CSS rules that replace every colour by its dark value, for use inside a media query.
pub fn dark_rules() -> String {
    let mut rules = String::new();
    for ink in [TEXT, AXIS, GRID, EMPTY].iter().chain(&SERIES) {
        let (light, dark) = (hex(ink.light), hex(ink.dark));
        for attribute in ["fill", "stroke"] {
            let _ = writeln!(rules, "  svg [{attribute}=\"{light}\"] {{ {attribute}: {dark}; }}");
        }
    }
    rules
}

/// The colour as the SVG backend writes it.
fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// Colours of a heat map's cell and of the text on it, for a share from 0 to 1; equal on both backgrounds.
/// The scale is linear between two colours and ordered by lightness.
pub fn heat(share: f64) -> (RGBColor, RGBColor) {
    /// Colours of 0 and 1.
    const ENDS: [(f64, f64, f64); 2] = [(247.0, 243.0, 233.0), (8.0, 64.0, 129.0)];
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let mix = |from: f64, to: f64| (from + (to - from) * share).round() as u8;
    let [low, high] = ENDS;
    let ground = RGBColor(mix(low.0, high.0), mix(low.1, high.1), mix(low.2, high.2));
    // Black and white text have equal contrast here.
    let text = if share < 0.68 { RGBColor(0, 0, 0) } else { RGBColor(0xFF, 0xFF, 0xFF) };
    (ground, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WCAG 2.1 relative luminance.
    fn luminance(RGBColor(r, g, b): RGBColor) -> f64 {
        let linear = |c: u8| {
            let c = f64::from(c) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
    }

    fn contrast(a: RGBColor, b: RGBColor) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn series_and_text_stand_out_on_both_grounds() {
        let (white, black) = (RGBColor(0xFF, 0xFF, 0xFF), RGBColor(0x16, 0x1A, 0x1F));
        for ink in SERIES {
            assert!(contrast(ink.light, white) >= 3.0, "{:?} on white", ink.light);
            assert!(contrast(ink.dark, black) >= 3.0, "{:?} on the dark ground", ink.dark);
        }
        assert!(contrast(TEXT.light, white) >= 7.0 && contrast(TEXT.dark, black) >= 7.0);
    }

    #[test]
    fn text_on_every_cell_of_a_heat_map_can_be_read() {
        for step in 0..=100 {
            let (ground, text) = heat(f64::from(step) / 100.0);
            assert!(contrast(ground, text) >= 4.5, "at {step}%: {:.2}", contrast(ground, text));
        }
    }

    #[test]
    fn every_colour_has_a_dark_rule_of_its_own() {
        let rules = dark_rules();
        for ink in [TEXT, AXIS, GRID, EMPTY].iter().chain(&SERIES) {
            assert_eq!(rules.matches(&format!("[fill=\"{}\"]", hex(ink.light))).count(), 1);
        }
    }
}
