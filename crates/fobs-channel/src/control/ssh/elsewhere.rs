//! The program where a shell that is not interactive does not look for it: there `install.sh` puts it without
//! root, and `--push-binary`.

use super::{SshSession, Started};
use fobs_model::error::Result;
use fobs_model::options::{Remote, ShellGrammar, TransferOptions};

/// Places after the `PATH` of the far shell. Within double quotes of a shell.
macro_rules! usual_places {
    () => {
        "/usr/local/bin:$HOME/.local/bin"
    };
}
pub(super) use usual_places;

/// What the far shell runs; no single quote, backslash or new line is in it. 127 says that there is none.
const SCRIPT: &str = concat!(
    r#"PATH="$PATH:"#,
    usual_places!(),
    r#":${XDG_CACHE_HOME:-$HOME/.cache}/fobs/VERSION"; "#,
    "command -v fobs >/dev/null 2>&1 || exit 127; exec fobs VERB"
);

/// Whether it may be elsewhere: nobody said where it is, and a shell reads the command.
pub fn may_be_elsewhere(options: &TransferOptions) -> bool {
    options.fobs_path == TransferOptions::default().fobs_path && options.ssh.grammar == ShellGrammar::Ssh
}

/// As [`connect`](super::connect), with the program where the `PATH` of the far shell does not lead.
pub fn connect_elsewhere(remote: &Remote, options: &TransferOptions) -> Result<SshSession> {
    Started::start(remote, options, &command("server")).map(Started::into_session)
}

/// The command that runs `fobs VERB` there.
pub(super) fn command(verb: &str) -> String {
    let script = SCRIPT.replace("VERSION", env!("CARGO_PKG_VERSION")).replace("VERB", verb);
    format!("exec sh -c '{script}'")
}
