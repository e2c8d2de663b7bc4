//! Memory of other kinds than slices, and rates that change.

use super::open;
use crate::served::{Served, content};
use fobs_engine::Steering;
use std::io::{Cursor, Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A writer into shared memory.
struct Into(Arc<Mutex<Vec<u8>>>);

impl Write for Into {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn readers_and_writers_are_memory_too() {
    let served = Served::start(|_| ());
    let session = open(&served);
    for len in [0, 1000, 65_537, 3 << 20] {
        let data = content(len);
        let mut reader = || Box::new(Cursor::new(data.clone())) as Box<dyn Read + Send>;
        let sent = session.call().send_from("object", len as u64, &mut reader).unwrap();
        assert_eq!(sent.bytes, len as u64);
        let got = Arc::new(Mutex::new(Vec::new()));
        let mut writer = || {
            got.lock().unwrap().clear();
            Box::new(Into(got.clone())) as Box<dyn Write + Send>
        };
        let bytes = session.call().recv_to("object", len as u64, &mut writer).unwrap();
        assert_eq!(bytes, len as u64);
        assert!(*got.lock().unwrap() == data, "{len}");
        let mut writer = || {
            got.lock().unwrap().clear();
            Box::new(Into(got.clone())) as Box<dyn Write + Send>
        };
        let bytes = session.call().read_range_to("object", 10, 100_000, &mut writer).unwrap();
        assert!(*got.lock().unwrap() == data[10.min(len)..100_010.min(len)], "{len}");
        assert_eq!(bytes, got.lock().unwrap().len() as u64);
    }
}

#[test]
fn a_rate_that_is_raised_lets_a_slow_transfer_end() {
    let served = Served::start(|_| ());
    let session = open(&served);
    let data = content(8 << 20);
    for receives in [false, true] {
        // At this rate it would take a day.
        let rate = Steering::new();
        rate.set_rate(Some(1000));
        let call = session.call().steering(rate.clone());
        std::thread::scope(|scope| {
            let data = &data;
            let running = scope.spawn(move || {
                if !receives {
                    call.send("slow", data).map(drop)
                } else {
                    call.recv("slow", data.len() as u64).map(drop)
                }
            });
            std::thread::sleep(Duration::from_millis(600));
            assert!(!running.is_finished(), "the rate holds it back");
            rate.set_rate(Some(10_000_000_000));
            running.join().unwrap().unwrap();
        });
    }
}
