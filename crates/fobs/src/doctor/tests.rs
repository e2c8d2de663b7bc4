//! Findings and verdicts from injected facts.

use super::*;
use fobs_explain::{Explanation, Recorder, explain};
use fobs_model::error::ErrorKind;

fn host() -> HostFacts {
    HostFacts {
        program: "fobs 1".to_owned(),
        kernel: "6.8.0".to_owned(),
        cpus: 4,
        sockets: SocketFacts {
            requested: 8 << 20,
            receive: 16 << 20,
            send: 16 << 20,
            rmem_max: Some(8 << 20),
            wmem_max: Some(8 << 20),
            segments: true,
            merges: true,
        },
        ciphers: vec![CipherSpeed { name: "AES-128-GCM".to_owned(), bps: 40e9 }],
        hash_bps: 20e9,
        packets: Some(PacketSpeed { send_bps: 7.5e9, receive_bps: 8e9, apart: None }),
        disk: DiskFacts::Measured(DiskSpeed {
            directory: "/data".to_owned(),
            bytes: 1 << 20,
            write_bps: 4e9,
            read_bps: 5e9,
            past_cache: Some(true),
            storage: None,
        }),
        ..HostFacts::default()
    }
}

/// The buffers of a kernel whose limits nobody has raised.
fn with_small_buffers() -> HostFacts {
    let sockets = SocketFacts {
        receive: 425_984,
        send: 425_984,
        rmem_max: Some(212_992),
        wmem_max: Some(212_992),
        ..host().sockets
    };
    HostFacts { sockets, ..host() }
}

fn carried(bps: f64, socket_drops: u64) -> PathFacts {
    let why = Explanation { goodput_bps: bps, ..explain(&Recorder::new().so_far()) };
    let outcome = PathOutcome::Carried(Box::new(Carried {
        bps,
        seconds: 2.0,
        rtt_ms: Some(10.0),
        loss_rate: 0.0,
        socket_drops,
        mtu: Some(1500),
        cut_short: false,
        why,
    }));
    PathFacts { port: Some(45_601), outcome }
}

fn with_peer(peer: HostFacts, there: PathFacts, back: Option<PathFacts>) -> Examination {
    let name = "far".to_owned();
    let peer = PeerFacts { name, host: peer, clock_ahead_s: 0.0, clock_error_s: 0.005, there, back };
    Examination { here: host(), there: Some(peer) }
}

#[test]
fn a_small_receive_buffer_is_named_with_its_command() {
    let found = diagnose(&Examination { here: with_small_buffers(), there: None });
    let back = found.back.clone().expect("a limit of receiving");
    assert_eq!((back.spot, back.subject), (Spot::Here, Subject::SocketBuffers));
    assert!((200e6..220e6).contains(&back.bps), "{back:?}");
    let mend = back.mend.expect("a command");
    assert_eq!(mend.action, "as root here: sysctl -w net.core.rmem_max=8388608 net.core.wmem_max=8388608");
    // The buffer would then fit 8.4 Gbit/s, and the disk is the next limit.
    assert_eq!(mend.predicted_bps, Some(4e9));
    assert_eq!(found.forth.as_ref().map(|forth| forth.subject), Some(Subject::Disk));
    let text = found.text();
    let last: Vec<&str> = text.lines().rev().take(3).collect();
    let [act, limits, fine] = last[..] else { panic!("three lines: {text}") };
    assert!(fine.starts_with("[+] fine: ") && !fine.contains("socket buffers"), "{fine}");
    assert!(limits.starts_with("[!] limits: ") && limits.contains("the socket buffers here"), "{limits}");
    assert!(act.starts_with("[>] type: ") && act.contains("sysctl -w net.core.rmem_max=8388608"), "{act}");
    assert_eq!(found.summary, [fine, limits, act]);
}

#[test]
fn a_buffer_that_dropped_nothing_is_no_verdict() {
    for (drops, expected) in [(0, Subject::Udp), (7, Subject::SocketBuffers)] {
        let facts = with_peer(with_small_buffers(), carried(900e6, drops), Some(carried(900e6, 0)));
        let found = diagnose(&facts);
        assert_eq!(found.forth.as_ref().map(|forth| forth.subject), Some(expected), "{drops}");
        let named = |finding: &&Finding| finding.subject == Subject::SocketBuffers && finding.mend.is_some();
        assert_eq!(found.findings.iter().filter(named).count(), 1, "it is a finding either way");
    }
}

