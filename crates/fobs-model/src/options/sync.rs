//! What a caller chooses about a sync.

use serde::{Deserialize, Serialize};

use super::preserve::{FileSystems, Follow, Preserve};
pub use super::rules::{Absent, Compare, Present, SYNC2, SyncRules};
use crate::direction::TransferDirection;
use crate::filter_rules::FilterRules;
use crate::name::{BackupSuffix, RelPath};

/// The feature of a program that lists what it has of a file, and takes a chunk as a patch of that; or finds
/// that in its own file (protocol 7.9).
pub const DELTA: &str = "delta";

/// Most directories of `--link-dest`: as many as rsync takes.
pub const BASES_MAX: usize = 20;

/// Everything a caller may choose about `fobs sync` beside the transfer itself. It travels in the request; a
/// member that is missing there is as by default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SyncOptions {
    /// What is kept of entries beside their content.
    pub preserve: Preserve,
    /// What the other side alone does, at the client that asks it to.
    #[serde(skip)]
    pub there: OfTheOther,
    /// Whether the client that pulls has seen that the one source is no directory: then it gets the name of
    /// a destination that does not exist.
    #[serde(skip)]
    pub source_is_file: bool,
    /// Encodings of names, this host's and the other's, at the client (`--iconv`).
    #[serde(skip)]
    pub charsets: Option<String>,
    /// Whose rights the client has as soon as the other host is reached (`--copy-as`).
    #[serde(skip)]
    pub copy_as: Option<RunAs>,
    /// Which directories are entered.
    pub directories: Enter,
    /// Names that are left out, or protected from deletion.
    pub filter: FilterRules,
    /// The names to transfer, relative to the one source; all without.
    pub names: Option<Vec<RelPath>>,
    /// Where names lie below several sources: how many of `names`, in their order, are those of each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names_of_each: Vec<u32>,
    /// Which of `names` are written with a slash at their end, by their place there, in order:
    /// directories, of which the contents are meant too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names_with_slash: Vec<u32>,
    /// Which entries are sent.
    pub rules: SyncRules,
    /// What is deleted at the destination.
    pub delete: Option<Delete>,
    /// The end of a backup's name, if backups are made beside their files.
    pub backup: Option<BackupSuffix>,
    /// The directory, relative to the destination, in which backups are made instead (`--backup-dir`); there
    /// their names may be those of their files.
    #[serde(with = "crate::bytes::maybe", skip_serializing_if = "Option::is_none")]
    pub backup_dir: Option<Vec<u8>>,
    /// The directory, relative to the destination, in which files lie until they are complete (`-T`).
    #[serde(with = "crate::bytes::maybe", skip_serializing_if = "Option::is_none")]
    pub temp_dir: Option<Vec<u8>>,
    /// The name of the directory, in each of the destination, in which unfinished files are kept
    /// (`--partial-dir`).
    #[serde(with = "crate::bytes::maybe", skip_serializing_if = "Option::is_none")]
    pub partial_dir: Option<Vec<u8>>,
    /// Files wait there until the end of the transfer, and get their names together (`--delay-updates`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub delay_updates: bool,
    /// What the destination has, as it was sent or as it was, is removed from the source at the end.
    pub remove_source_files: bool,
    /// Directories, relative to the destination, whose unchanged files get one more name there instead of
    /// being sent; at most [`BASES_MAX`].
    #[serde(with = "crate::bytes::list")]
    pub link_dest: Vec<Vec<u8>>,
    /// What else these directories are for.
    #[serde(skip_serializing_if = "BasisUse::is_linked")]
    pub basis_use: BasisUse,
    /// Nothing is changed.
    pub dry_run: bool,
    /// Nothing but deletions is carried out: the first part of `--delete-before`.
    pub only_delete: bool,
    /// Which entries are reported.
    pub report: Report,
    /// Directories in which there is nothing are not listed (`-m`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prune_empty: bool,
    /// Sources that do not exist are no failures (`--ignore-missing-args`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignores_missing: bool,
    /// They are deleted at the destination too (`--delete-missing-args`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deletes_missing: bool,
    /// The most of those that are deleted, where nothing else is deleted (`--max-delete`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_max: Option<u64>,
    /// Directories above the destination that do not exist are made (`--mkpath`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub make_path: bool,
    /// When what changed of a file is sent in place of all of it.
    #[serde(skip_serializing_if = "Delta::is_auto")]
    pub delta: Delta,
    /// What changed is also that of a file beside a new one that seems to be its earlier version.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fuzzy: bool,
    /// Whether a new file is looked for under other names at the destination.
    #[serde(skip_serializing_if = "Renames::is_off")]
    pub track_renames: Renames,
    /// An earlier version of the sources, on the sender's host (`--basis`).
    #[serde(with = "crate::bytes::maybe", skip_serializing_if = "Option::is_none")]
    pub basis: Option<Vec<u8>>,
}

