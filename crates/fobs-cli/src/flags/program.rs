//! Options about this program: what it prints, and what it does on its own.

use std::path::PathBuf;

use fobs::options::Chatter;
use fobs::options::flag::{CP, Flag, Names, PIPE, RSYNC, SYNC, Side, Takes};

use super::words::Told;
use super::{Chosen, Limit};

type Row = Flag<Chosen>;

/// What they say together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProgramWords {
    pub quiet: bool,
    pub verbose: u8,
    pub json: bool,
    pub progress: bool,
    pub explain: bool,
    pub trace: Option<PathBuf>,
    pub through_here: bool,
    /// `--info`
    pub told: Told,
    /// `-8`: bytes above ASCII in names are printed as they are.
    pub raw_names: bool,
}

/// Largest `-l`: more does not fit in a `u64` of bits per second.
const KBIT_MAX: u64 = u64::MAX / 1000;

/// How much is said.
pub const SAYING: &[Row] = &[
    Row::switch("quiet", |it, on| it.program.quiet = on)
        .help("Quiet: no progress, summary or notices; errors are still shown")
        .on(&[
            CP.letter('q'),
            RSYNC.letter('q').help("Print errors only"),
            PIPE.letter('q').help("Quiet: print errors only, and what the command says"),
        ])
        .yields(&["verbose"]),
    Row::new(
        "verbose",
        "",
        Takes::Count(|it, count| {
            it.program.verbose = count;
            it.options.ssh.chatter = if count > 0 { Chatter::Told } else { Chatter::Skipped };
        }),
    )
    .help("Verbose: print a line for every file; ssh's own messages come with -o LogLevel=DEBUG")
    .on(&[CP.letter('v'), RSYNC.letter('v').help("Print the names of what is transferred or deleted")])
    .yields(&["quiet"]),
    Row::switch("progress", |it, on| it.program.progress = on)
        .help("Print a line of progress now and then where there is no terminal to draw it on")
        .detail(
            "The first after 10 s, then one every 10 s in the first minute, every minute in the first ten, and \
             every ten minutes later. On a terminal the progress is always shown.",
        )
        .on(&[CP, PIPE.help("Show the progress: a line that is drawn on a terminal, else one now and then")])
        .yields(&["quiet"]),
];

/// How names are printed.
pub const NAMES: &[Row] = &[Row::switch("8-bit-output", |it, on| it.program.raw_names = on)
    .help("Print bytes above ASCII in names as they are")
    .on(&[RSYNC.letter('8')])];

/// What happens on this host.
pub const HERE: &[Row] = &[
    Row::switch("through-here", |it, on| it.program.through_here = on)
        .help("Between two other hosts, send the data through this one")
        .detail(
            "Without it, data goes from one to the other where a way is open, and only otherwise through here. \
             Either way, this host needs ssh to both of them, and they need none to each other.",
        )
        .on(&[CP.letter('3')]),
    Row::new("l", "KBIT", Takes::Number(1, KBIT_MAX, |it, kbit| {
        it.limit = Some(Limit { bits_per_second: Some(kbit.saturating_mul(1000)) });
    }))
    .help("Maximum rate in Kbit/s (1000 bits per second), as --rate")
    .on(&[CP.letter('l')])
    .conflicts(&["rate"])
    .side(Side::Sender),
];

/// What is told of a run.
pub const TELLING: &[Row] = &[
    Row::switch("json", |it, on| it.program.json = on)
        .help("Write events to standard output, one JSON object per line, instead of progress")
        .detail(
            "Every line has \"v\": 1 and an \"event\": start, progress (about once a second), file, error or \
             notice. The last line is done (with all figures) or failed (code, message, exit_code). Sizes are in \
             bytes, rates in bits per second.",
        )
        .on(&[
            CP.of_one_run(),
            SYNC.of_one_run().help(
                "Write events to standard output, one JSON object per line, as fobs cp does",
            ),
            PIPE.of_one_run().help("Write events to standard error, one JSON object per line; what the command says too"),
        ]),
    Row::switch("explain", |it, on| it.program.explain = on)
        .help(
            "Explain what limits the copy's rate: during the copy (after 5, 10, 20 s, ...) and at its end, with \
             remedies",
        )
        .on(&[CP, SYNC, PIPE.help("Explain at the end what limited the rate of each direction, with remedies")]),
    Row::new("trace", "FILE", Takes::Path(Names::File, |it, file| it.program.trace = Some(file)))
        .help("Write the measurements of both ends to FILE, for fobs explain")
        .on(&[
            CP.of_one_run(),
            SYNC.of_one_run(),
            PIPE.of_one_run().help("Write the measurements of the direction that moved more to FILE, for fobs explain"),
        ]),
];
