use super::*;
use crate::deletions::LineBudget;
use crate::log::Log;
use crate::who::{Person, Visit};
use fobs_channel::secure::authorized_keys::KeyLimits;
use fobs_model::error::ErrorKind;
use fobs_model::event::{FileError, OtherEntries, Progress};
use std::collections::HashSet;

/// The meter of a session that does this.
fn meter(metrics: &Metrics, work: Work, direction: TransferDirection) -> (Asked, Arc<SessionMeter>) {
    let person = Person {
        session: 1,
        peer: "192.0.2.1:7".parse().unwrap(),
        key: None,
        key_name: None,
        request: None,
        line: "192.0.2.1:7".to_owned(),
    };
    let deletions = Deletions::new(Log::here(), person, b"top".to_vec(), LineBudget::new(Instant::now()));
    let asked = Asked { work, direction };
    (asked, metrics.of_session(&Visit::named("ann@desk", Some(asked)), asked, deletions))
}

fn served(direction: TransferDirection) -> SessionFigures {
    SessionFigures {
        direction,
        files: 2,
        bytes: 300,
        resumed_bytes: 50,
        others: OtherEntries::default(),
        failed: 1,
        seconds: 1.0,
        datagrams_rejected: 5,
    }
}

fn expect(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|other| other == *line), "{line} in:\n{text}");
    }
}

#[test]
fn counters_outlive_sessions_and_have_fixed_labels() {
    let metrics = Arc::new(Metrics::new(7, None));
    for _ in 0..2 {
        let (asked, meter) = meter(&metrics, Work::Copy, TransferDirection::Push);
        for bytes in [100, 100, 250] {
            meter.event(Event::Progress(Progress { bytes, ..Progress::default() }));
        }
        meter.event(Event::FileDone(fobs_model::event::FileDone {
            path: b"a".to_vec(),
            bytes: 1,
            root: [0; 32],
        }));
        meter.event(Event::FileFailed(FileError { path: b"\n".to_vec(), message: String::new() }));
        let served = served(TransferDirection::Push);
        meter.moved(served.bytes);
        metrics.ended(&Visit::named("ann@desk", Some(asked)), &Ok(served));
    }
    metrics.ended(&Visit::named("", None), &Err(Error::new(ErrorKind::Denied, "no")));
    metrics.connection();
    metrics.stream();
    metrics.refused("timeout");
    let text = metrics.text(3, 2, true);
    let lines = [
        "fobs_moved_bytes_total{direction=\"push\"} 600",
        "fobs_moved_bytes_total{direction=\"pull\"} 0",
        "fobs_resumed_bytes_total{direction=\"push\"} 100",
        "fobs_files_total{direction=\"push\"} 2",
        "fobs_files_failed_total{direction=\"push\"} 2",
        "fobs_datagrams_rejected_total{direction=\"push\"} 10",
        "fobs_sessions_total{direction=\"push\",outcome=\"partial\"} 2",
        "fobs_sessions_total{direction=\"none\",outcome=\"denied\"} 1",
        "fobs_refused_total{reason=\"timeout\"} 1",
        "fobs_connections_total 1",
        "fobs_streams_total 1",
        "fobs_sessions_running 3",
        "fobs_sessions_waiting 2",
        "fobs_sessions_max 7",
        "fobs_key_sessions_total{key=\"ann@desk\",direction=\"push\",outcome=\"partial\"} 2",
        "fobs_key_moved_bytes_total{key=\"ann@desk\",direction=\"push\"} 600",
        "fobs_draining 1",
    ];
    expect(&text, &lines);
    is_open_metrics(&text);
}

