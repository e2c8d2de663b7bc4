//! Where cases are played: a world, its daemon, and the checks around each case.

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::cases::Case;
use super::judge::{Breach, Judge, Measured, ROOT, Rule};
use super::link::Link;
use super::manifest::Manifest;
use super::play::{Filling, Outcome, Played, Player};
use super::program::{Daemon, HONEST, Program, login, ports_of_one};
use super::right::Right;
use super::session::{Step, Way, has_ticket};
use super::world::{Extent, PART, World};
use fobs_model::rights::Action;

/// How long a server may take to end a session whose client is gone.
const END_WAIT: Duration = Duration::from_secs(10);
/// How long an honest client waits for an answer.
const HONEST_WAIT: Duration = Duration::from_secs(20);

/// A world and its daemon.
pub(super) struct Arena {
    pub(super) world: World,
    daemon: Daemon,
    program: Program,
    udp_ports: (u16, u16),
    /// How long a server may be silent before the client goes on.
    quiet: Duration,
}

/// What came of a case.
pub(super) struct Verdicts {
    pub(super) breaches: Vec<Breach>,
    pub(super) played: Played,
    /// Memory and CPU time that the server took.
    pub(super) memory: u64,
    pub(super) cpu: Duration,
}

impl Arena {
    pub(super) fn new(program: &Program, quiet: Duration) -> io::Result<Arena> {
        let world = World::new()?;
        let daemon = Daemon::start(program, &world)?;
        let mut arena = Arena { world, daemon, program: program.clone(), udp_ports: ports_of_one(), quiet };
        arena.settle()?;
        Ok(arena)
    }

    /// One for sessions that must go through.
    pub(super) fn patient(program: &Program) -> io::Result<Arena> {
        Arena::new(program, HONEST_WAIT)
    }

    /// Plays a case, and makes the world good again.
    pub(super) fn play(&mut self, case: &Case) -> io::Result<Verdicts> {
        let (way, right, steps) = (case.way, case.right, &case.steps);
        let before = Manifest::of(&self.world.top())?;
        let mut judge = Judge::default();
        let played = self.play_steps(way, right, steps, &mut judge)?;
        let after = Manifest::of(&self.world.top())?;
        let part = if right.part { format!("{ROOT}/{PART}") } else { ROOT.to_owned() };
        judge.tree(right, &before, &after, &part);
        let reads = right.allows(Action::Read) || has_ticket(steps);
        judge.answers(right, reads, &played);
        let is_good = judge.breaches.is_empty();
        if before != after || !is_good {
            self.repair(&before, &after)?;
        }
        if judge.breaches.iter().any(|breach| matches!(breach.rule, Rule::Life | Rule::Time)) {
            self.restart()?;
        }
        Ok(Verdicts { breaches: judge.breaches, played, memory: judge.memory, cpu: judge.cpu })
    }

    /// Plays steps with checks of the server alone.
    pub(super) fn play_steps(
        &mut self,
        way: Way,
        right: Right,
        steps: &[Step],
        judge: &mut Judge,
    ) -> io::Result<Played> {
        match way {
            Way::Ssh => self.play_login(right, steps, judge),
            Way::Tls => self.play_daemon(&right.name(), steps, judge),
        }
    }

    fn filling(&self, way: Way, steps: &[Step]) -> io::Result<Filling> {
        let ticket = if has_ticket(steps) { self.ticket()? } else { String::new() };
        let udp_ports = if way == Way::Tls { self.daemon.udp_ports } else { self.udp_ports };
        Ok(Filling {
            top: self.world.top().display().to_string(),
            udp_ports,
            port: self.daemon.port,
            key: self.daemon.key.as_bytes().to_vec(),
            ticket,
        })
    }

    fn play_login(&self, right: Right, steps: &[Step], judge: &mut Judge) -> io::Result<Played> {
        let mut process = login(&self.program, &self.world, right)?;
        let (Some(input), Some(output)) = (process.child.stdin.take(), process.child.stdout.take()) else {
            return Err(io::Error::other("the server has no pipes"));
        };
        let peak = process.watch();
        let mut link = Link::over(output, input);
        let filling = self.filling(Way::Ssh, steps)?;
        let mut played = Player::new(&mut link, &filling, self.quiet).play(steps);
        let cpu = process.cpu();
        link.close();
        played.messages.extend(parsed(link.wait_for_end(END_WAIT).1));
        let begun = Instant::now();
        while process.ended().is_none() && begun.elapsed() < END_WAIT {
            std::thread::sleep(Duration::from_millis(1));
        }
        match process.ended() {
            None => judge
                .breach(Rule::Time, format!("the server is there {} s after its client", END_WAIT.as_secs())),
            // A test binary ends with 101 where the session failed.
            Some(status) if status.code().is_none() => {
                judge.breach(Rule::Life, format!("the server ended: {status}"))
            }
            Some(_) => {}
        }
        let (memory, cpu) = (peak.load(Ordering::Relaxed), cpu.max(process.cpu()));
        judge.server(&Measured { memory, cpu, log: without_test(&process.said()) });
        Ok(played)
    }

