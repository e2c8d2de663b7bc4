//! Another account's rights for this process from now on (`--copy-as`).

use std::ffi::CString;
use std::path::PathBuf;

use nix::unistd::{Gid, Group, Uid, User, geteuid, initgroups, setgroups, setresgid, setresuid};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::options::sync::RunAs;

/// Becomes this account for good, with its groups, or with the one that is named alone. Without effect on a
/// process that is it already.
///
/// # Errors
/// `Usage`: this host has no such user or group, or this process may not become it.
pub fn run_as(RunAs { user, group }: &RunAs) -> Result<()> {
    let unknown = |what: &str, name: &str| {
        Error::new(
            ErrorKind::Usage,
            format!("--copy-as: this host has no {what} '{name}'; give one that it has"),
        )
    };
    let by_number = |name: &str| name.parse::<u32>().ok();
    let found = match User::from_name(user).ok().flatten() {
        Some(found) => Some(found),
        None => by_number(user).and_then(|id| User::from_uid(Uid::from_raw(id)).ok().flatten()),
    };
    let id = found.as_ref().map(|found| found.uid).or(by_number(user).map(Uid::from_raw));
    let id = id.ok_or_else(|| unknown("user", user))?;
    let named = match group {
        Some(name) => {
            let found = Group::from_name(name).ok().flatten().map(|group| group.gid);
            let known = found.or(by_number(name).map(Gid::from_raw));
            Some(known.ok_or_else(|| unknown("group", name))?)
        }
        None => None,
    };
    if geteuid() == id && Uid::current() == id {
        return Ok(());
    }
    let own = named.or(found.as_ref().map(|found| found.gid));
    let own = own.ok_or_else(|| {
        let message = format!("--copy-as: the user {user} has no group here; give one, as in {user}:GROUP");
        Error::new(ErrorKind::Usage, message)
    })?;
    let groups = match (named, found) {
        (None, Some(found)) => {
            let name = CString::new(found.name).map_err(|_| unknown("user", user))?;
            initgroups(&name, own)
        }
        _ => setgroups(&[own]),
    };
    let became = groups.and_then(|()| setresgid(own, own, own)).and_then(|()| setresuid(id, id, id));
    became.map_err(|errno| {
        let message = format!("--copy-as: cannot become '{user}': {}; only root can", errno.desc());
        Error::new(ErrorKind::Usage, message)
    })?;
    // A process that changed its user does not see its own files in /proc, which lead to what it holds open.
    set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(|errno| {
        Error::new(
            ErrorKind::Usage,
            format!("--copy-as: this process cannot see itself as '{user}': {errno}"),
        )
    })
}

/// An account of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Its home.
    pub home: PathBuf,
    /// Its shell.
    pub shell: PathBuf,
}

/// Becomes a user for good, known by number, with the groups of that account; without an account with this
/// group alone. Returns the account.
///
/// # Errors
/// `Connect` where accounts cannot be looked up, `Usage` where this process may not become another one.
pub fn become_user(uid: u32, gid: u32) -> Result<Option<Account>> {
    let id = Uid::from_raw(uid);
    let found = User::from_uid(id).map_err(|errno| {
        let message = format!("cannot look up the account of user {uid}: {}", errno.desc());
        Error::new(ErrorKind::Connect, message)
    })?;
    let own = found.as_ref().map_or(Gid::from_raw(gid), |found| found.gid);
    let name = found.as_ref().and_then(|found| CString::new(found.name.as_str()).ok());
    let groups = match &name {
        Some(name) => initgroups(name, own),
        None => setgroups(&[own]),
    };
    let became = groups.and_then(|()| setresgid(own, own, own)).and_then(|()| setresuid(id, id, id));
    became.map_err(|errno| {
        let message = format!("cannot become user {uid}: {}; only root can", errno.desc());
        Error::new(ErrorKind::Usage, message)
    })?;
    Ok(found.map(|found| Account { name: found.name, home: found.dir, shell: found.shell }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_that_are_not_there_are_refused() {
        let refused = |user: &str, group: Option<&str>| {
            let account = RunAs { user: user.to_owned(), group: group.map(str::to_owned) };
            run_as(&account).expect_err("it is not there").message
        };
        assert!(refused("no-such-user", None).contains("no user 'no-such-user'"));
        assert!(refused("root", Some("no-such-group")).contains("no group 'no-such-group'"));
    }

    #[test]
    fn a_process_that_is_the_account_already_stays() {
        let account = RunAs { user: geteuid().as_raw().to_string(), group: None };
        run_as(&account).expect("nothing is to be done");
    }
}
