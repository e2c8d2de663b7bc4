//! Plans that make sense and plans that do not.

use serde_json::json;

use super::*;
use crate::link::spec::Way;

/// A plan with two paths, and contests to be added.
const HEAD: &str = r#"
name = "test"
repetitions = 2
timeout = "20s"
[[path]]
name = "100M-65ms"
rtt = "65ms"
rate = "100Mbit"
bytes = "64MB"
hosts = { west = ["a", "c"], east = ["b", "d"] }
[[path]]
name = "1G-65ms"
rtt = "65ms"
rate = "1Gbit"
bytes = "256MB"
timeout = "10s"
"#;

fn read(rest: &str) -> Result<Plan, String> {
    Plan::read(&format!("{HEAD}{rest}"))
}

#[test]
fn a_plan_says_what_each_flow_moves_from_where_to_where() {
    let plan = read(
        r#"
        [[contest]]
        label = "two"
        paths = ["100M-*"]
        flow = [
            { tool = "fobs", cc = "auto" },
            { tool = "iperf3", label = "cubic", cc = "cubic", from = "d", to = "c", start = "5s", duration = "10s" },
            { tool = "iperf3", role = "background", to = "c" },
        ]
        [[contest]]
        label = "one"
        bytes = "1MB"
        flow = [{ tool = "rsync" }]
        "#,
    )
    .unwrap();
    let (narrow, wide) = (&plan.paths[0], &plan.paths[1]);
    let (two, one) = (&plan.contests[0], &plan.contests[1]);
    assert!(plan.meets(two, narrow) && !plan.meets(two, wide));
    assert!(plan.meets(one, narrow) && plan.meets(one, wide));

    let extents: Vec<Extent> = two.flows.iter().map(|flow| two.extent(narrow, flow).unwrap()).collect();
    assert_eq!(extents, [Extent::Bytes(64_000_000), Extent::Time(Duration::from_secs(10)), Extent::Rest]);
    assert_eq!(one.extent(wide, &one.flows[0]), Ok(Extent::Bytes(1_000_000)));

    let hosts = |flow: usize| two.hosts(narrow, &two.flows[flow]).unwrap();
    assert_eq!(hosts(0), ("a".to_owned(), "b".to_owned()));
    assert_eq!(hosts(1), ("d".to_owned(), "c".to_owned()));
    assert_eq!(hosts(2), ("b".to_owned(), "c".to_owned()));
    assert_eq!(Contest::way(narrow, "d"), Way::Backward);

    assert_eq!(one.timeout(narrow), Duration::from_secs(20));
    assert_eq!(one.timeout(wide), Duration::from_secs(10));
    assert_eq!((two.flows[1].label.as_str(), two.flows[0].label.as_str()), ("cubic", "two"));
    assert_eq!(two.flows[1].start, Duration::from_secs(5));
    let options: Vec<&String> = two.flows[1].options.keys().collect();
    assert_eq!(options, ["cc"], "the plan's own keys are not the tool's");
}

#[test]
fn what_varies_becomes_contests_and_paths_of_their_own() {
    let plan = Plan::read(
        r#"
        name = "grid"
        repetitions = 1
        [[path]]
        name = "{rate}-{rtt}-{loss}"
        bytes = "1MB"
        vary = { rate = ["10Mbit", "20Mbit"], rtt = ["10ms"], "forward.loss" = ["0%", "1%"] }
        [[contest]]
        label = "fobs"
        flow = [{ tool = "fobs" }]
        vary = { "flow.0.ack_every" = [1, 16] }
        "#,
    )
    .unwrap();
    let names: Vec<&str> = plan.paths.iter().map(|path| path.spec.name.as_str()).collect();
    assert_eq!(names, ["10Mbit-10ms-0%", "20Mbit-10ms-0%", "10Mbit-10ms-1%", "20Mbit-10ms-1%"]);
    assert_eq!(plan.paths[3].parameters["loss"], json!("1%"));
    assert!((plan.paths[3].spec.mean_loss(Way::Forward) - 0.01).abs() < 1e-9);
    assert_eq!(plan.contests.len(), 2);
    assert_eq!(plan.contests[1].parameters["ack_every"], json!(16));
    assert_eq!(plan.contests[1].flows[0].options["ack_every"].as_integer(), Some(16));
}

#[test]
fn runs_are_interleaved_and_contests_alternate() {
    let plan = read(
        r#"
        [[contest]]
        label = "x"
        flow = [{ tool = "scp" }]
        [[contest]]
        label = "y"
        flow = [{ tool = "rsync" }]
        [[contest]]
        label = "z"
        paths = ["1G-65ms"]
        flow = [{ tool = "iperf3" }]
        "#,
    )
    .unwrap();
    let order: Vec<(u32, usize, usize)> =
        plan.turns().iter().map(|turn| (turn.repetition, turn.path, turn.contest)).collect();
    let first = [(1, 0, 0), (1, 0, 1), (1, 1, 0), (1, 1, 1), (1, 1, 2)];
    let second = [(2, 0, 1), (2, 0, 0), (2, 1, 2), (2, 1, 1), (2, 1, 0)];
    assert_eq!(order, [first, second].concat());
    assert!(plan.contests[2].chosen_by("iperf", "1G-65ms") && plan.contests[2].chosen_by("1G", "1G-65ms"));
    assert!(!plan.contests[2].chosen_by("rsync", "1G-65ms"));
}

