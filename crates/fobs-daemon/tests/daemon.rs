//! A server and its clients in one process, by the public interface.

mod served;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use fobs::{CongestionControl, ErrorKind, Event, Summary, TransferOptions};

use served::{Served, content, temporary_files};

fn figures(s: &Summary) -> [f64; 8] {
    [
        s.seconds,
        s.seconds_total,
        s.goodput_bps,
        s.waste,
        s.rtt_ms_min.unwrap_or_default(),
        s.loss_rate,
        s.cpu_seconds,
        s.cpu_seconds_peer,
    ]
}

#[test]
fn a_tree_goes_there_and_back() {
    let served = Served::start(|_| ());
    let here = served.directory("here");
    fs::create_dir(here.join("sub")).unwrap();
    fs::write(here.join("empty"), "").unwrap();
    fs::write(here.join("sub/large"), content(6 << 20)).unwrap();
    for options in [
        served.options(),
        TransferOptions { compress: true, preserve: true, packet_size: Some(512), ..served.options() },
        TransferOptions { congestion_control: CongestionControl::Greedy, ..served.options() },
        TransferOptions {
            congestion_control: CongestionControl::Fixed { bits_per_second: 400_000_000 },
            rate_limit: Some(300_000_000),
            burst: Some(4),
            ack_every: Some(1),
            ..served.options()
        },
    ] {
        let options = TransferOptions { recursive: true, ..options };
        let pushed = served.push(&here, "", &options).unwrap();
        assert_eq!((pushed.files, pushed.bytes), (2, 6 << 20));
        assert_eq!(fs::read(served.root().join("here/sub/large")).unwrap(), content(6 << 20));
        let back = served.directory("back");
        let pulled = served.pull("here/", &back, &options).unwrap();
        assert_eq!((pulled.files, pulled.bytes), (2, 6 << 20));
        assert_eq!(fs::read(back.join("sub/large")).unwrap(), content(6 << 20));
        assert_eq!(fs::read(back.join("empty")).unwrap(), b"");
        for summary in [pushed, pulled] {
            assert!(summary.errors.is_empty());
            assert!(figures(&summary).iter().all(|f| f.is_finite() && *f >= 0.0), "{summary:?}");
            assert!(summary.packets_sent >= summary.packets_needed && summary.packets_needed > 0);
            assert_eq!(summary.root.len(), 64);
        }
        fs::remove_dir_all(served.root().join("here")).unwrap();
        fs::remove_dir_all(back).unwrap();
    }
}

#[test]
fn an_empty_tree_has_figures_without_holes() {
    let served = Served::start(|_| ());
    let empty = served.directory("empty");
    let options = TransferOptions { recursive: true, ..served.options() };
    let pushed = served.push(&empty, "copy", &options).unwrap();
    let pulled = served.pull("copy", &served.directory("back"), &options).unwrap();
    for summary in [pushed, pulled] {
        assert_eq!((summary.files, summary.bytes, summary.goodput_bps), (0, 0, 0.0));
        assert!(figures(&summary).iter().all(|f| f.is_finite() && *f >= 0.0), "{summary:?}");
    }
}

#[test]
fn a_deadline_goes_both_ways_and_what_became_of_it_is_told() {
    let served = Served::start(|_| ());
    let here = served.directory("here");
    fs::write(here.join("file"), content(1 << 20)).unwrap();
    let hour = SystemTime::now() + Duration::from_secs(3600);
    let options = TransferOptions { deadline: Some(hour), ..served.options() };
    let pushed = served.push(&here.join("file"), "copy", &options).unwrap();
    let pulled = served.pull("copy", &here, &options).unwrap();
    for summary in [pushed, pulled] {
        let margin = summary.deadline_margin_s.expect("there is a deadline");
        // A megabyte is complete before the path's rate is known, and does not wait for the deadline.
        assert!((3000.0..3600.0).contains(&margin), "{margin}");
    }
    // The shortest deadline: it cannot be met, which is no error.
    let options = TransferOptions { deadline: Some(SystemTime::now() + Duration::from_millis(2)), ..options };
    let late = served.pull("copy", &here, &options);
    match late {
        Ok(summary) => assert!(summary.deadline_margin_s.is_some_and(|margin| margin < 0.0), "{summary:?}"),
        Err(error) => assert_eq!(error.kind, ErrorKind::Usage, "it had passed: {error}"),
    }
    let options = TransferOptions { deadline: Some(SystemTime::UNIX_EPOCH), ..served.options() };
    let error = served.pull("copy", &here, &options).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Usage);
    assert!(error.message.contains("has passed"), "{error}");
    let options = TransferOptions {
        deadline: Some(hour),
        congestion_control: CongestionControl::Cubic,
        ..served.options()
    };
    let error = served.pull("copy", &here, &options).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Usage);
    assert!(error.message.contains("a mode of --cc auto"), "{error}");
}

