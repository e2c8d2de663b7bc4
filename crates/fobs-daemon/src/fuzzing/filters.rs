//! Filter rules: the user's, those of a directory's own file, and those that came from another host.

use std::sync::Arc;

use fobs_filter::{Action, Chain, Filter, NameKind, Separator, Side};

const DIRECTORY: &[u8] = b"d";

/// Lines: rules; after an empty line, the filter file of a directory. What a rule says is the same after it
/// was written for the other host and read there.
pub(super) fn filter(input: &[u8]) {
    let (rules, file) = match input.windows(2).position(|pair| pair == b"\n\n") {
        Some(at) => (&input[..at], &input[at + 2..]),
        None => (input, &[][..]),
    };
    let mut filter = Filter::new(Separator::Line, input.len().is_multiple_of(2));
    for rule in rules.split(|byte| *byte == b'\n') {
        let mut no_files = |_: &[u8]| Err(std::io::ErrorKind::NotFound.into());
        let _ = filter.add_rule(rule, &mut no_files);
        let _ = filter.add_pattern(Action::Exclude, rule);
    }
    let written = filter.to_rules();
    let again = Filter::of(&filter.rules()).expect("our own rules can be read");
    assert_eq!(again.to_rules(), written);
    for side in [Side::Sender, Side::Receiver] {
        let mut chains = [&filter, &again].map(|f| Chain::new(Arc::new(f.clone()), side, b"/top/"));
        let failures =
            chains.each_mut().map(|chain| chain.enter(DIRECTORY, &mut |_| Ok(Some(file.to_vec()))));
        assert_eq!(failures[0].len(), failures[1].len());
        for path in [&b"d/a.o"[..], b"d", b"d/sub/\xff", b"d/[x]*"] {
            for kind in [NameKind::Directory, NameKind::Other] {
                let [ours, theirs] = chains.each_ref().map(|chain| chain.excludes(path, kind));
                assert_eq!(ours, theirs, "{path:?}");
            }
        }
    }
}
