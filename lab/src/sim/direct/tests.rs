//! Virtual transfers against the response function and simple windows.

use super::*;
use crate::diagnose::Method;
use fobs_proto::congestion::response::highspeed_window;
use fobs_proto::loss_cause::Signature;

fn window(runs: &[(u64, u64)]) -> Window {
    Window {
        signature: Signature::from_gaps(70_000, 1, runs.iter().copied()).unwrap(),
        cause: Some(Cause::Cpu),
        scenario: String::new(),
        run: 0,
        host_lost: None,
    }
}

fn classifier() -> Classifier {
    Classifier::shipped(Method::Signature)
}

/// Two stalls of the receiver: two long runs.
fn stalls() -> Window {
    window(&[(20_000, 180), (30_000, 170)])
}

#[test]
fn counting_all_losses_follows_the_response_function() {
    let physical = Physical { loss_rate: Some(3.5e-4), windows: 20_000, seed: 1 };
    let row = simulate(&[stalls()], &physical, &Link::default(), &mut classifier()).unwrap();
    assert!((row.loss_rate / 3.5e-4 - 1.0).abs() < 0.1, "{row:?}");
    let expected = highspeed_window(row.loss_rate) * 1500.0 * 8.0 / 0.1;
    // The first windows pass before the loss rate has settled.
    assert!(row.without_bps > expected * 0.9 && row.without_bps < expected * 3.0, "{row:?}, {expected}");
}

#[test]
fn receiver_losses_cost_no_throughput() {
    let physical = Physical { loss_rate: Some(3.5e-4), windows: 5000, seed: 2 };
    let row = simulate(&[stalls()], &physical, &Link::default(), &mut classifier()).unwrap();
    assert_eq!((row.events, row.in_range), (row.receiver, row.receiver), "{row:?}");
    assert!(row.with_bps > 9.9e9, "{row:?}");
}

#[test]
fn inconclusive_losses_count_as_the_networks() {
    let single = window(&[(20_000, 1)]);
    let physical = Physical { loss_rate: Some(1e-6), windows: 5000, seed: 3 };
    let row = simulate(&[single], &physical, &Link::default(), &mut classifier()).unwrap();
    assert_eq!((row.in_range, row.receiver), (0, 0), "{row:?}");
    assert_eq!(row.with_bps, row.without_bps);
}

#[test]
fn without_a_loss_rate_windows_are_taken_in_order() {
    let physical = Physical { loss_rate: None, windows: 0, seed: 0 };
    let recorded = [stalls(), window(&[]), window(&[])];
    let row = simulate(&recorded, &physical, &Link::default(), &mut classifier()).unwrap();
    assert_eq!((row.windows, row.events), (3, 1));
    assert_eq!(row.loss_rate, 350.0 / 210_000.0);
    assert_eq!(row.ledger_bps, None);
}

#[test]
fn only_losses_the_host_counted_are_ignored() {
    let counted = |host_lost| Window { host_lost: Some(host_lost), ..stalls() };
    let physical = Physical { loss_rate: Some(3.5e-4), windows: 2000, seed: 4 };
    let row = |window| simulate(&[window], &physical, &Link::default(), &mut classifier()).unwrap();
    assert!(row(counted(350)).ledger_bps.unwrap() > 9.9e9);
    let none = row(counted(0));
    assert_eq!(none.ledger_bps, Some(none.without_bps));
}

#[test]
fn impossible_loss_rates_are_refused() {
    let asked = |rate, recorded: &[Window]| {
        let physical = Physical { loss_rate: Some(rate), windows: 10, seed: 0 };
        simulate(recorded, &physical, &Link::default(), &mut classifier())
    };
    assert_eq!(asked(1e-4, &[window(&[])]), Err(DirectError::NoLoss));
    assert!(matches!(asked(0.5, &[stalls()]), Err(DirectError::TooClean { .. })));
    assert!(matches!(asked(f64::NAN, &[stalls()]), Err(DirectError::TooClean { .. })));
}