#[test]
fn the_slowest_part_of_the_way_is_the_verdict() {
    let slow = DiskSpeed {
        directory: "/d".to_owned(),
        bytes: 1,
        write_bps: 1e8,
        read_bps: 3e9,
        past_cache: None,
        storage: None,
    };
    let peer = HostFacts { disk: DiskFacts::Measured(slow), ..host() };
    let found = diagnose(&with_peer(peer, carried(9e8, 0), Some(carried(2e9, 0))));
    let (forth, back) = (found.forth.expect("a limit"), found.back.expect("a limit"));
    assert_eq!((forth.spot, forth.subject, forth.bps), (Spot::There, Subject::Disk, 1e8));
    assert_eq!(forth.mend.and_then(|mend| mend.predicted_bps), Some(9e8), "the path is next");
    assert_eq!((back.spot, back.subject, back.bps), (Spot::Back, Subject::Udp, 2e9));
    assert_eq!(found.failure, None);
    assert!(found.verdict.starts_with("a copy to far is limited to about 100 Mbit/s by the disk there"));
}

#[test]
fn no_more_is_promised_than_both_ends_put_through_as_packets() {
    let fast_disk = DiskSpeed {
        directory: "/d".to_owned(),
        bytes: 1,
        write_bps: 90e9,
        read_bps: 90e9,
        past_cache: None,
        storage: None,
    };
    let fast = HostFacts { disk: DiskFacts::Measured(fast_disk), ..host() };
    let mut path = carried(5e9, 0);
    if let PathOutcome::Carried(carried) = &mut path.outcome {
        carried.why.fix = "another core; predicted: up to 57 Gbit/s.".to_owned();
        carried.why.predicted_bps = Some(57e9);
    }
    let here = fast.clone();
    let facts = Examination { here, ..with_peer(fast.clone(), path.clone(), Some(carried(5e9, 0))) };
    let forth = diagnose(&facts).forth.expect("a limit");
    assert_eq!(forth.mend.and_then(|mend| mend.predicted_bps), Some(7.5e9));
    let unmeasured = HostFacts { packets: None, ..fast.clone() };
    let older = Examination { here: fast, ..with_peer(unmeasured, path, Some(carried(5e9, 0))) };
    let forth = diagnose(&older).forth.expect("a limit");
    assert_eq!(forth.mend.and_then(|mend| mend.predicted_bps), None, "of an older end nothing is known");
    let alone = diagnose(&Examination { here: facts.here.clone(), there: None });
    let (forth, back) = (alone.forth.expect("a limit"), alone.back.expect("a limit"));
    assert_eq!((forth.subject, back.subject), (Subject::Packets, Subject::Packets));
    // What the path carried, both ends handled.
    let beyond = Examination { here: facts.here.clone(), ..with_peer(facts.here, carried(9e9, 0), None) };
    let forth = diagnose(&beyond).forth.expect("a limit");
    assert_eq!((forth.bps, forth.subject), (9e9, Subject::Udp));
}

/// Every rate that is predicted anywhere in it.
fn predictions(found: &Diagnosis) -> Vec<f64> {
    let limits = found.forth.iter().chain(&found.back).filter_map(|limit| limit.mend.as_ref());
    let mends = found.findings.iter().filter_map(|finding| finding.mend.as_ref()).chain(limits);
    mends.filter_map(|mend| mend.predicted_bps).collect()
}

#[test]
fn no_prediction_goes_beyond_what_was_carried() {
    let rates = [2e7, 9e8, 5e9, 4e10];
    let (mut told, mut tried) = (0, 0);
    // Every combination: own sessions, path, disk, what the explanation predicts, and the socket buffers.
    for number in 0..4_usize.pow(5) {
        let pick = |digit: u32| rates[number / 4_usize.pow(digit) % 4];
        let (own_here, own_there, path_bps, disk_bps, hoped_bps) =
            (pick(0), pick(1), pick(2), pick(3), pick(4));
        let disk = DiskSpeed {
            directory: "/d".to_owned(),
            bytes: 1,
            write_bps: disk_bps,
            read_bps: disk_bps,
            past_cache: None,
            storage: None,
        };
        let end = |own: f64, host: HostFacts| HostFacts {
            packets: Some(PacketSpeed { send_bps: own, receive_bps: own, apart: None }),
            disk: DiskFacts::Measured(disk.clone()),
            ..host
        };
        let mut path = carried(path_bps, number as u64 % 3);
        if let PathOutcome::Carried(carried) = &mut path.outcome {
            carried.why.fix = "a cure; predicted: up to much.".to_owned();
            carried.why.predicted_bps = Some(hoped_bps);
        }
        let peer = with_peer(end(own_there, with_small_buffers()), path.clone(), Some(path));
        let facts = Examination { here: end(own_here, with_small_buffers()), ..peer };
        let most = path_bps.max(own_here.min(own_there));
        let all = predictions(&diagnose(&facts));
        assert!(all.iter().all(|&bps| bps <= most), "{all:?} with {facts:?}");
        let alone = predictions(&diagnose(&Examination { there: None, ..facts }));
        assert!(alone.iter().all(|&bps| bps <= own_here), "{alone:?} where it carried {own_here}");
        (told, tried) = (told + all.len() + alone.len(), tried + 1);
    }
    assert!(told > tried, "something is predicted: {told} of {tried}");
}

