//! Options of `fobs sync` with a value, filter rules among them: their order counts across options.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, SystemTime};

use fobs::AccountMap;
use fobs::options::Carrier;
use fobs::options::flag::{Flag, Names, RSYNC, SYNC, Side, Takes};
use fobs::options::sync::{BasisUse, DELTA, Delta, SYNC2};

use super::RuleOption;
use crate::flags::words::remote_shell;
use crate::flags::{Chosen, Limit, there};
use crate::moment::parse_deadline;

type Row = Flag<Chosen>;

/// Most minutes of `--stop-after`: ten years.
const MINUTES_MAX: u64 = 10 * 366 * 24 * 60;

/// Most seconds of `--contimeout`.
const SECONDS_MAX: u64 = 60 * MINUTES_MAX;

/// Filter rules.
pub const RULES: &[Row] = &[
    Row::new("filter", "RULE", Takes::Words(Names::Other, |it, rule| add(it, RuleOption::Filter, rule)))
        .help("Add a filter rule, as in '- *.o' or 'protect /keep'")
        .on(&[SYNC.of_one_run().letter('f')]),
    Row::new(
        "exclude",
        "PATTERN",
        Takes::Words(Names::Other, |it, pattern| add(it, RuleOption::Exclude, pattern)),
    )
    .help("Leave out names that match")
    .on(ONE_RUN),
    Row::new(
        "include",
        "PATTERN",
        Takes::Words(Names::Other, |it, pattern| add(it, RuleOption::Include, pattern)),
    )
    .help("Do not leave out names that match")
    .on(ONE_RUN),
    Row::new(
        "exclude-from",
        "FILE",
        Takes::Words(Names::File, |it, file| add(it, RuleOption::ExcludeFrom, file)),
    )
    .help("Leave out names that match a pattern in FILE ('-': standard input)")
    .on(ONE_RUN),
    Row::new(
        "include-from",
        "FILE",
        Takes::Words(Names::File, |it, file| add(it, RuleOption::IncludeFrom, file)),
    )
    .help("Do not leave out names that match a pattern in FILE")
    .on(ONE_RUN),
];

/// When a delta is made.
fn deltas() -> Vec<(&'static str, &'static str)> {
    let why = |delta| match delta {
        Delta::Auto => "where reading both files costs less time than sending one",
        Delta::Always => "wherever the destination has a file of that name",
        Delta::Never => "never: changed files are sent whole",
    };
    Delta::ALL.iter().copied().map(|delta| (delta.name(), why(delta))).collect()
}

