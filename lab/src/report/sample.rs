//! A small result file for tests, with invented values and names that cannot be taken for a measurement.

use std::collections::BTreeMap;

use serde_json::json;

use crate::link::counters::{Counters, DirectionReport};
use crate::record::{End, Flow, Header, Link, Machine, Record, RoundTrips, Run, SCHEMA, SeriesOf, Skip};

const PLAN: &str = r#"name = "sample"
title = "Made-up runs for the tests of the report"
reading = "docs/experiments/sample.md"

[[figure]]
title = "Share against pebbles & <stones>"
note = "Lines: one for each contest."
x = "parameters.pebbles"
x_scale = "log"
facet = ["link.rtt_ms"]
contests = ["swallow", "turtle"]
reference = [{ label = "carrier pigeon", y = 40 }]

[[figure]]
title = "Waste"
y = "waste"
y_scale = "log"
x = "link.rtt_ms"
contests = ["swallow"]
series = "parameters.pebbles"

[[figure]]
title = "Bars"
kind = "bar"
x = "path"
contests = ["turtle", "swallow"]
series = "contest"

[[figure]]
title = "Cells"
kind = "heat"
x = "parameters.pebbles"
facet = ["path"]

[[figure]]
title = "Two at once"
kind = "time"
y = "goodput"
series = "contest"
contests = ["both"]

[[figure]]
title = "Fair shares"
kind = "bar"
y = "fair_share"
series = "flow"
contests = ["both"]

[[expect]]
contest = "swallow"
path = "*"
y = "share"
at_least = 70

[[expect]]
contest = "ostrich"
path = "far"
y = "waste"
at_most = 1
"#;

/// The lines of the file.
pub fn lines() -> String {
    let header = Header {
        schema: SCHEMA,
        plan: PLAN.to_owned(),
        time: "2026-01-02T03:04:05Z".to_owned(),
        repetitions: 3,
        machine: Machine {
            cpu: "Abacus".to_owned(),
            cores: 2,
            memory_bytes: 24_000_000_000,
            kernel: "0.1".to_owned(),
            load: [0.25, 0.5, 0.75],
        },
        versions: BTreeMap::from([("swallow".to_owned(), "swallow 1.0".to_owned())]),
    };
    let mut records = vec![Record::Header(Box::new(header))];
    for repetition in 1..=3 {
        for (path, rtt_ms) in [("near", 26.0), ("far", 65.0)] {
            for (bird, best) in [("swallow", 0.95), ("turtle", 0.5)] {
                for pebbles in [1_u32, 4, 64] {
                    let wobble = f64::from(repetition) * 0.01;
                    let share = best - rtt_ms / 400.0 - 0.2 / f64::from(pebbles) + wobble;
                    let mut run = run(bird, path, rtt_ms, repetition);
                    run.parameters.insert("pebbles".to_owned(), json!(pebbles));
                    run.flows = vec![flow(bird, share, &run.link)];
                    run.flows[0].report = json!({"waste": 0.01 * f64::from(pebbles), "socket_drops": 3});
                    if (bird, pebbles, repetition) == ("turtle", 64, 2) {
                        run.valid = false;
                        run.invalid_because =
                            vec!["p99 of the lateness is 0.9 ms, more than 0.3 ms".to_owned()];
                    }
                    if (bird, pebbles, path, repetition) == ("turtle", 1, "far", 3) {
                        run.flows[0].end = End::Failed;
                        run.flows[0].error = Some("it fell asleep".to_owned());
                    }
                    records.push(Record::Run(Box::new(run)));
                }
            }
        }
        let mut both = run("both", "far", 65.0, repetition);
        both.flows = vec![flow("swallow", 0.5, &both.link), flow("turtle", 0.3, &both.link)];
        both.jain = Some(0.94);
        records.push(Record::Run(Box::new(both)));
    }
    let reason = "ostrich is not installed: install an ostrich".to_owned();
    records.push(Record::Skip(Skip { contest: "ostrich".to_owned(), path: "*".to_owned(), reason }));
    records.iter().map(|record| record.to_line().unwrap()).collect()
}

fn run(contest: &str, path: &str, rtt_ms: f64, repetition: u32) -> Run {
    let link = Link {
        rate_bps: 1e8,
        rtt_ms,
        loss: 0.0,
        queue_bytes: 812_500,
        mtu: 1500,
        payload_share: 0.96,
        ..Link::default()
    };
    Run {
        contest: contest.to_owned(),
        parameters: BTreeMap::new(),
        path: path.to_owned(),
        repetition,
        order: 1,
        bytes: Some(40_000_000),
        duration_s: None,
        link,
        flows: vec![],
        jain: None,
        wire: Counters {
            forward: DirectionReport { bytes_in: 42_000_000, queue_drops: 7, ..DirectionReport::default() },
            ..Counters::default()
        },
        rtt_ms: Some(RoundTrips {
            base: rtt_ms,
            p50: rtt_ms + 2.0,
            p95: rtt_ms + 10.0,
            max: rtt_ms + 30.0,
            count: 90,
            lost: 0,
        }),
        valid: true,
        invalid_because: vec![],
        load: None,
        elapsed_s: 5.0,
    }
}

fn flow(label: &str, share: f64, link: &Link) -> Flow {
    let goodput = share * link.rate_bps;
    let seconds = 40e6 * 8.0 / goodput;
    Flow {
        tool: label.to_owned(),
        label: label.to_owned(),
        options: json!({}),
        from: "a".to_owned(),
        to: "b".to_owned(),
        start_s: 0.0,
        wall_s: seconds + 0.5,
        data_s: Some(seconds),
        bytes: 40_000_000,
        goodput_bps: Some(goodput),
        wall_goodput_bps: Some(40e6 * 8.0 / (seconds + 0.5)),
        share: Some(share),
        overlap_bps: Some(goodput),
        cpu_sender_s: Some(0.2),
        cpu_receiver_s: Some(0.1),
        verified: Some(true),
        end: End::Complete,
        exit: Some(0),
        error: None,
        report: json!(null),
        series_of: Some(SeriesOf::Interface),
        series: (1..=50).map(|step| [f64::from(step) * 0.1, goodput * (1.0 - 0.8_f64.powi(step))]).collect(),
    }
}
