//! Options of `fobs sync` about what is kept of entries that not every user may set, and whose rights count.

use fobs::NameCharsets;
use fobs::named::LinkOwners;
use fobs::options::flag::{Flag, Names, RSYNC, Rank, SYNC, Side, Standing, Takes};
use fobs::options::sync::SYNC2;

use crate::flags::{Chosen, there};

type Row = Flag<Chosen>;

/// Them.
pub const ATTRIBUTES: &[Row] = &[
    Row::new(
        "atimes",
        "",
        Takes::Count(|it, count| {
            let kept = &mut it.sync.choices.preserve;
            kept.atimes = count > 0;
            kept.open_noatime |= count > 1;
        }),
    )
    .help("Keep access times; -UU reads the sources without giving them a new one")
    .on(&[RSYNC.letter('U')])
    .side(Side::Both)
    .feature(SYNC2),
    Row::switch("fake-super", |it, on| it.sync.choices.preserve.fake_super = on)
        .help("Note owners, devices and modes on this side in extended attributes, as rsync does, and read them")
        .on(&[RSYNC])
        .side(Side::Both)
        .feature(SYNC2),
    Row::switch("insecure-links", |it, on| {
        it.sync.link_owners = if on { LinkOwners::Anyone } else { LinkOwners::Trusted };
    })
    .help("Follow links of other users in paths that this command line names on this host")
    .on(&[SYNC.of_one_run()]),
    Row::switch("super", |it, on| it.sync.choices.preserve.fake_super &= !on)
        .on(&[RSYNC])
        .rank(Rank::Hidden)
        .standing(Standing::Taken("a side does what its user may; it takes back --fake-super")),
    Row::switch("copy-devices", |it, on| it.sync.choices.preserve.copy_devices = on)
        .help("Read devices of the sources as files, whole")
        .on(&[RSYNC])
        .side(Side::Sender)
        .feature(SYNC2),
    Row::switch("write-devices", |it, on| {
        let rules = &mut it.sync.choices.rules;
        rules.writes_devices = on;
        rules.in_place |= on;
    })
    .help("Write into devices of the destination as into files (implies --inplace)")
    .on(&[RSYNC])
    .side(Side::Receiver)
    .feature(SYNC2),
    Row::new(
        "copy-as",
        "USER[:GROUP]",
        Takes::Form(|it, text| {
            it.sync.copy_as = Some(there::account(text)?);
            Ok(())
        }),
    )
    .help("Read or store as this user, once the other host is reached (as root); from here to here on both sides")
    .on(&[SYNC.of_one_run()]),
    Row::new("remote-option", "OPTION", Takes::Forms(there::option))
        .help("An option for the other side alone: --fake-super, --super or --copy-as")
        .on(&[SYNC.of_one_run().letter('M')]),
    Row::new(
        "iconv",
        "HERE,THERE",
        Takes::Form(|it, text| {
            it.sync.charsets = NameCharsets::read(text)?;
            it.sync.choices.charsets = it.sync.charsets.map(|_| text.to_owned());
            Ok(())
        }),
    )
    .help("Convert names between the encoding of this host and that of the other, as in UTF-8,ISO-8859-1")
    .on(&[RSYNC]),
    Row::switch("delay-updates", |it, on| it.sync.delay_updates = on)
        .help("Give all files their names together, at the end of the transfer")
        .on(&[RSYNC])
        .side(Side::Receiver),
    Row::new(
        "partial-dir",
        "DIR",
        Takes::Words(Names::Other, |it, name| it.sync.partial_dir = Some(name)),
    )
    .help("Keep unfinished files in DIR, a name in each directory of the destination, and go on with them")
    .on(&[SYNC.of_one_run()])
    .side(Side::Receiver),
    Row::new(
        "temp-dir",
        "DIR",
        Takes::Words(Names::Directory, |it, directory| it.sync.temp_dir = Some(directory)),
    )
    .help("Write files in DIR, relative to the destination, until they are complete")
    .on(&[SYNC.of_one_run().letter('T')])
    .side(Side::Receiver),
];
