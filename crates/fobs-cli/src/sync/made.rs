//! What is said of the directories that a sync makes for its destination, as rsync says it.

use fobs::event::DirectoriesMade;

/// What it depends on.
#[derive(Debug, Clone)]
pub struct Making {
    /// The path of the destination, without a slash at its end.
    pub destination: Vec<u8>,
    /// Directories above it are made, too (`--mkpath`).
    pub above: bool,
    /// The source is one directory without anything in it: the destination is its image, of which nothing is
    /// said.
    pub is_image: bool,
    pub is_dry: bool,
}

impl Making {
    /// The lines, each with its end.
    pub fn lines(&self, made: DirectoriesMade) -> Vec<u8> {
        let itself = made.itself && !self.is_image;
        let count = made.count.saturating_sub(u32::from(made.itself && self.is_image));
        let mut lines = Vec::new();
        if self.above && count > 0 {
            let parent = self.destination.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            let place = if itself { &self.destination[..] } else { &self.destination[..parent] };
            let what = if count == 1 { "directory" } else { "directories" };
            lines.extend_from_slice(format!("created {count} {what} for ").as_bytes());
            lines.extend_from_slice(place);
            lines.push(b'\n');
        }
        // In a dry run rsync still does not find it then.
        if itself && (!self.above || self.is_dry) {
            lines.extend_from_slice(b"created directory ");
            lines.extend_from_slice(&self.destination);
            lines.push(b'\n');
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_are_made_are_said_as_rsync_says_it() {
        let of = |above, is_image, is_dry, count, itself| {
            let making = Making { destination: b"new/deep".to_vec(), above, is_image, is_dry };
            String::from_utf8(making.lines(DirectoriesMade { count, itself })).expect("ASCII")
        };
        for (said, expected) in [
            (of(false, false, false, 1, true), "created directory new/deep\n"),
            (of(false, true, false, 1, true), ""),
            (of(true, false, false, 2, true), "created 2 directories for new/deep\n"),
            (
                of(true, false, true, 2, true),
                "created 2 directories for new/deep\ncreated directory new/deep\n",
            ),
            (of(true, false, false, 1, false), "created 1 directory for new\n"),
            (of(true, true, false, 2, true), "created 1 directory for new\n"),
            (of(true, true, false, 1, true), ""),
        ] {
            assert_eq!(said, expected);
        }
    }
}
