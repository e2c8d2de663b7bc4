use super::*;

const WRITE: usize = 4 << 20;

/// A device that takes so long for a byte, behind a cache that takes so long while it has room.
struct Device {
    cache_ns: f64,
    room: f64,
    device_ns: f64,
    now_ns: f64,
    dirty: f64,
}

impl Device {
    /// Writes some and returns the time; what is in the cache leaves meanwhile.
    fn write(&mut self, way: Way) -> Duration {
        let bytes = WRITE as f64;
        let waits = (self.dirty + bytes - self.room).max(0.0) * self.device_ns;
        let took = match way {
            Way::Through => bytes * self.cache_ns + waits,
            Way::Past => bytes * self.device_ns,
        };
        self.dirty += if way == Way::Through { bytes } else { 0.0 };
        let leaves = match way {
            Way::Through => took / self.device_ns,
            Way::Past => 0.0,
        };
        self.dirty = (self.dirty - leaves).max(0.0);
        self.now_ns += took;
        Duration::from_nanos(took as u64)
    }
}

/// The time for this number of writes, s, and how many of them pass the cache.
fn play(mut device: Device, writes: u32, choose: &mut dyn FnMut() -> Option<Way>) -> (f64, u32) {
    let ways = Ways::new(false);
    let mut past = 0;
    for _ in 0..writes {
        let way = choose().unwrap_or_else(|| ways.with(|paces| paces.next()).0);
        past += u32::from(way == Way::Past);
        let took = device.write(way);
        ways.with(|paces| paces.took(way, WRITE, took));
    }
    (device.now_ns / 1e9, past)
}

fn device(cache_ns: f64, room: f64, device_ns: f64) -> Device {
    Device { cache_ns, room, device_ns, now_ns: 0.0, dirty: 0.0 }
}

#[test]
fn the_faster_way_is_found_and_the_slower_one_costs_little() {
    for (cache_ns, room, device_ns, writes) in [
        (0.5, 1e12, 0.7, 500),
        (0.5, 1e12, 7.0, 500),
        (0.5, 1e12, 100.0, 2000),
        (2.0, 1e12, 1.0, 500),
        (0.5, 4e8, 7.0, 1000),
        (0.5, 4e8, 0.55, 1000),
    ] {
        let all = |way| play(device(cache_ns, room, device_ns), writes, &mut || Some(way)).0;
        let (took, past) = play(device(cache_ns, room, device_ns), writes, &mut || None);
        let best = all(Way::Through).min(all(Way::Past));
        // What the first tries cost beside, and what a lighter CPU is worth.
        let tries = 4.0 * WRITE as f64 * device_ns / 1e9;
        assert!(took <= best * 1.3 + tries, "{cache_ns} {room} {device_ns}: {took} s, best {best} s");
        if device_ns <= cache_ns {
            assert!(past * 20 >= writes * 19, "{past} of {writes}");
        }
    }
}

#[test]
fn what_is_to_be_kept_at_once_passes_the_cache() {
    let ways = Ways::new(true);
    assert!((0..100).all(|_| {
        let way = ways.with(|paces| paces.next()).0;
        ways.with(|paces| paces.took(way, WRITE, Duration::from_secs(1)));
        way == Way::Past
    }));
    ways.with(|paces| paces.refused = true);
    assert_eq!(ways.with(|paces| paces.next()), (Way::Through, CacheReason::Refused));
}
