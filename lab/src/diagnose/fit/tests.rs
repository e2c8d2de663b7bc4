//! The fit of a file of windows, as a whole.

use super::*;

/// Windows whose complexity and loss rate follow from their number: enough of both sides for a fit.
fn sample() -> Vec<Row> {
    let row = |n: u32, side: Side| {
        let loss_rate = 1e-4 * 500_f64.powf(f64::from(n) / 99.0);
        let wave = 0.02 * (1.7 * f64::from(n)).sin();
        let complexity = match side {
            Side::Network => 0.42 * (4.0 * loss_rate).exp() - 0.22 * (-178.0 * loss_rate).exp() + wave,
            Side::Receiver => 0.31 * (0.9 * loss_rate).exp() + wave,
        };
        let success = if side == Side::Receiver { 0.98 } else { 0.01 };
        Row { loss_rate, complexity, success, side: Some(side), of_the_paper: true }
    };
    Side::BOTH.iter().flat_map(|side| (0..100).map(move |n| row(n, *side))).collect()
}

#[test]
fn what_is_fitted_is_read_as_a_model() {
    let fit = Fit::of(&sample(), 10_000).unwrap();
    let text = format!(
        "{{\"version\": 1, \"method\": \"paper\", \"made\": \"\", \"fits\": [\n{}\n]}}\n",
        fit.line()
    );
    let file: serde_json::Value = serde_json::from_str(&text).unwrap();
    let near = |value: &serde_json::Value, expected: f64| {
        let value = value.as_f64().unwrap();
        assert!((value - expected).abs() < 0.1 * expected.abs(), "{value} instead of {expected}");
    };
    let fit = &file["fits"][0];
    near(&fit["network"][0][0][0], 0.42);
    near(&fit["network"][0][1][1], -178.0);
    near(&fit["receiver"][0][0][0], 0.31);
    near(&fit["receiver_success"][0], 0.98);
    near(&fit["receiver_success"][1], DEVIATION_MIN);
}

#[test]
fn windows_without_loss_rates_to_fit_are_refused() {
    let few: Vec<Row> = sample().into_iter().filter(|row| row.side != Some(Side::Network)).collect();
    let error = Fit::of(&few, 10_000).err().unwrap();
    assert!(error.contains("network") && error.contains("10000"), "{error}");
}

#[test]
fn three_figures_of_each_length_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let rows = sample();
    let fit = Fit::of(&rows, 10_000).unwrap();
    draw::figures(&fit, &rows, folder.path()).unwrap();
    for name in ["complexity", "success", "fits"] {
        let svg = std::fs::read_to_string(folder.path().join(format!("{name}-10000.svg"))).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("network contention"), "{name}");
    }
}
