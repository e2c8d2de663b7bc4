//! Options of `fobs sync` with a value, filter rules among them: their order counts across options.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use fobs::options::flag::{Flag, Names, RSYNC, SYNC, Takes};

use super::RuleOption;
use crate::flags::{Chosen, Limit};

type Row = Flag<Chosen>;

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

/// The others.
pub const VALUES: &[Row] = &[
    Row::new("files-from", "FILE", Takes::Path(Names::File, |it, file| it.sync.files_from = Some(file)))
        .help("Read the names to transfer, below the one source, from FILE ('-': standard input)")
        .on(ONE_RUN),
    Row::new(
        "link-dest",
        "DIR",
        Takes::Words(Names::Directory, |it, directory| {
            it.sync.choices.link_dest.push(directory.into_vec());
        }),
    )
    .help("Link what is unchanged from DIR, relative to the destination, instead of sending it; repeatable")
    .on(ONE_RUN),
    Row::new("max-delete", "N", Takes::Number(0, u64::MAX, |it, most| it.sync.max_delete = Some(most)))
        .help("Delete at most N files; further ones are left, exit code 25")
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
        "modify-window",
        "N",
        Takes::Number(0, u32::MAX as u64, |it, seconds| {
            it.sync.choices.rules.modify_window = u32::try_from(seconds).unwrap_or(u32::MAX);
        }),
    )
    .help("Times that differ by up to N seconds are equal")
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

fn add(it: &mut Chosen, option: RuleOption, word: OsString) {
    it.sync.rules.push((option, word));
}

/// A value of `--bwlimit`: rsync's sizes per second; 0 is no limit.
pub fn bandwidth(text: &str) -> Result<Limit, String> {
    let wrong =
        || format!("{text:?} is not a rate: write KiB per second, or a number with K, M, G, KB, MB or GB");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "k" | "kib" => 1024.0,
        "b" => 1.0,
        "m" | "mib" => 1024.0 * 1024.0,
        "g" | "gib" => 1024.0 * 1024.0 * 1024.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        _ => return Err(wrong()),
    };
    // Saturates far above any link.
    let bits = (number * factor * 8.0) as u64;
    Ok(Limit { bits_per_second: (bits > 0).then_some(bits) })
}