/// The others.
pub const VALUES: &[Row] = &[
    Row::new("files-from", "FILE", Takes::Path(Names::File, |it, file| it.sync.files_from = Some(file)))
        .help(
            "Read the names to transfer, below the one source, from FILE ('-': standard input), or host:FILE",
        )
        .on(ONE_RUN),
    Row::new(
        "link-dest",
        "DIR",
        Takes::Words(Names::Directory, |it, directory| basis(it, BasisUse::Linked, directory)),
    )
    .help("Link what is unchanged from DIR, relative to the destination, instead of sending it; repeatable")
    .on(ONE_RUN)
    .conflicts(&["compare-dest", "copy-dest"]),
    Row::new(
        "compare-dest",
        "DIR",
        Takes::Words(Names::Directory, |it, directory| basis(it, BasisUse::LeftOut, directory)),
    )
    .help("Leave out what is unchanged in DIR, relative to the destination; repeatable")
    .on(ONE_RUN)
    .conflicts(&["copy-dest"])
    .side(Side::Receiver)
    .feature(SYNC2),
    Row::new(
        "copy-dest",
        "DIR",
        Takes::Words(Names::Directory, |it, directory| basis(it, BasisUse::Copied, directory)),
    )
    .help("Make what is new of the files in DIR, relative to the destination, by deltas; repeatable")
    .on(ONE_RUN)
    .side(Side::Receiver)
    .feature(SYNC2),
    Row::new(
        "delta",
        "WHEN",
        Takes::OneOf(deltas, |it, name| {
            let known = Delta::ALL.iter().copied().find(|delta| delta.name() == name);
            it.sync.choices.delta = known.ok_or_else(|| "give auto, always or never".to_owned())?;
            Ok(())
        }),
    )
    .help("Send what changed of a file in place of all of it")
    .default("auto")
    .on(&[SYNC]),
    Row::new(
        "basis",
        "OLD",
        Takes::Words(Names::File, |it, old| it.sync.choices.basis = Some(old.into_vec())),
    )
    .help("An earlier version of the source, on its host, that the destination has too: what differs is sent")
    .on(&[SYNC.of_one_run()])
    .side(Side::Sender)
    .feature(DELTA),
    Row::new(
        "max-delete",
        "N",
        Takes::Form(|it, text| {
            // As rsync: below 0 is 0.
            let most: i64 = text.trim().parse().map_err(|_| "it is no whole number".to_owned())?;
            it.sync.max_delete = Some(u64::try_from(most).unwrap_or(0));
            Ok(())
        }),
    )
    .help("Delete at most N files; further ones are left, exit code 25")
    .on(ONE_RUN),
    Row::new(
        "max-size",
        "SIZE",
        Takes::Form(|it, text| {
            it.sync.choices.rules.size_max = Some(size(text)?);
            Ok(())
        }),
    )
    .help("Leave out files of more than SIZE bytes; K M G are powers of 1024, KB MB GB of 1000")
    .on(ONE_RUN)
    .side(Side::Receiver)
    .feature(SYNC2),
    Row::new(
        "min-size",
        "SIZE",
        Takes::Form(|it, text| {
            it.sync.choices.rules.size_min = Some(size(text)?);
            Ok(())
        }),
    )
    .help("Leave out files of less than SIZE bytes")
    .on(ONE_RUN)
    .side(Side::Receiver)
    .feature(SYNC2),
    Row::new(
        "rsh",
        "COMMAND",
        Takes::Form(|it, text| {
            it.options.ssh = remote_shell(text)?.of(&it.options.ssh);
            Ok(())
        }),
    )
    .help("Remote shell: ssh with its options, or a program that takes a host and a command")
    .on(&[SYNC.of_one_run().letter('e')])
    .carrier(Carrier::Ssh)
    .conflicts(&["ssh"]),
    Row::new("rsync-path", "COMMAND", Takes::Form(there::program))
        .help("What to run rsync with at the other host, as in 'sudo rsync': fobs is run with it")
        .on(ONE_RUN)
        .carrier(Carrier::Ssh),
    Row::new("info", "FLAGS", Takes::Forms(|it, text| it.program.told.read(text)))
        .help("What is printed, by rsync's names and levels: name, del, stats2, ...")
        .on(ONE_RUN),
    Row::new("out-format", "FORMAT", Takes::Words(Names::Other, |it, text| it.sync.out_format = Some(text)))
        .help("Print a line of this form for each change, with rsync's escapes, as in '%i %n%L'")
        .also(&["log-format"])
        .on(ONE_RUN),
    Row::new("log-file", "FILE", Takes::Path(Names::File, |it, file| it.sync.log_file = Some(file)))
        .help("Add what is done to FILE, a line each")
        .on(ONE_RUN),
    Row::new(
        "log-file-format",
        "FORMAT",
        Takes::Words(Names::Other, |it, text| it.sync.log_format = Some(text)),
    )
    .help("The form of the lines of --log-file [default: '%i %n%L']")
    .on(ONE_RUN),
    Row::new(
        "backup-dir",
        "DIR",
        Takes::Words(Names::Directory, |it, directory| {
            it.sync.choices.backup_dir = Some(directory.into_vec());
        }),
    )
    .help("Make backups in DIR, relative to the destination, under the paths of their files")
    .on(ONE_RUN)
    .side(Side::Receiver)
    .feature(SYNC2),
    Row::new(
        "contimeout",
        "SECONDS",
        Takes::Number(0, SECONDS_MAX, |it, seconds| {
            it.sync.connect_within = (seconds > 0).then_some(Duration::from_secs(seconds));
        }),
    )
    .help("Give up a connection that is not answered for so long, with exit code 35 (0: as usual)")
    .on(ONE_RUN),
    Row::new(
        "stop-after",
        "MINUTES",
        Takes::Number(1, MINUTES_MAX, |it, minutes| {
            it.sync.stop_at = SystemTime::now().checked_add(Duration::from_secs(60 * minutes));
        }),
    )
    .help("End after this number of minutes, with exit code 30; the same command goes on")
    .also(&["time-limit"])
    .on(ONE_RUN),
    Row::new(
        "stop-at",
        "TIME",
        Takes::Form(|it, text| {
            it.sync.stop_at = Some(parse_deadline(&text.replace('/', "-"))?);
            Ok(())
        }),
    )
    .help("End at that time, as in 2026-12-31T23:59 or 06:00, likewise")
    .on(ONE_RUN),
    Row::new("suffix", "SUFFIX", Takes::Words(Names::Other, |it, suffix| it.sync.suffix = Some(suffix)))
        .help("End of a backup's name [default: ~]")
        .on(ONE_RUN),
    Row::new(
        "chmod",
        "CHANGES",
        Takes::Forms(|it, changes| {
            it.sync.chmod.push(changes.to_owned());
            Ok(())
        }),
    )
    .help("Change modes, as in D2755,F644 or go-w; repeatable")
    .on(ONE_RUN),
    Row::new(
        "usermap",
        "FROM:TO,...",
        Takes::Form(|it, text| {
            let kept = &mut it.sync.choices.preserve;
            (kept.users, kept.owner) = (AccountMap::parse(text)?, true);
            Ok(())
        }),
    )
    .help("Give files of users FROM to users TO (implies -o): names, numbers, ranges, *; the first that fits")
    .on(ONE_RUN)
    .side(Side::Sender)
    .feature(SYNC2),
    Row::new(
        "groupmap",
        "FROM:TO,...",
        Takes::Form(|it, text| {
            let kept = &mut it.sync.choices.preserve;
            (kept.groups, kept.group) = (AccountMap::parse(text)?, true);
            Ok(())
        }),
    )
    .help("Likewise groups (implies -g)")
    .on(ONE_RUN)
    .side(Side::Sender)
    .feature(SYNC2),
    Row::new(
        "chown",
        "USER:GROUP",
        Takes::Form(|it, text| {
            let (user, group) = text.split_once(':').unwrap_or((text, ""));
            let kept = &mut it.sync.choices.preserve;
            let whose =
                [(&mut kept.users, &mut kept.owner, user), (&mut kept.groups, &mut kept.group, group)];
            for (map, is_kept, account) in whose {
                if !account.is_empty() {
                    (*map, *is_kept) = (AccountMap::all_to(account), true);
                }
            }
            Ok(())
        }),
    )
    .help("Give all files to USER, GROUP or both (implies -o, -g)")
    .on(ONE_RUN)
    .conflicts(&["usermap", "groupmap"])
    .side(Side::Sender)
    .feature(SYNC2),
    Row::new(
        "modify-window",
        "N",
        Takes::Form(|it, text| {
            let seconds: i32 = text.trim().parse().map_err(|_| "it is no whole number".to_owned())?;
            let rules = &mut it.sync.choices.rules;
            (rules.modify_window, rules.exact_times) = (u32::try_from(seconds).unwrap_or(0), seconds < 0);
            Ok(())
        }),
    )
    .help("Times that differ by up to N seconds are equal; -1: they must be to the nanosecond")
    .on(&[SYNC.of_one_run().letter('@')]),
    Row::new(
        "bwlimit",
        "RATE",
        Takes::Form(|it, text| {
            it.limit = Some(bandwidth(text)?);
            Ok(())
        }),
    )
    .help("Maximum rate, in KiB per second without a unit; K M G are powers of 1024, KB MB GB of 1000")
    .on(&[RSYNC])
    .conflicts(&["rate"]),
];

