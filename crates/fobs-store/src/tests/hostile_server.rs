//! A server that lists and sends what it was not asked for: honest rows and records with some of them added,
//! replaced, repeated, moved or left out, under every choice that says what may come. What the destination
//! may become is said here once more, by other code than the sink's.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use rustix::fs::{CWD, FileType, Mode, Timespec, Timestamps, mknodat, utimensat};

use super::super::record::{Device, Meta, Record, SpecialKind};
use super::super::survey::{Checksums, Compare, Decision, Row, RowKind, decode_batch};
use super::super::*;
use super::support::*;
use fobs_filter::{Action, Filter};
use fobs_model::name::RelPath;
use fobs_model::options::sync::{Absent, Delete, Enter, Present, SyncOptions};
use fobs_model::options::{Preserve, Privileges, SymbolicLinks, Unkept};
use fobs_rng::Rng;

/// Cases of the regular tests, and of `make test-long`.
const CASES: u64 = if cfg!(feature = "long") { 60_000 } else { 1_200 };
/// Cases at a time: most of one is waiting for the file system.
const PLAYERS: u64 = 4;
const EVIL: &[u8] = b"evil";
const META: Meta = Meta { mode: 0o100_777, mtime_s: 1_000_000_000, mtime_ns: 0 };
/// A name that the destination alone has, and that no row or record names as its own.
const UNNAMED: &str = "extra";
/// What a server may name: what it was asked for, what was left out, what is not there.
const PATHS: [&str; 16] = [
    "",
    "a",
    "b",
    "newer",
    "d",
    "d/f",
    "d/new",
    "d/x_2",
    "keep",
    "keep/private",
    "keep/evil",
    "x_secret",
    ".bashrc",
    "d/.bashrc",
    "unlisted/f",
    "l",
];

/// What the user chose.
#[derive(Debug, Clone, Copy)]
struct Chosen {
    filters: bool,
    lists: bool,
    links: bool,
    hard_links: bool,
    specials: bool,
    deletes: bool,
    present: Present,
    absent: Absent,
    dry_run: bool,
    deletes_missing: bool,
    keeps_dirlinks: bool,
}

impl Chosen {
    fn any(rng: &mut Rng) -> Chosen {
        let mut one_of = |n: u64| rng.range(0, n - 1) == 0;
        Chosen {
            filters: !one_of(3),
            lists: one_of(3),
            links: one_of(2),
            hard_links: one_of(2),
            specials: one_of(2),
            deletes: one_of(2),
            present: if one_of(3) {
                Present::Left
            } else if one_of(3) {
                Present::UpdatedUnlessNewer
            } else {
                Present::Updated
            },
            absent: if one_of(4) { Absent::LeftOut } else { Absent::Made },
            dry_run: one_of(10),
            deletes_missing: one_of(2),
            keeps_dirlinks: one_of(2),
        }
    }

    fn preserve(self) -> Preserve {
        Preserve {
            modes: true,
            times: true,
            links: if self.links { SymbolicLinks::Kept } else { SymbolicLinks::LeftOut },
            hard_links: self.hard_links,
            specials: self.specials,
            unkept: Unkept::LeftOut,
            ..Preserve::default()
        }
    }

    fn options(self) -> Arc<SyncOptions> {
        let mut filter = Filter::default();
        if self.filters {
            for pattern in [&b"x_*"[..], b".bashrc", b"/keep"] {
                filter.add_pattern(Action::Exclude, pattern).expect("a pattern");
            }
        }
        let names = [&b"a"[..], b"d/f", b"l", b"h"].map(|name| RelPath::new(name.to_vec()).expect("a name"));
        let mut options = SyncOptions {
            preserve: self.preserve(),
            directories: Enter::All,
            filter: filter.rules(),
            names: self.lists.then(|| names.to_vec()),
            delete: self.deletes.then(Delete::default),
            dry_run: self.dry_run,
            deletes_missing: self.deletes_missing,
            ..SyncOptions::default()
        };
        options.rules.keeps_dirlinks = self.keeps_dirlinks;
        (options.rules.present, options.rules.absent) = (self.present, self.absent);
        Arc::new(options)
    }