#[test]
fn what_a_key_allows_is_the_limit() {
    let limits = |access: &str, (may_pull, may_push), rate_bps| {
        let key = Some(KeyFacts { access: access.to_owned(), may_pull, may_push, rate_bps });
        let found =
            diagnose(&with_peer(HostFacts { key, ..host() }, carried(95e6, 0), Some(carried(95e6, 0))));
        found.summary[1].clone()
    };
    let slow = limits("read-write", (true, true), Some(100_000_000));
    assert!(slow.contains("to far about 100 Mbit/s, what this client's key is allowed"), "{slow}");
    assert!(slow.contains("from far about 100 Mbit/s, what this client's key"), "{slow}");
    let drop = limits("write-only", (false, true), None);
    assert!(drop.contains("from far nothing: this key does not allow it"), "{drop}");
    assert!(drop.contains("to far about 95.0 Mbit/s, what the path between"), "{drop}");
    let read = limits("read-only", (true, false), None);
    assert!(read.contains("to far nothing: this key does not allow it"), "{read}");
}

#[test]
fn what_was_not_measured_is_not_called_fine() {
    let reason = "this key may not try the disk".to_owned();
    let without = HostFacts { disk: DiskFacts::Unmeasured { reason }, ..host() };
    let fine = |here: HostFacts, there: HostFacts, mtu| {
        let mut path = carried(95e6, 0);
        if let PathOutcome::Carried(carried) = &mut path.outcome {
            carried.mtu = mtu;
        }
        let found = diagnose(&Examination { here, ..with_peer(there, path.clone(), Some(path)) });
        found.summary[0].clone()
    };
    for (here, there) in [(host(), without.clone()), (without.clone(), host())] {
        let line = fine(here, there, Some(1500));
        assert!(line.ends_with("packet size; not measured: disk"), "{line}");
        assert_eq!(line.matches("disk").count(), 1, "{line}");
    }
    assert!(fine(host(), without, None).ends_with("; not measured: disk, packet size"));
    let all = fine(host(), host(), Some(1500));
    assert!(all.contains("disk") && !all.contains("not measured"), "{all}");
}

#[test]
fn blocked_udp_says_at_which_end_to_open_it() {
    for (arrived, words) in [
        (Some(false), "as root there: iptables -A INPUT -p udp --dport 45601:45664 -j ACCEPT"),
        (Some(true), "as root here: iptables -A INPUT -p udp --sport 45601:45664 -j ACCEPT"),
        (None, "as root there: iptables"),
    ] {
        let outcome = PathOutcome::Blocked { arrived, message: "no answer".to_owned() };
        let found = diagnose(&with_peer(host(), PathFacts { port: Some(45_601), outcome }, None));
        assert_eq!(found.failure, Some(ErrorKind::Connect));
        assert!(
            found.verdict.contains("UDP carries no data between here and far, so copies go over TCP"),
            "{}",
            found.verdict
        );
        assert!(found.verdict.contains(words), "{}", found.verdict);
    }
}

#[test]
fn clocks_and_versions_that_differ_are_named() {
    let mut facts = with_peer(host(), carried(1e9, 0), Some(carried(1e9, 0)));
    let mends = |facts: &Examination, subject| {
        let found = diagnose(facts).findings.into_iter();
        found.filter(|finding| finding.subject == subject && finding.mend.is_some()).count()
    };
    assert_eq!((mends(&facts, Subject::Clock), mends(&facts, Subject::Host)), (0, 0));
    if let Some(peer) = &mut facts.there {
        peer.clock_ahead_s = -3.0;
        peer.host.program = "fobs 2".to_owned();
    }
    assert_eq!((mends(&facts, Subject::Clock), mends(&facts, Subject::Host)), (1, 1));
}