#[test]
fn what_moves_no_file_counts_as_what_it_is() {
    let metrics = Metrics::new(7, None);
    for work in [Work::Probe, Work::DryRun, Work::Sync] {
        let (asked, meter) = meter(&metrics, work, TransferDirection::Push);
        meter.event(Event::Deleted { path: b"a".to_vec(), directory: false });
        if work != Work::DryRun {
            meter.event(Event::FileDone(fobs_model::event::FileDone {
                path: b"a".to_vec(),
                bytes: 300,
                root: [0; 32],
            }));
            meter.moved(300);
        }
        metrics.ended(
            &Visit::named("ann@desk", Some(asked)),
            &Ok(SessionFigures { failed: 0, ..served(TransferDirection::Push) }),
        );
    }
    let (_, pull) = meter(&metrics, Work::Sync, TransferDirection::Pull);
    pull.event(Event::Deleted { path: b"at the client".to_vec(), directory: false });
    pull.event(Event::SourceRemoved { path: b"here".to_vec() });
    assert_eq!(pull.deleted(), Count { all: 1, unnamed: 0 });
    metrics.deleted(By::Request, 3);
    let text = metrics.text(0, 0, false);
    let lines = [
        "fobs_sessions_total{direction=\"push\",outcome=\"ok\"} 1",
        "fobs_probes_total{direction=\"push\",outcome=\"ok\"} 1",
        "fobs_dry_runs_total{direction=\"push\",outcome=\"ok\"} 1",
        "fobs_probe_bytes_total{direction=\"push\"} 300",
        "fobs_moved_bytes_total{direction=\"push\"} 300",
        "fobs_files_total{direction=\"push\"} 1",
        "fobs_deleted_total{by=\"sync\"} 1",
        "fobs_deleted_total{by=\"source\"} 1",
        "fobs_deleted_total{by=\"request\"} 3",
    ];
    expect(&text, &lines);
    is_open_metrics(&text);
}

/// Checks the form of OpenMetrics 1.0: families in one piece, each with its type before its samples, names
/// that fit the type, no sample twice, an end.
fn is_open_metrics(text: &str) {
    let body = text.strip_suffix("# EOF\n").expect("it has an end");
    let (mut families, mut samples) = (HashSet::new(), HashSet::new());
    let mut family = (String::new(), String::new());
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (what, name, value) =
                (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or(""));
            match what {
                "HELP" => {
                    assert!(families.insert(name.to_owned()), "{name} comes twice");
                    assert!(value.len() < 120, "{value}");
                    family = (name.to_owned(), String::new());
                }
                "TYPE" => family.1 = value.to_owned(),
                "UNIT" => assert!(name.ends_with(&format!("_{value}")), "{line}"),
                other => panic!("{other}"),
            }
            assert_eq!(name, family.0, "{line}");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let name = series.split('{').next().unwrap();
        let fits = match family.1.as_str() {
            "counter" => name == format!("{}_total", family.0),
            "gauge" => name == family.0,
            other => panic!("no type: {other}"),
        };
        let ours = ["fobs_", "process_"].iter().any(|prefix| name.starts_with(prefix));
        assert!(fits && ours, "{line} in {family:?}");
        assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
        assert!(samples.insert(series.to_owned()), "{line} comes twice");
    }
}

#[test]
fn rules_and_dashboard_name_metrics_that_exist() {
    let metrics =
        Metrics::new(7, rustix::fs::open("/", rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).ok());
    let (asked, _meter) = meter(&metrics, Work::Copy, TransferDirection::Push);
    let visit = Visit::named("ann@desk", Some(asked));
    metrics.ended(&visit, &Ok(SessionFigures { failed: 0, ..served(TransferDirection::Push) }));
    metrics.keys.limits(&visit, &KeyLimits::default());
    metrics.refused("timeout");
    let text = metrics.text(0, 0, false);
    is_open_metrics(&text);
    let known: HashSet<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    for (file, fewest) in [
        (include_str!("../../../../packaging/monitoring/fobs-alerts.yml"), 8),
        (include_str!("../../../../packaging/monitoring/fobs-dashboard.json"), 14),
    ] {
        let words = file.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
        let named: HashSet<&str> =
            words.filter(|word| word.starts_with("fobs_") || word.starts_with("process_")).collect();
        assert!(named.len() >= fewest, "{named:?}");
        let unknown: Vec<_> = named.difference(&known).collect();
        assert!(unknown.is_empty(), "{unknown:?} of\n{text}");
    }
    let guide = include_str!("../../../../docs/guide.md");
    let unlisted: Vec<_> = known.iter().filter(|name| !guide.contains(&format!("`{name}`"))).collect();
    assert!(unlisted.is_empty(), "not in the guide: {unlisted:?}");
    // A dashboard that is no JSON is loaded nowhere.
    let board = include_str!("../../../../packaging/monitoring/fobs-dashboard.json");
    serde_json::from_str::<serde_json::Value>(board).expect("JSON");
}
