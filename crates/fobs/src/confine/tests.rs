//! The walls themselves: what a domain lets through and what it does not, on this kernel.

use super::*;
use std::time::Instant;

#[test]
fn timing() {
    println!("{}", Walls::here());
    for which in 0..4 {
        let mut total = Vec::new();
        let cpu = fobs_sys::process_usage().cpu_seconds;
        for _ in 0..300 {
            let began = Instant::now();
            match which {
                0 => std::thread::scope(|s| {
                    s.spawn(|| ());
                }),
                1 => {
                    std::thread::scope(|s| {
                        s.spawn(|| calls::refuse());
                    });
                }
                2 => {
                    std::thread::scope(|s| {
                        s.spawn(|| Domain::of_receiver(vec![]).enter(Walls::here()).unwrap());
                    });
                }
                _ => {
                    within(Domain::of_strangers(), "x", || ()).unwrap();
                }
            }
            total.push(began.elapsed());
        }
        total.sort();
        let cpu = (fobs_sys::process_usage().cpu_seconds - cpu) / 300.0 * 1e6;
        println!("{which}: min {:?} median {:?} cpu {cpu} us", total[0], total[150]);
    }
}
