//! The switches of `fobs sync`: rsync's names and letters, each with a `--no-` form, in effect in the order
//! in which they are given.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

/// What the switches say together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Switches {
    pub verbose: u8,
    pub quiet: bool,
    pub checksum: bool,
    pub directories: Directories,
    pub recursion: Recursion,
    pub backup: bool,
    pub update: bool,
    pub links: bool,
    pub hard_links: bool,
    pub perms: bool,
    pub acls: bool,
    pub xattrs: bool,
    pub owner: bool,
    pub group: bool,
    pub devices: bool,
    pub specials: bool,
    pub times: bool,
    pub omit_directory_times: bool,
    pub omit_link_times: bool,
    pub sparse: bool,
    pub dry_run: bool,
    pub whole_file: Option<bool>,
    pub one_file_system: u8,
    pub existing: bool,
    pub ignore_existing: bool,
    pub delete: bool,
    pub delete_before: bool,
    pub delete_during: bool,
    pub delete_after: bool,
    pub delete_excluded: bool,
    pub partial: Option<bool>,
    pub numeric_ids: bool,
    pub ignore_times: bool,
    pub size_only: bool,
    pub compress: bool,
    pub from0: bool,
    pub stats: bool,
    pub human_readable: bool,
    pub progress: bool,
    pub itemize: u8,
    pub fsync: bool,
    pub remove_source_files: bool,
}

/// Whether directories are entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recursion {
    /// Not.
    #[default]
    Off,
    /// As `-a` implies it, which `--files-from` takes back.
    Implied,
    /// As `-r` says.
    On,
}

/// Whether directories are made that are not entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Directories {
    /// As the other options imply.
    #[default]
    Implied,
    /// `-d`
    On,
    /// `--no-dirs`
    Off,
}

/// A switch and what it does.
struct Switch {
    /// Its letter, if it has one.
    letter: Option<char>,
    /// Its long name; also with `no-` in front.
    long: &'static str,
    /// Other long names.
    also: &'static [&'static str],
    help: &'static str,
    set: Set,
}

/// What giving a switch does: on, or off with `--no-`.
enum Set {
    Bool(fn(&mut Switches, bool)),
    /// Counts: `None` is off.
    Count(fn(&mut Switches, Option<u8>)),
}

const fn switch(
    letter: Option<char>,
    long: &'static str,
    also: &'static [&'static str],
    help: &'static str,
    set: fn(&mut Switches, bool),
) -> Switch {
    Switch { letter, long, also, help, set: Set::Bool(set) }
}

const fn counted(
    letter: Option<char>,
    long: &'static str,
    help: &'static str,
    set: fn(&mut Switches, Option<u8>),
) -> Switch {
    Switch { letter, long, also: &[], help, set: Set::Count(set) }
}

