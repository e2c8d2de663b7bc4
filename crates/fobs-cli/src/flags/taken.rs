//! Options of rsync that are taken and change nothing that is copied: they are what happens anyway, or about
//! how rsync itself works. Their values are still those that rsync takes.

use fobs::options::flag::{Flag, RSYNC, Rank, SYNC, Standing, Takes, Use};

use super::Chosen;
use super::sync::size;

type Row = Flag<Chosen>;

const NO_SHELL: &str = "no shell on the other host reads a path";
const LISTING: &str = "the listing always flows while files do";
const BLAKE3: &str = "contents are compared by BLAKE3";
/// Least limit of rsync's allocations, bytes: what its `--max-alloc` takes.
const ALLOCATION_MIN: u64 = 1 << 20;
/// Largest block of rsync's, bytes: what its `--block-size` takes.
const BLOCK_SIZE_MAX: u64 = 1 << 17;
const LEVEL: &str = "data is compressed as fast as the path carries it";

/// Options that are taken.
pub const TAKEN: &[Row] = &[
    taken("secluded-args", NO_SHELL).also(&["protect-args"]).on(&[RSYNC.letter('s')]),
    Row::switch("inc-recursive", |it, on| it.sync.whole_list = !on)
        .also(&["i-r"])
        .on(&[RSYNC])
        .rank(Rank::Hidden)
        .standing(Standing::Taken(LISTING)),
    taken("trust-sender", "names are always checked"),
    taken("blocking-io", "the other host's shell is not used for data"),
    taken("preallocate", "the room for each file is allocated before it is written, always"),
    read("protocol", "the two sides agree on a version", |_, text| number(text)),
    read("address", "it is about rsync's own daemon", |_, _| Ok(())),
    taken("no-motd", "there is no daemon of rsync's").on(PLAIN),
    taken("old-dirs", "it is --dirs of old versions").also(&["old-d"]),
    read(
        "outbuf",
        "lines to a terminal come at once, others in rsync's order at the end unless it is N or L",
        |it, text| {
            it.sync.is_live = !text.eq_ignore_ascii_case("B");
            one_of(text, &["N", "L", "B", "n", "l", "b"])
        },
    ),
    read("stderr", "errors are always written to standard error", |_, text| {
        let whole = ["errors", "all", "client"];
        one_of(text, &["e", "a", "c", whole[0], whole[1], whole[2]])
    }),
    read("max-alloc", "memory is bounded already", |_, text| match size(text)? {
        1..ALLOCATION_MIN => {
            Err(format!("{text:?} is too small: rsync takes 0 for no limit, and 1M or more"))
        }
        _ => Ok(()),
    }),
    read("checksum-choice", BLAKE3, |_, text| {
        let known = ["auto", "xxh128", "xxh3", "xxh64", "xxhash", "md5", "md4", "sha1", "none"];
        text.splitn(2, ',').try_for_each(|name| one_of(name, &known))
    }),
    read("checksum-seed", BLAKE3, |_, text| number(text)),
    read(
        "block-size",
        "content or place decides where pieces of a file end; their length follows from its size",
        |_, text| match size(text)? {
            0..=BLOCK_SIZE_MAX => Ok(()),
            _ => Err(format!("{text:?} is too large: rsync takes 128K at most")),
        },
    )
    .on(&[SYNC.letter('B')]),
    read("compress-choice", "data is compressed with zstd", |it, text| {
        one_of(text, &["auto", "zstd", "lz4", "zlibx", "zlib", "none"])?;
        it.options.compress = text != "none";
        Ok(())
    })
    .also(&["zc"]),
    read("compress-level", LEVEL, |it, text| {
        number(text)?;
        it.options.compress = text != "0";
        Ok(())
    })
    .also(&["zl"]),
    read("compress-threads", "data is compressed by the thread that reads it", |_, text| number(text))
        .also(&["zt"]),
    read("skip-compress", "what does not become smaller is not compressed", |_, _| Ok(())),
    read("sockopts", "it is about rsync's own daemon", |_, _| Ok(())),
    read("debug", "there is nothing of rsync to see inside", |it, text| it.program.told.read_debug(text)),
];

const PLAIN: &[Use] = &[SYNC.of_one_run()];

/// Something without a value.
const fn taken(name: &'static str, why: &'static str) -> Row {
    Flag::switch(name, |_, _| {}).on(&[RSYNC]).rank(Rank::Hidden).standing(Standing::Taken(why))
}

/// Something with one, which is still checked.
const fn read(
    name: &'static str,
    why: &'static str,
    read: fn(&mut Chosen, &str) -> Result<(), String>,
) -> Row {
    Flag::new(name, "VALUE", Takes::Form(read)).on(PLAIN).rank(Rank::Hidden).standing(Standing::Taken(why))
}

fn one_of(text: &str, known: &[&str]) -> Result<(), String> {
    if known.contains(&text) { Ok(()) } else { Err(format!("rsync has {}", known.join(", "))) }
}

fn number(text: &str) -> Result<(), String> {
    text.parse::<i64>().map(drop).map_err(|error| error.to_string())
}
