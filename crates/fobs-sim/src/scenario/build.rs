//! A world's configuration of a scenario file.

use super::bounds::{SECONDS_MAX, Table};
use super::file::{
    Aqm, ChangeTable, DiskTable, File, FlowKind, FlowTable, Host, HostKind, LinkTable, PatternKind, SyncKind,
};
use super::{ScenarioError, lanes};
use crate::flow::fobs::{BYTES_MAX, CHUNKS_MAX, FobsConfig, Object};
use crate::flow::source::{Pattern, SourceConfig};
use crate::flow::tcp::{Algorithm, TcpConfig};
use crate::flow::{FlowConfig, Traffic};
use crate::host::{CpuConfig, DiskConfig, HostConfig, Sync};
use crate::link::{Change, Discipline, Faults, GilbertElliott, LinkConfig, PolicerConfig};
use crate::rng::Chance;
use crate::time::{MS, bytes_in};
use crate::topology::Edge;
use crate::world::{Config, FLOWS_MAX, Happening};
use fobs_proto::Rate;
use fobs_proto::congestion::{CongestionControl, UnknownPriority};
use fobs_proto::loss_cause::judge::UnknownMethod;
use fobs_proto::object::{PAYLOAD_MAX, PAYLOAD_MIN};

/// Hosts, links and changes of one scenario.
const TABLES_MAX: usize = 256;
/// Longest name, bytes.
const NAME_MAX: usize = 64;
/// A queue without a given size holds what the link carries in this time.
const QUEUE_DEFAULT: u64 = 100 * MS;
/// A queue is never shorter than ten full packets.
const QUEUE_MIN: u64 = 15_000;

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) fn build(name: &str, file: &File) -> Result<Config> {
    let top = Table(String::new());
    let name = file.name.as_deref().unwrap_or(name);
    named(&top, "name", name)?;
    for (key, count) in [
        ("host", file.host.len()),
        ("link", file.link.len()),
        ("change", file.change.len()),
        ("flow", file.flow.len()),
    ] {
        let most = if key == "flow" { FLOWS_MAX } else { TABLES_MAX };
        if count > most || key == "flow" && count == 0 {
            return Err(top.refuse(key, format!("{count} of them are not possible; give 1 to {most}")));
        }
    }
    let duration = (top.number("duration_s", file.duration_s, 0.001, SECONDS_MAX)? * 1e9) as u64;
    let mut config = Config::new(name, file.seed, duration);
    if let Some(ms) = file.sample_ms {
        config.sample = (top.number("sample_ms", ms, 0.1, 1e6)? * 1e6) as u64;
    }
    for (i, host) in file.host.iter().enumerate() {
        let table = Table::of("host", i);
        if config.hosts.iter().any(|other| other.name == host.name) {
            return Err(table.refuse("name", format!("{:?} is there twice", host.name)));
        }
        config.hosts.push(build_host(&table, host)?);
    }
    for (i, link) in file.link.iter().enumerate() {
        build_link(&Table::of("link", i), link, &mut config.edges)?;
    }
    // A host that is only named is an ordinary one.
    for flow in &file.flow {
        for name in [&flow.from, &flow.to] {
            let is_node = config.edges.iter().any(|edge| edge.from == *name || edge.to == *name);
            if is_node && config.hosts.iter().all(|host| host.name != *name) {
                config.hosts.push(HostConfig::ordinary(name));
            }
        }
    }
    for (i, flow) in file.flow.iter().enumerate() {
        let table = Table::of("flow", i);
        let session = lanes::count(&config.flows);
        config.flows.extend(lanes::build(&table, flow, build_flow(&table, i, flow)?, session)?);
    }
    for (i, change) in file.change.iter().enumerate() {
        build_change(&Table::of("change", i), change, &mut config)?;
    }
    Ok(config)
}

fn named(table: &Table, key: &str, name: &str) -> Result<String> {
    let fits = !name.is_empty() && name.len() <= NAME_MAX && !name.chars().any(char::is_control);
    fits.then(|| name.to_owned()).ok_or_else(|| {
        table.refuse(key, format!("a name has 1 to {NAME_MAX} bytes and no control characters"))
    })
}