/// What one side of a sync does and the other does not (`-M`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OfTheOther {
    /// It notes owners, kinds and modes in an extended attribute (`-M--fake-super`).
    pub fake_super: bool,
}

/// An account by name or number, and a group where that is not its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunAs {
    /// The user.
    pub user: String,
    /// The group.
    pub group: Option<String>,
}

impl SyncOptions {
    /// The same as the other side has them, in a transfer of this direction.
    pub fn for_the_other(&self, direction: TransferDirection) -> SyncOptions {
        // It is on the sender's host.
        let basis = self.basis.clone().filter(|_| direction == TransferDirection::Pull);
        let OfTheOther { fake_super } = self.there;
        let preserve = Preserve { fake_super, ..self.preserve.clone() };
        let there = OfTheOther::default();
        SyncOptions { preserve, there, basis, charsets: None, copy_as: None, ..self.clone() }
    }

    /// Whether the top directory is only the place of what `--files-from` names, and stays as it is.
    pub fn leaves_top(&self) -> bool {
        self.names.as_ref().is_some_and(|names| !names.iter().any(|name| name.is_empty()))
    }

    /// Whether sources that do not exist are no failures.
    pub fn may_miss(&self) -> bool {
        self.ignores_missing || self.deletes_missing
    }

    fn leaves_out_mounts(&self) -> bool {
        self.preserve.file_systems == FileSystems::OneWithoutMounts
    }

    /// The features that a sender must have for this, beyond that of a sync, each with what needs it.
    pub fn sender_features(&self) -> Vec<(&'static str, &'static str)> {
        let needs = [
            (self.prune_empty, (SYNC2, "--prune-empty-dirs")),
            (!self.names_of_each.is_empty(), (SYNC2, "names that begin in several directories")),
            (!self.names_with_slash.is_empty(), (SYNC2, "names with a slash at their end")),
            (self.ignores_missing, (SYNC2, "--ignore-missing-args")),
            (self.deletes_missing, (SYNC2, "--delete-missing-args")),
            (self.preserve.follow != Follow::None, (SYNC2, "links that are followed")),
            (self.preserve.open_noatime, (SYNC2, "--open-noatime")),
            (self.preserve.atimes, (SYNC2, "--atimes")),
            (self.preserve.fake_super, (SYNC2, "--fake-super")),
            (self.preserve.xattr_notes, (SYNC2, "-XX")),
            (self.preserve.copy_devices, (SYNC2, "--copy-devices")),
            (self.leaves_out_mounts(), (SYNC2, "-xx")),
            (self.basis.is_some(), (DELTA, "--basis")),
            (!self.preserve.users.is_empty(), (SYNC2, "--usermap and --chown")),
            (!self.preserve.groups.is_empty(), (SYNC2, "--groupmap and --chown")),
        ];
        needs.into_iter().filter(|(is_so, _)| *is_so).map(|(_, feature)| feature).collect()
    }

