//! rsync over a private sshd: one file, whole, in place, uncompressed, with ssh's fastest cipher.

use serde::Deserialize;
use serde_json::Value;

use super::sshd::{self, PEER};
use super::{
    Buffers, Call, Figures, History, Launch, Options, Outputs, Program, Programs, Protocol, Stop, Stores,
    Task, Tcp, Tool, Windows, first_line,
};

/// Keys of a flow of rsync or scp.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SshOptions {
    /// Which end calls the other.
    pub call: Call,
    /// TCP's congestion control, of both hosts. By default BBR: of those that kernels have, it suffers least
    /// from random loss.
    pub cc: String,
    /// Maxima of TCP's buffers.
    pub buffers: Buffers,
    /// Whether TCP's window may be larger than 64 KiB.
    pub windows: Windows,
    /// ssh's cipher.
    pub cipher: String,
    /// Further arguments.
    pub args: Vec<String>,
}

impl Default for SshOptions {
    fn default() -> Self {
        SshOptions {
            call: Call::Push,
            cc: "bbr".to_owned(),
            buffers: Buffers::Tuned,
            windows: Windows::Large,
            cipher: sshd::FASTEST_CIPHER.to_owned(),
            args: Vec::new(),
        }
    }
}

impl SshOptions {
    /// The flow of a client that copies a file over ssh.
    pub(super) fn launch(self, server: super::Server, client: Program) -> Launch {
        Launch {
            servers: vec![server],
            side: self.call.client(),
            client,
            history: History::Fresh,
            stop: Stop::ByRunner,
            tcp: Some(Tcp { congestion: Some(self.cc), buffers: self.buffers, windows: self.windows }),
            protocol: Protocol::Tcp,
            stores: Stores::File,
        }
    }
}

/// `rsync`.
pub struct Rsync;

impl Tool for Rsync {
    fn name(&self) -> &'static str {
        "rsync"
    }

    fn version(&self, programs: &Programs) -> Result<String, String> {
        let rsync = programs.find("rsync", "apt-get install rsync")?;
        let ssh = sshd::version(programs)?;
        let rsync = programs.ask(&[rsync.into_os_string(), "--version".into()])?;
        Ok(format!("{}; {ssh}", first_line(&rsync)))
    }

    fn check(&self, options: &Options) -> Result<(), String> {
        super::options::<SshOptions>(options).map(drop)
    }

    fn launch(&self, task: &Task) -> Result<Launch, String> {
        let options: SshOptions = super::options(task.options)?;
        let ssh = sshd::prepare_with(task, options.call.client().other(), &options.cipher)?;
        let shell = format!("ssh -F {}", ssh.config.display());
        let (source, target) = (task.source.display(), task.destination.display());
        let (from, to) = match options.call {
            Call::Push => (source.to_string(), format!("{PEER}:{target}/")),
            Call::Pull => (format!("{PEER}:{source}"), format!("{target}/")),
        };
        let client = Program::new([task.programs.find("rsync", "apt-get install rsync")?])
            .args(["-a", "--whole-file", "--inplace", "--no-compress", "-e", &shell])
            .args(&options.args)
            .args([from, to]);
        Ok(options.launch(ssh.server, client))
    }

    fn figures(&self, _: &Task, _: &Outputs) -> Result<Figures, String> {
        // rsync's own rate includes its start and its rounding: the wall time and the file are more exact.
        Ok(Figures { report: Value::Null, ..Figures::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_and_values_are_named() {
        let check = |text: &str| Rsync.check(&toml::from_str(text).unwrap());
        assert_eq!(check("cc = \"cubic\"\ncall = \"pull\"\nbuffers = \"default\""), Ok(()));
        let error = check("streams = 4").unwrap_err();
        assert!(error.contains("streams"), "{error}");
        let error = check("call = \"shout\"").unwrap_err();
        assert!(error.contains("shout") && error.contains("call"), "{error}");
    }
}
