//! What the client of a session may do: the one place that judges a request.

mod needs;

pub use needs::Needs;

use crate::error::{Error, ErrorKind, Result};
use crate::options::{Overwrite, Privileges, Sight, Stamps, Terms};
use crate::rights::{Access, Action, PipeCommand, Rights};

/// What the client of a session may do.
#[derive(Debug, Clone)]
pub struct Permit {
    /// Those of its key; `None` where file permissions of the user decide (SSH).
    rights: Option<Rights>,
    /// What the server allows at most, whatever the key's rights are.
    server: Option<Access>,
}

impl Permit {
    /// All that the user may do.
    pub fn of_the_user() -> Permit {
        Permit { rights: None, server: None }
    }

    /// What a key may do.
    pub fn of_key(rights: Rights) -> Permit {
        Permit { rights: Some(rights), server: None }
    }

    /// At a server that nobody may write to.
    pub fn read_only(self) -> Permit {
        Permit { server: Some(Access::ReadOnly), ..self }
    }

    /// What the client may have files be given.
    pub fn privileges(&self) -> Privileges {
        self.rights.as_ref().map_or(Privileges::OfTheUser, Rights::privileges)
    }

    /// The right that decides; `None` where the user's file permissions do.
    pub fn access(&self) -> Option<Access> {
        self.server.or_else(|| self.rights.as_ref().map(Rights::access))
    }

    /// Whether the client may pull and push at all.
    pub fn directions(&self) -> (bool, bool) {
        (self.allows(Action::Read).is_ok(), self.allows(Action::Create).is_ok())
    }

    /// Which commands may run for the client.
    pub fn commands(&self) -> Commands<'_> {
        match &self.rights {
            None => Commands::OfTheUser,
            Some(rights) => rights.pipe().map_or(Commands::None, Commands::OfTheKey),
        }
    }

    /// How a push of the client is stored.
    pub fn terms(&self) -> Terms {
        let may = |actions: &[Action]| actions.iter().all(|action| self.allows(*action).is_ok());
        Terms {
            overwrite: if may(&[Action::Replace, Action::SetAttributes]) {
                Overwrite::Replace
            } else {
                Overwrite::Refuse
            },
            sight: if may(&[Action::List, Action::Look, Action::Compare]) {
                Sight::Whole
            } else {
                Sight::Own
            },
            stamps: if may(&[Action::SetStamps]) { Stamps::Senders } else { Stamps::Ours },
        }
    }

    /// Refuses what exceeds the rights: by action, then by path.
    pub fn check(&self, needs: &Needs<'_>) -> Result<()> {
        for (action, option) in needs.actions() {
            self.allows(*action).map_err(|whose| refused(&whose, *action, *option))?;
        }
        needs.paths().iter().try_for_each(|path| self.check_path(path))
    }

    /// Refuses a path that the key does not reach.
    pub fn check_path(&self, path: &[u8]) -> Result<()> {
        if self.rights.as_ref().is_none_or(|rights| rights.reaches(path)) {
            return Ok(());
        }
        let message = format!(
            "this key has no right to {:?}: it is outside what the key may see; ask whoever runs the server",
            String::from_utf8_lossy(path)
        );
        Err(Error::new(ErrorKind::Denied, message))
    }

    fn allows(&self, action: Action) -> std::result::Result<(), Whose> {
        // It is about files, and a name that joins two programs touches none.
        if action != Action::JoinPipes && self.server.is_some_and(|access| !access.allows(action)) {
            return Err(Whose::Servers);
        }
        match &self.rights {
            Some(rights) if !rights.allows(action) => Err(Whose::Keys(rights.access())),
            _ => Ok(()),
        }
    }
}

/// Which commands may run for a client.
#[derive(Debug, Clone, Copy)]
pub enum Commands<'p> {
    /// Those that it names: it is the user's own login.
    OfTheUser,
    /// That of its key's line.
    OfTheKey(&'p PipeCommand),
    /// None.
    None,
}

/// Whose rights do not suffice.
enum Whose {
    Servers,
    Keys(Access),
}

fn refused(whose: &Whose, action: Action, option: Option<&str>) -> Error {
    let advice = match option {
        Some(option) => format!("leave out {option}, or ask whoever runs the server"),
        None => "ask whoever runs the server".to_owned(),
    };
    let action_name = action.name();
    Error::new(
        ErrorKind::Denied,
        match whose {
            Whose::Servers => format!("this server is read-only: no key may {action_name} here; {advice}"),
            Whose::Keys(_) if action == Action::RunCommand => {
                format!("this key may run no command: its line names none with pipe=; {advice}")
            }
            Whose::Keys(_) if action == Action::JoinPipes => {
                format!("this key may not {action_name}: its line has no pipe-names; {advice}")
            }
            Whose::Keys(access) => {
                format!("this key may not {action_name}: its rights are {}; {advice}", access.name())
            }
        },
    )
}
