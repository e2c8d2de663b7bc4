//! Files by name over a session.

use super::{Call, Onto};
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::listing::Entry;
use fobs_model::message::Bytes;
use fobs_model::message::files::FileRequest;
#[cfg(test)]
use fobs_model::message::files::WireEntry;
use fobs_model::text::{printable, show};

/// Letters of a wrong name that are shown.
const SHOWN_MAX: usize = 200;
/// Letters of a file system's name: it is the server's word for it.
const DISK_MAX: usize = 40;

/// The room of a file system at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreeRoom {
    /// What names the file system there, and nothing elsewhere.
    pub disk: String,
    /// Bytes that the server's user may still write.
    pub free_bytes: u64,
}

impl Call<'_> {
    /// See [`Session::list`](super::Session::list).
    ///
    /// # Errors
    /// Its.
    pub fn list(self, name: impl AsRef<[u8]>) -> Result<Vec<Entry>> {
        let path = self.named(name.as_ref());
        self.ask(&FileRequest::List { path, links: false }).and_then(listed)
    }

    /// See [`Session::stat`](super::Session::stat).
    ///
    /// # Errors
    /// Its.
    pub fn stat(self, name: impl AsRef<[u8]>) -> Result<Entry> {
        let path = self.named(name.as_ref());
        self.ask(&FileRequest::Stat { path, links: false }).and_then(one)
    }

    /// See [`Session::room`](super::Session::room).
    ///
    /// # Errors
    /// Its.
    pub fn room(self, name: impl AsRef<[u8]>) -> Result<FreeRoom> {
        let path = self.named(name.as_ref());
        let Entry { name: disk, size: free_bytes, .. } =
            self.ask(&FileRequest::Room { path }).and_then(one)?;
        Ok(FreeRoom { disk: printable(&show(&disk), DISK_MAX), free_bytes })
    }

    /// See [`Session::stat_link`](super::Session::stat_link).
    ///
    /// # Errors
    /// Its.
    pub fn stat_link(self, name: impl AsRef<[u8]>) -> Result<Entry> {
        let path = self.named(name.as_ref());
        self.ask(&FileRequest::Stat { path, links: true }).and_then(one)
    }

    /// See [`Session::list_links`](super::Session::list_links).
    ///
    /// # Errors
    /// Its.
    pub fn list_links(self, name: impl AsRef<[u8]>) -> Result<Vec<Entry>> {
        let path = self.named(name.as_ref());
        self.ask(&FileRequest::List { path, links: true }).and_then(listed)
    }

    /// See [`Session::walk`](super::Session::walk).
    ///
    /// # Errors
    /// Its.
    pub fn walk(self, name: impl AsRef<[u8]>, depth: u32) -> Result<Vec<Entry>> {
        let path = self.named(name.as_ref());
        self.ask(&FileRequest::Walk { path, depth }).and_then(walked)
    }

    /// See [`Session::rename`](super::Session::rename).
    ///
    /// # Errors
    /// Its.
    pub fn rename(self, name: impl AsRef<[u8]>, to: impl AsRef<[u8]>, onto: Onto) -> Result<()> {
        let (path, to) = (self.named(name.as_ref()), self.named(to.as_ref()));
        self.ask(&FileRequest::Rename { path, to, replace: onto == Onto::Anything }).map(drop)
    }

    /// See [`Session::copy`](super::Session::copy).
    ///
    /// # Errors
    /// Its.
    pub fn copy(self, name: impl AsRef<[u8]>, to: impl AsRef<[u8]>, onto: Onto) -> Result<Entry> {
        let (path, to) = (self.named(name.as_ref()), self.named(to.as_ref()));
        self.ask(&FileRequest::Copy { path, to, replace: onto == Onto::Anything }).and_then(one)
    }

    /// See [`Session::touch`](super::Session::touch).
    ///
    /// # Errors
    /// Its.
    pub fn touch(self, name: impl AsRef<[u8]>) -> Result<()> {
        let path = self.named(name.as_ref());
        self.ask(&FileRequest::Touch { path }).map(drop)
    }

    /// See [`Session::exists`](super::Session::exists).
    ///
    /// # Errors
    /// Its.
    pub fn exists(self, name: impl AsRef<[u8]>) -> Result<bool> {
        match self.stat(name) {
            Ok(_) => Ok(true),
            // What may not be looked at may well be there.
            Err(error) if error.says_missing() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// See [`Session::remove`](super::Session::remove).
    ///
    /// # Errors
    /// Its.
    pub fn remove(self, name: impl AsRef<[u8]>) -> Result<()> {
        let path = self.named(name.as_ref());
        self.ask(&FileRequest::Remove { path, tree: false }).map(drop)
    }

    /// See [`Session::remove_tree`](super::Session::remove_tree).
    ///
    /// # Errors
    /// Its.
    pub fn remove_tree(self, name: impl AsRef<[u8]>) -> Result<()> {
        let path = self.named(name.as_ref());
        self.ask(&FileRequest::Remove { path, tree: true }).map(drop)
    }

    /// See [`Session::make_directory`](super::Session::make_directory).
    ///
    /// # Errors
    /// Its.
    pub fn make_directory(self, name: impl AsRef<[u8]>) -> Result<()> {
        let path = self.named(name.as_ref());
        self.ask(&FileRequest::MakeDirectory { path, parents: false }).map(drop)
    }

    /// See [`Session::make_directories`](super::Session::make_directories).
    ///
    /// # Errors
    /// Its.
    pub fn make_directories(self, name: impl AsRef<[u8]>) -> Result<()> {
        let path = self.named(name.as_ref());
        self.ask(&FileRequest::MakeDirectory { path, parents: true }).map(drop)
    }

    fn named(&self, name: &[u8]) -> Bytes {
        Bytes(self.path(name))
    }

    fn ask(self, request: &FileRequest) -> Result<Vec<Entry>> {
        let options = self.chosen();
        // Only one connection where this process has it from another one.
        if request.is_short() && options.ssh.inherited.is_none() {
            self.beside_transfers(&options, |caller, manner| caller.ask(request, manner))
        } else {
            self.with_caller(&options, |caller, manner| caller.ask(request, manner))
        }
    }
}

fn one(found: Vec<Entry>) -> Result<Entry> {
    found.into_iter().next().ok_or_else(|| {
        let message = "the server says nothing of the name; install the same version on both sides";
        Error::new(ErrorKind::Protocol, message)
    })
}

/// A listing, whose names are of one component: callers put them behind paths of their own.
fn listed(entries: Vec<Entry>) -> Result<Vec<Entry>> {
    checked(entries, |name| is_component(name) && !name.contains(&b'/'))
}

/// What lies below a directory, by paths that lead nowhere else, of any length.
fn walked(entries: Vec<Entry>) -> Result<Vec<Entry>> {
    checked(entries, |name| name.split(|&byte| byte == b'/').all(is_component))
}

fn is_component(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.contains(&0)
}

fn checked(entries: Vec<Entry>, is_below: impl Fn(&[u8]) -> bool) -> Result<Vec<Entry>> {
    let Some(wrong) = entries.iter().find(|entry| !is_below(&entry.name)) else { return Ok(entries) };
    let shown = printable(&show(&wrong.name), SHOWN_MAX);
    let message =
        format!("the server lists the name '{shown}', which leads out of the directory; do not trust it");
    Err(Error::new(ErrorKind::Protocol, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_of_a_directory_are_refused() {
        let named = |name: &[u8]| vec![Entry::from(WireEntry::named(name.to_vec()))];
        for name in [&b"a"[..], b"...", b"a\xff", b" ", b"~"] {
            assert!(listed(named(name)).is_ok() && walked(named(name)).is_ok(), "{name:?}");
        }
        for name in [&b""[..], b".", b"..", b"/etc", b"../x", b"a/../../x", b"a//b", b"a/", b"a\0"] {
            for refused in [listed(named(name)), walked(named(name))] {
                assert_eq!(refused.expect_err("it leads out").kind, ErrorKind::Protocol, "{name:?}");
            }
        }
        assert!(walked(named(b"a/b")).is_ok() && listed(named(b"a/b")).is_err());
    }
}
