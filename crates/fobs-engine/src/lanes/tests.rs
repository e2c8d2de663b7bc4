use super::*;
use crate::{CHUNKS_MAX, sender_config};
use fobs_model::message::Sending;
use fobs_proto::congestion::BurstSent;
use fobs_proto::{Rate, Timestamp};

fn configs(paths: &[u8], limit_bps: Option<u64>) -> Vec<SenderConfig> {
    let sending = Sending { cc: "cubic".to_owned(), limit_bps, ..Sending::default() };
    lane_configs(paths, || sender_config(&sending, None, 7, CHUNKS_MAX)).expect("a possible choice")
}

#[test]
fn a_number_and_whether_it_is_the_last_come_back() {
    for chunk in [0, 1, 51, 1 << 30, (1 << 31) - 1] {
        for is_final in [false, true] {
            let number = LaneNumber { chunk, is_final };
            let bytes = [b"body".as_slice(), &number.encode().expect("room")].concat();
            assert_eq!(LaneNumber::decode(&bytes), Some((number, 4)));
        }
    }
    assert_eq!(LaneNumber { chunk: 1 << 31, is_final: false }.encode(), None);
    assert_eq!(LaneNumber::decode(b"abc"), None);
}

#[test]
fn lanes_of_one_path_share_a_window_and_paths_do_not() {
    let configs = configs(&[0, 0, 1], None);
    let window = |lane: usize| configs[lane].controller.congestion_window();
    assert_eq!((configs.len(), window(0)), (3, window(1)));
    let mut one = configs;
    let bytes = one[0].controller.congestion_window();
    let sent = BurstSent { now: Timestamp::ZERO, packets: 1, bytes, bytes_in_flight: bytes };
    let [before, apart] = [one[1].controller.congestion_window(), one[2].controller.congestion_window()];
    one[0].controller.on_sent(&sent);
    assert!(one[1].controller.congestion_window() < before, "the first lane has filled it");
    assert_eq!(one[2].controller.congestion_window(), apart);
}

#[test]
fn a_cap_is_that_of_all_lanes() {
    let limits: Vec<_> =
        configs(&[0, 1, 1, 0], Some(80_000)).iter().map(|config| config.rate_limit).collect();
    assert_eq!(limits, vec![Some(Rate::bits_per_second(80_000)); 4]);
}

#[test]
fn windows_and_credits_fit_the_memory() {
    for chunks_max in [14, 52, 1000] {
        for lanes in 2..=LANES_MAX {
            let all = lanes_window(chunks_max) + lane_credit(chunks_max, lanes) * lanes as u32;
            let least = lanes_window(chunks_max) + CREDIT_MIN * lanes as u32;
            assert!(all <= chunks_max.max(least), "{chunks_max} {lanes}: {all}");
        }
    }
}
