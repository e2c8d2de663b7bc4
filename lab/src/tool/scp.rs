//! scp over a private sshd, uncompressed, with ssh's fastest cipher.

use serde_json::Value;

use super::rsync::SshOptions;
use super::sshd::{self, PEER};
use super::{Call, Figures, Launch, Options, Outputs, Program, Programs, Task, Tool};

/// `scp`.
pub struct Scp;

impl Tool for Scp {
    fn name(&self) -> &'static str {
        "scp"
    }

    fn version(&self, programs: &Programs) -> Result<String, String> {
        programs.find("scp", "apt-get install openssh-client")?;
        sshd::version(programs)
    }

    fn check(&self, options: &Options) -> Result<(), String> {
        super::options::<SshOptions>(options).map(drop)
    }

    fn launch(&self, task: &Task) -> Result<Launch, String> {
        let options: SshOptions = super::options(task.options)?;
        let ssh = sshd::prepare_with(task, options.call.client().other(), &options.cipher)?;
        let (source, target) = (task.source.display(), task.destination.display());
        let (from, to) = match options.call {
            Call::Push => (source.to_string(), format!("{PEER}:{target}/")),
            Call::Pull => (format!("{PEER}:{source}"), format!("{target}/")),
        };
        let client = Program::new([task.programs.find("scp", "apt-get install openssh-client")?])
            .args(["-q", "-F"])
            .arg(&ssh.config)
            .args(&options.args)
            .args([from, to]);
        Ok(options.launch(ssh.server, client))
    }

    fn figures(&self, _: &Task, _: &Outputs) -> Result<Figures, String> {
        // scp prints nothing: the wall time and the file are all there is.
        Ok(Figures { report: Value::Null, ..Figures::default() })
    }
}
