//! The transfer's root (protocol 7.6): one hash over every entry, in order of appearance, computed on both
//! sides.

use blake3::Hasher;

use super::record::Device;

/// Takes entries in order. Each is its kind byte, the length of its path (`u32`, little-endian) and the path;
/// then a file's root, or a link's target after its length.
#[derive(Debug, Clone, Default)]
pub struct TransferRoot(Hasher);

impl TransferRoot {
    /// A directory begins.
    pub fn directory(&mut self, path: &[u8]) {
        self.0.update(b"d");
        self.counted(path);
    }

    /// A symbolic link.
    pub fn symlink(&mut self, path: &[u8], target: &[u8]) {
        self.0.update(b"l");
        self.counted(path);
        self.counted(target);
    }

    /// A device, fifo or socket; its kind by its number in the record.
    pub fn special(&mut self, path: &[u8], kind: u8, device: Device) {
        self.0.update(b"s");
        self.counted(path);
        self.0.update(&[kind]);
        self.0.update(&device.major.to_le_bytes());
        self.0.update(&device.minor.to_le_bytes());
    }

    /// One more name of a file.
    pub fn hard_link(&mut self, path: &[u8], target: &[u8]) {
        self.0.update(b"h");
        self.counted(path);
        self.counted(target);
    }

    /// A file is complete.
    pub fn file(&mut self, path: &[u8], root: &[u8; 32]) {
        self.0.update(b"f");
        self.counted(path);
        self.0.update(root);
    }

    /// The root of all entries so far.
    pub fn finish(&self) -> [u8; 32] {
        *self.0.finalize().as_bytes()
    }

    fn counted(&mut self, bytes: &[u8]) {
        // Paths and targets are at most 4096 bytes.
        self.0.update(&(bytes.len() as u32).to_le_bytes());
        self.0.update(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_cannot_be_taken_for_one_another() {
        let lists: [fn(&mut TransferRoot); 9] = [
            |root| root.directory(b"ab"),
            |root| {
                root.directory(b"a");
                root.directory(b"b");
            },
            |root| root.symlink(b"a", b"bc"),
            |root| root.symlink(b"ab", b"c"),
            |root| root.file(b"a", &[0; 32]),
            |root| root.hard_link(b"a", b"bc"),
            |root| root.special(b"a", 0, Device::default()),
            |root| root.special(b"a", 1, Device::default()),
            |_| (),
        ];
        let roots = lists.map(|entries| {
            let mut root = TransferRoot::default();
            entries(&mut root);
            root.finish()
        });
        for (i, root) in roots.iter().enumerate() {
            assert!(!roots[..i].contains(root), "entry list {i}");
        }
    }
}
