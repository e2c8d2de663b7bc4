//! Files by name over a session.

use super::Call;
use crate::control::files::FileRequest;
use crate::control::message::Bytes;
use crate::error::{Error, ErrorKind, Result};
use crate::listing::Entry;

impl Call<'_> {
    /// See [`Session::list`](super::Session::list).
    ///
    /// # Errors
    /// Its.
    pub fn list(self, name: impl AsRef<[u8]>) -> Result<Vec<Entry>> {
        let path = self.named(name.as_ref());
        self.ask(&FileRequest::List { path })
    }

    /// See [`Session::stat`](super::Session::stat).
    ///
    /// # Errors
    /// Its.
    pub fn stat(self, name: impl AsRef<[u8]>) -> Result<Entry> {
        let path = self.named(name.as_ref());
        let found = self.ask(&FileRequest::Stat { path })?;
        found.into_iter().next().ok_or_else(|| {
            let message = "the server says nothing of the name; install the same version on both sides";
            Error::new(ErrorKind::Protocol, message)
        })
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
        self.with_caller(&options, |caller, manner| caller.ask(request, manner))
    }
}