    /// Likewise those that a receiver must have.
    pub fn receiver_features(&self) -> Vec<(&'static str, &'static str)> {
        let paths = self.make_path.then_some((SYNC2, "--mkpath"));
        let aside = self.backup_dir.as_ref().map(|_| (SYNC2, "--backup-dir"));
        let temporary = self.temp_dir.as_ref().map(|_| (SYNC2, "--temp-dir"));
        let delays = self.delay_updates.then_some((SYNC2, "--delay-updates"));
        let missing = self.deletes_missing.then_some((SYNC2, "--delete-missing-args"));
        let times = self.preserve.atimes.then_some((SYNC2, "--atimes"));
        let notes = self.preserve.fake_super.then_some((SYNC2, "--fake-super"));
        let kept_notes = self.preserve.xattr_notes.then_some((SYNC2, "-XX"));
        let mounts = self.leaves_out_mounts().then_some((SYNC2, "-xx"));
        let bases = (!self.basis_use.is_linked()).then(|| (SYNC2, self.basis_use.option()));
        self.rules
            .features()
            .into_iter()
            .chain(paths)
            .chain(aside)
            .chain(temporary)
            .chain(delays)
            .chain(missing)
            .chain(bases)
            .chain(times)
            .chain(notes)
            .chain(kept_notes)
            .chain(mounts)
            .collect()
    }

    /// Whether directories can be sources.
    pub fn enters(&self) -> bool {
        self.directories != Enter::None
    }

    /// Whether this run removes sources.
    pub fn removes_sources(&self) -> bool {
        self.remove_source_files && !self.dry_run && !self.only_delete
    }
}

/// What becomes of an entry that a directory of earlier copies has unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BasisUse {
    /// It gets one more name (`--link-dest`).
    #[default]
    Linked,
    /// It is left out, and what has its name at the destination is removed (`--compare-dest`).
    LeftOut,
    /// It is made of that one by a delta (`--copy-dest`).
    Copied,
}

impl BasisUse {
    /// The option that says so.
    pub const fn option(self) -> &'static str {
        match self {
            BasisUse::Linked => "--link-dest",
            BasisUse::LeftOut => "--compare-dest",
            BasisUse::Copied => "--copy-dest",
        }
    }

    fn is_linked(&self) -> bool {
        *self == BasisUse::Linked
    }
}

/// When what changed of a file is sent in place of all of it (protocol 7.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delta {
    /// Where reading both files costs less time than sending one.
    #[default]
    Auto,
    /// Wherever there is something that changed.
    Always,
    /// Files are sent whole.
    Never,
}

impl Delta {
    /// All, in the order of their names' list.
    pub const ALL: &[Delta] = &[Delta::Auto, Delta::Always, Delta::Never];

    /// Its name in `--delta`.
    pub const fn name(self) -> &'static str {
        match self {
            Delta::Auto => "auto",
            Delta::Always => "always",
            Delta::Never => "never",
        }
    }

    fn is_auto(&self) -> bool {
        *self == Delta::Auto
    }
}

/// Whether a new file is looked for under other names at the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Renames {
    /// It is not.
    #[default]
    Off,
    /// Where a deletion looks at all names anyway, and they are not too many.
    WhereCheap,
    /// Always (`--track-renames`).
    All,
}

impl Renames {
    fn is_off(&self) -> bool {
        *self == Renames::Off
    }
}

/// Which directories are entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Enter {
    /// None; they are left out.
    #[default]
    None,
    /// None but those named with a slash; the others are made without their contents (`-d`).
    Made,
    /// All (`-r`).
    All,
}

/// Deletion of what the sources do not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Delete {
    /// When.
    pub when: DeleteWhen,
    /// Most files to delete; the others are left and reported.
    pub max: Option<u64>,
}

/// When files are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeleteWhen {
    /// Before the first byte of data.
    Before,
    /// When the listing is complete, while data flows.
    #[default]
    During,
    /// After the last file is stored.
    After,
}

/// Which entries are reported as they are decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// None.
    #[default]
    Nothing,
    /// Those that change.
    Changed,
    /// All.
    All,
}