    fn play_daemon(&mut self, key: &str, steps: &[Step], judge: &mut Judge) -> io::Result<Played> {
        let filling = self.filling(Way::Tls, steps)?;
        self.daemon.process.forget_peak();
        let before = self.daemon.process.cpu();
        let mut link = self.connect(key)?;
        let mut played = Player::new(&mut link, &filling, self.quiet).play(steps);
        link.close();
        played.messages.extend(parsed(link.wait_for_end(END_WAIT).1));
        self.wait_for_rest(judge);
        let process = &mut self.daemon.process;
        let measured = Measured {
            memory: process.peak(),
            cpu: process.cpu().saturating_sub(before),
            log: without_test(&process.said()),
        };
        judge.server(&measured);
        match self.daemon.process.ended() {
            Some(status) => judge.breach(Rule::Life, format!("the daemon ended: {status}")),
            None => {
                if let Err(error) = self.serves_the_honest() {
                    judge.breach(Rule::Life, format!("the next client is not served: {error}"));
                }
            }
        }
        Ok(played)
    }

    /// The session's threads end with it.
    fn wait_for_rest(&mut self, judge: &mut Judge) {
        let begun = Instant::now();
        while self.daemon.process.threads() > self.daemon.threads_at_rest {
            if self.daemon.process.ended().is_some() {
                return;
            }
            if begun.elapsed() > END_WAIT {
                let (now, rest) = (self.daemon.process.threads(), self.daemon.threads_at_rest);
                let seconds = END_WAIT.as_secs();
                judge.breach(
                    Rule::Time,
                    format!("{now} threads instead of {rest} work {seconds} s after the client"),
                );
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Plays steps as the client that keeps the rules.
    pub(super) fn play_honest(&mut self, steps: &[Step]) -> io::Result<Played> {
        let mut link = self.connect(HONEST)?;
        let filling = self.filling(Way::Tls, steps)?;
        let played = Player::new(&mut link, &filling, HONEST_WAIT).play(steps);
        link.close();
        Ok(played)
    }

    /// Makes the root as it was at first.
    pub(super) fn restore(&self) -> io::Result<()> {
        self.world.restore(Extent::Root)
    }

    fn connect(&self, key: &str) -> io::Result<Link> {
        let identity = self.daemon.identity(key).ok_or_else(|| io::Error::other(format!("no key {key}")))?;
        Link::connect(&self.daemon, identity)
    }

    /// What an honest client is answered to requests about files.
    fn ask(&self, request: Value) -> io::Result<Vec<Value>> {
        let mut link = self.connect(HONEST)?;
        let hello = json!({ "type": "hello", "protocol": 1, "program": "fobs 0.2.0", "fast_aes": true, "features": ["reuse", "files", "tickets"] });
        let steps = [Step::Say(hello), Step::Say(request), Step::Hear("answer".to_owned())];
        let filling = self.filling(Way::Tls, &[])?;
        let played = Player::new(&mut link, &filling, HONEST_WAIT).play(&steps);
        link.close();
        match played.outcome {
            Outcome::Through => Ok(played.messages),
            outcome => Err(io::Error::other(format!("{outcome:?}: {:?}", played.messages.last()))),
        }
    }

    fn serves_the_honest(&self) -> io::Result<()> {
        // A path that no case takes away.
        self.ask(json!({ "type": "files", "action": "stat", "path": "Lg==" })).map(|_| ())
    }

    /// A ticket of the daemon, for the tree of the part.
    fn ticket(&self) -> io::Result<String> {
        let request = json!({ "type": "files", "action": "ticket", "paths": ["aW4vYW5u"], "size": 10_000_000, "life_s": 600 });
        let answers = self.ask(request)?;
        let name = answers.iter().find_map(|answer| answer["entries"][0]["name"].as_str());
        let bytes = name.and_then(|name| {
            use base64::Engine;
            base64::engine::general_purpose::STANDARD.decode(name).ok()
        });
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        text.ok_or_else(|| io::Error::other("the daemon gives no ticket"))
    }

    /// Makes what a case has changed as it was; what is outside of the root needs another world.
    fn repair(&mut self, before: &Manifest, after: &Manifest) -> io::Result<()> {
        let within = |directory: &str| after.changes(before, &[directory.into()]).is_empty();
        if within(&format!("{ROOT}/{PART}")) {
            return self.world.restore(Extent::Part);
        }
        if within(ROOT) {
            return self.world.restore(Extent::Root);
        }
        *self = Arena::new(&self.program, self.quiet)?;
        Ok(())
    }

    fn restart(&mut self) -> io::Result<()> {
        self.daemon = Daemon::start(&self.program, &self.world)?;
        self.settle()
    }

    /// The daemon has served a client, and is at rest again.
    fn settle(&mut self) -> io::Result<()> {
        self.serves_the_honest()?;
        self.daemon.take_rest();
        Ok(())
    }
}

fn parsed(bodies: Vec<Vec<u8>>) -> Vec<Value> {
    bodies.iter().filter_map(|body| serde_json::from_slice(body).ok()).collect()
}

/// A log without what a test binary says of itself.
fn without_test(log: &str) -> String {
    log.lines().filter(|line| !line.starts_with("test ")).collect::<Vec<_>>().join("\n")
}