fn build_host(table: &Table, host: &Host) -> Result<HostConfig> {
    let name = named(table, "name", &host.name)?;
    let mut config = match host.kind.as_ref().unwrap_or(&HostKind::Ordinary) {
        HostKind::Ordinary => HostConfig::ordinary(&name),
        HostKind::Ideal => HostConfig::ideal(&name),
    };
    let during = host.competitors_during_s.map(|pair| table.stretches("competitors_during_s", &[pair]));
    config.cpu = CpuConfig {
        competitors: table.whole("competitors", host.competitors, 0, 1000)?,
        competitors_during: during.transpose()?.and_then(|list| list.first().copied()),
        stalls: table.stretches("stalls_s", &host.stalls_s)?,
    };
    if let Some(us) = host.packet_us {
        config.packet_cost = (table.number("packet_us", us, 0.05, 10_000.0)? * 1e3) as u64;
    }
    if let Some(kb) = host.receive_buffer_kb {
        config.receive_buffer = table.kilobytes("receive_buffer_kb", kb)?;
    }
    if let Some(kb) = host.send_buffer_kb {
        config.send_buffer = table.kilobytes("send_buffer_kb", kb)?;
    }
    if let Some(rate) = host.hash_mbyte {
        config.hash_rate = table.megabytes("hash_mbyte", rate, 1e6)?;
    }
    config.crash = host.crash_s.map(|at| table.seconds("crash_s", at)).transpose()?;
    if let Some(disk) = &host.disk {
        config.disk = build_disk(&Table(table.key("disk")), disk, config.disk)?;
    }
    Ok(config)
}

fn build_disk(table: &Table, disk: &DiskTable, default: DiskConfig) -> Result<DiskConfig> {
    let bytes = |key: &str, mb: Option<f64>, default: u64| {
        mb.map_or(Ok(default), |mb| table.megabytes(key, mb, 1e12))
    };
    Ok(DiskConfig {
        rate: bytes("rate_mbyte", disk.rate_mbyte, default.rate)?,
        cache: bytes("cache_mb", disk.cache_mb, default.cache)?,
        capacity: bytes("capacity_mb", disk.capacity_mb, default.capacity)?,
        fails_at: disk.fails_s.map(|at| table.seconds("fails_s", at)).transpose()?,
        stalls: table.stretches("stalls_s", &disk.stalls_s)?,
        sync: match disk.sync {
            Some(SyncKind::End) => Sync::End,
            Some(SyncKind::Never) | None => default.sync,
        },
    })
}

fn build_link(table: &Table, link: &LinkTable, edges: &mut Vec<Edge>) -> Result<()> {
    let (from, to) = (named(table, "from", &link.from)?, named(table, "to", &link.to)?);
    if from == to {
        return Err(table.refuse("to", "a link joins two nodes, not one with itself"));
    }
    let rate = link.rate_mbit.map(|rate| table.rate("rate_mbit", rate)).transpose()?.unwrap_or(0);
    let queue = match (link.queue_kb, link.queue_ms) {
        (Some(_), Some(_)) => return Err(table.refuse("queue_ms", "give queue_kb or queue_ms, not both")),
        _ if rate == 0 && (link.queue_kb.is_some() || link.queue_ms.is_some()) => {
            return Err(table.refuse("queue_kb", "a link without rate_mbit has no queue"));
        }
        (Some(kb), None) => table.kilobytes("queue_kb", kb)?,
        (None, Some(ms)) => bytes_in(table.millis("queue_ms", ms)?, rate).max(QUEUE_MIN),
        (None, None) if rate == 0 => u64::MAX,
        (None, None) => bytes_in(QUEUE_DEFAULT, rate).max(QUEUE_MIN),
    };
    let delay = table.millis("delay_ms", link.delay_ms)?;
    let mtu = table.whole("mtu", link.mtu.unwrap_or(1500), 576, 65_535)?;
    let name = link.name.clone().unwrap_or_else(|| format!("{from}-{to}"));
    let plain = LinkConfig { mtu, ..LinkConfig::new(&name, rate, delay, queue) };
    let policer = link.policer.as_ref().map(|policer| {
        let table = Table(table.key("policer"));
        let rate = table.rate("rate_mbit", policer.rate_mbit)?;
        Ok(PolicerConfig { rate, depth: table.kilobytes("depth_kb", policer.depth_kb)?, refill: 0 })
    });
    let there = LinkConfig {
        discipline: discipline(table, link, queue)?,
        ecn: link.ecn,
        policer: policer.transpose()?,
        faults: faults(table, link)?,
        ..plain.clone()
    };
    let mut add = |edge: Edge| {
        let taken = edges.iter().any(|other| other.link.name == edge.link.name);
        if taken {
            let reason = format!("there is another link {:?}; give one of them a name", edge.link.name);
            return Err(table.refuse("name", reason));
        }
        edges.push(edge);
        Ok(())
    };
    add(Edge::new(&from, &to, there))?;
    if !link.one_way {
        let name = link.name.as_ref().map_or_else(|| format!("{to}-{from}"), |name| format!("{name}-back"));
        add(Edge::new(&to, &from, LinkConfig { name, ..plain }))?;
    }
    Ok(())
}

