//! Names for unchanged entries of `--link-dest`, made when what they lie in is there.

use super::{Sink, SinkEvent, Target};
use crate::basis::{Basis, Link, Links};
use crate::view::View;
use fobs_model::error::Result;
use std::sync::Arc;

impl Sink {
    pub(super) fn with(mut self, bases: Vec<Basis>) -> Sink {
        self.bases = bases;
        self
    }

    /// The directory of `--backup-dir`, as a path of the request.
    pub fn backup_dir(&self) -> Option<&[u8]> {
        match &self.target {
            Target::Tree(tree) => tree.aside().map(|aside| aside.path()),
            Target::Nothing(_) | Target::Stream(_) => None,
        }
    }

    /// Where the directory of `--temp-dir` is, as a path of the request; none of a sink without one.
    pub fn temp_dir(&self) -> Option<&[u8]> {
        match &self.target {
            Target::Tree(tree) => tree.elsewhere().map(|(_, path)| &path[..]),
            Target::Nothing(_) | Target::Stream(_) => None,
        }
    }

    /// Where the one directory of `--partial-dir` is, as a path of the request; none of a sink without one.
    pub fn partial_dir(&self) -> Option<&[u8]> {
        match &self.target {
            Target::Tree(tree) => tree.partials().map(|(_, path)| &path[..]),
            Target::Nothing(_) | Target::Stream(_) => None,
        }
    }

    /// A look at what that directory has.
    pub(crate) fn view_of_partials(&self) -> Option<View> {
        match &self.target {
            Target::Tree(tree) => {
                tree.partials().map(|(directory, _)| View::new(Arc::clone(directory), None))
            }
            Target::Nothing(_) | Target::Stream(_) => None,
        }
    }

    /// The directories of `--link-dest`.
    pub fn bases(&self) -> &[Basis] {
        &self.bases
    }

    /// Where to put what is to be linked.
    pub(crate) fn links(&self) -> Links {
        self.links.clone()
    }

    /// A directory is complete but for what is linked in it.
    pub(super) fn link_in(&mut self, directory: &[u8], events: &mut dyn FnMut(SinkEvent)) -> Result<()> {
        let links = self.links.take_in(directory);
        links.into_iter().try_for_each(|link| self.link(&link, events))
    }

    /// A further name of the entry with this path comes, which may be still to be linked.
    pub(super) fn link_first(&mut self, path: &[u8], events: &mut dyn FnMut(SinkEvent)) -> Result<()> {
        self.links.take(path).map_or(Ok(()), |link| self.link(&link, events))
    }

    /// Everything has come.
    pub(super) fn link_rest(&mut self, events: &mut dyn FnMut(SinkEvent)) -> Result<()> {
        self.links.take_all().into_iter().try_for_each(|link| self.link(&link, events))
    }

    fn link(&mut self, link: &Link, events: &mut dyn FnMut(SinkEvent)) -> Result<()> {
        let made = self.target.tree().and_then(|tree| tree.link_from(link));
        self.made(made, &link.path, events).map(|_| ())
    }
}
