use super::*;
use fobs::deltas::{DeltaFigures, Literal, Matched};
use fobs::event::OtherEntries;
use fobs::storage::{CacheReason, CacheUse, Storage, StorageUse};
use serde_json::{Value, json};

fn lines(json: Json<Vec<u8>>) -> Vec<Value> {
    let out = json.state.into_inner().expect("not poisoned").out;
    assert!(out.is_empty() || out.ends_with(b"\n"));
    let text = String::from_utf8(out).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

fn written(events: impl IntoIterator<Item = Event>) -> Vec<Value> {
    let json = Json::new(Vec::new());
    events.into_iter().for_each(|event| json.event(event));
    lines(json)
}

#[test]
fn events_become_lines() {
    let failed = FileError { path: b"bad\xff".to_vec(), message: "no \"right\"\n".to_owned() };
    let events = [
        Event::Started {
            control: "tls",
            key_exchange: Some("X25519MLKEM768"),
            walls: None,
            transport: "udp",
            cipher: "AES-128-GCM",
            cc: "auto",
        },
        Event::Started {
            control: "ssh",
            key_exchange: None,
            walls: None,
            transport: "tcp",
            cipher: "x",
            cc: "auto",
        },
        Event::Progress(Progress {
            path: Some(b"a".to_vec()),
            bytes: 1,
            rate_bps: f64::NAN,
            ..Progress::default()
        }),
        Event::FileDone(fobs::event::FileDone { path: "é".into(), bytes: 7, root: [0x0f; 32] }),
        Event::FileFailed(failed),
        Event::Notice("pinned".to_owned()),
    ];
    let expected = [
        json!({"v": 1, "event": "start", "control": "tls", "key_exchange": "X25519MLKEM768", "transport": "udp",
               "cipher": "AES-128-GCM", "cc": "auto"}),
        json!({"v": 1, "event": "start", "control": "ssh", "transport": "tcp", "cipher": "x", "cc": "auto"}),
        json!({"v": 1, "event": "progress", "path": "a", "bytes": 1, "bytes_known": 0, "scan_complete": false,
               "files": 0, "rate_bps": 0.0, "rtt_ms": 0.0, "loss_rate": 0.0, "waste": 0.0, "streams": 0}),
        json!({"v": 1, "event": "file", "path": "é", "bytes": 7, "root": "0f".repeat(32)}),
        json!({"v": 1, "event": "error", "path": "bad\u{fffd}", "path_base64": "YmFk/w==",
               "message": "no \"right\"\n"}),
        json!({"v": 1, "event": "notice", "message": "pinned"}),
    ];
    assert_eq!(written(events), expected);
}

#[test]
fn done_has_every_figure() {
    let summary = Summary {
        bytes: 1,
        resumed_bytes: 3,
        matched_bytes: 15,
        deltas: DeltaFigures {
            matched: Matched { same_name: 16, unfinished: 17, elsewhere: 18, moved: 19, similar: 20 },
            literal: Literal { new: 21, no_basis: 22, hopeless: 23, whole_is_faster: 24, trial: 25 },
        },
        files: 2,
        others: OtherEntries { directories: 12, links: 13, devices: 14 },
        seconds: 3.5,
        seconds_total: 4.5,
        goodput_bps: f64::INFINITY,
        packets_needed: 5,
        packets_sent: 6,
        waste: 0.2,
        deadline_margin_s: Some(-1.5),
        rtt_ms_min: Some(7.5),
        loss_rate: 0.25,
        socket_drops: 8,
        datagrams_rejected: 9,
        packet_size: 1444,
        cc: "auto".to_owned(),
        transport: "udp".to_owned(),
        streams: 3,
        cipher: "AES-128-GCM".to_owned(),
        root: "ab".to_owned(),
        max_rss_bytes: 9,
        cpu_seconds: 1.5,
        cpu_seconds_peer: 2.5,
        max_rss_bytes_peer: 10,
        lanes: vec!["lane 0".to_owned()],
        storage: Storage {
            read: vec![StorageUse {
                file_system: "ext4".to_owned(),
                way: CacheUse::Uncached,
                why: None,
                bytes: 26,
            }],
            written: vec![StorageUse {
                file_system: "btrfs".to_owned(),
                way: CacheUse::Cached,
                why: Some(CacheReason::Asked),
                bytes: 27,
            }],
        },
        deletions_left: 11,
        errors: vec![FileError { path: b"x".to_vec(), message: "gone".to_owned() }],
    };
    let json = Json::new(Vec::new());
    json.finish(&Ok(summary), None).expect("a vector takes everything");
    let expected = json!({"v": 1, "event": "done", "bytes": 1, "resumed_bytes": 3, "matched_bytes": 15,
        "deltas": {"matched": {"same_name": 16, "unfinished": 17, "elsewhere": 18, "moved": 19, "similar": 20},
            "literal": {"new": 21, "no_basis": 22, "hopeless": 23, "whole_is_faster": 24, "trial": 25}},
        "files": 2, "directories": 12, "links": 13, "devices": 14, "seconds": 3.5, "seconds_total": 4.5,
        "goodput_bps": 0.0, "packets_needed": 5, "packets_sent": 6, "waste": 0.2, "deadline_margin_s": -1.5, "rtt_ms_min": 7.5,
        "loss_rate": 0.25, "socket_drops": 8, "datagrams_rejected": 9, "packet_size": 1444, "cc": "auto", "transport": "udp", "streams": 3,
        "cipher": "AES-128-GCM", "root": "ab", "max_rss_bytes": 9, "cpu_seconds": 1.5, "cpu_seconds_peer": 2.5,
        "max_rss_bytes_peer": 10, "lanes": ["lane 0"],
        "storage": {"read": [{"file_system": "ext4", "way": "uncached", "bytes": 26}],
            "written": [{"file_system": "btrfs", "way": "cached", "why": "asked", "bytes": 27}]},
        "deletions_left": 11, "errors": [{"path": "x", "message": "gone"}]});
    assert_eq!(lines(json), [expected]);
}

#[test]
fn no_event_follows_failed() {
    for &kind in ErrorKind::ALL {
        let json = Json::new(Vec::new());
        json.finish(&Err(Error::new(kind, "why")), None).expect("a vector takes everything");
        json.event(Event::Notice("too late".to_owned()));
        let expected = json!({"v": 1, "event": "failed", "code": kind.code(), "message": "why",
            "exit_code": kind.exit_code()});
        assert_eq!(lines(json), [expected]);
    }
}

#[test]
fn progress_is_written_about_every_second() {
    let mut state = JsonWriter { out: Vec::<u8>::new(), last_progress: None, stage: Stage::Open };
    let start = Instant::now();
    let due: Vec<u64> =
        (0..3500).step_by(100).filter(|ms| state.progress_due(start + Duration::from_millis(*ms))).collect();
    assert_eq!(due, [0, 1000, 2000, 3000]);
}

/// Takes nothing, for this reason.
struct Refusing(io::ErrorKind, usize);

impl Write for Refusing {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        self.1 += 1;
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_and_a_closed_pipe_is_not() {
    for (kind, expected) in
        [(io::ErrorKind::BrokenPipe, None), (io::ErrorKind::StorageFull, Some(ErrorKind::FileIo))]
    {
        let json = Json::new(Refusing(kind, 0));
        json.event(Event::Notice("one".to_owned()));
        json.event(Event::Notice("two".to_owned()));
        let finished = json.finish(&Ok(Summary::default()), None);
        assert_eq!(finished.err().map(|error| error.kind), expected);
        let tries = json.state.into_inner().expect("not poisoned").out.1;
        assert_eq!(tries, 1, "after the first failure nothing more is written");
    }
}
