//! Questions to the other host before a sync begins.

use fobs::options::{Carrier, Remote};
use fobs::{Result, Session};

use super::with_shell;
use crate::args::sync::SyncArgs;
use crate::{push, resolve};

/// Asks the other host over a connection of its own. Names begin where a login does, whatever path `host`
/// has.
///
/// # Errors
/// What keeps it from being reached, and those of `question`.
pub fn ask<T>(args: &SyncArgs, host: &Remote, question: impl Fn(&Session) -> Result<T>) -> Result<T> {
    let home = Remote { path: Vec::new(), ..host.clone() };
    let mut options = resolve::transfer(&args.chosen)?;
    if host.carrier == Carrier::Ssh {
        with_shell(args, &mut options)?;
    }
    push::with_consent(args, std::slice::from_ref(host), options, |options| {
        question(&Session::builder(home.clone()).options(options).open()?)
    })
}