/// All switches, in the order of the help.
const SWITCHES: [Switch; 42] = [
    switch(Some('a'), "archive", &[], "Recurse and keep almost everything: -rlptgoD", archive),
    switch(Some('r'), "recursive", &[], "Recurse into directories", |it, on| {
        it.recursion = if on { Recursion::On } else { Recursion::Off };
    }),
    switch(Some('d'), "dirs", &[], "Transfer directories without recursing", |it, on| {
        it.directories = if on { Directories::On } else { Directories::Off };
    }),
    switch(Some('l'), "links", &[], "Copy symbolic links as links", |it, on| it.links = on),
    switch(Some('H'), "hard-links", &[], "Keep hard links", |it, on| it.hard_links = on),
    switch(Some('p'), "perms", &[], "Keep permissions", |it, on| it.perms = on),
    switch(Some('t'), "times", &[], "Keep modification times", |it, on| it.times = on),
    switch(Some('O'), "omit-dir-times", &[], "Leave directories out of --times", |it, on| {
        it.omit_directory_times = on;
    }),
    switch(Some('J'), "omit-link-times", &[], "Leave symbolic links out of --times", |it, on| {
        it.omit_link_times = on;
    }),
    switch(Some('o'), "owner", &[], "Keep the owner (as root)", |it, on| it.owner = on),
    switch(Some('g'), "group", &[], "Keep the group", |it, on| it.group = on),
    switch(Some('D'), "D", &[], "The same as --devices --specials", |it, on| {
        (it.devices, it.specials) = (on, on);
    }),
    switch(None, "devices", &[], "Keep device files (as root)", |it, on| it.devices = on),
    switch(None, "specials", &[], "Keep fifos and sockets", |it, on| it.specials = on),
    switch(Some('A'), "acls", &[], "Keep ACLs (implies --perms)", |it, on| {
        it.acls = on;
        it.perms |= on;
    }),
    switch(Some('X'), "xattrs", &[], "Keep extended attributes", |it, on| it.xattrs = on),
    switch(None, "numeric-ids", &[], "Keep numbers of users and groups instead of names", |it, on| {
        it.numeric_ids = on;
    }),
    switch(Some('S'), "sparse", &[], "Make runs of zeros holes", |it, on| it.sparse = on),
    counted(Some('x'), "one-file-system", "Do not cross file systems", |it, count| {
        it.one_file_system = count.unwrap_or(0);
    }),
    switch(Some('u'), "update", &[], "Skip files that are newer at the destination", |it, on| it.update = on),
    switch(Some('c'), "checksum", &[], "Compare contents, not times and sizes", |it, on| it.checksum = on),
    switch(Some('I'), "ignore-times", &[], "Send files of equal size and time too", |it, on| {
        it.ignore_times = on;
    }),
    switch(None, "size-only", &[], "Skip files of equal size", |it, on| it.size_only = on),
    switch(None, "existing", &["ignore-non-existing"], "Make nothing new at the destination", |it, on| {
        it.existing = on;
    }),
    switch(None, "ignore-existing", &[], "Update nothing that exists at the destination", |it, on| {
        it.ignore_existing = on;
    }),
    switch(None, "delete", &[], "Delete from the destination what the sources do not have", |it, on| {
        it.delete = on;
    }),
    switch(None, "delete-before", &[], "Delete before the transfer", |it, on| it.delete_before = on),
    switch(None, "delete-during", &["del"], "Delete during the transfer (the default)", |it, on| {
        it.delete_during = on;
    }),
    switch(None, "delete-after", &["delete-delay"], "Delete after the transfer", |it, on| {
        it.delete_after = on
    }),
    switch(None, "delete-excluded", &[], "Delete what is excluded too", |it, on| it.delete_excluded = on),
    switch(Some('b'), "backup", &[], "Keep what is replaced or deleted under another name", |it, on| {
        it.backup = on;
    }),
    switch(None, "partial", &[], "Keep what an interrupted transfer has stored (the default)", |it, on| {
        it.partial = Some(on);
    }),
    switch(
        None,
        "remove-source-files",
        &[],
        "Remove from the source what the destination has at the end, but no directories",
        |it, on| {
            it.remove_source_files = on;
        },
    ),
    switch(None, "fsync", &[], "fsync every file at the destination", |it, on| it.fsync = on),
    switch(Some('W'), "whole-file", &[], "Send changed files whole (always so)", |it, on| {
        it.whole_file = Some(on);
    }),
    switch(Some('z'), "compress", &[], "Compress data (zstd) where that makes it smaller", |it, on| {
        it.compress = on;
    }),
    switch(
        Some('0'),
        "from0",
        &[],
        "Lines of --files-from and of filter files end in a zero byte",
        |it, on| {
            it.from0 = on;
        },
    ),
    switch(Some('n'), "dry-run", &[], "Show what would be done, and change nothing", |it, on| {
        it.dry_run = on
    }),
    counted(
        Some('i'),
        "itemize-changes",
        "Print what changes about each entry; -ii also what does not",
        |it, count| {
            it.itemize = count.unwrap_or(0);
        },
    ),
    counted(Some('v'), "verbose", "Print the names of what is transferred or deleted", |it, count| {
        it.verbose = count.unwrap_or(0);
    }),
    switch(Some('q'), "quiet", &[], "Print errors only", |it, on| it.quiet = on),
    switch(None, "stats", &[], "Print figures of the transfer at its end", |it, on| it.stats = on),
];