const ONE_RUN: &[fobs::options::flag::Use] = &[SYNC.of_one_run()];

fn basis(it: &mut Chosen, basis_use: BasisUse, directory: OsString) {
    it.sync.choices.basis_use = basis_use;
    it.sync.choices.link_dest.push(directory.into_vec());
}

fn add(it: &mut Chosen, option: RuleOption, word: OsString) {
    it.sync.rules.push((option, word));
}

/// A value of `--bwlimit`; 0 is no limit.
pub fn bandwidth(text: &str) -> Result<Limit, String> {
    let bytes = quantity(text, 1024.0).ok_or_else(|| {
        format!("{text:?} is not a rate: write KiB per second, or a number with K, M, G, KB, MB or GB")
    })?;
    // Saturates far above any link.
    let bits = (bytes * 8.0) as u64;
    Ok(Limit { bits_per_second: (bits > 0).then_some(bits) })
}

/// A size in bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let bytes = quantity(text, 1.0).ok_or_else(|| {
        format!("{text:?} is not a size: write bytes, or a number with K, M, G, T, KB, MB, GB or TB")
    })?;
    Ok(bytes as u64)
}

/// What rsync reads as a size: a number, a unit, and one byte more or less.
fn quantity(text: &str, plain: f64) -> Option<f64> {
    let (text, more) = match (text.strip_suffix("+1"), text.strip_suffix("-1")) {
        (Some(rest), _) => (rest, 1.0),
        (_, Some(rest)) => (rest, -1.0),
        _ => (text, 0.0),
    };
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().ok()?;
    let unit = unit.to_ascii_lowercase();
    let (letter, is_decimal) = match unit.as_str() {
        "" => return Some((number * plain + more).max(0.0)),
        "b" => ("", false),
        unit => match (unit.strip_suffix("ib"), unit.strip_suffix('b')) {
            (Some(letter), _) if !letter.is_empty() => (letter, false),
            (_, Some(letter)) => (letter, true),
            (_, None) => (unit, false),
        },
    };
    let power = ["", "k", "m", "g", "t", "p"].iter().position(|known| *known == letter)?;
    let base: f64 = if is_decimal { 1000.0 } else { 1024.0 };
    Some((number * base.powi(i32::try_from(power).ok()?) + more).max(0.0))
}
