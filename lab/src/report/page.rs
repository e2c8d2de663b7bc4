//! One HTML page with figures, tables and their context, in one file without scripts.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::figure::{Figure, Kind};
use super::panel::{Panel, panels};
use super::plot::{DrawError, Marked, draw, legend_mark};
use super::read::Results;
use super::table::{self, BarVerdict, Table};
use super::words;
use super::{markdown, palette};

const STYLE: &str = include_str!("page.css");

/// The page of these results, in the given order.
pub fn page(results: &[Results]) -> Result<String, DrawError> {
    let title = match results {
        [one] => markdown::title(one),
        _ => "FOBS laboratory".to_owned(),
    };
    let style = format!("{STYLE}\n@media (prefers-color-scheme: dark) {{\n{}}}\n", palette::dark_rules());
    let mut sections = Vec::new();
    for (index, one) in results.iter().enumerate() {
        sections.push(section(one, index, results.len() > 1)?);
    }
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(style)) }
            }
            body {
                header {
                    h1 { (title) }
                    @if results.len() > 1 {
                        nav {
                            @for (index, one) in results.iter().enumerate() {
                                a href={ "#r" (index) } { (markdown::title(one)) }
                            }
                        }
                    }
                }
                main { @for section in &sections { (section) } }
            }
        }
    };
    Ok(page.into_string())
}

fn section(results: &Results, index: usize, titled: bool) -> Result<Markup, DrawError> {
    let mut figures = Vec::new();
    for figure in &results.shown.figure {
        figures.push(drawn(figure, results)?);
    }
    let everything = table::everything(results);
    let (bars, verdicts) = table::expectations(results);
    let met = verdicts.iter().filter(|verdict| **verdict == BarVerdict::Met).count();
    Ok(html! {
        section id={ "r" (index) } {
            @if titled { h2 { (markdown::title(results)) } }
            ul.facts { @for fact in markdown::facts(results) { li { (fact) } } }
            @if !bars.rows.is_empty() {
                h3 { "Bars: " (met) " of " (verdicts.len()) " met" }
                (rows(&bars, &verdicts))
            }
            @for figure in &figures { (figure) }
            @if !everything.rows.is_empty() {
                details {
                    summary { "Everything that was measured" }
                    (rows(&everything, &[]))
                }
            }
            @for (heading, lines) in
                [("Not counted", table::troubles(results)), ("Skipped", table::skipped(results))] {
                @if !lines.is_empty() {
                    details open[heading == "Skipped"] {
                        summary { (heading) " (" (lines.len()) ")" }
                        ul { @for line in lines { li { (line) } } }
                    }
                }
            }
            details {
                summary { "The plan" }
                pre { (results.header.plan) }
            }
        }
    })
}

/// A figure: panels, legend, explanation of the points, and a table of the values.
fn drawn(figure: &Figure, results: &Results) -> Result<Markup, DrawError> {
    let panels = panels(figure, &results.runs);
    let mut drawings = Vec::new();
    for panel in &panels {
        drawings.push((panel, draw(figure, panel)?));
    }
    let legend = legend(figure, &panels)?;
    let missing = table::missing(figure, results);
    Ok(html! {
        figure {
            figcaption {
                h3 { (figure.title) }
                @if !figure.note.is_empty() { p { (figure.note) } }
            }
            @if panels.is_empty() { p.none { "No valid run." } }
            div.panels {
                @for (panel, svg) in &drawings {
                    div.panel {
                        @if !panel.heading.is_empty() { h4 { (panel.heading) } }
                        (PreEscaped(described(svg, figure, panel)))
                    }
                }
            }
            (legend)
            p.runs { (explanation(figure, &panels)) }
            @if !missing.is_empty() { p.none { "Without a valid run: " (missing.join(", ")) "." } }
            @if figure.kind != Kind::Time && !panels.is_empty() {
                details {
                    summary { "In figures" }
                    @for panel in &panels {
                        @if !panel.heading.is_empty() { h4 { (panel.heading) } }
                        (rows(&table::of_panel(figure, panel), &[]))
                    }
                }
            }
        }
    })
}

/// The drawing with a description for screen readers.
fn described(svg: &str, figure: &Figure, panel: &Panel) -> String {
    let name = match panel.heading.as_str() {
        "" => figure.title.clone(),
        heading => format!("{}, {heading}", figure.title),
    };
    let name = html! { (name) }.into_string().replace('"', "&quot;");
    svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{name}\" "), 1)
}

/// Names of the series with their marks; bars and heat maps show names beside rows.
fn legend(figure: &Figure, panels: &[Panel]) -> Result<Markup, DrawError> {
    let marked = match figure.kind {
        Kind::Line => Marked::Points,
        Kind::Time => Marked::Nothing,
        Kind::Bar | Kind::Heat => return Ok(html! {}),
    };
    // Panels may lack a series, but [`panels`] gives a series the same mark in all of them.
    let Some(longest) = panels.iter().max_by_key(|panel| panel.series.len()) else { return Ok(html! {}) };
    let mut entries = Vec::new();
    for (index, series) in longest.series.iter().enumerate() {
        entries.push((legend_mark(index, marked)?, series.label.as_str()));
    }
    Ok(html! {
        ul.legend {
            @for (mark, label) in entries { li { (PreEscaped(mark)) " " (label) } }
        }
    })
}

