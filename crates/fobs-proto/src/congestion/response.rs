//! Response functions: what window a rate of loss allows, and HighSpeed TCP's increase and decrease by
//! window. Windows are in packets, losses are shares of packets (congestion events where the caller counts
//! those).

use crate::math;

/// Window above which HighSpeed TCP leaves standard TCP, packets (RFC 3649 section 5).
pub const LOW_WINDOW: f64 = 38.0;
/// Window of 10 Gbit/s at 100 ms with 1500-byte packets; at a loss of 1e-7.
pub const HIGH_WINDOW: f64 = 83_000.0;
/// Decrease at [`HIGH_WINDOW`].
pub const HIGH_DECREASE: f64 = 0.1;
/// Smallest loss that differs from none: keeps every window finite.
const LOSS_MIN: f64 = 1e-12;

/// Standard TCP: 1.2 / sqrt(p) (RFC 3649 section 2; `seeds/001` equation 2).
pub fn standard_window(loss: f64) -> f64 {
    1.2 / share(loss).sqrt()
}

/// HighSpeed TCP: 0.12 / p^0.835 (RFC 3649 section 5; `seeds/001` equation 1).
pub fn highspeed_window(loss: f64) -> f64 {
    0.12 / math::powf(share(loss), 0.835)
}

/// `seeds/001` section 2.1: the HighSpeed response from [`LOW_WINDOW`] on, the standard one below, by the
/// size of the window before.
pub fn fobs_window(previous: f64, loss: f64) -> f64 {
    if previous < LOW_WINDOW { standard_window(loss) } else { highspeed_window(loss) }
}

/// TCP with its timeouts (RFC 5348 section 3.1) as a window: the throughput equation with b = 1 and t_RTO =
/// 4 R, times R / s.
pub fn tfrc_window(loss: f64) -> f64 {
    let p = share(loss);
    1.0 / ((2.0 * p / 3.0).sqrt() + 12.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p))
}

/// HighSpeed TCP's b(w): the part of the window that a congestion event takes (RFC 3649 section 5).
pub fn highspeed_decrease(window: f64) -> f64 {
    if window <= LOW_WINDOW {
        return 0.5;
    }
    let position = (math::ln(window) - math::ln(LOW_WINDOW)) / (math::ln(HIGH_WINDOW) - math::ln(LOW_WINDOW));
    ((HIGH_DECREASE - 0.5) * position + 0.5).max(0.0)
}

/// HighSpeed TCP's a(w): packets that the window grows by in a round trip (RFC 3649 section 5).
pub fn highspeed_increase(window: f64) -> f64 {
    if window <= LOW_WINDOW {
        return 1.0;
    }
    let b = highspeed_decrease(window);
    // p(w): the response function turned round, with the RFC's own rounding.
    let loss = 0.078 / math::powf(window, 1.2);
    (window * window * loss * 2.0 * b / (2.0 - b)).max(1.0)
}

/// The loss at which a falling response function gives `window`.
pub fn loss_for(window: f64, response: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (math::ln(LOSS_MIN), 0.0);
    // Each turn halves 28 units of the logarithm: 40 leave no error that matters.
    for _ in 0..40 {
        let middle: f64 = (low + high) / 2.0;
        if response(math::exp(middle)) > window { low = middle } else { high = middle }
    }
    math::exp((low + high) / 2.0)
}

