//! The chart of README.md, drawn from the table beside it: so the two cannot differ, and `tidy` says when the
//! picture is of another table.

use std::fmt::Write;

/// The picture, and what stands before its table.
pub const PICTURE: &str = "docs/figures/headline.svg";
pub const SOURCE: &str = "README.md";
const HEAD: &str = "| | data, Mbit/s |";

/// Sizes, SVG units: about pixels.
const WIDTH: f64 = 760.0;
const ROW: f64 = 30.0;
const BAR: f64 = 18.0;
const NAMES: f64 = 300.0;
const FIGURES: f64 = 90.0;
/// Letters of a name that have room before its bar; what follows the last comma of a longer one is left out.
const NAME_CHARS_MAX: usize = 40;
const TITLE: f64 = 34.0;

/// A row of the table.
#[derive(Debug, PartialEq)]
struct Row {
    name: String,
    mbit: f64,
    is_ours: bool,
}

/// The chart of a README.
///
/// # Errors
/// It has no such table.
pub fn draw(readme: &str) -> Result<String, String> {
    let rows = rows(readme)?;
    let most = rows.iter().map(|row| row.mbit).fold(1.0, f64::max);
    let height = TITLE + ROW * rows.len() as f64 + 6.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-label=\"Goodput of one file over 1 Gbit/s, 65 ms, 0.1% loss\">\n<style>\n\
         text {{ font: 14px system-ui, sans-serif; fill: #1c2430 }} .ours {{ font-weight: 700 }} .soft {{ fill: #5c6675 }}\n\
         rect {{ fill: #9aa5b4 }} rect.ours {{ fill: #2f6fca }} rect.paper {{ fill: #ffffff }}\n\
         @media (prefers-color-scheme: dark) {{ text {{ fill: #e6eaf0 }} .soft {{ fill: #a3adbb }} \
         rect {{ fill: #5c6675 }} rect.ours {{ fill: #6ba4f0 }} rect.paper {{ fill: #161b22 }} }}\n</style>\n\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    // Writing to a string cannot fail.
    let _ = writeln!(
        svg,
        "<text class=\"soft\" x=\"{NAMES}\" y=\"18\">Mbit/s of file data, of 1000 that the path carries</text>"
    );
    for (place, Row { name, mbit, is_ours }) in rows.iter().enumerate() {
        let top = TITLE + ROW * place as f64;
        let (middle, class) = (top + BAR / 2.0 + 5.0, if *is_ours { " class=\"ours\"" } else { "" });
        let width = (WIDTH - NAMES - FIGURES) * mbit / most;
        let _ = writeln!(
            svg,
            "<text{class} x=\"{:.0}\" y=\"{middle:.0}\" text-anchor=\"end\">{}</text>\
             <rect{class} x=\"{NAMES}\" y=\"{top:.0}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"3\"/>\
             <text{class} x=\"{:.1}\" y=\"{middle:.0}\">{mbit}</text>",
            NAMES - 10.0,
            escaped(name),
            NAMES + width + 8.0
        );
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

fn rows(readme: &str) -> Result<Vec<Row>, String> {
    let lines = readme.lines().skip_while(|line| !line.starts_with(HEAD)).skip(2);
    let rows: Option<Vec<Row>> = lines.take_while(|line| line.starts_with('|')).map(row).collect();
    let rows = rows.ok_or("a row of README's table has no number")?;
    if rows.len() < 2 { Err(format!("README has no table that begins with {HEAD:?}")) } else { Ok(rows) }
}

fn row(line: &str) -> Option<Row> {
    let mut cells = line.split('|').skip(1).map(str::trim);
    let (name, figure) = (cells.next()?, cells.next()?);
    let is_ours = name.starts_with("**");
    // What stands in brackets or behind a comma is told by the table.
    let whole = name.trim_matches('*').split(" (").next()?;
    let name = if whole.len() > NAME_CHARS_MAX { whole.rsplit_once(", ")?.0 } else { whole };
    Some(Row { name: name.to_owned(), mbit: figure.trim_matches('*').parse().ok()?, is_ours })
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "# X\n| | data, Mbit/s | command |\n|---|---:|---:|\n| **ours** | **894** | 1 |\n\
                          | iperf3, one TCP stream (memory) | 26 | 2 * |\n\ntext\n";

    #[test]
    fn the_chart_has_the_rows_of_the_table() {
        let svg = draw(README).expect("a table");
        for part in [">ours<", ">894<", ">iperf3, one TCP stream<", ">26<", "prefers-color-scheme: dark"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert_eq!(svg.matches("<rect ").count(), 3, "and its paper");
        let other = draw(&README.replace("894", "893")).expect("a table");
        assert_ne!(svg, other);
    }

    #[test]
    fn a_long_name_is_cut_at_its_last_comma() {
        let name = "iperf3, one TCP stream with CUBIC, the kernel's default";
        assert_eq!(
            row(&format!("| {name} | 26 |")).expect("a row").name,
            "iperf3, one TCP stream with CUBIC"
        );
    }

    #[test]
    fn a_readme_without_the_table_is_refused() {
        assert!(draw("# X\n").is_err() && draw(&README.replace("| 26 ", "| fast ")).is_err());
    }
}