fn discipline(table: &Table, link: &LinkTable, queue: u64) -> Result<Discipline> {
    let only_with = |key: &str, given: bool, aqm: &str| {
        if given { Err(table.refuse(key, format!("it goes with aqm = {aqm:?} only"))) } else { Ok(()) }
    };
    let red = link.red_low_kb.is_some() || link.red_high_kb.is_some() || link.red_probability.is_some();
    let codel = link.codel_target_ms.is_some() || link.codel_interval_ms.is_some();
    let aqm = link.aqm.as_ref().unwrap_or(&Aqm::DropTail);
    only_with("red_low_kb", red && !matches!(aqm, Aqm::Red), "red")?;
    only_with("codel_target_ms", codel && !matches!(aqm, Aqm::Codel | Aqm::FqCodel), "codel")?;
    only_with("mark_above_kb", link.mark_above_kb.is_some() && !matches!(aqm, Aqm::Mark), "mark")?;
    Ok(match aqm {
        Aqm::DropTail => Discipline::DropTail,
        Aqm::Red => {
            let share =
                |key, kb: Option<f64>, part| kb.map_or(Ok(queue / part), |kb| table.kilobytes(key, kb));
            let (low, high) =
                (share("red_low_kb", link.red_low_kb, 6)?, share("red_high_kb", link.red_high_kb, 2)?);
            if low >= high {
                return Err(table.refuse("red_high_kb", "the upper threshold must be above the lower one"));
            }
            let probability = link.red_probability.unwrap_or(0.1);
            Discipline::Red {
                low,
                high,
                probability_max: table.number("red_probability", probability, 1e-6, 1.0)?,
            }
        }
        Aqm::Codel | Aqm::FqCodel => {
            let target = table.millis("codel_target_ms", link.codel_target_ms.unwrap_or(5.0))?;
            let interval =
                table.millis("codel_interval_ms", link.codel_interval_ms.unwrap_or(100.0))?.max(MS);
            match aqm {
                Aqm::FqCodel => Discipline::FqCoDel { target, interval },
                _ => Discipline::CoDel { target, interval },
            }
        }
        Aqm::Mark => {
            let kb =
                link.mark_above_kb.ok_or_else(|| table.refuse("mark_above_kb", "aqm = \"mark\" needs it"))?;
            Discipline::MarkAbove { bytes: table.kilobytes("mark_above_kb", kb)? }
        }
    })
}

fn faults(table: &Table, link: &LinkTable) -> Result<Faults> {
    let bursts = link.loss_bursts.as_ref().map(|bursts| {
        let table = Table(table.key("loss_bursts"));
        Ok(GilbertElliott {
            begin: table.chance("begin", bursts.begin)?,
            end: table.chance("end", bursts.end)?,
            loss: table.chance("loss", bursts.loss.unwrap_or(1.0))?,
        })
    });
    Ok(Faults {
        loss: table.chance("loss", link.loss)?,
        bursts: bursts.transpose()?,
        corruption: table.chance("corruption", link.corruption)?,
        duplication: table.chance("duplication", link.duplication)?,
        reordering: table.chance("reordering", link.reordering)?,
        reordering_delay: table.millis("reordering_ms", link.reordering_ms)?,
        reordering_deviation: table.millis("reordering_deviation_ms", link.reordering_deviation_ms)?,
        jitter: table.millis("jitter_ms", link.jitter_ms)?,
        turns: table.millis("turns_ms", link.turns_ms)?,
        outages: table.stretches("outages_s", &link.outages_s)?,
        ..Faults::default()
    })
}

fn build_flow(table: &Table, index: usize, flow: &FlowTable) -> Result<FlowConfig> {
    refuse_foreign_keys(table, flow)?;
    let (kind, traffic) = match flow.kind {
        FlowKind::Fobs => ("fobs", Traffic::Fobs(Box::new(fobs(table, flow)?))),
        FlowKind::Tcp => ("tcp", Traffic::Tcp(tcp(table, flow)?)),
        FlowKind::Source => ("source", Traffic::Source(source(table, flow)?)),
    };
    let name = flow.name.clone().unwrap_or_else(|| format!("{kind}-{index}"));
    let start = table.seconds("start_s", flow.start_s)?;
    let stop = flow.stop_s.map(|at| table.seconds("stop_s", at)).transpose()?;
    if stop.is_some_and(|stop| stop <= start) {
        return Err(table.refuse("stop_s", "a flow stops after it starts"));
    }
    let named = FlowConfig::new(&named(table, "name", &name)?, &flow.from, &flow.to, traffic);
    Ok(FlowConfig { via: flow.via.clone(), start, stop, ..named })
}

