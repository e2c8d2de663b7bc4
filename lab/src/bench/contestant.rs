//! The contestants: what each one starts to move the same bytes once.

use std::path::{Path, PathBuf};

use super::arena::Arena;
use crate::tool::sshd::{self, PEER};
use crate::tool::{
    After, History, Launch, Options, Program, Programs, Protocol, Ready, Server, Side, Stop, Stores, Task,
    by_name,
};

/// UDP port of the ceiling's receiver.
const CEILING_PORT: u16 = 45_700;

/// A contestant of one part of the bench.
pub struct Contestant {
    /// Its name in records and tables.
    pub name: String,
    /// What it does.
    pub way: Way,
    options: Options,
    programs: Programs,
}

/// What a contestant does.
#[derive(Clone, Debug, PartialEq)]
pub enum Way {
    /// A tool of the laboratory.
    Tool(&'static str),
    /// tar on both ends of an ssh connection.
    TarOverSsh,
    /// An ssh connection and nothing else: the part of the others' time over ssh that is no transfer.
    Connect,
    /// The source into ssh with this cipher, and nowhere from there.
    Discard(&'static str),
    /// FOBS's kernel calls, cipher and hash without a protocol around them: the example `ceiling`.
    Ceiling(PathBuf),
}

impl Contestant {
    fn tool(
        name: &str,
        tool: &'static str,
        programs: &Programs,
        options: &[(&str, toml::Value)],
    ) -> Contestant {
        let options = options.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        Contestant { name: name.to_owned(), way: Way::Tool(tool), options, programs: programs.clone() }
    }

    /// One that is no tool of the laboratory.
    pub fn other(name: &str, way: Way, arena: &Arena) -> Contestant {
        Contestant { name: name.to_owned(), way, options: Options::new(), programs: arena.programs.clone() }
    }

    /// `fobs cp` to a daemon and over ssh; `label` is `fobs` or `baseline`.
    pub fn fobs(label: &str, programs: &Programs) -> [Contestant; 2] {
        ["daemon", "ssh"].map(|carrier| {
            let options = [("carrier", carrier.into()), ("args", vec!["-r"].into())];
            Contestant::tool(&format!("{label}, {carrier}"), "fobs", programs, &options)
        })
    }

    /// `fobs cp --cc greedy` to a daemon.
    pub fn greedy(label: &str, programs: &Programs) -> Contestant {
        Contestant::tool(&format!("{label} --cc greedy"), "fobs", programs, &[("cc", "greedy".into())])
    }

    /// rsync.
    pub fn rsync(arena: &Arena) -> Contestant {
        Contestant::tool("rsync", "rsync", &arena.programs, &[("cipher", arena.cipher.clone().into())])
    }

    /// scp.
    pub fn scp(arena: &Arena) -> Contestant {
        let options = [("cipher", arena.cipher.clone().into()), ("args", vec!["-r"].into())];
        Contestant::tool("scp", "scp", &arena.programs, &options)
    }

    /// Unencrypted TCP from memory to memory, with the kernel's own congestion control.
    pub fn iperf3(arena: &Arena) -> Result<Contestant, String> {
        let cc = arena.pair.namespaces()[0].sysctl("net/ipv4/tcp_congestion_control")?;
        Ok(Contestant::tool("iperf3 TCP", "iperf3", &arena.programs, &[("cc", cc.into())]))
    }

    /// Bytes that it moves, of a source of `bytes`.
    pub fn bytes(&self, bytes: u64) -> u64 {
        if self.way == Way::Connect { 0 } else { bytes }
    }

    /// Its task, with a directory of its own below `folder`.
    pub fn task<'a>(
        &'a self,
        arena: &'a Arena,
        folder: &Path,
        source: &Path,
        bytes: u64,
    ) -> Result<Task<'a>, String> {
        let own = folder.join(self.name.replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
        arena.task(own, (&self.programs, &self.options), source, bytes)
    }

    /// Its programs. Keys and configuration are made here, once; the same programs then run every repetition.
    pub fn launch(&self, task: &Task, cipher: &str) -> Result<Launch, String> {
        match &self.way {
            Way::Tool(tool) => by_name(tool).ok_or_else(|| format!("there is no tool {tool}"))?.launch(task),
            Way::TarOverSsh => {
                let ssh = sshd::prepare_with(task, Side::Receiver, cipher)?;
                let (parent, name) = (task.source.parent(), task.source.file_name());
                let client = Program::new(["sh", "-c"])
                    .arg(format!(r#"tar -C "$1" -cf - "$2" | ssh -F "$3" {PEER} tar -C "$4" -xf -"#))
                    .arg("sh")
                    .arg(parent.unwrap_or(Path::new("/")))
                    .arg(name.unwrap_or_default())
                    .arg(&ssh.config)
                    .arg(&task.destination);
                Ok(launch(ssh.server, client, Protocol::Tcp))
            }
            Way::Connect => {
                let ssh = sshd::prepare_with(task, Side::Receiver, cipher)?;
                let client = Program::new(["ssh", "-F"]).arg(&ssh.config).args([PEER, "true"]);
                Ok(launch(ssh.server, client, Protocol::Tcp))
            }
            Way::Discard(cipher) => {
                let ssh = sshd::prepare_with(task, Side::Receiver, cipher)?;
                let client = Program::new(["sh", "-c"])
                    .arg(format!(r#"exec ssh -F "$1" {PEER} 'cat >/dev/null' <"$2""#))
                    .arg("sh")
                    .arg(&ssh.config)
                    .arg(&task.source);
                Ok(launch(ssh.server, client, Protocol::Tcp))
            }
            Way::Ceiling(program) => {
                let address = format!("{}:{CEILING_PORT}", task.receiver.address);
                let server = Server {
                    side: Side::Receiver,
                    program: Program::new([program]).args(["recv", &address]).arg(task.arrival()),
                    ready: Ready::Udp(CEILING_PORT),
                    after: After::Waited,
                };
                let client = Program::new([program]).args(["send", &address]).arg(&task.source);
                Ok(launch(server, client, Protocol::Udp))
            }
        }
    }
}

fn launch(server: Server, client: Program, protocol: Protocol) -> Launch {
    Launch {
        servers: vec![server],
        side: Side::Sender,
        client,
        history: History::Fresh,
        stop: Stop::ByTool,
        tcp: None,
        protocol,
        stores: Stores::File,
    }
}
