//! What a name of a directory becomes that is no directory itself.

use super::entry::{
    Unopened, device_of, found, lost, no_attributes, not_regular, opened, read_link, read_noted_link,
    special_kind,
};
use super::search::Search;
use super::*;

/// The entry of a name that is no directory. With `later` a file is not opened.
pub(super) fn look(
    directory: BorrowedFd<'_>,
    name: &[u8],
    path: Vec<u8>,
    file_type: FileType,
    later: Option<&Unopened>,
    search: &Search<'_>,
) -> Entry {
    let collector = search.collector;
    if let (FileType::RegularFile, None) = (file_type, later) {
        return match open_beneath(directory, name, READ_ONE, Mode::empty(), Links::Refuse) {
            Ok(file) => opened(path, file, collector),
            Err(errno) => lost(&path, errno),
        };
    }
    let stat = match Component::new(name).map_err(Errno::from).and_then(|name| at::stat(directory, name)) {
        Ok(stat) => stat,
        Err(errno) => return lost(&path, errno),
    };
    let seen = match collector.seen_at(directory, name, &stat) {
        Ok(seen) => seen,
        Err(errno) => return lost(&path, errno),
    };
    // What is noted with a file that stands for a link is in that.
    let is_noted = kind(&stat) == FileType::RegularFile && kind(&seen) != FileType::RegularFile;
    // A named one was not looked at before.
    let file_type = if collector.reads_as_file(&seen) { FileType::RegularFile } else { file_type };
    let stat = if collector.reads_as_file(&seen) {
        let opened = open_beneath(directory, name, READ_ONE, Mode::empty(), Links::Refuse);
        match opened.and_then(|device| collector.device_as_file(&device, &seen)) {
            Ok(stat) => stat,
            Err(errno) => return lost(&path, errno),
        }
    } else {
        seen
    };
    let kept = collector.attributes_at(directory, name, &stat);
    let origin = search.origins.of(&stat, later);
    if let (FileType::RegularFile, Some(later)) = (file_type, later) {
        return found(path, &stat, kept, later.clone(), origin, collector);
    }
    let (meta, attributes) = match kept {
        Ok(attributes) => (collector.meta(&stat), attributes),
        Err(errno) => return no_attributes(&path, errno),
    };
    match (kind(&stat), special_kind(kind(&stat))) {
        (FileType::Symlink, _) if is_noted => match read_noted_link(directory, name, collector) {
            Ok(target) => Entry::Symlink { path, target, meta, attributes, origin },
            Err(errno) => lost(&path, errno),
        },
        (FileType::Symlink, _) => match read_link(directory, name, collector) {
            Ok(target) => Entry::Symlink { path, target, meta, attributes, origin },
            Err(errno) => lost(&path, errno),
        },
        (_, Some(kind)) if search.lists_all || collector.preserve.keeps(kind) => {
            let device = device_of(kind, &stat);
            Entry::Special { path, kind, device, meta, attributes, origin }
        }
        // It was replaced since its name was read.
        _ => Entry::Failed(FileError { message: not_regular(&path), path }),
    }
}
