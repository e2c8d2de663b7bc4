//! What `fobs server --restrict` leaves a client: a flag for each right, from the table of rights.

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, Error, FromArgMatches};
use fobs::{Access, Privileges, Rights};

/// The option without which the flags mean nothing.
const RESTRICT: &str = "restrict";
/// `--privileged`
const PRIVILEGED: &str = "privileged";

/// A flag for each right but that to everything, of which one may be given, and `--privileged`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestrictedRights(pub Rights);

/// Those that have a flag.
fn flagged() -> impl Iterator<Item = Access> {
    Access::ALL.iter().copied().filter(|access| *access != Access::ReadWrite)
}

/// Whether files may be given something for such a client.
fn may_be_privileged(access: Access) -> bool {
    Rights::new(access).with_privileges(Privileges::OfTheUser).is_ok()
}

impl Args for RestrictedRights {
    fn augment_args(command: Command) -> Command {
        let flag =
            |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).requires(RESTRICT);
        let rights = flagged().map(|access| {
            let help = format!("With --restrict, all that the client may do: {}", access.summary());
            flag(access.name()).help(help)
        });
        let unprivileged = flagged().filter(|access| !may_be_privileged(*access)).map(Access::name);
        let privileged = flag(PRIVILEGED).conflicts_with_all(unprivileged.collect::<Vec<_>>()).help(
            "With --restrict: files may get owners, set-id bits, devices and security attributes, as far as the \
             login's user can give them",
        );
        let one_right = ArgGroup::new("right").args(flagged().map(Access::name).collect::<Vec<_>>());
        command.args(rights).arg(privileged).group(one_right)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RestrictedRights {
    fn from_arg_matches(matches: &ArgMatches) -> Result<RestrictedRights, Error> {
        let given = flagged().find(|access| matches.get_flag(access.name()));
        let rights = Rights::new(given.unwrap_or(Access::ReadWrite));
        let privileges =
            if matches.get_flag(PRIVILEGED) { Privileges::OfTheUser } else { Privileges::Withheld };
        let refused =
            |error: fobs::Error| Error::raw(clap::error::ErrorKind::ArgumentConflict, error.message);
        rights.with_privileges(privileges).map(RestrictedRights).map_err(refused)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = RestrictedRights::from_arg_matches(matches)?;
        Ok(())
    }
}
