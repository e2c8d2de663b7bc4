//! Single files arrive byte for byte, and the printed figures are correct.

use serde_json::Value;

use super::case::Case;
use super::files::{hash, roomy_directory, write_random};
use super::needs;
use super::remote::{Carrier, Direction, Route};

/// `--packet-size` of the size tests, bytes.
const PACKET: u64 = 1024;
/// Most file data in a chunk (protocol 1.3), bytes.
const CHUNK: u64 = 4 << 20;

/// The roots of all `file` events, by path.
fn file_events(events: &[Value]) -> Vec<(String, u64, String)> {
    let files = events.iter().filter(|event| event["event"] == "file");
    files
        .map(|event| {
            let text =
                |key: &str| event[key].as_str().unwrap_or_else(|| panic!("{key} in {event}")).to_owned();
            (text("path"), event["bytes"].as_u64().expect("a size"), text("root"))
        })
        .collect()
}

fn every_edge_size(name: &'static str, carrier: Carrier, direction: Direction) {
    let case = Case::new(name);
    let route = Route::open(&case, carrier, direction);
    let mut random = case.random();
    for size in [0, 1, PACKET - 1, PACKET, PACKET + 1, CHUNK - 1, CHUNK, CHUNK + 1] {
        let file = format!("of-{size}");
        let expected = write_random(&route.source_path(&file), size, &mut random);
        let flags = ["--packet-size", &PACKET.to_string()];
        let finished = case.run(&mut route.copy(&flags, &file, &file)).expect_success();

        assert_eq!(hash(&route.target_path(&file)), expected, "{size} bytes");
        assert_eq!(std::fs::metadata(route.target_path(&file)).expect("it arrived").len(), size);
        let events = finished.events();
        let [(path, bytes, root)] = &file_events(&events)[..] else { panic!("one file: {events:?}") };
        assert_eq!((path.as_str(), *bytes, root), (file.as_str(), size, &expected));
        let done = finished.done();
        assert_eq!((done["bytes"].as_u64(), done["files"].as_u64()), (Some(size), Some(1)), "{done}");
        assert_eq!(done["packet_size"], PACKET, "{done}");
    }
}

#[test]
fn files_of_every_edge_size_are_pushed_through_the_daemon() {
    every_edge_size(
        "files_of_every_edge_size_are_pushed_through_the_daemon",
        Carrier::Daemon,
        Direction::Push,
    );
}

#[test]
fn files_of_every_edge_size_are_pulled_through_the_daemon() {
    every_edge_size(
        "files_of_every_edge_size_are_pulled_through_the_daemon",
        Carrier::Daemon,
        Direction::Pull,
    );
}

#[test]
fn files_of_every_edge_size_are_pushed_through_ssh() {
    every_edge_size("files_of_every_edge_size_are_pushed_through_ssh", Carrier::Ssh, Direction::Push);
}

#[test]
fn files_of_every_edge_size_are_pulled_through_ssh() {
    every_edge_size("files_of_every_edge_size_are_pulled_through_ssh", Carrier::Ssh, Direction::Pull);
}

fn a_gibibyte(name: &'static str, carrier: Carrier, direction: Direction) {
    if !needs::given(name) {
        return;
    }
    let case = Case::within(name, &roomy_directory().expect("asked just now"));
    let route = Route::open(&case, carrier, direction);
    let expected = write_random(&route.source_path("big"), 1 << 30, &mut case.random());
    let finished = case.run(&mut route.copy(&[], "big", "big")).expect_success();
    assert_eq!(hash(&route.target_path("big")), expected);
    assert_eq!(file_events(&finished.events()), [("big".to_owned(), 1 << 30, expected)]);
    // Memory does not grow with the file: at most a quarter of its size, on either side.
    let done = finished.done();
    for key in ["max_rss_bytes", "max_rss_bytes_peer"] {
        let rss = done[key].as_u64().expect("a number");
        assert!((1..=256 << 20).contains(&rss), "{key}: {done}");
    }
}

#[test]
fn a_gibibyte_is_pushed_through_the_daemon() {
    a_gibibyte("a_gibibyte_is_pushed_through_the_daemon", Carrier::Daemon, Direction::Push);
}

#[test]
fn a_gibibyte_is_pulled_through_ssh() {
    a_gibibyte("a_gibibyte_is_pulled_through_ssh", Carrier::Ssh, Direction::Pull);
}

#[test]
fn the_done_figures_are_consistent() {
    let case = Case::new("the_done_figures_are_consistent");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let size = 10 * CHUNK + 17;
    write_random(&route.source_path("file"), size, &mut case.random());
    let finished = case.run(&mut route.copy(&["--packet-size", "1024"], "file", "file")).expect_success();
    let done = finished.done();
    let number = |key: &str| done[key].as_f64().unwrap_or_else(|| panic!("{key} in {done}"));

    assert_eq!(number("bytes"), size as f64);
    assert!(number("seconds") > 0.0 && number("seconds") <= number("seconds_total"), "{done}");
    assert!(number("seconds_total") <= finished.took.as_secs_f64(), "{done}");
    let goodput = number("bytes") * 8.0 / number("seconds");
    assert!((number("goodput_bps") / goodput - 1.0).abs() < 0.01, "{done}");
    assert!(number("packets_needed") >= number("bytes") / 1024.0, "{done}");
    assert!(number("packets_sent") >= number("packets_needed"), "{done}");
    let waste = (number("packets_sent") - number("packets_needed")) / number("packets_needed");
    assert!((number("waste") - waste).abs() < 0.001, "{done}");
    assert!(number("rtt_ms_min") > 0.0, "{done}");
    assert!((0.0..1.0).contains(&number("loss_rate")), "{done}");
    assert!(number("socket_drops") >= 0.0, "{done}");
    for key in ["cpu_seconds", "cpu_seconds_peer", "max_rss_bytes", "max_rss_bytes_peer"] {
        assert!(number(key) > 0.0, "{key} in {done}");
    }
    assert_eq!((&done["cc"], &done["transport"]), (&Value::from("auto"), &Value::from("udp")));
    assert!(["AES-128-GCM", "ChaCha20-Poly1305"].map(Value::from).contains(&done["cipher"]), "{done}");
    let root = done["root"].as_str().expect("the transfer's root");
    assert!(root.len() == 64 && root.bytes().all(|byte| byte.is_ascii_hexdigit()), "{done}");
    assert_eq!(done["errors"], Value::Array(Vec::new()));
}

