//! Which files are understood, and the errors for those that are not.

use super::*;
use crate::flow::Traffic;
use crate::link::Faults;
use crate::time::{MS, SEC};
use crate::world::Happening;
use fobs_proto::congestion::{CongestionControl, Params};

const GOOD: &str = r#"
name = "good"
seed = 7
duration_s = 10

[[host]]
name = "a"

[[host]]
name = "b"
competitors = 3
competitors_during_s = [1, 2.5]
disk = { rate_mbyte = 200, cache_mb = 64, sync = "end" }

[[link]]
from = "a"
to = "r"
rate_mbit = 1000
delay_ms = 0.1

[[link]]
from = "r"
to = "b"
rate_mbit = 100
delay_ms = 10
queue_ms = 50
loss = 0.01
aqm = "codel"

[[flow]]
kind = "fobs"
from = "a"
to = "b"
size_mb = 64

[[flow]]
kind = "tcp"
from = "a"
to = "b"
start_s = 1

[[change]]
at_s = 2
link = "r-b"
rate_mbit = 50
delay_ms = 20
"#;

#[test]
fn a_good_file_becomes_the_world_it_describes() {
    let config = Scenario::parse("file", GOOD).expect("it is good").config;
    assert_eq!((config.name.as_str(), config.seed, config.duration), ("good", 7, 10 * SEC));
    let names: Vec<_> = config.edges.iter().map(|edge| edge.link.name.as_str()).collect();
    assert_eq!(names, ["a-r", "r-a", "r-b", "b-r"]);
    let (there, back) = (&config.edges[2].link, &config.edges[3].link);
    assert_eq!((there.rate, there.delay, there.queue), (100_000_000, 10 * MS, 625_000));
    assert_eq!((back.rate, back.delay, back.faults == Faults::default()), (100_000_000, 10 * MS, true));
    assert_eq!(config.hosts[1].cpu.competitors_during, Some((SEC, 2_500 * MS)));
    assert_eq!(config.changes.len(), 2);
    assert!(matches!(config.changes[0], (at, Happening::Link(2, _)) if at == 2 * SEC));
    assert!(
        matches!(&config.flows[0].traffic, Traffic::Fobs(fobs) if fobs.controller == CongestionControl::Auto)
    );
}

/// What is replaced in [`GOOD`], by what, the key that the error names, and a part of its reason.
const BAD: &[(&str, &str, &str, &str)] = &[
    ("duration_s = 10", "duration_s = 0", "duration_s", "0 is not possible; give 0.001"),
    ("duration_s = 10", "duration_s = nan", "duration_s", "not possible"),
    ("duration_s = 10", "duration_s = \"long\"", "duration_s", "invalid type"),
    ("seed = 7", "sead = 7", "sead", "unknown field"),
    ("seed = 7", "seed = ", "line 3", ""),
    ("rate_mbit = 100\n", "rate_mbit = 0\n", "link[1].rate_mbit", "0 is not possible"),
    ("rate_mbit = 100\n", "", "link[1].queue_kb", "without rate_mbit has no queue"),
    ("queue_ms = 50", "queue_ms = 50\nqueue_kb = 5", "link[1].queue_ms", "not both"),
    ("loss = 0.01", "loss = 1.5", "link[1].loss", "1.5 is not possible; give 0 to 1"),
    ("loss = 0.01", "red_low_kb = 5", "link[1].red_low_kb", "goes with aqm"),
    ("loss = 0.01", "outages_s = [[3, 2]]", "link[1].outages_s", "ascending"),
    ("aqm = \"codel\"", "aqm = \"wred\"", "link[1].aqm", "unknown variant `wred`"),
    ("competitors = 3", "competitors = -3", "host[1].competitors", "invalid value"),
    ("sync = \"end\"", "sync = \"end\", rate_mbyt = 5", "host[1].disk.rate_mbyt", "unknown field"),
    ("sync = \"end\"", "fails_s = -1", "host[1].disk.fails_s", "-1 is not possible"),
    ("size_mb = 64", "size_mb = 64\ncc = \"vegas\"", "flow[0].cc", "there is no \"vegas\"; there are auto"),
    ("size_mb = 64", "size_mb = 64\ncc = \"fixed\"", "flow[0].rate_mbit", "needs it"),
    (
        "size_mb = 64",
        "size_mb = 64\ncc = \"cubic\"\ndeadline_s = 9",
        "flow[0].deadline_s",
        "knows no deadline",
    ),
    (
        "size_mb = 64",
        "size_mb = 64\nparams = { queue_gainn = 0.4 }",
        "flow[0].params",
        "the nearest are queue_gain",
    ),
    ("size_mb = 64", "size_mb = 64\nparams = { queue_gain = 9 }", "flow[0].params", "must be 0.01 to 1.5"),
    (
        "size_mb = 64",
        "size_mb = 64\ncc = \"cubic\"\nparams = { queue_gain = 0.4 }",
        "flow[0].params",
        "only \"auto\"",
    ),
    ("size_mb = 64", "size_mb = 1e30", "flow[0].size_mb", "not possible"),
    ("size_mb = 64", "window_mb = 64", "flow[0].window_mb", "no such key"),
    ("size_mb = 64", "", "flow[0].size_mb", "needs it"),
    ("start_s = 1", "stop_s = 0", "flow[1].stop_s", "stops after it starts"),
    ("start_s = 1", "via = [\"a\", \"b\"]", "flow", "has no route"),
    ("link = \"r-b\"", "link = \"b-c\"", "change[0].link", "no link \"b-c\""),
    (
        "from = \"r\"\nto = \"b\"",
        "name = \"r-b\"\nfrom = \"r\"\nto = \"c\"",
        "flow",
        "no route from \"a\" to \"b\"",
    ),
    ("name = \"b\"", "name = \"a\"", "host[1].name", "twice"),
    ("to = \"b\"\nrate_mbit", "to = \"r\"\nrate_mbit", "link[1].to", "one with itself"),
];

#[test]
fn bad_files_are_refused_by_key_and_reason() {
    for &(good, bad, key, reason) in BAD {
        assert!(GOOD.contains(good), "{good:?} is not in the file");
        let text = GOOD.replacen(good, bad, 1);
        let error = Scenario::parse("file", &text).expect_err(bad);
        assert!(error.key == key && error.reason.contains(reason), "{bad:?}: {error}");
        assert!(!error.to_string().contains('\n'), "one sentence: {error}");
    }
}

#[test]
fn parameters_of_auto_are_set_by_name() {
    let text = GOOD.replacen("size_mb = 64", "size_mb = 64\nparams = { queue_gain = 0.4 }", 1);
    let config = Scenario::parse("file", &text).expect("it is good").config;
    let Traffic::Fobs(fobs) = &config.flows[0].traffic else { panic!("not a transfer") };
    assert_eq!(fobs.params, Params { queue_gain: 0.4, ..Params::default() });
}

#[test]
fn a_file_without_a_flow_or_of_too_many_bytes_is_refused() {
    let error = Scenario::parse("file", "duration_s = 1").expect_err("nothing to do");
    assert_eq!(error.key, "flow");
    let error = Scenario::parse("file", &" ".repeat(2 << 20)).expect_err("too long");
    assert_eq!(error.key, "file");
    let tables = "[[link]]\nfrom=\"a\"\nto=\"b\"\ndelay_ms=1\n".repeat(300);
    let error = Scenario::parse("file", &format!("duration_s = 1\n{tables}")).expect_err("too many");
    assert_eq!(error.key, "link");
}
