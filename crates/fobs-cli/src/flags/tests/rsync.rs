//! The table beside the options of rsync: each is done, taken or refused, and the guide says which.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::*;

/// Options of rsync 3.5.0, as its help has them; those of an installed one count too.
const RSYNC: &str = "\
    --verbose,-v --info=FLAGS --debug=FLAGS --stderr=e|a|c --quiet,-q --no-motd --checksum,-c \
    --archive,-a --no-OPTION --recursive,-r --inc-recursive,--i-r --no-inc-recursive --no-i-r \
    --relative,-R --no-implied-dirs --backup,-b --backup-dir=DIR --suffix=SUFFIX --update,-u --inplace \
    --append --append-verify --dirs,-d --old-dirs --old-d --mkpath --links,-l --copy-links,-L \
    --copy-unsafe-links --safe-links --insecure-links --confine-root=DIR --munge-links \
    --copy-dirlinks,-k --keep-dirlinks,-K --hard-links,-H --perms,-p --executability,-E --chmod=CHMOD \
    --acls,-A --xattrs,-X --owner,-o --group,-g --devices --copy-devices --write-devices --specials \
    --drop-D -D --times,-t --atimes,-U --open-noatime --crtimes,-N --omit-dir-times,-O \
    --omit-link-times,-J --super --fake-super --sparse,-S --preallocate --dry-run,-n --whole-file,-W \
    --no-whole-file,--no-W --checksum-choice=STR --one-file-system,-x --block-size=SIZE,-B \
    --rsh=COMMAND,-e --rsync-path=PROGRAM --existing --ignore-non-existing --ignore-existing \
    --remove-source-files --del --delete --delete-before --delete-during --delete-delay --delete-after \
    --delete-excluded --ignore-missing-args --delete-missing-args --ignore-errors --force \
    --max-delete=NUM --max-size=SIZE --min-size=SIZE --max-alloc=SIZE --partial --partial-dir=DIR \
    --delay-updates --prune-empty-dirs,-m --numeric-ids --usermap=STRING --groupmap=STRING \
    --chown=USER:GROUP --timeout=SECONDS --contimeout=SECONDS --ignore-times,-I --size-only \
    --modify-window=NUM,-@ --temp-dir=DIR,-T --fuzzy,-y --compare-dest=DIR --copy-dest=DIR \
    --link-dest=DIR --compress,-z --compress-choice=STR --compress-level=NUM --compress-threads=NUM \
    --skip-compress=LIST --cvs-exclude,-C --filter=RULE,-f -F";

/// Options that are other than rsync's, or of no row.
const OTHERS: [&str; 3] = ["help", "version", "no-OPTION"];

/// The spellings of an option; a value follows a name with `=`.
fn spellings(spec: &str) -> Vec<String> {
    spec.split(',').map(str::to_owned).collect()
}

fn installed() -> Vec<Vec<String>> {
    let Ok(done) = Command::new("rsync").arg("--help").output() else { return Vec::new() };
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let lines = text.lines().filter(|line| line.starts_with('-'));
    let spec = |line: &str| line.split("  ").next().unwrap_or_default().replace(" (*)", "");
    lines.map(|line| spec(line).split(", ").map(str::to_owned).collect()).collect()
}

/// The row that a spelling of rsync's means here.
fn row_of(spelling: &str) -> Option<Row> {
    let name = spelling.trim_start_matches('-').split('=').next().unwrap_or_default();
    rows(CommandName::Sync).find(|row| {
        let about = row.about();
        let letter = about.on(CommandName::Sync).and_then(|it| it.letter);
        if spelling.starts_with("--") {
            about.long() == Some(name) || about.also.contains(&name)
        } else {
            letter.is_some_and(|letter| name == letter.to_string())
        }
    })
}

#[test]
fn every_option_of_rsync_is_done_taken_or_refused() {
    let known = RSYNC.split_whitespace().map(spellings);
    let mut seen = 0;
    for spec in known.chain(installed()) {
        let mut meant: Option<&str> = None;
        let takes_value = spec.iter().any(|spelling| spelling.contains('='));
        for spelling in &spec {
            let name = spelling.trim_start_matches('-').split('=').next().unwrap_or_default();
            if OTHERS.contains(&name) || name == "V" || (name.len() > 1 && is_negated(name)) {
                continue;
            }
            let row = row_of(spelling).unwrap_or_else(|| panic!("{spelling} of {spec:?} is of no row"));
            seen += 1;
            let about = row.about();
            let both = meant.is_none_or(|name| name == about.name) || spec.contains(&"--help".to_owned());
            assert!(both, "{spec:?} is {meant:?} and {}", about.name);
            meant = Some(about.name);
            let has_value = matches!(row.shape(), Shape::Value | Shape::List);
            assert_eq!(has_value, takes_value, "{spec:?}");
        }
    }
    assert!(seen > 150, "{seen} spellings were looked at");
}

/// Whether a name takes back a row that can be.
fn is_negated(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("no-") else { return false };
    let row = row_of(&format!("--{rest}")).or_else(|| row_of(&format!("-{rest}")));
    row.is_some_and(|row| row.about().on(CommandName::Sync).is_some_and(|it| it.negated))
}

/// A row for each reason, with all the options of which it is one.
fn table(of: fn(Standing) -> Option<&'static str>) -> String {
    let mut reasons: Vec<&str> = Vec::new();
    let mut options: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for row in rows(CommandName::Sync) {
        let about = row.about();
        let Some(why) = of(about.standing) else { continue };
        if !reasons.contains(&why) {
            reasons.push(why);
        }
        let letter =
            about.on(CommandName::Sync).and_then(|it| it.letter).map(|letter| format!("`-{letter}`"));
        let long = about.long().into_iter().chain(about.also.iter().copied());
        let names = long.map(|name| format!("`--{name}`")).chain(letter);
        options.entry(why).or_default().extend(names);
    }
    let line = |why: &&str| format!("| {} | {why} |\n", options[*why].join(", "));
    reasons.iter().map(line).collect()
}

#[test]
fn the_guide_lists_what_is_taken_and_what_is_refused() {
    let taken = table(|it| if let Standing::Taken(why) = it { Some(why) } else { None });
    let refused = table(|it| if let Standing::Refused(why) = it { Some(why) } else { None });
    let expected = format!(
        "| taken, without an effect | because |\n|---|---|\n{taken}\n| refused | because |\n|---|---|\n{refused}"
    );
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide.md");
    let text = std::fs::read_to_string(&file).expect("a checkout");
    let start = text.find("| taken, without an effect |").expect("the first table");
    let last = text.find("| refused | because |").expect("the second table");
    let end = text[last..].find("\n\n").map_or(text.len(), |at| last + at + 1);
    if std::env::var_os("FOBS_GOLDEN").is_some_and(|word| word == "write") {
        let whole = [&text[..start], &expected, &text[end..]].concat();
        std::fs::write(&file, whole).expect("a checkout that can be written");
    } else {
        assert_eq!(&text[start..end], expected, "FOBS_GOLDEN=write makes the tables of docs/guide.md anew");
    }
}