    /// Whether the user asked for a name.
    fn asks_for(self, path: &str) -> bool {
        let mut components = path.split('/');
        let is_left_out = path == "keep"
            || path.starts_with("keep/")
            || components.any(|name| name.starts_with("x_") || name == ".bashrc");
        let is_listed = ["a", "d", "d/f", "l", "h"].contains(&path) || path.starts_with("d/f/");
        let is_listed = is_listed || ["a/", "l/", "h/"].iter().any(|name| path.starts_with(name));
        !(self.filters && is_left_out) && (!self.lists || is_listed)
    }

    /// What is wrong with the step from one to the other, if anything.
    fn verdict(
        self,
        path: &str,
        before: Option<&Standing>,
        after: Option<&Standing>,
    ) -> Option<&'static str> {
        if before == after {
            return None;
        }
        if self.dry_run {
            return Some("a dry run changed it");
        }
        let Some(after) = after else {
            // A deletion is the user's own choice, but never of what is left out or not in the list; and what
            // may be replaced makes way for a directory.
            let makes_way = self.present != Present::Left && before.is_some_and(|it| it.kind != 'd');
            // What the server says it does not have, by its name in the list.
            let is_named = self.lists && ["a", "d/f", "l", "h"].contains(&path);
            let is_missing = self.deletes_missing && is_named;
            let may = (self.deletes || is_missing || makes_way && path != UNNAMED) && self.asks_for(path);
            return (!may).then_some("it was removed");
        };
        if path == UNNAMED {
            return Some("nothing has this name at the server");
        }
        if !self.asks_for(path) {
            return Some("it was not asked for");
        }
        match (before, after.kind) {
            (None, _) if self.absent == Absent::LeftOut => Some("nothing new was asked for"),
            (Some(before), _) if self.present == Present::Left && before.kind != 'd' => {
                Some("what is there was to stay")
            }
            (Some(_), 'f') if path == "newer" && self.present == Present::UpdatedUnlessNewer => {
                Some("it is newer than the source's")
            }
            (_, 'l') if !self.links => Some("links were not asked for"),
            (_, 'p') if !self.specials => Some("fifos were not asked for"),
            (_, 'f') if after.names > 1 && !self.hard_links => Some("hard links were not asked for"),
            _ => None,
        }
    }
}

/// What a name is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Standing {
    kind: char,
    mode: u32,
    names: u64,
    content: Vec<u8>,
}

fn states(top: &Path) -> BTreeMap<String, Standing> {
    let walk = walkdir::WalkDir::new(top).min_depth(1).into_iter();
    walk.map(|entry| entry.expect("a readable tree"))
        .map(|entry| {
            let (path, stat) = (entry.path(), entry.path().symlink_metadata().expect("it is there"));
            let (kind, content) = match stat.file_type() {
                kind if kind.is_dir() => ('d', Vec::new()),
                kind if kind.is_symlink() => ('l', bytes(&fs::read_link(path).expect("a link"))),
                kind if kind.is_file() => ('f', fs::read(path).expect("a file")),
                _ => ('p', Vec::new()),
            };
            let mode = if kind == 'l' { 0 } else { stat.mode() & 0o7777 };
            let names = if kind == 'd' { 1 } else { stat.nlink() };
            let name = path.strip_prefix(top).expect("below it").to_string_lossy().into_owned();
            (name, Standing { kind, mode, names, content })
        })
        .collect()
}

/// Seconds since 1970; the server's files are of today.
fn set_time(path: &Path, seconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, rustix::fs::AtFlags::empty()).expect("its time");
}

