//! The command line of `ssh`.

use std::ffi::OsString;

use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::options::{AddressFamily, Remote, ShellGrammar, TransferOptions};

/// The `ssh` to run.
pub(super) fn program(options: &TransferOptions) -> &std::path::Path {
    options.ssh.program.as_deref().unwrap_or("ssh".as_ref())
}

/// What the far shell is to run.
pub(super) fn server_command(options: &TransferOptions) -> Result<String> {
    if options.fobs_path.trim().is_empty() || options.fobs_path.contains('\0') {
        let message =
            format!("--fobs-path {:?} is no command; give the program to run over there", options.fobs_path);
        return Err(Error::new(ErrorKind::Usage, message));
    }
    Ok(format!("{} server", options.fobs_path))
}

/// The whole argument list of the control channel's `ssh`, which has the far shell run `command`.
pub(super) fn arguments(remote: &Remote, options: &TransferOptions, command: &str) -> Result<Vec<OsString>> {
    if options.ssh.grammar == ShellGrammar::HostAndCommand {
        return words_for_another_shell(remote, options, command);
    }
    // The words of `-e` come first: one of them may be the program (`sshpass -e ssh`). No terminal, command
    // or forwardings of the configuration: this connection carries frames.
    let mut arguments = options.ssh.arguments.clone();
    arguments.extend(["-T", "-x", "-oRemoteCommand=none", "-oPermitLocalCommand=no"].map(OsString::from));
    arguments.extend(connection_arguments(remote, options));
    arguments.push("-oClearAllForwardings=yes".into());
    if options.compress {
        arguments.push("-C".into());
    }
    arguments.push("--".into());
    arguments.push(destination(remote)?);
    arguments.push(command.into());
    Ok(arguments)
}

/// What a program takes that has none of the options of `ssh`: as rsync calls its remote shell.
fn words_for_another_shell(
    remote: &Remote,
    options: &TransferOptions,
    command: &str,
) -> Result<Vec<OsString>> {
    // Refuses names that are options.
    destination(remote)?;
    let mut arguments = options.ssh.arguments.clone();
    if let Some(user) = &remote.user {
        arguments.extend(["-l".into(), user.into()]);
    }
    arguments.push(remote.host.clone().into());
    arguments.extend(command.split_whitespace().map(OsString::from));
    Ok(arguments)
}

/// The options that decide where `ssh` connects to and how.
pub(super) fn connection_arguments(remote: &Remote, options: &TransferOptions) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    let mut add = |flag: &str, value: OsString| arguments.extend([flag.into(), value]);
    if let Some(file) = &options.ssh.config_file {
        add("-F", file.into());
    }
    if let Some(jump) = &options.ssh.jump {
        add("-J", jump.into());
    }
    for option in &options.ssh.options {
        add("-o", option.into());
    }
    if let Some(identity) = &options.identity {
        add("-i", identity.into());
    }
    if let Some(port) = remote.port.or(options.port) {
        add("-p", port.to_string().into());
    }
    match options.address_family {
        AddressFamily::Any => {}
        AddressFamily::V4 => arguments.push("-4".into()),
        AddressFamily::V6 => arguments.push("-6".into()),
    }
    arguments
}

/// `user@host`. Names that `ssh` could take for an option, or that no host has, are refused.
pub(super) fn destination(remote: &Remote) -> Result<OsString> {
    let bad = |text: &str| text.is_empty() || text.starts_with('-') || text.contains(char::is_control);
    let refuse = |what: &str, text: &str| {
        Err(Error::new(
            ErrorKind::Usage,
            format!("{text:?} is no {what}; check the spelling of the location"),
        ))
    };
    if bad(&remote.host) || remote.host.contains(char::is_whitespace) {
        return refuse("host name", &remote.host);
    }
    match &remote.user {
        Some(user) if bad(user) => refuse("user name", user),
        Some(user) => Ok(format!("{user}@{}", remote.host).into()),
        None => Ok(remote.host.clone().into()),
    }
}
