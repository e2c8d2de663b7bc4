//! The page is complete, harmless and well-formed, whatever a trace holds.

use fobs::cause::{LossVerdict, LossWindow, Remedy, RemedyAction, RemedyResult};
use fobs::explain::{At, End, Head, Journal, Measured, SenderSample, Subject, Trace, explain};

use super::page;

const HOSTILE: &str = r#"</style><script>alert('x')</script><b onload="x">&amp;"#;

fn window(step: u64) -> LossWindow {
    LossWindow {
        seconds: step as f64 / 10.0,
        packets: 1000,
        lost: 20,
        network_lost: 15,
        receiver_lost: 5,
        verdict: [LossVerdict::Receiver, LossVerdict::Network, LossVerdict::Inconclusive][step as usize % 3],
        p_receiver: Some(0.3),
        p_mixed: None,
        host_drops: Some(5),
        lag: None,
        learned_from: 0,
        runs: vec![(40, 1); 20],
    }
}

fn subject() -> Subject {
    let names: Vec<String> = (0..20).map(|n| format!("{n} {HOSTILE}")).collect();
    Subject::new(&names, HOSTILE, HOSTILE, 1_790_000_000)
}

/// A copy of `steps` samples whose every text is hostile; counters grow by `unit` a step.
fn trace(steps: u64, unit: u64) -> Trace {
    let mut journal = Journal::new();
    for step in 0..steps {
        let sample = SenderSample {
            time_us: (step * 100_000).saturating_mul(unit / 1_000_000),
            bytes_sent: step.saturating_mul(unit),
            bytes_acked: step.saturating_mul(unit / 10 * 9),
            packets_sent: step.saturating_mul(unit / 1000),
            packets_lost: step.saturating_mul(unit / 100_000),
            rtt_us: 20_000 + step % 7,
            rtt_min_us: 20_000,
            state: HOSTILE.to_owned(),
            ..SenderSample::default()
        };
        let at_us = step * 100_000;
        journal.push(At { at_us, what: Measured::Sender(sample) });
        journal.push(At { at_us, what: Measured::Loss(window(step)) });
    }
    let result = RemedyResult::Refused { reason: HOSTILE.to_owned() };
    let remedy = Remedy { seconds: 0.2, action: RemedyAction::AnotherLane, result };
    journal.push(At { at_us: steps * 100_000, what: Measured::Remedy(remedy) });
    let word = || HOSTILE.to_owned();
    Trace {
        head: Head { control: word(), transport: word(), cipher: word(), cc: word(), subject: subject() },
        journal,
        end: End::Failed { message: format!("cannot read {HOSTILE}") },
    }
}

fn drawn(trace: &Trace) -> String {
    page(trace, &explain(trace))
}

/// Every element that is opened is closed, in order.
fn assert_well_formed(page: &str) {
    let mut open = Vec::new();
    for tag in page.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or_default()) {
        let name = tag.split_whitespace().next().unwrap_or_default();
        assert!(tag.matches(" class=").count() <= 1, "<{tag}> has two classes");
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "</{tag}> closes another element"),
            None if matches!(name, "!doctype" | "meta") => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?} stay open");
}

