//! A push that finds by itself the version that the destination has, if this host has it still.

use super::persist::Course;
use super::{Client, Done};
use fobs_engine::memory::versions::RememberedVersions;
use fobs_model::error::Result;
use fobs_model::options::Remote;
use fobs_store::{EarlierFiles, Source};

impl Client<'_> {
    /// A push; of a sync it is remembered which versions the destination has afterwards.
    pub(super) fn push_version(
        self,
        mut source: Source,
        names: Vec<Vec<u8>>,
        remote: &Remote,
        course: &mut Course,
    ) -> Result<Done> {
        let sync = self.options.sync.as_deref();
        if sync.is_none_or(|sync| sync.dry_run) {
            return self.push(source, names, remote, course);
        }
        let remembered = RememberedVersions::of_the_user(&self.channel.peer, &remote.path);
        if !source.knows_earlier() {
            let versions = remembered.recall();
            if !versions.is_empty() {
                source.has_earlier(EarlierFiles::Remembered(versions));
            }
        }
        let sent = source.note_versions();
        let done = self.push(source, names, remote, course)?;
        remembered.keep(sent.take());
        Ok(done)
    }
}
