//! Files by name over a session.

use super::{Call, Onto};
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::listing::Entry;
use fobs_model::message::Bytes;
use fobs_model::message::files::FileRequest;

impl Call<'_> {
    /// See [`Session::list`](super::Session::list).
    ///
    /// # Errors
    /// Its.
    pub fn list(self, name: impl AsRef<[u8]>) -> Result<Vec<Entry>> {
        let path = self.named(name.as_ref());
        self.ask(&FileRequest::List { path, links: false })
    }

    /// See [`Session::stat`](super::Session::stat).
    ///
    /// # Errors
    /// Its.
    pub fn stat(self, name: impl AsRef<[u8]>) -> Result<Entry> {
        let path = self.named(name.as_ref());
        self.ask(&FileRequest::Stat { path, links: false }).and_then(one)
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
        self.ask(&FileRequest::List { path, links: true })
    }

    /// See [`Session::walk`](super::Session::walk).
    ///
    /// # Errors
    /// Its.
    pub fn walk(self, name: impl AsRef<[u8]>, depth: u32) -> Result<Vec<Entry>> {
        let path = self.named(name.as_ref());
        self.ask(&FileRequest::Walk { path, depth })
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
            Err(error) if error.kind == ErrorKind::NoSource => Ok(false),
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
