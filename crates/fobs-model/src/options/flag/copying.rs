//! Options about what is taken, how it is stored, and how a copy goes on after one that was interrupted.

use super::super::sync::DELTA;
use super::{CP, Flag, PIPE, RSYNC, SYNC, Side, TransferOptions};

type Row = Flag<TransferOptions>;

/// What of the sources is taken.
pub const TAKING: &[Row] = &[
    Row::switch("recursive", |it, on| it.recursive = on)
        .help("Copy directories recursively")
        .on(&[CP.letter('r')])
        .library("recursive")
        .side(Side::Both),
    Row::switch("preserve", |it, on| it.preserve = on)
        .help("Preserve modes and modification times")
        .on(&[CP.letter('p')])
        .library("preserve")
        .side(Side::Both),
];

/// How data is stored.
pub const STORING: &[Row] = &[
    Row::switch("compress", |it, on| it.compress = on)
        .help("Compress data (zstd) where that makes it smaller")
        .on(&[CP.letter('C'), RSYNC.letter('z').configurable(), PIPE.letter('C')])
        .library("compress")
        .side(Side::Sender),
    Row::switch("fsync", |it, on| it.fsync = on)
        .help("fsync each file at the destination before renaming it, then its directory; slower")
        .on(&[CP, RSYNC.configurable().help("fsync every file at the destination")])
        .library("fsync")
        .side(Side::Receiver),
    Row::switch("cache", |it, on| it.cache = on)
        .help("Read and write large files through the page cache")
        .detail(
            "Without it, files from 64 MiB on go past the cache where that is not slower: what is moved once \
             takes no place from what other programs read again. It is worth having where the copy is read at \
             once at its destination.",
        )
        .on(&[CP, SYNC])
        .library("cache")
        .side(Side::Both),
];

/// How a copy goes on.
pub const RESUMING: &[Row] = &[
    Row::switch("no-partial", |it, on| it.no_partial = on)
        .help("Keep nothing of a copy that is interrupted, so that the next one starts from the beginning")
        .detail(
            "Without it, files that are complete stay as they are, and the same command goes on in the middle \
             of the file it was interrupted in. What that needs lies beside the destination as \
             .NAME.fobs-journal and .NAME.fobs-XXXXXX until a copy is complete.",
        )
        .on(&[CP])
        .library("no_partial")
        .side(Side::Receiver),
    Row::switch("append-verify", |it, on| it.append_verify = on)
        .help("Go on with files that another program (scp, rsync) has left shorter than their source")
        .detail(
            "What is there is hashed by both sides; a file that is not the beginning of its source is copied \
             whole.",
        )
        .on(&[CP])
        .conflicts(&["no-partial"])
        .library("append_verify")
        .side(Side::Both),
    Row::switch("checksum", |it, on| it.checksum = on)
        .help(
            "Go on after an interrupted copy only with files whose content is still that of the source",
        )
        .detail("Without it, a file counts as unchanged if its size, inode, and times of modification and change are.")
        .on(&[CP])
        .library("checksum")
        .side(Side::Both),
    Row::switch("delta", |it, on| it.delta = on)
        .help("Send only what changed of files that the destination has, where that costs less time")
        .detail("Any copy is a new file, and verified whole. 'fobs sync' does so by itself.")
        .on(&[CP])
        .library("delta")
        .side(Side::Both)
        .feature(DELTA),
];