#[test]
fn what_makes_no_sense_is_refused_and_named() {
    let contest = |rest: &str| format!("[[contest]]\nlabel = \"x\"\n{rest}");
    for (rest, said) in [
        ("", &["contest"][..]),
        (&contest("flow = []"), &["contest \"x\"", "0 flows"]),
        (&contest("flow = [{ tool = \"ftp\" }]"), &["contest \"x\"", "flow 0", "\"ftp\"", "iperf3"]),
        (&contest("flow = [{ tool = \"fobs\" }, { }]"), &["flow 1", "tool"]),
        (&contest("flow = [{ tool = \"fobs\", colour = 1 }]"), &["flow 0", "fobs", "colour"]),
        (
            &contest("flow = [{ tool = \"fobs\", history = \"old\" }]"),
            &["flow 0", "old", "fresh", "remembered"],
        ),
        (&contest("flow = [{ tool = \"iperf3\", streams = 500 }]"), &["iperf3", "streams", "128"]),
        (&contest("flow = [{ tool = \"fobs\", start = \"soon\" }]"), &["flow 0", "soon"]),
        (&contest("flow = [{ tool = \"fobs\", from = \"z\" }]"), &["contest \"x\"", "from", "\"z\""]),
        (&contest("flow = [{ tool = \"fobs\", from = \"a\", to = \"c\" }]"), &["does not cross"]),
        (&contest("flow = [{ tool = \"fobs\", role = \"background\" }]"), &["contest \"x\"", "background"]),
        (
            &contest(
                "flow = [{ tool = \"fobs\" }, { tool = \"fobs\", role = \"background\", bytes = \"1B\" }]",
            ),
            &["flow 1", "leave out"],
        ),
        (&contest("flow = [{ tool = \"fobs\", start = \"20s\" }]"), &["timeout"]),
        (&contest("duration = \"15s\"\nflow = [{ tool = \"fobs\" }]"), &["1G-65ms", "15 s", "10 s"]),
        (&contest("bytes = \"100GiB\"\nflow = [{ tool = \"fobs\" }]"), &["bytes", "16 GiB"]),
        (&contest("bytes = \"0B\"\nflow = [{ tool = \"fobs\" }]"), &["bytes"]),
        (
            &contest("bytes = \"1B\"\nduration = \"1s\"\nflow = [{ tool = \"fobs\" }]"),
            &["both bytes and duration"],
        ),
        (&contest("paths = [\"10G*\"]\nflow = [{ tool = \"fobs\" }]"), &["contest \"x\"", "10G*"]),
        (&contest("color = 1\nflow = [{ tool = \"fobs\" }]"), &["color"]),
        (&format!("{0}\n{0}", contest("flow = [{ tool = \"fobs\" }]")), &["two contests", "\"x\""]),
        ("[[path]]\nname = \"100M-65ms\"\nrtt = \"1ms\"\nrate = \"1Mbit\"", &["contest"]),
    ] {
        let error = read(rest).expect_err(rest);
        for word in said {
            assert!(error.contains(word), "{rest}\nsaid {error:?}, which lacks {word:?}");
        }
    }
}

#[test]
fn paths_and_the_plan_itself_are_checked_too() {
    let contest = "[[contest]]\nlabel = \"x\"\nbytes = \"1MB\"\nflow = [{ tool = \"fobs\" }]";
    let path = |rest: &str| format!("[[path]]\nname = \"p\"\n{rest}\n");
    let good = path("rtt = \"1ms\"\nrate = \"1Mbit\"");
    let head = "name = \"n\"\nrepetitions = 1\n";
    assert!(Plan::read(&format!("{head}{good}{contest}")).is_ok());
    for (text, said) in [
        (format!("{head}{}{contest}", path("rtt = \"1ms\"")), &["path \"p\"", "rate"][..]),
        (
            format!("{head}{}{contest}", path("rtt = \"1ms\"\nrate = \"1Mbit\"\nspeed = 3")),
            &["path \"p\"", "speed"],
        ),
        (
            format!("{head}{}{contest}", path("rtt = \"1ms\"\nrate = \"1Mbit\"\nbytes = 3")),
            &["path \"p\"", "bytes"],
        ),
        (format!("{head}{good}{good}{contest}"), &["two paths", "\"p\""]),
        (format!("{head}{contest}"), &["path"]),
        (format!("name = \"n\"\nrepetitions = 0\n{good}{contest}"), &["repetitions"]),
        (format!("name = \"a/b\"\nrepetitions = 1\n{good}{contest}"), &["name"]),
        (format!("name = \"n\"\nrepetition = 1\n{good}{contest}"), &["repetition"]),
        (format!("{head}{good}{contest}\n[[figure]]\ntitle = \"t\"\nzzz = 1"), &["zzz"]),
        (format!("{head}{}{contest}", path("bytes = \"1B\"\nrate = \"1Mbit\"")), &["rtt"]),
    ] {
        let error = Plan::read(&text).expect_err(&text);
        for word in said {
            assert!(error.contains(word), "{text}\nsaid {error:?}, which lacks {word:?}");
        }
    }
}
