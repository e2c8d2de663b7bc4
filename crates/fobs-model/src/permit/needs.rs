//! What a request needs, member by member: each struct is taken apart whole, so a new member does not compile
//! until it is said here what it does.

use std::collections::HashSet;

use crate::direction::TransferDirection;
use crate::message::files::FileRequest;
use crate::message::{
    ByteRange, COPY_MODES, DELTA, DOCTOR, LEVEL_2, Open, PIPE, PathRole, PipeRequest, REUSE, Resuming, Reuse,
    SYNC,
};
use crate::options::PickedNames;
use crate::options::sync::{Absent, BasisUse, Compare, Present, SYNC2, SyncOptions, SyncRules};
use crate::rights::Action;

/// Actions at paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs<'r> {
    /// Each with the option that asks for it, where leaving that out leaves a request.
    actions: Vec<(Action, Option<&'static str>)>,
    /// Where all of them happen.
    paths: Vec<&'r [u8]>,
    /// Features that the other end must have, each with what needs it.
    features: Vec<(&'static str, &'static str)>,
}

impl<'r> Needs<'r> {
    /// These actions at one path.
    pub fn at(path: &'r [u8], actions: &[Action]) -> Needs<'r> {
        let actions = actions.iter().map(|action| (*action, None)).collect();
        Needs { actions, paths: vec![path], features: Vec::new() }
    }

    pub(crate) fn actions(&self) -> &[(Action, Option<&'static str>)] {
        &self.actions
    }

    pub(crate) fn paths(&self) -> &[&'r [u8]] {
        &self.paths
    }

    /// What of it the other end does not know, as people call it, if it has the features that `has` tells of.
    pub fn unknown_to(&self, has: impl Fn(&str) -> bool) -> Option<&'static str> {
        self.features.iter().find(|(feature, _)| !has(feature)).map(|(_, what)| *what)
    }

    /// Features that a server must have, beyond those of 0.2.
    pub fn must(&self) -> Vec<String> {
        let newer = self.features.iter().filter(|(feature, _)| !LEVEL_2.features.contains(feature));
        newer.map(|(feature, _)| (*feature).to_owned()).collect()
    }

    fn add(&mut self, action: Action, option: Option<&'static str>) {
        self.actions.push((action, option));
    }

    fn feature_if(&mut self, is_so: bool, feature: &'static str, what: &'static str) {
        if is_so {
            self.features.push((feature, what));
        }
    }

    fn if_so(&mut self, is_so: bool, action: Action, option: &'static str) {
        if is_so {
            self.add(action, Some(option));
        }
    }

    /// Of a transfer. What a plain push would like and can do without is not among them but in
    /// [`Terms`](crate::options::Terms).
    pub fn of_transfer(open: &'r Open) -> Needs<'r> {
        let Open {
            direction,
            paths,
            probe,
            resuming,
            sync,
            reuse,
            // Which entries of the sources are moved, and how large they are.
            recursive: _,
            shape: _,
            // What is kept of them: `Terms` say what of that holds, and `Privileges`.
            preserve: _,
            // How data is carried, and when it counts as stored.
            compress: _,
            fsync: _,
            cache: _,
            payload_size: _,
            ack_every: _,
            sending: _,
            udp_ports: _,
            timeout: _,
            streams: _,
            // A server without them has one.
            lanes: _,
            late_lanes: _,
            // They follow from this.
            must: _,
        } = open;
        if probe.is_some() {
            // Zeros flow, and nothing is looked up.
            let features = vec![(DOCTOR, "a probe of the path")];
            return Needs { actions: vec![(Action::TryPath, None)], paths: Vec::new(), features };
        }
        let paths = paths.iter().map(Vec::as_slice).collect();
        let mut needs = Needs { actions: Vec::new(), paths, features: Vec::new() };
        match direction {
            TransferDirection::Push => needs.add(Action::Create, None),
            TransferDirection::Pull => {
                needs.actions =
                    [Action::List, Action::Look, Action::Read].map(|action| (action, None)).to_vec();
            }
        }
        needs.resume(resuming);
        needs.reuse(reuse);
        if let Some(sync) = sync {
            needs.features.push((SYNC, "a sync"));
            match direction {
                TransferDirection::Push => needs.sync_here(sync),
                TransferDirection::Pull => {
                    let may_meet = may_meet(&open.paths, sync.remove_source_files);
                    needs.feature_if(may_meet, SYNC2, "several sources with the same names");
                    needs.sync_there(sync);
                }
            }
        }
        needs
    }

    fn resume(&mut self, resuming: &Resuming) {
        let Resuming {
            append_verify,
            checksum,
            delta,
            // Answers come from the journal of the same client.
            survey: _,
            transfer_id: _,
            names: _,
            no_partial: _,
        } = resuming;
        self.if_so(*append_verify, Action::Compare, "--append-verify");
        self.if_so(*checksum, Action::Compare, "--checksum");
        // What is there is listed only under the default `Terms`.
        self.feature_if(*delta, DELTA, "deltas");
    }

    fn reuse(&mut self, reuse: &Reuse) {
        // Parts of what the direction stands for; an older server may pass over what the client could use.
        let Reuse { keep: _, range, object, room: _ } = reuse;
        // A client asks afterwards what is there, of a server that compares no stamp.
        let is_range = |ByteRange { start: _, len: _, whole: _, stamp: _ }: &ByteRange| true;
        self.feature_if(range.as_ref().is_some_and(is_range) || object.is_some(), REUSE, "objects");
    }

    /// Of a sync that this server stores.
    fn sync_here(&mut self, sync: &SyncOptions) {
        let SyncOptions {
            rules,
            delete,
            backup,
            backup_dir,
            link_dest,
            basis_use,
            dry_run,
            only_delete,
            // The client removes what it has, once the server says that it is stored.
            remove_source_files: _,
            // `Terms` and `Privileges`, as for a copy.
            preserve: _,
            // It does not travel.
            there: _,
            source_is_file: _,
            copy_as: _,
            charsets: _,
            // Which entries the client sends; the server's part of it is about deletion.
            prune_empty: _,
            ignores_missing: _,
            deletes_missing,
            missing_max: _,
            directories: _,
            filter: _,
            names: _,
            names_of_each: _,
            names_with_slash: _,
            // What the client shows of the server's decisions: of what is sent, where it may not look.
            report: _,
            // Names that are made, as all that comes; where, is judged as a path of its own.
            make_path: _,
            temp_dir: _,
            partial_dir: _,
            delay_updates: _,
            // The server says what is there only under the default `Terms`, and by itself.
            delta: _,
            fuzzy: _,
            track_renames: _,
            // It stays at the client.
            basis: _,
        } = sync;
        self.features.extend(sync.receiver_features());
        self.if_so(delete.is_some() || *only_delete, Action::Delete, "--delete");
        self.if_so(backup.is_some() || backup_dir.is_some(), Action::Rename, "--backup");
        self.if_so(*deletes_missing, Action::Delete, "--delete-missing-args");
        self.if_so(!link_dest.is_empty(), Action::Look, basis_use.option());
        // What stands in the way of an entry that is left out goes.
        self.if_so(*basis_use == BasisUse::LeftOut, Action::Delete, basis_use.option());
        self.if_so(*dry_run, Action::Look, "--dry-run");
        self.rules_here(rules);
    }

    fn rules_here(&mut self, rules: &SyncRules) {
        let SyncRules {
            compare,
            present,
            absent,
            makes_way,
            size_max,
            size_min,
            appends,
            // A link that is left out is not looked at.
            safe_links: _,
            // How what may be replaced is replaced.
            in_place: _,
            // Only a client with the rights of the user itself may: `Privileges`.
            writes_devices: _,
            executability: _,
            leaves_implied: _,
            keeps_dirlinks,
            // Of what is deleted, which is judged by itself.
            despite_errors: _,
            // Of times that are compared or set.
            modify_window: _,
            exact_times: _,
            omit_directory_times: _,
            omit_link_times: _,
        } = rules;
        self.if_so(size_max.is_some(), Action::Look, "--max-size");
        self.if_so(size_min.is_some(), Action::Look, "--min-size");
        self.if_so(*appends, Action::Look, "--append");
        self.if_so(*makes_way, Action::Delete, "--delete");
        self.if_so(*keeps_dirlinks, Action::Look, "--keep-dirlinks");
        match compare {
            // Without a look at what is there, everything is sent.
            Compare::Time | Compare::Nothing => {}
            Compare::Size => self.add(Action::Look, Some("--size-only")),
            Compare::Content => self.add(Action::Compare, Some("--checksum")),
        }
        match present {
            Present::Updated => {}
            Present::UpdatedUnlessNewer => self.add(Action::Look, Some("--update")),
            Present::Left => self.add(Action::Look, Some("--ignore-existing")),
        }
        match absent {
            Absent::Made => {}
            Absent::LeftOut => self.add(Action::Look, Some("--existing")),
        }
    }

    /// Of a sync whose sources are here: nearly all of it is about the client's own files.
    fn sync_there(&mut self, sync: &'r SyncOptions) {
        let SyncOptions {
            rules,
            remove_source_files,
            prune_empty: _,
            ignores_missing: _,
            deletes_missing: _,
            missing_max: _,
            delete: _,
            backup: _,
            backup_dir: _,
            temp_dir: _,
            partial_dir: _,
            delay_updates: _,
            link_dest: _,
            basis_use: _,
            dry_run: _,
            only_delete: _,
            preserve,
            there: _,
            source_is_file: _,
            copy_as: _,
            charsets: _,
            directories: _,
            filter: _,
            names: _,
            names_of_each: _,
            names_with_slash: _,
            report: _,
            make_path: _,
            delta: _,
            fuzzy: _,
            track_renames: _,
            basis,
        } = sync;
        let SyncRules {
            compare,
            present: _,
            absent: _,
            makes_way: _,
            size_max: _,
            size_min: _,
            appends: _,
            despite_errors: _,
            safe_links: _,
            in_place: _,
            writes_devices: _,
            executability: _,
            leaves_implied: _,
            keeps_dirlinks: _,
            modify_window: _,
            exact_times: _,
            omit_directory_times: _,
            omit_link_times: _,
        } = rules;
        self.features.extend(sync.sender_features());
        // It is read, as the sources are.
        self.paths.extend(basis.as_deref());
        // The sender changes the modes.
        self.feature_if(preserve.chmod.copies(), COPY_MODES, "permissions that --chmod copies");
        self.if_so(*remove_source_files, Action::Delete, "--remove-source-files");
        self.if_so(*compare == Compare::Content, Action::Compare, "--checksum");
    }

    /// Of something about files by name.
    pub fn of_files(request: &'r FileRequest) -> Needs<'r> {
        let all = |paths: &'r [crate::message::Bytes]| paths.iter().map(|path| path.0.as_slice());
        match request {
            FileRequest::List { path, links: _ } | FileRequest::Walk { path, depth: _ } => {
                Needs::at(&path.0, &[Action::List, Action::Look])
            }
            FileRequest::Stat { path, links: _ } => Needs::at(&path.0, &[Action::Look]),
            FileRequest::Rename { path, to, replace } => {
                // A name goes, and one is made, which shows whether it exists or replaces what has it.
                let onto = if *replace { Action::Replace } else { Action::Look };
                let mut needs = Needs::at(&path.0, &[Action::Rename, Action::Delete, Action::Create, onto]);
                needs.paths.extend([parent_of(&path.0), to.0.as_slice(), parent_of(&to.0)]);
                needs
            }
            FileRequest::Copy { path, to, replace } => {
                let onto = if *replace { Action::Replace } else { Action::Look };
                let mut needs = Needs::at(&path.0, &[Action::Read, Action::Create, onto]);
                needs.paths.push(&to.0);
                needs
            }
            FileRequest::Touch { path } => Needs::at(&path.0, &[Action::SetAttributes]),
            FileRequest::Remove { path, tree: _ } => {
                // It also writes to the directory in which the thing lies.
                let mut needs = Needs::at(&path.0, &[Action::Delete]);
                needs.paths.push(parent_of(&path.0));
                needs
            }
            // Of those above it, each that is made is judged by itself.
            FileRequest::MakeDirectory { path, parents: _ } => Needs::at(&path.0, &[Action::Create]),
            FileRequest::Ticket { paths, size: _, life_s: _, holder: _ } => Needs {
                actions: [Action::SignTickets, Action::Read].map(|action| (action, None)).to_vec(),
                paths: all(paths).collect(),
                features: Vec::new(),
            },
            FileRequest::Fetch { path, ticket: _, host: _, port: _, key: _, picked } => {
                let mut needs = Needs::at(&path.0, &[Action::Fetch, Action::Create]);
                if let Some(PickedNames { names: _, preserve: _, content }) = picked.as_deref() {
                    // What is kept of the names is a matter of `Terms` and `Privileges`, as of a copy.
                    needs.if_so(*content, Action::Compare, "--checksum");
                }
                needs
            }
            FileRequest::Hash { paths, piece: _ } => Needs {
                actions: [Action::Compare, Action::Read].map(|action| (action, None)).to_vec(),
                paths: all(paths).collect(),
                features: Vec::new(),
            },
            // Of what others write there, a client learns that may look at it anyway.
            FileRequest::Room { path } => Needs::at(&path.0, &[Action::Create, Action::Look]),
            // It is refused as such.
            FileRequest::Unknown => Needs::default(),
        }
    }

    /// Of a pipe between two programs. `has_command` is whether the key's line names one, which comes before
    /// what a client listens as.
    pub fn of_pipe(request: &PipeRequest, has_command: bool) -> Needs<'static> {
        let action = match request {
            PipeRequest::Command { line: _ } => Action::RunCommand,
            PipeRequest::Name { name: _ } if has_command => Action::RunCommand,
            PipeRequest::Name { name: _ } | PipeRequest::Listen { name: _, wait_ms: _ } => Action::JoinPipes,
            // What it goes on with is judged in its place.
            PipeRequest::Resume(_) => return Needs::default(),
            // It is refused as such.
            PipeRequest::Unknown => return Needs::default(),
        };
        Needs { actions: vec![(action, None)], paths: Vec::new(), features: vec![(PIPE, "pipes")] }
    }

    /// Of a host's examination, as far as it is about the disk at a directory.
    pub fn of_disk(directory: &'r [u8]) -> Needs<'r> {
        Needs::at(directory, &[Action::TryDisk])
    }

    /// Of the expansion of a path.
    pub fn of_expansion(path: &'r [u8], role: PathRole) -> Needs<'r> {
        match role {
            PathRole::Sources => Needs::at(path, &[Action::List, Action::Look]),
            // Only a home counts.
            PathRole::Destination => Needs::at(path, &[Action::Create]),
        }
    }
}

/// Whether sources have the same name in the transfer: those of earlier releases replaced each other. With
/// `removes`, whether they may have the same in them.
fn may_meet(paths: &[Vec<u8>], removes: bool) -> bool {
    let name = |path: &Vec<u8>| match path.rsplit(|&byte| byte == b'/').next() {
        None | Some(b"" | b"." | b"..") => None,
        Some(name) => Some(name.to_vec()),
    };
    let mut names = HashSet::new();
    let meet = |path: &Vec<u8>| name(path).map_or(removes, |name| !names.insert(name));
    paths.len() > 1 && paths.iter().any(meet)
}

/// The directory in which a name lies; empty at the top.
fn parent_of(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let slash = path[..end].iter().rposition(|&byte| byte == b'/');
    &path[..slash.unwrap_or(0)]
}
