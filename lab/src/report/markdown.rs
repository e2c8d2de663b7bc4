//! Tables in Markdown, for the pages of `docs/experiments`.

use std::fmt::Write;

use super::figure::Kind;
use super::panel::panels;
use super::read::Results;
use super::table;
use super::words;

/// A result file as a section of Markdown.
pub fn section(results: &Results) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "## {}\n", table::escaped(&title(results)));
    for line in facts(results) {
        let _ = writeln!(text, "- {line}");
    }
    let (bars, _) = table::expectations(results);
    if !bars.rows.is_empty() {
        let _ = writeln!(text, "\n### Bars\n\n{}", bars.markdown().trim_end());
    }
    for figure in results.shown.figure.iter().filter(|figure| figure.kind != Kind::Time) {
        let _ = writeln!(
            text,
            "\n### {}\n\n{}: median (least to greatest).",
            table::escaped(&figure.title),
            figure.y.title()
        );
        if !figure.note.is_empty() {
            let _ = writeln!(text, "{}", table::escaped(&figure.note));
        }
        let panels = panels(figure, &results.runs);
        if panels.is_empty() {
            let _ = writeln!(text, "\nNo valid run.");
        }
        for panel in &panels {
            if !panel.heading.is_empty() {
                let _ = writeln!(text, "\n{}:", panel.heading);
            }
            let _ = write!(text, "\n{}", table::of_panel(figure, panel).markdown());
        }
        for reference in &figure.reference {
            let _ = writeln!(text, "\n{}: {}.", reference.label, words::number(reference.y));
        }
    }
    let everything = table::everything(results);
    if !everything.rows.is_empty() {
        let _ = writeln!(text, "\n### Everything\n\n{}", everything.markdown().trim_end());
    }
    for (heading, lines) in [("Not counted", table::troubles(results)), ("Skipped", table::skipped(results))]
    {
        if !lines.is_empty() {
            let _ = writeln!(text, "\n### {heading}\n");
            for line in lines {
                let _ = writeln!(text, "- {line}");
            }
        }
    }
    text
}

/// Title of the results.
pub fn title(results: &Results) -> String {
    let shown = &results.shown;
    match (shown.title.is_empty(), shown.name.is_empty()) {
        (false, _) => shown.title.clone(),
        (true, false) => shown.name.clone(),
        (true, true) => "Results".to_owned(),
    }
}

/// Facts needed to judge the figures: date, host, versions, repetitions.
pub fn facts(results: &Results) -> Vec<String> {
    let header = &results.header;
    let machine = &header.machine;
    let valid = results.runs.iter().filter(|run| run.valid).count();
    let invalid = results.runs.len() - valid;
    let runs = match invalid {
        0 => format!("{valid} runs, all valid"),
        _ => format!("{} runs: {valid} valid, {invalid} invalid (not shown)", results.runs.len()),
    };
    let versions: Vec<&str> = header.versions.values().map(String::as_str).collect();
    let mut facts = vec![
        format!("{}; up to {} repetitions; {runs}", header.time, header.repetitions),
        format!(
            "{}, {} cores, {} of memory, kernel {}, load {} before the first run",
            machine.cpu,
            machine.cores,
            words::bytes(machine.memory_bytes as f64),
            machine.kernel,
            words::number(machine.load[0]),
        ),
    ];
    if !versions.is_empty() {
        facts.push(versions.join("; "));
    }
    if !results.shown.name.is_empty() {
        facts.push(format!("made by fobs-lab run of the plan {}", results.shown.name));
    }
    if let Some(reading) = &results.shown.reading {
        facts.push(format!("read in {reading}"));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::super::{read, sample};

    /// The reviewed report of the sample. `FOBS_GOLDEN=write cargo test -p fobs-lab golden` rewrites it;
    /// review the difference before you commit it.
    #[test]
    fn golden_markdown_of_the_sample() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("sample.jsonl");
        std::fs::write(&file, sample::lines()).unwrap();
        let text = super::section(&read::results(&file).unwrap());
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/src/report/sample.md");
        if std::env::var_os("FOBS_GOLDEN").is_some_and(|what| what == "write") {
            std::fs::write(golden, &text).unwrap();
        }
        let expected = std::fs::read_to_string(golden).unwrap();
        assert_eq!(text, expected, "the report of the sample differs from {golden}");
    }
}
