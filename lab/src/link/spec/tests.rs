use proptest::prelude::*;

use super::*;

const FULL: &str = r#"
name = "100M-65ms-1%"
rtt = "65ms"
rate = "100Mbit"
hosts = { west = ["a", { name = "c", delay = "5ms" }], east = ["b"] }
seed = 7
[forward]
queue = { red = { min = "50pkt", max = "150pkt", probability = "10%", limit = "1BDP" } }
policer = { rate = "80Mbit", burst = "256KiB" }
loss = { gilbert_elliott = { good_to_bad = "1%", bad_to_good = "25%" } }
jitter = "1ms"
reorder = { share = "1%", delay = "2ms" }
duplicate = "0.1%"
corrupt = 0.0001
outages = [ { at = "5s", for = "2s" }, { at = "9s", for = "1s", what = "hold" } ]
cross = [
  { kind = "on_off", rate = "1Gbit", on = "100ms", off = "100ms", distribution = "exponential" },
  { kind = "poisson", rate = "10Mbit", packet = 1500 },
  { kind = "paced", rate = "1Mbit" },
]
udp = { outages = [ { at = "1s", for = "2s" } ], policer = { rate = "5Mbit", burst = "64KiB" }, largest = 1280 }
[backward]
rate = "20Mbit"
"#;

fn read(toml: &str) -> Result<LinkSpec, SpecError> {
    LinkSpec::read(toml, &[])
}

fn refusal(toml: &str) -> String {
    read(toml).expect_err(toml).to_string()
}