fn refuse_foreign_keys(table: &Table, flow: &FlowTable) -> Result<()> {
    let fobs = matches!(flow.kind, FlowKind::Fobs);
    let tcp = matches!(flow.kind, FlowKind::Tcp);
    let source = matches!(flow.kind, FlowKind::Source);
    let keys = [
        ("size_mb", flow.size_mb.is_some(), fobs || tcp),
        ("cc", flow.cc.is_some(), fobs || tcp),
        ("rate_mbit", flow.rate_mbit.is_some(), fobs || source),
        ("payload", flow.payload.is_some(), fobs),
        ("burst", flow.burst.is_some(), fobs),
        ("priority", flow.priority.is_some(), fobs),
        ("deadline_s", flow.deadline_s.is_some(), fobs),
        ("params", !flow.params.is_empty(), fobs),
        ("loss_cause", flow.loss_cause.is_some(), fobs),
        ("circular", flow.circular.is_some(), fobs),
        ("ack_every", flow.ack_every.is_some(), fobs),
        ("chunks", flow.chunks.is_some(), fobs),
        ("window_mb", flow.window_mb.is_some(), tcp),
        ("pattern", flow.pattern.is_some(), source),
        ("packet", flow.packet.is_some(), source),
        ("on_ms", flow.on_ms.is_some(), source),
        ("off_ms", flow.off_ms.is_some(), source),
    ];
    match keys.into_iter().find(|(_, given, fits)| *given && !fits) {
        Some((key, ..)) => Err(table.refuse(key, "a flow of this kind has no such key")),
        None => Ok(()),
    }
}

fn fobs(table: &Table, flow: &FlowTable) -> Result<FobsConfig> {
    let mb = flow.size_mb.ok_or_else(|| table.refuse("size_mb", "a fobs flow needs it"))?;
    let bytes = table.megabytes("size_mb", mb, BYTES_MAX as f64 / 1e6)?;
    let cc = flow.cc.as_deref().unwrap_or("auto");
    let rate = flow.rate_mbit.map(|rate| table.rate("rate_mbit", rate)).transpose()?;
    let (controller, rate_limit) = match (cc.parse(), rate) {
        (Ok(CongestionControl::Fixed { .. }), None) => {
            return Err(table.refuse("rate_mbit", format!("cc = {cc:?} needs it")));
        }
        (Ok(fixed @ CongestionControl::Fixed { .. }), Some(rate)) => {
            (fixed.with_rate(Rate::bits_per_second(rate)), None)
        }
        (Ok(other), limit) => (other, limit),
        (Err(_), _) => {
            let names = CongestionControl::ALL.map(CongestionControl::name).join(", ");
            return Err(table.refuse("cc", format!("there is no {cc:?}; there are {names}")));
        }
    };
    let new = FobsConfig::new(Object::Bytes(bytes), controller);
    let payload = flow.payload.map(|n| {
        let size = table.whole("payload", u32::from(n), u32::from(PAYLOAD_MIN), u32::from(PAYLOAD_MAX))?;
        Ok(size as u16)
    });
    let loss_cause = flow.loss_cause.as_deref().map_or(Ok(new.loss_cause), |method| {
        method.parse().map_err(|error: UnknownMethod| table.refuse("loss_cause", error.to_string()))
    });
    let priority = flow.priority.as_deref().map_or(Ok(new.priority), |priority| {
        priority.parse().map_err(|error: UnknownPriority| table.refuse("priority", error.to_string()))
    });
    if flow.deadline_s.is_some() && controller != CongestionControl::Auto {
        return Err(table.refuse("deadline_s", format!("cc = {cc:?} knows no deadline, only \"auto\" does")));
    }
    let mut params = new.params;
    for (name, value) in &flow.params {
        if controller != CongestionControl::Auto {
            return Err(table.refuse("params", format!("cc = {cc:?} has none, only \"auto\" does")));
        }
        params.set(name, *value).map_err(|error| table.refuse("params", error.to_string()))?;
    }
    Ok(FobsConfig {
        priority: priority?,
        params,
        deadline: flow.deadline_s.map(|at| table.seconds("deadline_s", at)).transpose()?,
        loss_cause: loss_cause?,
        rate_limit,
        payload: payload.transpose()?,
        burst: flow.burst.map(|n| table.whole("burst", n, 1, 44)).transpose()?,
        circular: flow.circular.unwrap_or(false),
        ack_every: flow.ack_every.map_or(Ok(new.ack_every), |n| table.whole("ack_every", n, 1, 1 << 20))?,
        receiver_chunks: flow.chunks.map_or(Ok(CHUNKS_MAX), |n| table.whole("chunks", n, 1, 1000))?,
        sender_chunks: flow.chunks.map_or(Ok(CHUNKS_MAX), |n| table.whole("chunks", n, 2, 1000))?,
        ..new
    })
}