#[test]
fn a_narrow_hop_and_offloads_that_are_off_are_named() {
    let interface = InterfaceFacts {
        name: "eth0".to_owned(),
        mtu: Some(9000),
        speed_mbit: Some(10_000),
        segments: Some(true),
        merges: Some(false),
    };
    let wide = HostFacts { interface: Some(interface), ..host() };
    let facts = with_peer(wide.clone(), carried(1e9, 0), Some(carried(1e9, 0)));
    let found = diagnose(&Examination { here: wide, ..facts });
    let actions: Vec<String> =
        found.findings.into_iter().filter_map(|finding| Some(finding.mend?.action)).collect();
    assert!(actions.iter().any(|action| action == "as root: ethtool -K eth0 gro on"), "{actions:?}");
    assert!(actions.iter().any(|action| action.contains("tracepath -n far")), "{actions:?}");
}

#[test]
fn facts_of_a_hostile_peer_are_bounded() {
    let facts = HostFacts {
        program: "\x1b[2J".repeat(1000),
        features: vec!["x".repeat(1000); 1000],
        hash_bps: f64::NAN,
        clock_s: f64::NEG_INFINITY,
        ..host()
    };
    let safe = facts.of_a_peer();
    assert!(safe.program.len() <= 200 && !safe.program.contains('\x1b'));
    assert!(safe.features.len() <= 32 && safe.features.iter().all(|feature| feature.len() <= 200));
    assert_eq!((safe.hash_bps, safe.clock_s), (0.0, 0.0));
}

#[test]
fn what_the_kernel_does_not_keep_a_session_to_is_said() {
    for (landlock, text, mends) in [
        (7, "Landlock 7 and seccomp", false),
        (3, "not held: TCP connections, devices, signals", true),
        (0, "seccomp, without Landlock", true),
    ] {
        let walls = Some(fobs_model::walls::Walls { landlock, calls: true });
        let found = findings::findings(&with_peer(HostFacts { walls, ..host() }, carried(1e9, 0), None));
        let of_it: Vec<_> = found.iter().filter(|finding| finding.subject == Subject::Walls).collect();
        let [one] = of_it[..] else { panic!("an older version says nothing of itself: {of_it:?}") };
        assert!(one.text.contains(text) && one.mend.is_some() == mends, "{one:?}");
    }
}

#[test]
fn memory_and_the_ways_of_large_files_are_said() {
    use fobs_model::storage::{CacheReason, CacheUse, Storage, StorageUse};
    let row = |way, why| StorageUse { file_system: "btrfs".to_owned(), way, why, bytes: 1 << 20 };
    for (written, words) in [
        (row(CacheUse::Direct, None), "written by O_DIRECT"),
        (
            row(CacheUse::Uncached, Some(CacheReason::NoDirect)),
            "written by RWF_DONTCACHE (the file system offers no O_DIRECT)",
        ),
        (
            row(CacheUse::Cached, Some(CacheReason::NoOther)),
            "written through the page cache (the file system offers no other way)",
        ),
        (
            row(CacheUse::Uncached, Some(CacheReason::Refused)),
            "written by RWF_DONTCACHE (the file system refused O_DIRECT)",
        ),
    ] {
        let storage = Storage { read: vec![row(CacheUse::Uncached, None)], written: vec![written] };
        let disk = DiskFacts::Measured(DiskSpeed { storage: Some(storage), ..DiskSpeed::default() });
        let memory = Some(MemoryFacts { available: 8 << 30, copy: 1 << 30 });
        let facts = with_peer(HostFacts { disk, memory, ..host() }, carried(1e9, 0), None);
        let found = findings::findings(&facts);
        let there = |subject| {
            let of_it = |finding: &&Finding| finding.subject == subject && finding.spot == Spot::There;
            found.iter().find(of_it).expect("it is said").text.clone()
        };
        let disk = there(Subject::Disk);
        assert!(disk.contains("large files on this btrfs are read by RWF_DONTCACHE, and"), "{disk}");
        assert!(disk.ends_with(words), "{disk}");
        let memory = there(Subject::Memory);
        assert!(memory.contains("a copy may hold 1024.0 MiB of 8192.0 MiB"), "{memory}");
        assert!(memory.ends_with("up to 37.4 Gbit/s at 100 ms"), "{memory}");
    }
}
