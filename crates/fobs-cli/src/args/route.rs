//! The arguments that say how the other host is reached: the same for every command that calls one.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueHint};
use fobs::options::{AddressFamily, Carrier, PushBinary, SshOptions, SshWords, TransferOptions};
use fobs::{Error, ErrorKind, Result};

use crate::ports::{PortRange, parse_range};

/// How the other host is reached.
#[derive(Debug, Args)]
pub struct RouteArgs {
    /// Port of the other host's SSH server or daemon, unless the location has one
    #[arg(short = 'P', long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,

    /// Private key: an SSH identity file, or for fobs:// a file made by fobs keygen
    #[arg(short = 'i', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub identity: Option<PathBuf>,

    /// Configuration file for ssh
    #[arg(short = 'F', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ssh_config: Option<PathBuf>,

    /// Jump host for the control channel (ssh -J); the data goes directly to the other host
    #[arg(short = 'J', long, value_name = "HOST", value_hint = ValueHint::Hostname)]
    pub jump: Option<String>,

    /// Option for ssh, as in its configuration file; repeatable
    #[arg(short = 'o', long = "ssh-option", value_name = "OPT", action = ArgAction::Append)]
    pub ssh_options: Vec<String>,

    /// Use IPv4 only
    #[arg(short = '4', long, overrides_with = "ipv6")]
    pub ipv4: bool,

    /// Use IPv6 only
    #[arg(short = '6', long, overrides_with = "ipv4")]
    pub ipv6: bool,

    /// UDP ports for the data on the other host, as in 45601-45664, if a firewall restricts them
    #[arg(long, value_name = "A-B", value_parser = parse_range)]
    pub udp_ports: Option<PortRange>,

    /// Path of fobs on the other host [default: fobs]
    #[arg(long, value_name = "PATH")]
    pub fobs_path: Option<String>,

    /// Send fobs to a host that has none, over ssh, into ~/.cache/fobs there [default: ask on a terminal]
    ///
    /// A static program for that host's CPU is sent, checked and run there; the answer is remembered for the
    /// host. Nothing is sent without this option or a yes.
    #[arg(long, overrides_with = "no_push_binary")]
    pub push_binary: bool,

    /// Send no program to other hosts, and do not ask
    #[arg(long, overrides_with = "push_binary")]
    pub no_push_binary: bool,

    /// File with the pinned keys of daemons, instead of the default file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub known_hosts: Option<PathBuf>,

    /// ssh program to run [default: ssh]
    #[arg(short = 'S', long = "ssh", value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    pub ssh_program: Option<PathBuf>,
}

/// How a message names an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// By its letter where it has one.
    Letters,
    /// By its long name: the letters are rsync's.
    Words,
}

impl RouteArgs {
    /// Refuses options that the carrier would silently ignore.
    ///
    /// # Errors
    /// `Usage`, with what to use instead.
    pub fn check(&self, carrier: Carrier, naming: Naming) -> Result<()> {
        let name = |letter, word| if naming == Naming::Letters { letter } else { word };
        let given: &[(&str, bool)] = match carrier {
            Carrier::Ssh => &[("--known-hosts", self.known_hosts.is_some())],
            Carrier::Daemon => &[
                (name("-F", "--ssh-config"), self.ssh_config.is_some()),
                (name("-J", "--jump"), self.jump.is_some()),
                (name("-o", "--ssh-option"), !self.ssh_options.is_empty()),
                ("--ssh", self.ssh_program.is_some()),
                ("--fobs-path", self.fobs_path.is_some()),
                ("--push-binary", self.push_binary),
            ],
        };
        let reason = match carrier {
            Carrier::Ssh => format!(
                "is for daemons (fobs://); over SSH, ssh checks the host's key: use {} UserKnownHostsFile=FILE",
                name("-o", "--ssh-option")
            ),
            Carrier::Daemon => {
                "is for copies over SSH, and fobs:// does not run ssh: leave it out".to_owned()
            }
        };
        match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(Error::new(ErrorKind::Usage, format!("{flag} {reason}"))),
            None => Ok(()),
        }
    }

    /// `options` with these.
    pub fn added_to(&self, options: TransferOptions) -> TransferOptions {
        TransferOptions {
            udp_ports: self.udp_ports.map(|ports| (ports.first, ports.last)),
            address_family: match (self.ipv4, self.ipv6) {
                (true, _) => AddressFamily::V4,
                (_, true) => AddressFamily::V6,
                _ => AddressFamily::Any,
            },
            identity: self.identity.clone(),
            port: self.port,
            fobs_path: self.fobs_path.clone().unwrap_or_else(|| options.fobs_path.clone()),
            ssh: SshOptions {
                config_file: self.ssh_config.clone(),
                jump: self.jump.clone(),
                options: self.ssh_options.clone(),
                program: self.ssh_program.clone(),
                inherited: None,
                words: SshWords::Shown,
                chatter: options.ssh.chatter,
                push: if self.push_binary { PushBinary::IfMissing } else { PushBinary::Never },
            },
            known_hosts: self.known_hosts.clone(),
            ..options
        }
    }
}