/// The trees of one user and one server.
fn world() -> World {
    let world = World::new();
    for path in [
        "a",
        "b",
        "newer",
        "d/f",
        "d/new",
        "d/sub/g",
        ".bashrc",
        "keep/evil",
        "x_secret",
        "d/x_2",
        "led/private",
    ] {
        world.write(path, EVIL);
    }
    symlink("a", world.from("l")).expect("a link");
    fs::hard_link(world.from("a"), world.from("h")).expect("a link");
    mknodat(CWD, world.from("p"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a fifo");
    let kept = ["a", "b", "newer", ".bashrc", "keep/private", "x_secret", "d/f", "d/x_2", UNNAMED];
    for path in kept {
        let path = world.to(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(&path, b"mine, and longer").expect("a file");
        set_mode(&path, 0o600);
        set_time(&path, 1_000);
    }
    set_mode(&world.to("keep"), 0o700);
    // A link that an earlier run may have brought.
    symlink("keep", world.to("led")).expect("a link");
    set_time(&world.to("newer"), 4_000_000_000);
    world
}

/// What a server lists of its tree with these options.
fn listing(world: &World, options: Option<&Arc<SyncOptions>>, preserve: &Preserve) -> Vec<Row> {
    let contents = world.from("").join("");
    let spec = SourceSpec { sync: options.cloned(), preserve: preserve.clone(), ..spec(&[&contents]) };
    let mut source = Source::open(spec).expect("a tree");
    let mut lister = source.survey(Box::new(Answers::default()), Checksums::Omitted).expect("a tree");
    let mut rows = Vec::new();
    while let Some(batch) = lister.next_batch().expect("it can be read") {
        rows.extend(decode_batch(&batch.bytes).expect("our own"));
    }
    rows
}

/// A row that nobody asked for, or one under another name.
fn invented(rng: &mut Rng, evil: &[Row]) -> Row {
    let pick = |rng: &mut Rng| PATHS[rng.range(0, PATHS.len() as u64 - 1) as usize].as_bytes().to_vec();
    let mut row = evil[rng.range(0, evil.len() as u64 - 1) as usize].clone();
    row.meta = META;
    match rng.range(0, 8) {
        0 | 1 => {}
        8 => (row.path, row.kind) = (pick(rng), RowKind::Missing),
        7 => (row.path, row.kind) = (pick(rng), RowKind::PartEnd),
        2 | 3 => row.path = pick(rng),
        4 => (row.path, row.kind) = (pick(rng), RowKind::Symlink { target: b"/etc/passwd".to_vec() }),
        5 => {
            let first = if rng.range(0, 1) == 0 { UNNAMED.as_bytes().to_vec() } else { pick(rng) };
            (row.path, row.kind) = (pick(rng), RowKind::Hardlink { first });
        }
        _ => (row.path, row.kind) = (pick(rng), RowKind::Directory),
    }
    let ends = matches!(row.kind, RowKind::DirectoryEnd | RowKind::PartEnd);
    let is_directory = ends || matches!(row.kind, RowKind::Directory | RowKind::Failed);
    let leads_nowhere = matches!(&row.kind, RowKind::Hardlink { first } if first.is_empty());
    if (row.path.is_empty() && !is_directory) || leads_nowhere {
        row.kind = RowKind::Directory;
    }
    row
}

/// Adds, replaces, repeats, moves or leaves out some.
fn spoil<T: Clone>(rng: &mut Rng, all: &mut Vec<T>, mut new: impl FnMut(&mut Rng) -> T) {
    for _ in 0..rng.range(0, 3) {
        let at = rng.range(0, all.len() as u64) as usize;
        match (rng.range(0, 5), all.get(at).cloned()) {
            (0 | 1, _) | (_, None) => all.insert(at, new(rng)),
            (2, Some(_)) => all[at] = new(rng),
            (3, Some(again)) => all.insert(rng.range(0, all.len() as u64) as usize, again),
            (4, Some(_)) => drop(all.remove(at)),
            (_, Some(_)) => {
                let moved = all.remove(at);
                all.insert(rng.range(0, all.len() as u64) as usize, moved);
            }
        }
    }
}

/// The chunk that sends an entry.
fn sent(row: &Row) -> Vec<u8> {
    let path = &row.path[..];
    match &row.kind {
        RowKind::Directory => chunk_of(&[Record::Directory { path }], b""),
        RowKind::DirectoryEnd | RowKind::PartEnd => {
            chunk_of(&[Record::DirectoryEnd { path, meta: META }], b"")
        }
        RowKind::File => {
            let data = Record::Extent { offset: 0, len: EVIL.len() as u32 };
            let size = EVIL.len() as u64;
            chunk_of(&[Record::File { path, meta: META, size }, data, Record::End], EVIL)
        }
        RowKind::Symlink { target } => chunk_of(&[Record::Symlink { path, target, meta: META }], b""),
        RowKind::Hardlink { first } => chunk_of(&[Record::Hardlink { path, target: first }], b""),
        RowKind::Special { .. } => {
            let (kind, device) = (SpecialKind::Fifo, Device::default());
            chunk_of(&[Record::Special { path, kind, device, meta: META }], b"")
        }
        RowKind::Failed | RowKind::Missing => chunk_of(&[Record::Failed { path, reason: "gone" }], b""),
    }
}

/// Stores what the server sends until the first refusal.
fn store(mut sink: Sink, sent: &[Vec<u8>]) -> bool {
    let mut scratch = Vec::new();
    for chunk in sent {
        let Ok(verified) = verify(chunk, &mut scratch) else { continue };
        if sink.apply(chunk, verified, &scratch, &mut |_| ()).is_err() {
            return false;
        }
    }
    sink.finish(&mut |_| ()).is_ok()
}

fn sync(world: &World, chosen: Chosen, rng: &mut Rng, is_hostile: bool) -> bool {
    let options = chosen.options();
    let shape = SourceShape::Paths { count: 1, contents: true };
    let spec = SinkSpec { preserve: chosen.preserve(), ..sink_spec(&world.to(""), shape) };
    let sink = if chosen.dry_run { Sink::dry_run(&spec) } else { Sink::open(spec) };
    let mut sink = sink.expect("a destination");
    sink.follow(&options);
    sink.expect(&[b"src/".to_vec()], Enter::All);
    let mut rows = listing(world, Some(&options), &chosen.preserve());
    let all = Preserve { specials: true, hard_links: true, ..Preserve::as_cp(true) };
    let evil = listing(world, None, &all);
    if is_hostile {
        spoil(rng, &mut rows, |rng| invented(rng, &evil));
    }
    let mut compare = Compare::for_sync(&mut sink, options, Privileges::OfTheUser).expect("good options");
    let mut wanted = Vec::new();
    for row in rows {
        let ruling = compare.rule(&row);
        let choice = compare.carry_out(&row, ruling, &|| false).expect("there is room");
        match choice.decision {
            Decision::Send => wanted.push(row),
            Decision::Resume { .. } => panic!("nothing is kept"),
            Decision::Skip | Decision::Done | Decision::Same | Decision::Failed(_) => {}
        }
    }
    compare.delete(&mut |_| ());
    if is_hostile {
        spoil(rng, &mut wanted, |rng| invented(rng, &evil));
    }
    store(sink, &wanted.iter().map(sent).collect::<Vec<_>>())
}

/// What became of the destination, against what the user chose.
fn judge(world: &World, before: &BTreeMap<String, Standing>, chosen: Chosen, what: &str) {
    let after = states(&world.to(""));
    for path in before.keys().chain(after.keys()) {
        let (before, after) = (before.get(path), after.get(path));
        if let Some(wrong) = chosen.verdict(path, before, after) {
            panic!("'{path}': {wrong}\n{before:?}\n{after:?}\n{chosen:?}\n{what}");
        }
    }
}

/// Plays one case; whether the server's object was taken whole.
fn play(seed: u64) -> bool {
    let mut rng = Rng::new(seed);
    let (world, chosen) = (world(), Chosen::any(&mut rng));
    let before = states(&world.to(""));
    let is_whole = sync(&world, chosen, &mut rng, true);
    judge(&world, &before, chosen, &format!("FOBS_SEED={seed}"));
    is_whole
}

#[test]
fn a_hostile_server_stores_nothing_that_was_not_asked_for() {
    if let Some(seed) = std::env::var("FOBS_SEED").ok().and_then(|seed| seed.parse().ok()) {
        play(seed);
        return;
    }
    let of = |player| (player..CASES).step_by(PLAYERS as usize).filter(|&seed| play(seed)).count() as u64;
    let finished: u64 = thread::scope(|scope| {
        let all: Vec<_> = (0..PLAYERS).map(|player| scope.spawn(move || of(player))).collect();
        all.into_iter().map(|player| player.join().expect("a case failed, see above")).sum()
    });
    assert!(finished > CASES / 10, "most are refused before they try anything: {finished}");
}

#[test]
fn an_honest_server_stores_all_that_was_asked_for() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let (world, chosen) = (world(), Chosen::any(&mut rng));
        let before = states(&world.to(""));
        let is_whole = sync(&world, chosen, &mut rng, false);
        assert!(is_whole || chosen.dry_run, "seed {seed}: {chosen:?}");
        judge(&world, &before, chosen, &format!("honest, seed {seed}"));
        let after = states(&world.to(""));
        let is_new = |path: &str| after.get(path).is_some_and(|state| state.content == EVIL);
        let takes = |path| chosen.asks_for(path) && !chosen.dry_run;
        // With -H and a first name that is not made, its other names are not made anew.
        let is_first = !chosen.hard_links || chosen.absent == Absent::Made;
        assert_eq!(
            is_new("a"),
            is_first && takes("a") && chosen.present != Present::Left,
            "seed {seed}: {chosen:?}"
        );
        assert_eq!(
            is_new("d/new"),
            takes("d/new") && chosen.absent == Absent::Made,
            "seed {seed}: {chosen:?}"
        );
    }
}

#[test]
fn what_is_asked_for_and_left_out_is_missed() {
    let world = world();
    let chosen = Chosen {
        filters: false,
        lists: false,
        links: false,
        hard_links: false,
        specials: false,
        deletes: false,
        present: Present::Updated,
        absent: Absent::Made,
        deletes_missing: false,
        keeps_dirlinks: false,
        dry_run: false,
    };
    let rows = listing(&world, Some(&chosen.options()), &chosen.preserve());
    let files: Vec<usize> = (0..rows.len()).filter(|&at| rows[at].kind == RowKind::File).collect();
    for (at, is_said) in files.iter().flat_map(|&at| [(at, false), (at, true)]) {
        let world = super::hostile_server::world();
        let shape = SourceShape::Paths { count: 1, contents: true };
        let spec = SinkSpec { preserve: chosen.preserve(), ..sink_spec(&world.to(""), shape) };
        let mut sink = Sink::open(spec).expect("a destination");
        let mut compare =
            Compare::for_sync(&mut sink, chosen.options(), Privileges::OfTheUser).expect("good options");
        let mut chunks = Vec::new();
        for (place, row) in rows.iter().enumerate() {
            let ruling = compare.rule(row);
            let choice = compare.carry_out(row, ruling, &|| false).expect("there is room");
            match (choice.decision, place == at) {
                (Decision::Send, false) => chunks.push(sent(row)),
                (Decision::Send, true) if is_said => {
                    chunks.push(sent(&Row { kind: RowKind::Failed, ..row.clone() }))
                }
                _ => {}
            }
        }
        assert_eq!(store(sink, &chunks), is_said, "{}", show_path(&rows[at].path));
    }
}