/// Explanation of what a point is.
fn explanation(figure: &Figure, panels: &[Panel]) -> String {
    if panels.is_empty() {
        return String::new();
    }
    if figure.kind == Kind::Time {
        return "One run each: the middle one.".to_owned();
    }
    let least = panels.iter().filter_map(Panel::runs).map(|(least, _)| least).min();
    let most = panels.iter().filter_map(Panel::runs).map(|(_, most)| most).max();
    let (Some(least), Some(most)) = (least, most) else { return String::new() };
    let runs = if least == most { most.to_string() } else { format!("{least} to {most}") };
    let (thing, whiskers) = match figure.kind {
        Kind::Heat => ("cell", ""),
        Kind::Bar => ("bar", "; lines reach from the least to the greatest"),
        Kind::Line | Kind::Time => ("point", "; whiskers reach from the least to the greatest"),
    };
    let unit = if figure.kind == Kind::Heat { format!("{}. ", figure.y.title()) } else { String::new() };
    let compared: Vec<String> = figure
        .reference
        .iter()
        .map(|reference| format!("{}: {}", reference.label, words::number(reference.y)))
        .collect();
    let compared = match compared.as_slice() {
        [] => String::new(),
        all => format!(" Compared with: {}.", all.join("; ")),
    };
    if most == 1 {
        return format!("{unit}1 valid run for each {thing}.{compared}");
    }
    format!("{unit}Median of {runs} valid runs for each {thing}{whiskers}.{compared}")
}

/// A table that scrolls sideways on narrow screens; a verdict colours the last cell of its row.
fn rows(table: &Table, verdicts: &[BarVerdict]) -> Markup {
    let class = |column: usize| (column >= table.names).then_some("n");
    let verdict = |row: usize, column: usize| {
        let last = column + 1 == table.head.len();
        verdicts.get(row).filter(|_| last).map(|verdict| match verdict {
            BarVerdict::Met => "met",
            BarVerdict::NotMet => "not-met",
            BarVerdict::NotMeasured => "not-measured",
        })
    };
    html! {
        div.table {
            table {
                thead { tr { @for (column, text) in table.head.iter().enumerate() { th class=[class(column)] { (text) } } } }
                tbody {
                    @for (row, cells) in table.rows.iter().enumerate() {
                        tr {
                            @for (column, text) in cells.iter().enumerate() {
                                td class=[verdict(row, column).or(class(column))] { (text) }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{read, sample};
    use super::*;

    fn sample_page(copies: usize) -> String {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("sample.jsonl");
        std::fs::write(&file, sample::lines()).unwrap();
        let results: Vec<Results> = (0..copies).map(|_| read::results(&file).unwrap()).collect();
        page(&results).unwrap()
    }

    #[test]
    fn the_page_is_well_formed() {
        for copies in [1, 2] {
            let page = sample_page(copies);
            let parsed = scraper::Html::parse_document(&page);
            assert!(parsed.errors.is_empty(), "{:?}", parsed.errors);
            let count = |what: &str| parsed.select(&scraper::Selector::parse(what).unwrap()).count();
            assert_eq!(count("figure"), 6 * copies);
            // Two panels for each of two figures, one for each of the four others.
            assert_eq!(count(".panel > svg[role=img][aria-label]"), 8 * copies);
            assert_eq!(count("section > details:has(pre)"), copies);
            assert_eq!((count("h1"), count("nav a")), (1, if copies > 1 { copies } else { 0 }));
        }
    }

    #[test]
    fn the_page_is_self_contained() {
        let page = sample_page(1).replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for foreign in
            ["http://", "https://", "//cdn", "<script", "<link", "<img", "@import", "url(", " src="]
        {
            assert!(!page.contains(foreign), "the page has {foreign}");
        }
    }

    #[test]
    fn names_of_a_plan_are_text_and_never_markup() {
        let page = sample_page(1);
        assert!(page.contains("Share against pebbles &amp; &lt;stones&gt;") && !page.contains("<stones>"));
    }

    #[test]
    fn invalid_runs_and_skipped_contests_are_named() {
        let page = sample_page(1);
        for text in [
            "turtle, pebbles 64 over near, run 2: invalid: p99 of the lateness is 0.9 ms, more than 0.3 ms",
            "turtle, pebbles 1 over far, run 3: turtle failed: it fell asleep",
            "ostrich: ostrich is not installed: install an ostrich",
            "2 of 3, 1 invalid",
            "2 of 3, 1 failed",
            "39 runs: 37 valid, 2 invalid (not shown)",
        ] {
            assert!(page.contains(text), "{text} is missing");
        }
    }
}
