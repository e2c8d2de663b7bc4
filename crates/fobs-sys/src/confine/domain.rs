//! Domains: what a thread may reach, and how it enters one.

use std::os::fd::OwnedFd;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, PathBeneath, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope,
};

use super::kernel::{NEWEST, WRITES_FROM, abi};

/// What threads of ours may reach. It only ever becomes less: a thread that has entered one stays in it, and
/// so do those that it starts.
#[derive(Debug)]
pub struct Domain {
    files: Files,
    tcp: Tcp,
    others: Others,
}

/// Which files.
#[derive(Debug)]
enum Files {
    /// Those below these directories.
    Below(Vec<Grant>),
    /// All for reading; for writing those below these directories.
    WriteBelow(Vec<OwnedFd>),
    /// Whatever the user may.
    All,
}

/// A directory, or a file, and what may be done there.
#[derive(Debug)]
pub struct Grant {
    /// The directory, or the file.
    pub at: OwnedFd,
    /// What may be done there.
    pub access: Access,
}

/// What may be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Files are listed and read.
    Read,
    /// Without removing a directory. Files have their temporary names removed, so their names can go.
    Deliver,
    /// Files are changed, too.
    Write,
    /// And devices made.
    WriteDevices,
}

/// Which new TCP sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tcp {
    /// None.
    None,
    /// A session over ssh, which takes streams at a port of its own.
    Listen,
    /// A session that fetches for its client.
    Connect,
    /// Any.
    All,
}

/// Signals to other processes, and their abstract sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    Refused,
    Free,
}

impl Domain {
    /// Of what parses the bytes of a stranger: no file and no new TCP socket.
    pub fn of_strangers() -> Domain {
        Domain::of_session(Vec::new(), Tcp::None)
    }

    /// Of a session that sees these directories.
    pub fn of_session(files: Vec<Grant>, tcp: Tcp) -> Domain {
        Domain { files: Files::Below(files), tcp, others: Others::Refused }
    }

    /// Of a session with the rights of its login: over ssh a client can do with files what it wants.
    pub fn of_login() -> Domain {
        Domain { files: Files::All, tcp: Tcp::Listen, others: Others::Refused }
    }

    /// Of a client that receives: it writes below these directories. What its user's event sinks do runs in
    /// the same threads, so nothing else is refused.
    pub fn of_receiver(directories: Vec<OwnedFd>) -> Domain {
        Domain { files: Files::WriteBelow(directories), tcp: Tcp::All, others: Others::Free }
    }

    /// Whether it is different from none under this version of Landlock.
    pub(super) fn holds_under(&self, landlock: u32) -> bool {
        self.wanted(abi(landlock)).is_some()
    }

    /// Confines the calling thread.
    pub(super) fn enter(self, landlock: u32) -> Result<(), RulesetError> {
        if let Some(wanted) = self.wanted(abi(landlock)) {
            let taken = wanted.files;
            self.with_grants(wanted.ruleset()?, taken)?.restrict_self()?;
        }
        Ok(())
    }

    /// What is asked of Landlock; `None` for nothing.
    fn wanted(&self, abi: ABI) -> Option<Wanted> {
        let files = match &self.files {
            Files::All => BitFlags::EMPTY,
            Files::Below(grants) if grants.iter().all(|grant| grant.access == Access::Read) => {
                AccessFs::from_all(abi)
            }
            // Before, no rename could leave its directory.
            _ if abi < WRITES_FROM => BitFlags::EMPTY,
            Files::Below(_) => AccessFs::from_all(abi),
            Files::WriteBelow(_) => AccessFs::from_write(abi) & !BitFlags::from(AccessFs::IoctlDev),
        };
        let tcp = AccessNet::from_all(abi)
            & match self.tcp {
                Tcp::None => AccessNet::BindTcp | AccessNet::ConnectTcp,
                Tcp::Listen => AccessNet::ConnectTcp.into(),
                Tcp::Connect => AccessNet::BindTcp.into(),
                Tcp::All => BitFlags::EMPTY,
            };
        let scopes = match self.others {
            Others::Refused => Scope::from_all(abi),
            Others::Free => BitFlags::EMPTY,
        };
        let is_nothing = files.is_empty() && tcp.is_empty() && scopes.is_empty();
        (!is_nothing).then_some(Wanted { files, tcp, scopes })
    }

    /// The rules: what is granted of what was taken away.
    fn with_grants(
        &self,
        ruleset: RulesetCreated,
        taken: BitFlags<AccessFs>,
    ) -> Result<RulesetCreated, RulesetError> {
        let grants: Vec<(&OwnedFd, BitFlags<AccessFs>)> = match &self.files {
            Files::All => Vec::new(),
            Files::Below(grants) => grants.iter().map(|grant| (&grant.at, rights(grant.access))).collect(),
            Files::WriteBelow(directories) => directories.iter().map(|at| (at, taken)).collect(),
        };
        let given = grants.into_iter().map(|(at, access)| (at, access & taken));
        given
            .filter(|(_, access)| !access.is_empty())
            .try_fold(ruleset, |ruleset, (at, access)| ruleset.add_rule(PathBeneath::new(at, access)))
    }
}

/// The rights that are taken away unless they are granted.
struct Wanted {
    files: BitFlags<AccessFs>,
    tcp: BitFlags<AccessNet>,
    scopes: BitFlags<Scope>,
}

impl Wanted {
    /// An empty set is an error to the library.
    fn ruleset(self) -> Result<RulesetCreated, RulesetError> {
        let mut ruleset = Ruleset::default();
        if !self.files.is_empty() {
            ruleset = ruleset.handle_access(self.files)?;
        }
        if !self.tcp.is_empty() {
            ruleset = ruleset.handle_access(self.tcp)?;
        }
        if !self.scopes.is_empty() {
            ruleset = ruleset.scope(self.scopes)?;
        }
        ruleset.create()
    }
}

/// What a grant gives. No program is run and no device is spoken to below any of them.
fn rights(access: Access) -> BitFlags<AccessFs> {
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    let devices = AccessFs::MakeChar | AccessFs::MakeBlock;
    let writing = AccessFs::from_write(NEWEST) & !BitFlags::from(AccessFs::IoctlDev);
    match access {
        Access::Read => reading,
        Access::Deliver => reading | (writing & !devices & !BitFlags::from(AccessFs::RemoveDir)),
        Access::Write => reading | (writing & !devices),
        Access::WriteDevices => reading | writing,
    }
}
