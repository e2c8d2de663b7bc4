//! Sinks that store nothing, or a stream.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::{Sink, SinkSpec, Stream, Takes, Target, one_file_only};
use crate::attributes::Preserve;
use crate::destination::{Place, look, missing};
use crate::source::SourceShape;
use crate::view::View;
use fobs_model::budget::MemoryBudget;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::DirectoriesMade;
use fobs_model::name::ComponentBuf;

impl Sink {
    /// Stores nothing: for a dry run, which only looks at the destination.
    ///
    /// # Errors
    /// `Destination` where nothing could be stored.
    pub fn dry_run(spec: &SinkSpec) -> Result<Sink> {
        let place = look(&spec.wanted())?;
        let made = if place.is_none() { missing(&spec.wanted()) } else { DirectoriesMade::default() };
        let (view, name) = match place {
            Some(Place::Into(directory) | Place::Made(directory)) => {
                (Some(View::new(Arc::new(directory), None)), None)
            }
            Some(Place::As { directory, name }) => {
                (Some(View::new(Arc::new(directory), Some(name.as_bytes().to_vec()))), Some(name))
            }
            Some(Place::Device(_)) | None => (None, None),
        };
        let bases = spec.open_bases(name.as_ref().map(ComponentBuf::as_bytes))?;
        let mut sink = Sink::new(Target::Nothing(view), Preserve::default(), &spec.budget).with(bases);
        (sink.may_repeat, sink.made) = (spec.may_repeat(), made);
        Ok(sink)
    }

    /// The directories below which it writes; those of `--link-dest` are among them, because a file's name in
    /// one becomes a name of the same file in another, and that of `--backup-dir`.
    ///
    /// # Errors
    /// That of the kernel where there are too many open files.
    pub fn writes_below(&self) -> Result<Vec<OwnedFd>> {
        let Target::Tree(tree) = &self.target else { return Ok(Vec::new()) };
        let bases = self.bases.iter().filter_map(|basis| basis.view().ok().flatten());
        let views = std::iter::once(tree.view()).chain(bases);
        let mut again = views.map(|view| view.top().try_clone()).collect::<std::io::Result<Vec<_>>>();
        if let (Ok(all), Some(aside)) = (&mut again, tree.aside()) {
            all.push(aside.open()?.try_clone().map_err(|error| again_failed(&error))?);
        }
        for (directory, _) in tree.elsewhere().into_iter().chain(tree.partials()) {
            if let Ok(all) = &mut again {
                all.push(directory.try_clone().map_err(|error| again_failed(&error))?);
            }
        }
        again.map_err(|error| again_failed(&error))
    }

    /// Writes exactly one file to `writer`, such as standard output.
    pub fn to_stream(writer: Box<dyn Write + Send>, shape: SourceShape) -> Result<Sink> {
        if shape.needs_directory() {
            return Err(one_file_only());
        }
        Ok(Sink::new(
            Target::Stream(Stream { writer, takes: Takes::One }),
            Preserve::default(),
            &MemoryBudget::default(),
        ))
    }

    /// Writes what comes of a pipe to `writer`, in order and as soon as it is verified.
    pub fn to_pipe(writer: Box<dyn Write + Send>, budget: MemoryBudget) -> Sink {
        let stream = Stream { writer, takes: Takes::Pieces };
        Sink::new(Target::Stream(stream), Preserve::default(), &budget)
    }
}

fn again_failed(error: &std::io::Error) -> Error {
    let message = format!("cannot open the destination once more: {error}; raise ulimit -n");
    Error::new(ErrorKind::FileIo, message)
}