#[test]
fn the_log_has_key_request_and_outcome() {
    let served = Served::start(|options| options.read_only = true);
    fs::write(served.root().join("a\n[fake] line"), "12345").unwrap();
    let here = served.directory("here");
    served.pull("a\n[fake] line", &here, &served.options()).unwrap();
    let refused = served.push(&here.join("a\n[fake] line"), "b", &served.options()).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Denied);
    served.pull("missing", &here, &served.options()).unwrap_err();
    let fingerprint = &served.fingerprint()[..19];
    for (request, outcome) in [
        ("pull of 'a\\n[fake] line'", "sent 1 files, 5 bytes in "),
        ("push to 'b'", "denied: this server is read-only"),
        ("pull of 'missing'", "no_source: "),
    ] {
        let asked = format!("{fingerprint} (ann@laptop): {request}");
        let line = served.wait_for_notice(|line| line.contains(&format!("{asked}: {outcome}")));
        assert!(line.starts_with("127.0.0.1:") && !line.contains('\n'), "{line:?}");
        // The request is logged before its outcome.
        let logged = format!("{asked} (key exchange X25519MLKEM768)");
        assert!(served.notices().iter().any(|line| line.ends_with(&logged)), "{:?}", served.notices());
    }
}

#[test]
fn a_read_only_daemon_gives_and_does_not_take() {
    let served = Served::start(|options| options.read_only = true);
    fs::write(served.root().join("file"), "content").unwrap();
    let here = served.directory("here");
    served.pull("file", &here, &served.options()).unwrap();
    assert_eq!(fs::read(here.join("file")).unwrap(), b"content");
    let error = served.push(&here.join("file"), "other", &served.options()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(error.message.contains("read-only"), "{error}");
    assert!(!served.root().join("other").exists());
}

#[test]
fn a_removed_key_is_refused_at_once() {
    let served = Served::start(|_| ());
    fs::write(served.root().join("file"), "content").unwrap();
    let here = served.directory("here");
    served.pull("file", &here, &served.options()).unwrap();
    served.authorize("");
    let error = served.pull("file", &here.join("again"), &served.options()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(error.message.contains(&served.fingerprint()), "{error}");
    assert!(!here.join("again").exists());
    served.wait_for_notice(|line| line.contains("denied") && line.contains("pull of 'file'"));
    // A file that cannot be parsed refuses everyone, and its content is not sent to clients.
    served.authorize("secret nonsense\n");
    let error = served.pull("file", &here, &served.options()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(!error.message.contains("secret") && !error.message.contains("line 1"), "{error}");
    served.wait_for_notice(|line| line.contains("line 1"));
    served.authorize_client();
    served.pull("file", &here, &served.options()).unwrap();
}

#[test]
fn impossible_options_are_refused_before_any_connection() {
    let served = Served::start(|_| ());
    let here = served.directory("here");
    let before = served.notices().len();
    for options in [
        TransferOptions { packet_size: Some(100), ..served.options() },
        TransferOptions {
            congestion_control: CongestionControl::Fixed { bits_per_second: 0 },
            ..served.options()
        },
    ] {
        let error = served.pull("file", &here, &options).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage, "{error}");
        let error = served.push(&here, "", &options).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage, "{error}");
    }
    assert_eq!(served.notices().len(), before, "a connection was made: {:?}", served.notices());
}

#[test]
fn several_clients_at_once_do_not_mix() {
    let served = Arc::new(Served::start(|_| ()));
    let threads: Vec<_> = (0..4usize)
        .map(|number| {
            let served = served.clone();
            thread::spawn(move || {
                let here = served.directory(&format!("here{number}"));
                let file = here.join("file");
                let data: Vec<u8> = content(2 << 20).iter().map(|byte| byte ^ number as u8).collect();
                fs::write(&file, &data).unwrap();
                let name = format!("there{number}");
                served.push(&file, &name, &served.options()).unwrap();
                served.pull(&name, &here, &served.options()).unwrap();
                assert_eq!(fs::read(here.join(&name)).unwrap(), data);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(temporary_files(&served.root()).is_empty());
}

#[test]
fn every_file_is_an_event_at_the_client() {
    let served = Served::start(|_| ());
    let here = served.directory("here");
    for number in 0..300 {
        fs::write(here.join(number.to_string()), number.to_string()).unwrap();
    }
    let options = TransferOptions { recursive: true, ..served.options() };
    let told = |events: Vec<Event>| events.iter().filter(|event| matches!(event, Event::FileDone(_))).count();
    served.push(&here, "", &options).unwrap();
    assert_eq!(told(served.take_events()), 300);
    served.pull("here/", &served.directory("back"), &options).unwrap();
    assert_eq!(told(served.take_events()), 300);
}

#[test]
fn paths_of_any_bytes_are_served() {
    let served = Served::start(|_| ());
    let name = std::ffi::OsStr::from_bytes(b"\xff\xfe name");
    let here = served.directory("here");
    fs::write(here.join(name), "odd").unwrap();
    served.push(&here.join(name), "", &served.options()).unwrap();
    assert_eq!(fs::read(served.root().join(name)).unwrap(), b"odd");
}