#[test]
fn a_short_spec_has_sensible_defaults() {
    let spec = read("rtt = '65ms'\nrate = '100Mbit'").expect("valid");
    assert_eq!(spec.base_rtt().millis(), 65.0);
    assert_eq!(spec.hosts.all().map(|host| host.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let forward = spec.settings(Way::Forward);
    assert_eq!(forward.delay.millis(), 32.5);
    assert_eq!(forward.queue, Discipline::DropTailBytes(812_500));
    assert_eq!(spec.settings(Way::Backward), forward);
    let slow = read("rtt = '10ms'\nrate = '1Mbit'").expect("valid");
    assert_eq!(slow.queue_bytes(Way::Forward), 65_536);
}

#[test]
fn every_key_survives_a_round_trip() {
    let spec = read(FULL).expect("valid");
    let forward = spec.settings(Way::Forward);
    let red = Discipline::Red {
        min_bytes: 75_000,
        max_bytes: 225_000,
        probability: 0.1,
        weight: 0.002,
        limit_bytes: 812_500,
    };
    assert_eq!(forward.queue, red);
    assert_eq!(forward.cross.len(), 3);
    assert!((spec.mean_loss(Way::Forward) - 0.01 / 0.26).abs() < 1e-12);
    assert_eq!(spec.link_rate(Way::Backward).to_string(), "20Mbit");
    let toml = toml::to_string(&spec).expect("writes");
    assert_eq!(read(&toml).expect("reads back"), spec);
    let json = serde_json::to_string(&spec).expect("writes");
    assert_eq!(serde_json::from_str::<LinkSpec>(&json).expect("reads back"), spec);
}

#[test]
fn delays_of_directions_and_round_trip_agree() {
    let one = read("rtt = '65ms'\nrate = '1Mbit'\nforward.delay = '60ms'").expect("valid");
    assert_eq!(one.settings(Way::Backward).delay.millis(), 5.0);
    let both = read("rate = '1Mbit'\nforward.delay = '1ms'\nbackward.delay = '2ms'").expect("valid");
    assert_eq!(both.base_rtt().millis(), 3.0);
    assert!(refusal("rate = '1Mbit'").contains("rtt is missing"));
    assert!(refusal("rtt = '5ms'\nrate = '1Mbit'\nforward.delay = '6ms'").contains("do not add up"));
    assert!(
        refusal("rtt = '5ms'\nrate = '1Mbit'\nforward.delay='2ms'\nbackward.delay='2ms'").contains("add up")
    );
}

#[test]
fn invalid_specs_are_refused_with_a_reason() {
    let with = |line: &str| refusal(&format!("rtt = '65ms'\nrate = '100Mbit'\n{line}"));
    for (line, reason) in [
        ("mtu = 100", "mtu"),
        ("speed = 3", "speed"),
        ("hosts.west = []", "hosts.west"),
        ("hosts.west = ['A']", "host name"),
        ("hosts.west = ['b']", "two hosts"),
        ("forward.queue = '10'", "100pkt"),
        ("forward.queue = '100B'", "queue must hold"),
        (
            "forward.queue = { red = { min = '2pkt', max = '1pkt', probability = 0.1, limit = '9pkt' } }",
            "min < max",
        ),
        ("forward.queue = { red = { min = '2pkt' } }", "missing field"),
        ("forward.loss = '200%'", "share"),
        ("forward.loss = { gilbert = 1 }", "gilbert"),
        ("forward.policer = { rate = '1Mbit', burst = '100B' }", "burst"),
        ("forward.udp = { policer = { rate = '1Mbit', burst = '100B' } }", "burst"),
        ("forward.udp = { outages = [{ at = '5s', for = '2s' }, { at = '6s', for = '2s' }] }", "overlap"),
        ("forward.udp = { loss = '1%' }", "loss"),
        ("forward.delay = '10h'", "add up"),
        ("forward.outages = [{ at = '5s', for = '2s' }, { at = '6s', for = '2s' }]", "overlap"),
        ("forward.cross = [{ kind = 'paced', rate = '1Mbit', on = '1s' }]", "on"),
        ("forward.cross = [{ kind = 'paced', rate = '10Gbit', packet = 40 }]", "million"),
        ("forward.rate = '500Gbit'", "100Gbit"),
        ("backward.rate = '1'", "100Mbit"),
        ("backward.queue = '1000BDP'", "1000BDP"),
    ] {
        // The last is within its own limits at this rate: the limit is in bytes.
        if line.contains("1000BDP") {
            assert!(read(&format!("rtt = '65ms'\nrate = '100Mbit'\n{line}")).is_ok());
            assert!(refusal(&format!("rtt = '65ms'\nrate = '10Gbit'\n{line}")).contains("1GiB"));
            continue;
        }
        let message = with(line);
        assert!(message.contains(reason), "{line}: {message}");
    }
    assert!(refusal("rtt = '1ms'").contains("no rate"));
    assert!(
        refusal("rtt = '100s'\nrate = '10Gbit'\nforward.queue='1MiB'\nbackward.queue='1MiB'")
            .contains("4GiB")
    );
}

#[test]
fn assignments_replace_and_add_keys() {
    let set = |text: &str| LinkSpec::read("rtt = '65ms'\nrate = '100Mbit'", &[text.to_owned()]);
    assert_eq!(set("rate=50Mbit").expect("valid").link_rate(Way::Forward).to_string(), "50Mbit");
    assert_eq!(set("forward.loss=1%").expect("valid").mean_loss(Way::Forward), 0.01);
    assert_eq!(set("forward.outages=[{at='1s',for='1s'}]").expect("valid").forward.outages.len(), 1);
    assert_eq!(set("mtu=9000").expect("valid").mtu, 9000);
    for bad in ["rate", "=1", "rate.x=1", "forward.=1", "nothing=1", "rate=fast"] {
        assert!(set(bad).is_err(), "{bad}");
    }
}

#[test]
fn changes_touch_only_directions() {
    let spec = read(FULL).expect("valid");
    let change = serde_json::json!({ "forward": { "loss": "2%", "queue": null, "rate": "50Mbit" } });
    let changed = spec.changed(&change).expect("valid");
    assert_eq!(changed.mean_loss(Way::Forward), 0.02);
    assert_eq!(changed.settings(Way::Forward).queue, Discipline::DropTailBytes(406_250));
    assert_eq!(changed.backward, spec.backward);
    for bad in [
        r#"{"seed": 3}"#,
        "3",
        r#"{"forward": 3}"#,
        r#"{"forward": {"loss": "x"}}"#,
        r#"{"forward":{"x":1}}"#,
    ] {
        let bad: serde_json::Value = serde_json::from_str(bad).expect("JSON");
        assert!(spec.changed(&bad).is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = read(&text);
        let _ = LinkSpec::read("rtt = '1ms'\nrate = '1Mbit'", &[text]);
    }

    #[test]
    fn any_value_of_a_key_is_read_or_refused(key in "[a-z]{2,9}", value in "\\PC{0,30}") {
        let _ = LinkSpec::read(FULL, &[format!("forward.{key}={value}")]);
    }

    #[test]
    fn valid_specs_survive_a_round_trip(
        rate in 1u64..=1_000_000_000,
        rtt in 0u64..=1_000_000_000,
        loss in 0.0..=1.0f64,
        packets in 2u32..=1000,
    ) {
        let toml = format!("rate = '{rate}bit'\nrtt = '{rtt}ns'\nforward.loss = {loss}\nforward.queue = '{packets}pkt'");
        let spec = read(&toml).expect("valid");
        let again = read(&toml::to_string(&spec).expect("writes")).expect("reads back");
        prop_assert_eq!(spec, again);
    }
}

#[test]
fn delays_of_both_directions_replace_the_round_trip() {
    let spec = read("rtt = '20ms'\nrate = '1Mbit'").expect("valid");
    let one = serde_json::json!({ "forward": { "delay": "40ms" } });
    assert!(spec.changed(&one).is_err(), "the other half of 20 ms would be negative");
    let both = serde_json::json!({ "forward": { "delay": "40ms" }, "backward": { "delay": "30ms" } });
    let changed = spec.changed(&both).expect("valid");
    assert_eq!(changed.base_rtt().to_string(), "70ms");
}
