//! Situations beside the nine limits with which the rules were made: paths that are unsteady, ends that stand
//! still, steps, and pairs of causes of which one costs more.

use super::case::{Case, Drawn, WIDE_MBIT, rounded};

/// Rate of a link that a control makes twice as wide, Mbit/s: two processors carry both.
const DOUBLED_MBIT: f64 = 150.0;

/// Draws between two bounds, rounded to a number of decimals.
trait Uniform: FnMut(f64, f64, i32) -> f64 {}
impl<T: FnMut(f64, f64, i32) -> f64> Uniform for T {}

fn whole(value: f64) -> Option<u32> {
    Some(value.floor() as u32)
}

/// Megabytes that take this many seconds.
fn for_seconds(mbit: f64, seconds: f64) -> f64 {
    rounded(mbit / 8.0 * seconds, 1)
}

/// The parameters of such a trial.
pub fn drawn(case: Case, uniform: &mut impl FnMut(f64, f64, i32) -> f64) -> Drawn {
    let rtt_ms = whole(uniform(10.0, 50.0, 3));
    let wide = Drawn { rate_mbit: Some(WIDE_MBIT), rtt_ms, ..Drawn::default() };
    match case {
        Case::StoppedReceiver
        | Case::StoppedSender
        | Case::SmallTcpWindow
        | Case::LossAndSlowDisk
        | Case::TrafficAndStarvedReceiver => of_the_ends(case, wide, uniform),
        _ => of_the_path(case, wide, uniform),
    }
}

fn of_the_path(case: Case, wide: Drawn, uniform: &mut impl Uniform) -> Drawn {
    let doubled = Drawn { rate_mbit: Some(DOUBLED_MBIT), ..wide.clone() };
    match case {
        Case::Reordering => Drawn {
            // It costs the default controller little or half of the link: a control without it decides.
            reorder_percent: Some(uniform(40.0, 60.0, 1)),
            behind_ms: Some(uniform(15.0, 30.0, 2)),
            megabytes: for_seconds(100.0, 3.0),
            ..doubled
        },
        Case::Outage => Drawn {
            // Before the copy is over.
            outage_at_ms: whole(uniform(600.0, 1200.0, 3)),
            outage_ms: whole(uniform(1500.0, 2500.0, 3)),
            megabytes: for_seconds(100.0, 2.2),
            ..doubled
        },
        Case::CubicFlows => {
            // A rate at which the flows, both ends and the emulator leave two processors room.
            let flows = whole(uniform(2.0, 6.0, 3));
            Drawn { flows, rate_mbit: Some(100.0), megabytes: for_seconds(20.0, 4.0), ..wide }
        }
        Case::OnOffTraffic => Drawn {
            cross_mbit: Some(rounded(uniform(0.8, 1.0, 2) * DOUBLED_MBIT, 1)),
            on_ms: whole(uniform(100.0, 600.0, 3)),
            megabytes: for_seconds(40.0, 4.0),
            ..doubled
        },
        Case::NarrowWayBack => {
            Drawn { back_kbit: whole(uniform(150.0, 400.0, 3)), megabytes: for_seconds(130.0, 3.0), ..wide }
        }
        Case::RateStep => Drawn {
            rate_mbit: Some(100.0),
            step_mbit: Some(uniform(15.0, 35.0, 1)),
            step_at_ms: whole(uniform(1200.0, 2000.0, 3)),
            megabytes: for_seconds(100.0, 2.2),
            ..wide
        },
        Case::DelayStep => Drawn {
            rate_mbit: Some(100.0),
            rtt_ms: whole(uniform(10.0, 20.0, 3)),
            step_rtt_ms: whole(uniform(60.0, 120.0, 3)),
            step_mbit: Some(uniform(30.0, 50.0, 1)),
            step_at_ms: whole(uniform(1200.0, 2000.0, 3)),
            megabytes: for_seconds(100.0, 2.5),
            ..wide
        },
        _ => {
            let rate = uniform(20.0, 80.0, 1);
            Drawn {
                rate_mbit: Some(rate),
                jitter_ms: Some(uniform(1.0, 3.0, 2)),
                megabytes: for_seconds(rate, 2.5),
                ..wide
            }
        }
    }
}

fn of_the_ends(case: Case, wide: Drawn, uniform: &mut impl Uniform) -> Drawn {
    match case {
        Case::StoppedReceiver | Case::StoppedSender => Drawn {
            off_ms: whole(uniform(250.0, 400.0, 3)),
            every_ms: whole(uniform(450.0, 700.0, 3)),
            megabytes: for_seconds(60.0, 3.0),
            ..wide
        },
        Case::SmallTcpWindow => {
            Drawn { window_kib: whole(uniform(64.0, 256.0, 3)), megabytes: for_seconds(40.0, 2.0), ..wide }
        }
        Case::LossAndSlowDisk => {
            let rate = uniform(8.0, 14.0, 3).floor();
            Drawn {
                disk_mb_s: whole(rate),
                loss_percent: Some(uniform(0.1, 0.5, 2)),
                megabytes: rounded(rate * 3.0, 1),
                ..wide
            }
        }
        _ => Drawn {
            cpu_share: Some(uniform(0.05, 0.1, 3)),
            cross_mbit: Some(uniform(0.1, 0.3, 2) * WIDE_MBIT),
            on_ms: whole(uniform(100.0, 400.0, 3)),
            megabytes: for_seconds(150.0, 3.0),
            ..wide
        },
    }
}

/// Keys of the emulator's description for them. Both ways are alike where the data may go either way.
pub fn keys(drawn: &Drawn) -> String {
    let mut keys = Vec::new();
    if let (Some(share), Some(behind)) = (drawn.reorder_percent, drawn.behind_ms) {
        keys.push(format!("reorder = {{ share = '{share}%', delay = '{behind}ms' }}"));
    }
    if let Some(jitter) = drawn.jitter_ms {
        keys.push(format!("jitter = '{jitter}ms'"));
    }
    if let (Some(at), Some(length)) = (drawn.outage_at_ms, drawn.outage_ms) {
        keys.push(format!("outages = [{{ at = '{at}ms', for = '{length}ms', what = 'drop' }}]"));
    }
    if let (Some(rate), Some(on)) = (drawn.cross_mbit, drawn.on_ms) {
        keys.push(format!(
            "cross = [{{ kind = 'on_off', rate = '{rate}Mbit', on = '{on}ms', off = '{on}ms' }}]"
        ));
    }
    let mut text = String::new();
    if !keys.is_empty() {
        let both = keys.join(", ");
        text += &format!("forward = {{ {both} }}\nbackward = {{ {both} }}\n");
    }
    // Pushed only: the way back is the other one.
    if let Some(rate) = drawn.back_kbit {
        text += &format!("backward = {{ rate = '{rate}kbit' }}\n");
    }
    text
}