fn tcp(table: &Table, flow: &FlowTable) -> Result<TcpConfig> {
    let cc = flow.cc.as_deref().unwrap_or("cubic");
    let algorithm =
        Algorithm::ALL.iter().copied().find(|algorithm| algorithm.name() == cc).ok_or_else(|| {
            let names = Vec::from_iter(Algorithm::ALL.iter().map(|algorithm| algorithm.name())).join(", ");
            table.refuse("cc", format!("there is no {cc:?}; there are {names}"))
        })?;
    let endless = TcpConfig::endless(algorithm);
    Ok(TcpConfig {
        bytes: flow.size_mb.map(|mb| table.megabytes("size_mb", mb, 1e12)).transpose()?,
        // 1 GB: what RFC 7323 can announce.
        receive_window: flow
            .window_mb
            .map_or(Ok(endless.receive_window), |mb| table.megabytes("window_mb", mb, 1e3))?,
        ..endless
    })
}

fn source(table: &Table, flow: &FlowTable) -> Result<SourceConfig> {
    let rate = flow.rate_mbit.ok_or_else(|| table.refuse("rate_mbit", "a source needs it"))?;
    let phase = |key, ms: Option<f64>| {
        let ms = ms.ok_or_else(|| table.refuse(key, "pattern = \"on-off\" needs it"))?;
        table.number(key, ms, 0.01, 1e6).map(|ms| (ms * 1e6) as u64)
    };
    let pattern = match flow.pattern.as_ref().unwrap_or(&PatternKind::Poisson) {
        PatternKind::OnOff => {
            Pattern::OnOff { on: phase("on_ms", flow.on_ms)?, off: phase("off_ms", flow.off_ms)? }
        }
        _ if flow.on_ms.is_some() || flow.off_ms.is_some() => {
            return Err(table.refuse("on_ms", "phases go with pattern = \"on-off\" only"));
        }
        PatternKind::Constant => Pattern::Constant,
        PatternKind::Poisson => Pattern::Poisson,
    };
    Ok(SourceConfig {
        rate: table.rate("rate_mbit", rate)?,
        packet: table.whole("packet", flow.packet.unwrap_or(1500), 64, 65_535)?,
        pattern,
    })
}

fn build_change(table: &Table, change: &ChangeTable, config: &mut Config) -> Result<()> {
    let at = table.seconds("at_s", change.at_s)?;
    if change.calm {
        config.changes.push((at, Happening::Calm));
        return Ok(());
    }
    let name = change.link.as_deref().ok_or_else(|| table.refuse("link", "say which link changes"))?;
    let Some(link) = config.edges.iter().position(|edge| edge.link.name == name) else {
        return Err(table.refuse("link", format!("there is no link {name:?}")));
    };
    let mut changes = Vec::new();
    if let Some(rate) = change.rate_mbit {
        if config.edges[link].link.rate == 0 {
            return Err(table.refuse("rate_mbit", "a link without rate_mbit has no queue and keeps no rate"));
        }
        changes.push(Change::Rate(table.rate("rate_mbit", rate)?));
    }
    if let Some(delay) = change.delay_ms {
        changes.push(Change::Delay(table.millis("delay_ms", delay)?));
    }
    if let Some(loss) = change.loss {
        let loss: Chance = table.chance("loss", loss)?;
        changes.push(Change::Faults(Faults { loss, ..config.edges[link].link.faults.clone() }));
    }
    if let Some(mtu) = change.mtu {
        changes.push(Change::Mtu(table.whole("mtu", mtu, 576, 65_535)?));
    }
    if changes.is_empty() {
        return Err(table.refuse("link", "nothing changes; give rate_mbit, delay_ms, loss or mtu"));
    }
    config.changes.extend(changes.into_iter().map(|change| (at, Happening::Link(link, change))));
    Ok(())
}