fn share(loss: f64) -> f64 {
    if loss.is_nan() { 1.0 } else { loss.clamp(LOSS_MIN, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_response_functions_go_through_the_points_of_rfc_3649() {
        // The tables of RFC 3649: loss, and the window at it.
        let highspeed = [
            (1e-3, 38.0),
            (1e-4, 263.0),
            (1e-5, 1795.0),
            (1e-6, 12279.0),
            (1e-7, 83981.0),
            (1e-8, 574356.0),
            (1e-9, 3928088.0),
            (1e-10, 26864653.0),
        ];
        for (loss, window) in highspeed {
            let got = highspeed_window(loss);
            assert!((got / window - 1.0).abs() < 0.012, "HighSpeed at {loss}: {got} for {window}");
        }
        let standard = [
            (1e-2, 12.0),
            (1e-3, 38.0),
            (1e-4, 120.0),
            (1e-5, 379.0),
            (1e-6, 1200.0),
            (1e-7, 3795.0),
            (1e-8, 12000.0),
            (1e-9, 37948.0),
            (1e-10, 120000.0),
        ];
        for (loss, window) in standard {
            let got = standard_window(loss);
            assert!((got / window - 1.0).abs() < 0.01, "standard at {loss}: {got} for {window}");
        }
        // At 1e-2 HighSpeed TCP is standard TCP: 12 packets.
        assert_eq!(fobs_window(12.0, 1e-2), standard_window(1e-2));
        assert_eq!(fobs_window(LOW_WINDOW, 1e-4), highspeed_window(1e-4));
    }

    #[test]
    fn increase_and_decrease_are_those_of_rfc_3649_s_appendix() {
        // Appendix B: w, a(w), b(w).
        let table = [
            (38.0, 1.0, 0.50),
            (118.0, 2.0, 0.44),
            (221.0, 3.0, 0.41),
            (347.0, 4.0, 0.38),
            (495.0, 5.0, 0.37),
            (663.0, 6.0, 0.35),
            (851.0, 7.0, 0.34),
            (1058.0, 8.0, 0.33),
            (1284.0, 9.0, 0.32),
            (1529.0, 10.0, 0.31),
            (84035.0, 71.0, 0.10),
        ];
        for (window, increase, decrease) in table {
            let (a, b) = (highspeed_increase(window), highspeed_decrease(window));
            // The appendix lists the first window at which a(w), rounded up, reaches the figure.
            assert!((a - increase).abs() < 1.0, "a({window}) is {a} for {increase}");
            assert!((b - decrease).abs() < 0.006, "b({window}) is {b} for {decrease}");
        }
    }

    #[test]
    fn increase_and_decrease_hold_the_window_of_the_response() {
        // A deterministic loss each 1/p packets: the average window is the response function's (RFC 3649
        // section 5).
        for loss in [1e-4, 1e-5, 1e-6] {
            let mut window = highspeed_window(loss);
            let (mut sum, mut count, mut since) = (0.0, 0.0, 0.0);
            for round in 0..20_000 {
                since += window;
                if since * loss >= 1.0 {
                    since = 0.0;
                    window *= 1.0 - highspeed_decrease(window);
                } else {
                    window += highspeed_increase(window);
                }
                if round >= 10_000 {
                    (sum, count) = (sum + window, count + 1.0);
                }
            }
            let average = sum / count;
            assert!((average / highspeed_window(loss) - 1.0).abs() < 0.15, "at {loss}: {average}");
        }
    }

    #[test]
    fn tfrc_s_equation_is_tcp_s_at_low_loss_and_falls_steeply_above() {
        // RFC 5348 section 3.1 at p = 1%, worked by hand: sqrt(2p/3) = 0.08165, 12 sqrt(3p/8) p (1 + 32
        // p^2) = 0.007372.
        assert!((tfrc_window(0.01) - 1.0 / 0.089022).abs() < 0.01);
        // Without timeouts it is sqrt(1.5 / p).
        assert!((tfrc_window(1e-6) / (1.5f64 / 1e-6).sqrt() - 1.0).abs() < 1e-3);
        assert!(tfrc_window(0.5) < 0.1);
    }

    #[test]
    fn every_response_can_be_turned_round() {
        for response in [standard_window, highspeed_window, tfrc_window] {
            for loss in [0.1, 1e-2, 1e-5, 1e-8] {
                let got = loss_for(response(loss), response);
                assert!((got / loss - 1.0).abs() < 1e-6, "{got} for {loss}");
            }
        }
        for odd in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
            assert!(standard_window(odd).is_finite() && loss_for(odd, highspeed_window) > 0.0);
        }
    }
}
