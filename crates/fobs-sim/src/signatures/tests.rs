use super::*;

#[test]
fn every_scenario_loses_packets_and_the_seed_decides_which() {
    for (index, scenario) in SCENARIOS.iter().enumerate() {
        let seed = 900 + index as u64;
        let window = generate(scenario, 10_000, seed).expect("a scenario");
        assert!(window.signature.lost() > 0, "{scenario}, seed {seed}");
        let again = generate(scenario, 10_000, seed).expect("a scenario");
        assert_eq!(window.signature, again.signature, "{scenario}, seed {seed}");
        let other = generate(scenario, 10_000, seed + 1000).expect("a scenario");
        assert_ne!(window.signature, other.signature, "{scenario}, seed {seed}");
    }
    assert!(generate("gremlins", 10_000, 1).is_none());
}

#[test]
fn patterns_are_what_their_names_say() {
    let longest = |scenario: &str, seed| {
        let window = generate(scenario, 30_000, seed).expect("a scenario");
        window.signature.runs().iter().map(|run| run.len).max().unwrap_or(0)
    };
    for seed in 0..5 {
        assert!(longest("self", seed) <= 2, "a paced flow alone overflows by single packets, seed {seed}");
        assert_eq!(longest("policer", seed), 1, "seed {seed}");
        let outage = generate("outage", 30_000, seed).expect("a scenario");
        assert_eq!(outage.signature.runs().len(), 1, "seed {seed}");
    }
}
