//! sftp over a private sshd, uncompressed, with ssh's fastest cipher: one file by a batch of one command.

use std::fs;

use serde_json::Value;

use super::rsync::SshOptions;
use super::sshd::{self, PEER};
use super::{Call, Figures, Launch, Options, Outputs, Program, Programs, Task, Tool};

/// `sftp`.
pub struct Sftp;

impl Tool for Sftp {
    fn name(&self) -> &'static str {
        "sftp"
    }

    fn version(&self, programs: &Programs) -> Result<String, String> {
        programs.find("sftp", "apt-get install openssh-client")?;
        sshd::version(programs)
    }

    fn check(&self, options: &Options) -> Result<(), String> {
        super::options::<SshOptions>(options).map(drop)
    }

    fn launch(&self, task: &Task) -> Result<Launch, String> {
        let options: SshOptions = super::options(task.options)?;
        let ssh = sshd::prepare_with(task, options.call.client().other(), &options.cipher)?;
        let (source, target) = (task.source.display(), task.destination.display());
        let command = match options.call {
            Call::Push => format!("put \"{source}\" \"{target}/\"\n"),
            Call::Pull => format!("get \"{source}\" \"{target}/\"\n"),
        };
        let batch = task.directory.join("sftp.batch");
        fs::write(&batch, command).map_err(|error| format!("cannot write {}: {error}", batch.display()))?;
        let client = Program::new([task.programs.find("sftp", "apt-get install openssh-client")?])
            .args(["-q", "-F"])
            .arg(&ssh.config)
            .arg("-b")
            .arg(&batch)
            .args(&options.args)
            .arg(PEER);
        Ok(options.launch(ssh.server, client))
    }

    fn figures(&self, _: &Task, _: &Outputs) -> Result<Figures, String> {
        // The wall time and the file are all there is.
        Ok(Figures { report: Value::Null, ..Figures::default() })
    }
}