#[test]
fn a_page_escapes_every_text_and_loads_nothing() {
    let page = drawn(&trace(50, 1_000_000));
    assert!(page.contains("&lt;b onload=&quot;x&quot;&gt;&amp;amp;"), "the hostile words are shown as text");
    assert!(page.contains("cannot read &lt;/style&gt;"), "{page}");
    for foreign in ["<script", "<b ", "src=", "href=", "http", "@import", "url("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert_well_formed(&page);
}

#[test]
fn a_page_has_every_chart_with_units() {
    let page = drawn(&trace(50, 1_000_000));
    for part in [
        "Where the time went",
        "Throughput",
        "Round trip",
        "Loss, where the packets were sent",
        "Loss signatures",
    ] {
        assert!(page.contains(&format!("<h2>{part}</h2>")), "{part}");
        assert!(page.contains(&format!("aria-label=\"{part}\"")), "{part}");
    }
    for curve in ["curve orange", "curve blue", "curve red", "curve grey"] {
        assert!(page.contains(&format!("class=\"{curve}\" d=\"M")), "{curve}");
    }
    for unit in [">Mbit/s<", ">ms<", ">%<", ">seconds since"] {
        assert!(page.contains(unit), "{unit}");
    }
}

#[test]
fn any_figures_give_finite_coordinates() {
    for (steps, unit) in [(0, 1_000_000), (1, 1_000_000), (3, u64::MAX), (3000, 1 << 40)] {
        let page = drawn(&trace(steps, unit));
        assert!(!page.contains("NaN") && !page.contains("inf"), "{steps} steps of {unit}");
        assert_well_formed(&page);
    }
}

#[test]
fn a_page_without_samples_has_no_empty_chart() {
    let page = drawn(&Trace { journal: Journal::new(), ..trace(0, 1_000_000) });
    assert!(!page.contains("<svg") && !page.contains("<section"), "{page}");
}

#[test]
fn a_page_says_what_was_copied_when_and_where() {
    let subject = Subject::new(&["data/big.tar".to_owned()], "peer:/store", "here.example", 1_790_000_000);
    let end = End::Done { bytes: 3_000_000_000, seconds: 83.0, packet_size: 1444, deadline_margin_s: None };
    let trace = Trace { head: Head { subject, ..Head::default() }, end, ..trace(5, 1_000_000) };
    let page = drawn(&trace);
    for words in [
        "<title>data/big.tar: what",
        "data/big.tar \u{2192} peer:/store",
        "3.00 GB in 1:23",
        "2026-09-2",
        "run on here.example",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    // A record of an older program.
    let old = drawn(&Trace { head: Head::default(), ..trace });
    assert!(
        old.contains("<title>What limited this copy</title>") && !old.contains("class=\"what\""),
        "{old}"
    );
}

#[test]
fn every_word_of_a_page_is_explained_where_it_stands() {
    let trace = trace(50, 1_000_000);
    let why = explain(&trace);
    let page = page(&trace, &why);
    assert!(!why.budget.is_empty());
    for spent in &why.budget {
        let (name, meaning) = (escaped(spent.stage.name()), escaped(spent.stage.meaning()));
        assert!(page.contains(&format!("{name}<small>{meaning}</small>")), "{name}: {page}");
    }
    let charts = page.matches("<h2>").count();
    assert_eq!(
        page.matches("class=\"legend\"").count() + page.matches("class=\"bars\"").count(),
        charts,
        "{page}"
    );
    for words in ["samples of the sender and 0 of the receiver", "Drawn by fobs ", "This copy: "] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn the_headline_says_what_to_do() {
    let trace = trace(50, 1_000_000);
    let why = explain(&trace);
    let page = page(&trace, &why);
    let headline = page.split("<h1>").nth(1).and_then(|rest| rest.split("</h1>").next()).expect("a headline");
    assert_eq!(headline, escaped(&why.advice()));
    assert!(!headline.contains("% of the time"), "{headline}");
    assert!(page.contains(&escaped(&why.sentence)), "what limited it stands below");
}

/// As HTML has it.
fn escaped(text: &str) -> String {
    maud::html! { (text) }.into_string()
}

#[test]
fn a_clean_copy_has_no_panel_of_losses() {
    let mut journal = Journal::new();
    for step in 0..9_u64 {
        let sample = SenderSample {
            time_us: step * 100_000,
            bytes_sent: step << 20,
            packets_sent: step * 700,
            rtt_us: 20_000,
            ..SenderSample::default()
        };
        journal.push(At { at_us: step * 100_000, what: Measured::Sender(sample) });
    }
    let page = drawn(&Trace { journal, ..trace(0, 1_000_000) });
    assert!(page.contains("<h2>Throughput") && !page.contains("<h2>Loss"), "{page}");
}

#[test]
fn a_copy_over_streams_is_drawn_at_its_rate_and_without_a_round_trip_that_nobody_knows() {
    let mut journal = Journal::new();
    for step in 0..9_u64 {
        let sample = SenderSample {
            time_us: step * 100_000,
            bytes_framed: step * 1_300_000,
            bytes_frames_delivered: step * 1_250_000,
            ..SenderSample::default()
        };
        journal.push(At { at_us: step * 100_000, what: Measured::Sender(sample) });
    }
    let page = drawn(&Trace { journal, ..trace(0, 1_000_000) });
    let section =
        page.split("<section>").find(|section| section.contains("<h2>Throughput")).expect("a chart");
    assert!(
        section.contains("Mbit/s") && section.contains(">sent<") && section.contains(">acknowledged<"),
        "{section}"
    );
    assert!(!page.contains("<h2>Round trip"), "none was measured");
}

/// Names of the colours that follow each `before` in a part of the page.
fn colours<'a>(section: &'a str, before: &str) -> std::collections::BTreeSet<&'a str> {
    section.split(before).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn every_line_has_a_legend_and_every_legend_a_line() {
    let mut drops = trace(50, 1_000_000);
    for sample in (0..50).map(|step| SenderSample {
        time_us: step * 100_000,
        packets_sent: step * 1000,
        socket_drops: step * 3,
        ..SenderSample::default()
    }) {
        drops.journal.push(At { at_us: 0, what: Measured::Sender(sample) });
    }
    let one_place = |steps| {
        let mut trace = trace(0, 1_000_000);
        for step in 0..steps {
            trace.journal.push(At { at_us: 0, what: Measured::Loss(window(step * 3)) });
        }
        trace
    };
    let short = (1..4).map(|steps| trace(steps, 1_000_000));
    for trace in short.chain([trace(50, 1_000_000), drops, one_place(3)]) {
        let page = drawn(&trace);
        for section in page.split("<section>").filter(|section| section.contains("<svg")) {
            let keys = colours(section, "<i class=\"");
            let mut lines = colours(section, "class=\"curve ");
            lines.extend(colours(section, "<g class=\""));
            let title = section.split("</h2>").next().unwrap_or_default();
            assert!(!keys.is_empty(), "a chart without a line: {title}");
            assert_eq!(keys, lines, "{title}");
            let mut paths = section.split(" d=\"M").skip(1).filter_map(|rest| rest.split('"').next());
            assert!(paths.all(|path| path.contains('L')), "a line of one point: {title}");
        }
    }
}

#[test]
fn a_page_of_another_program_names_it_and_when() {
    let subject = Subject::new(&["rsync".to_owned()], "", "desk", 1_790_000_000);
    let word = str::to_owned;
    let head =
        Head { control: word("ssh"), transport: word("tcp"), cc: word("rsync"), cipher: word(""), subject };
    let mut seen = Journal::new();
    for sample in trace(50, 100_000_000).journal.sender() {
        seen.push(At { at_us: sample.at_us, what: Measured::Sender(sample.what.clone()) });
    }
    let end = End::Done { bytes: 9_000_000, seconds: 5.0, packet_size: 0, deadline_margin_s: None };
    let page = drawn(&Trace { head, journal: seen, end });
    for part in ["rsync: what limited this copy", "2026-09-21", "run on desk", "another program (rsync)"] {
        assert!(page.contains(part), "{part}");
    }
    // Nothing of the far end's kernel, and no congestion controller of that name.
    assert!(page.contains("sent again by TCP here") && !page.contains("kernel counted"));
    assert!(!page.contains("congestion controller"));
}

/// FNV-1a of a text.
fn sum(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// A page without the part that begins and ends so.
fn without(page: &str, begin: &str, end: &str) -> String {
    let (before, rest) = page.split_once(begin).expect("it has that part");
    format!("{before}{}", rest.split_once(end).expect("it ends").1)
}

#[test]
fn the_picture_of_the_page_is_current() {
    let figures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures");
    let record = std::fs::File::open(figures.join("explain.jsonl")).expect("a file of the clone");
    let page = drawn(&Trace::read(record).expect("a record"));
    let page = without(&without(&page, "<p class=\"facts\">", "</p>"), "<footer>", "</footer>");
    let picture = std::fs::read(figures.join("explain.png")).expect("a file of the clone");
    let mark = picture.windows(9).position(|part| part == b"tEXtpage\0").expect("its sum") + 9;
    let shown = String::from_utf8_lossy(&picture[mark..mark + 16]);
    assert_eq!(shown, format!("{:016x}", sum(&page)), "scripts/pictures.sh FOBS makes it again");
}
