//! What the sources of a transfer look like.

/// What a receiver must know of the sources before the first record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceShape {
    /// Files and directories.
    Paths {
        /// How many were named.
        count: u32,
        /// Whether any of them was `dir/`: its contents, not the directory itself.
        contents: bool,
    },
    /// One stream without a name, such as standard input.
    Stream,
}

impl Default for SourceShape {
    /// One path: assumed of a peer that does not describe its sources.
    fn default() -> Self {
        SourceShape::Paths { count: 1, contents: false }
    }
}

impl SourceShape {
    /// Whether more than one name may arrive at the top of the destination.
    pub fn needs_directory(self) -> bool {
        matches!(self, SourceShape::Paths { count, contents } if count > 1 || contents)
    }
}