#[test]
fn either_side_syncs_what_it_receives_if_asked() {
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new("either_side_syncs_what_it_receives_if_asked");
        let route = Route::open(&case, Carrier::Daemon, direction);
        std::fs::create_dir(route.source_path("tree")).expect("a directory");
        for file in 0..200 {
            std::fs::write(route.source_path(format!("tree/{file}")), [file as u8]).expect("a file");
        }
        let trace = case.path("trace.jsonl");
        let trace_path = trace.to_str().expect("UTF-8");
        for (to, flags, synced) in [("plain", &[][..], false), ("synced", &["--fsync"][..], true)] {
            let flags = [flags, &["-r", "--trace", trace_path]].concat();
            case.run(&mut route.copy(&flags, "tree", to)).expect_success();
            let lines = std::fs::read_to_string(&trace).expect("a trace");
            let records = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
            let waited = records.filter_map(|record| record["writer"]["syncing_us"].as_u64()).max();
            assert_eq!(waited.expect("the receiver tells") > 0, synced, "{direction:?} {to}");
        }
    }
}

#[test]
fn a_long_copy_explains_its_limit_while_it_runs() {
    let case = Case::new("a_long_copy_explains_its_limit_while_it_runs");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    // 8 s at this rate; the first explanation comes after 5 s.
    write_random(&route.source_path("file"), 8_000_000, &mut case.random());
    let finished =
        case.run(&mut route.copy(&["--rate", "8Mbit", "--explain"], "file", "file")).expect_success();
    let lines = String::from_utf8_lossy(&finished.stdout);
    let notices: Vec<&str> = lines.lines().filter(|line| line.contains("\"message\":\"after ")).collect();
    assert!(!notices.is_empty() && notices[0].contains("of the time"), "{lines}");
}

#[test]
fn standard_input_becomes_a_file() {
    let case = Case::new("standard_input_becomes_a_file");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    for size in [0, 1, 3 * CHUNK as usize + 5] {
        let content = case.random().bytes(size);
        let mut command = route.cp(&[]);
        case.run_with_input(command.arg("-").arg(route.target("from-stdin")), content.clone())
            .expect_success();
        assert!(
            std::fs::read(route.target_path("from-stdin")).expect("it arrived") == content,
            "{size} bytes"
        );
    }
}

#[test]
fn standard_input_becomes_a_file_over_ssh() {
    // ssh must not read the standard input that is the transfer's source.
    let case = Case::new("standard_input_becomes_a_file_over_ssh");
    let route = Route::open(&case, Carrier::Ssh, Direction::Push);
    let content = case.random().bytes(2 * CHUNK as usize + 77);
    let mut command = route.cp(&[]);
    case.run_with_input(command.arg("-").arg(route.target("from-stdin")), content.clone()).expect_success();
    assert!(std::fs::read(route.target_path("from-stdin")).expect("it arrived") == content);
}

fn to_standard_output(name: &'static str, carrier: Carrier) {
    let case = Case::new(name);
    let route = Route::open(&case, carrier, Direction::Pull);
    for size in [0, 1, 3 * CHUNK + 5] {
        write_random(&route.source_path("file"), size, &mut case.random());
        // Without `--json`, which would share standard output with the data.
        let mut command = route.plain_cp(&[]);
        command.arg(route.source("file")).arg("-");
        let finished = case.run(&mut command).expect_success();
        assert!(
            finished.stdout == std::fs::read(route.source_path("file")).expect("the source"),
            "{size} bytes"
        );
    }
}

#[test]
fn a_file_goes_to_standard_output_from_the_daemon() {
    to_standard_output("a_file_goes_to_standard_output_from_the_daemon", Carrier::Daemon);
}

#[test]
fn a_file_goes_to_standard_output_over_ssh() {
    to_standard_output("a_file_goes_to_standard_output_over_ssh", Carrier::Ssh);
}

#[test]
fn a_copy_by_its_final_name_replaces_what_was_there() {
    let case = Case::new("a_copy_by_its_final_name_replaces_what_was_there");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    std::fs::write(route.target_path("file"), vec![7; 9 << 20]).expect("an older, longer file");
    let expected = write_random(&route.source_path("file"), 5_000_000, &mut case.random());
    case.run(&mut route.copy(&[], "file", "file")).expect_success();
    assert_eq!(hash(&route.target_path("file")), expected);
}

#[test]
fn a_sparse_file_and_one_of_zeroes_arrive_whole() {
    let case = Case::new("a_sparse_file_and_one_of_zeroes_arrive_whole");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let sparse = std::fs::File::create(route.source_path("sparse")).expect("a file");
    sparse.set_len(37 << 20).expect("a hole");
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"island", 20 << 20).expect("an island");
    for flags in [&[][..], &["-C"]] {
        case.run(&mut route.copy(flags, "sparse", "sparse")).expect_success();
        assert_eq!(hash(&route.target_path("sparse")), hash(&route.source_path("sparse")));
    }
}