/// Switches that only exist for those who type them out of habit: they are what this program does anyway.
const HABITS: [Switch; 3] = [
    switch(None, "human-readable", &[], "", |it, on| it.human_readable = on),
    switch(None, "progress", &[], "", |it, on| it.progress = on),
    switch(Some('P'), "P", &[], "", |it, on| {
        it.progress = on;
        it.partial = Some(on);
    }),
];

fn archive(it: &mut Switches, on: bool) {
    if it.recursion != Recursion::On || !on {
        it.recursion = if on { Recursion::Implied } else { Recursion::Off };
    }
    (it.links, it.perms, it.times, it.owner, it.group) = (on, on, on, on, on);
    (it.devices, it.specials) = (on, on);
}

impl Switch {
    fn id(&self) -> String {
        format!("switch-{}", self.long)
    }

    fn negated_id(&self) -> String {
        format!("switch-no-{}", self.long)
    }

    /// The switch, and its `--no-` form.
    fn args(&self, hide: bool) -> [Arg; 2] {
        let mut on = Arg::new(self.id()).action(ArgAction::Count).hide(hide).help(self.help);
        on = match self.letter {
            Some(letter) => on.short(letter),
            None => on,
        };
        if self.long.len() > 1 {
            on = on.long(self.long).visible_aliases(self.also.iter().copied());
        }
        let letters = self.letter.map(|letter| format!("no-{letter}"));
        let mut off =
            Arg::new(self.negated_id()).long(format!("no-{}", self.long)).action(ArgAction::Count).hide(true);
        if let Some(letter) = letters.filter(|_| self.long.len() > 1) {
            off = off.alias(letter);
        }
        [on, off]
    }

    /// The places at which it was given, and what it does there.
    fn given<'a>(&'a self, matches: &ArgMatches) -> Vec<(usize, Given<'a>)> {
        let last = |id: &str| matches.indices_of(id).and_then(Iterator::last);
        let count = matches.get_count(&self.id());
        let on =
            last(&self.id()).filter(|_| count > 0).map(|at| (at, Given { switch: self, count: Some(count) }));
        let times_off = matches.get_count(&self.negated_id());
        let off = last(&self.negated_id())
            .filter(|_| times_off > 0)
            .map(|at| (at, Given { switch: self, count: None }));
        on.into_iter().chain(off).collect()
    }
}

/// A switch as it was given; without a count in its `--no-` form.
struct Given<'a> {
    switch: &'a Switch,
    count: Option<u8>,
}

impl Given<'_> {
    fn apply(&self, to: &mut Switches) {
        match self.switch.set {
            Set::Bool(set) => set(to, self.count.is_some()),
            Set::Count(set) => set(to, self.count),
        }
    }
}

impl Args for Switches {
    fn augment_args(command: Command) -> Command {
        let command = command.args(SWITCHES.iter().flat_map(|switch| switch.args(false)));
        command.args(HABITS.iter().flat_map(|switch| switch.args(true)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Switches {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Switches, Error> {
        let mut switches = Switches::default();
        switches.update_from_arg_matches(matches).map(|()| switches)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        let mut given: Vec<_> =
            SWITCHES.iter().chain(&HABITS).flat_map(|switch| switch.given(matches)).collect();
        given.sort_by_key(|(at, _)| *at);
        given.iter().for_each(|(_, given)| given.apply(self));
        Ok(())
    }
}
