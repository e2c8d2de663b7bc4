//! Filters by table, by property, and against the installed rsync.

mod many;
mod rsync;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn filter(rules: &[&str]) -> Filter {
    let mut filter = Filter::default();
    for rule in rules {
        filter.add_rule(rule.as_bytes(), &mut no_files).unwrap_or_else(|error| panic!("{error}"));
    }
    filter
}

fn excludes(filter: &Filter, side: Side, path: &str) -> bool {
    let (path, kind) = match path.strip_suffix('/') {
        Some(directory) => (directory, NameKind::Directory),
        None => (path, NameKind::Other),
    };
    Chain::new(Arc::new(filter.clone()), side, b"/srv/top").excludes(path.as_bytes(), kind)
}

#[test]
fn patterns_apply_where_rsync_applies_them() {
    for (pattern, excluded, included) in [
        ("foo", &["foo", "a/foo", "foo/"][..], &["foobar", "foo/x"][..]),
        ("/foo", &["foo"], &["a/foo"]),
        ("foo/", &["foo/", "a/foo/"], &["foo"]),
        ("a/b", &["a/b", "x/a/b"], &["xa/b", "a/b/c"]),
        ("/a/b", &["a/b"], &["x/a/b"]),
        ("*.o", &["x.o", "a/x.o"], &["x.oo", "x.o/y"]),
        ("/*", &["foo", "bar/"], &["foo/x"]),
        ("a/*/c", &["a/b/c", "x/a/b/c"], &["a/b/d/c"]),
        ("a/**/c", &["a/b/c", "x/a/b/d/c"], &["a/c", "xa/b/c"]),
        ("**/c", &["c", "a/c", "a/b/c"], &["ac"]),
        ("**c", &["c", "ac", "a/b/xc"], &["cx"]),
        ("foo/***", &["foo/", "foo/x", "foo/x/y", "a/foo/x"], &["foo"]),
        ("[ab]?", &["a1", "x/b2"], &["c1", "a"]),
        ("a\\b", &["a\\b"], &["ab"]),
        ("a\\b*", &["abc"], &["a\\b"]),
        ("/", &[], &["foo", "a/"]),
    ] {
        let rule = format!("- {pattern}");
        let filter = filter(&[&rule]);
        for path in excluded {
            assert!(excludes(&filter, Side::Sender, path), "{pattern} and {path}");
        }
        for path in included {
            assert!(!excludes(&filter, Side::Sender, path), "{pattern} and {path}");
        }
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    let filter = filter(&["+ keep.o", "- *.o", "+ *"]);
    assert!(!excludes(&filter, Side::Sender, "keep.o"));
    assert!(excludes(&filter, Side::Sender, "x.o"));
    assert!(!excludes(&filter, Side::Sender, "x.c"));
}

#[test]
fn each_side_has_its_rules() {
    for (rule, sender, receiver) in [
        ("- x", true, true),
        ("exclude x", true, true),
        ("H x", true, false),
        ("hide,! y", true, false),
        ("P x", false, true),
        ("protect x", false, true),
        ("-s x", true, false),
        ("-r x", false, true),
        ("-sr x", true, true),
        ("-_x", true, true),
        ("-,s x", true, false),
        ("-! y", true, true),
        ("-/ /srv/top/x", true, true),
        ("-/ x", true, true),
    ] {
        let filter = filter(&[rule]);
        assert_eq!(excludes(&filter, Side::Sender, "x"), sender, "{rule}");
        assert_eq!(excludes(&filter, Side::Receiver, "x"), receiver, "{rule}");
    }
    for (rule, sender, receiver) in
        [("S x", false, true), ("R x", true, false), ("show x", false, true), ("risk x", true, false)]
    {
        let filter = filter(&[rule, "- *"]);
        assert_eq!(excludes(&filter, Side::Sender, "x"), sender, "{rule}");
        assert_eq!(excludes(&filter, Side::Receiver, "x"), receiver, "{rule}");
    }
}

#[test]
fn deleting_what_is_excluded_unprotects_plain_rules() {
    let rules = ["- x", "P y", "-sr z"].map(|rule| rule.as_bytes().to_vec()).to_vec();
    let rules = FilterRules { rules, delete_excluded: true, ..FilterRules::default() };
    let filter = Filter::of(&rules).expect("good rules");
    for (path, sender, receiver) in [("x", true, false), ("y", false, true), ("z", true, true)] {
        assert_eq!(excludes(&filter, Side::Sender, path), sender, "{path}");
        assert_eq!(excludes(&filter, Side::Receiver, path), receiver, "{path}");
    }
}

#[test]
fn rules_that_are_not_possible_are_refused_with_a_reason() {
    for (rule, why) in [
        ("", "begins with none"),
        ("foo", "begins with none"),
        ("- ", "no pattern"),
        ("-", "no pattern"),
        ("-foo", "'f' is no modifier"),
        ("-C", "CVS"),
        ("C", "CVS"),
        (":-C", "CVS"),
        (": ", "no pattern"),
        ("! foo", "nothing may follow"),
        ("Hs foo", "'s' is no modifier"),
        ("-e foo", "'e' is no modifier"),
        (":+- f", "'-' is no modifier"),
        (": /.rules", "without '/'"),
        (": a/b", "without '/'"),
        (". missing", "cannot be named here"),
        ("+", "no pattern"),
    ] {
        let error = Filter::default().add_rule(rule.as_bytes(), &mut no_files).expect_err(rule);
        assert!(error.to_string().contains(why), "{rule}: {error}");
    }
    let long = [&b"- "[..], &[b'a'; PATTERN_LEN_MAX + 1]].concat();
    let error = Filter::default().add_rule(&long, &mut no_files).expect_err("too long");
    assert!(error.to_string().contains("longer than 4096 bytes"), "{error}");
}

#[test]
fn files_of_rules_are_read_where_they_are_named() {
    let files = BTreeMap::from([
        (&b"a"[..], &b"# comment\n; another\n+ keep\n\n. b\n"[..]),
        (b"b", b"- drop\r\n"),
        (b"words", b"one two\n  three"),
        (b"circle", b". circle\n"),
        (b"sided", b"- x\n"),
        (b"clearing", b"- later\n!\n- last\n"),
    ]);
    let mut read = |name: &[u8]| match files.get(name) {
        Some(text) => Ok(text.to_vec()),
        None => Err(io::ErrorKind::NotFound.into()),
    };
    let mut list = |rule: &str| {
        let mut filter = Filter::default();
        filter.add_rule(rule.as_bytes(), &mut read).map(|()| filter)
    };
    let text = |filter: Filter| filter.to_rules().concat();
    assert_eq!(text(list(". a").expect("it is there")), b"+ keep- drop");
    assert_eq!(text(list(".-e b").expect("it is there")), b"- b- - drop");
    assert_eq!(text(list("merge,w+ words").expect("it is there")), b"+ one+ two+ three");
    assert_eq!(text(list(".s sided").expect("it is there")), b"-s x");
    assert_eq!(text(list(". clearing").expect("it is there")), b"- last");
    assert!(list(". circle").expect_err("a circle").to_string().contains("more than 16 deep"));
    assert!(list(". nowhere").expect_err("no file").to_string().contains("not found"));
}

#[test]
fn lines_of_an_exclude_file_may_have_prefixes() {
    let mut filter = Filter::default();
    filter.add_patterns(Action::Exclude, b"one\n+ two\n- three\n# no\n!four\nP five\n").expect("good lines");
    assert_eq!(filter.to_rules().join(&b'\n'), b"- one\n+ two\n- three\n- !four\n- P five");
    filter.add_pattern(Action::Include, b"!").expect("it clears");
    assert!(filter.is_empty());
    let mut filter = Filter::new(Separator::Nul, false);
    filter.add_patterns(Action::Include, b"a\nb\0c").expect("good lines");
    assert_eq!(filter.to_rules(), [&b"+ a\nb"[..], b"+ c"]);
}

#[test]
fn too_many_bytes_of_rules_are_refused() {
    let mut filter = Filter::default();
    let line = [b'a'; 4000];
    let added = (0..1000).try_for_each(|_| filter.add_pattern(Action::Exclude, &line));
    assert!(added.expect_err("they are bounded").to_string().contains("longer than 640 KiB"));
}

#[test]
fn inner_files_come_first_and_are_left_with_the_directory() {
    let mut chain =
        Chain::new(Arc::new(filter(&[": .rules", ":n .here", "- last"])), Side::Sender, b"/srv/top");
    let enter = |chain: &mut Chain, directory: &str, rules: &str, here: &str| {
        let failures = chain.enter(directory.as_bytes(), &mut |name| {
            let text = if name == b".rules" { rules } else { here };
            Ok((!text.is_empty()).then(|| text.as_bytes().to_vec()))
        });
        assert_eq!(failures, Vec::<String>::new());
    };
    let excluded = |chain: &Chain, path: &str| chain.excludes(path.as_bytes(), NameKind::Other);
    enter(&mut chain, "", "- /x\n+ y\n- z", "- only");
    for (path, expected) in [("x", true), ("a/x", false), ("z", true), ("only", true), ("last", true)] {
        assert_eq!(excluded(&chain, path), expected, "{path}");
    }
    enter(&mut chain, "a", "- y\n- /w", "");
    for (path, expected) in [("a/y", true), ("a/w", true), ("a/b/w", false), ("a/z", true), ("a/only", false)]
    {
        assert_eq!(excluded(&chain, path), expected, "{path}");
    }
    enter(&mut chain, "a/b", "!\n+ last", "");
    for (path, expected) in [("a/b/y", false), ("a/b/z", false), ("a/b/last", false)] {
        assert_eq!(excluded(&chain, path), expected, "{path}");
    }
    chain.leave();
    assert!(excluded(&chain, "a/y"));
    chain.leave();
    assert!(!excluded(&chain, "a/y"));
}

#[test]
fn a_directory_file_names_further_ones_below_it_alone() {
    let mut chain = Chain::new(Arc::new(filter(&[": .rules"])), Side::Sender, b"");
    let enter = |chain: &mut Chain, directory: &str, files: &[(&str, &str)]| {
        let mut asked = Vec::new();
        let failures = chain.enter(directory.as_bytes(), &mut |name| {
            asked.push(String::from_utf8_lossy(name).into_owned());
            let text = files.iter().find(|(file, _)| file.as_bytes() == name).map(|(_, text)| *text);
            Ok(text.map(|text| text.as_bytes().to_vec()))
        });
        assert_eq!(failures, Vec::<String>::new());
        asked.join(" ")
    };
    let excluded = |chain: &Chain, path: &str| chain.excludes(path.as_bytes(), NameKind::Other);
    assert_eq!(enter(&mut chain, "", &[(".more", "- x")]), ".rules");
    assert!(!excluded(&chain, "x"), "nothing names the file here");
    let rules = "+ kept\n: .more\n:C\n: .rules\n- w";
    let files = [(".rules", rules), (".more", "- kept\n- x\n: .deep"), (".cvsignore", "x.o y.o")];
    assert_eq!(enter(&mut chain, "a", &files), ".rules .more .cvsignore .deep");
    for (path, expected) in [("a/x", true), ("a/kept", false), ("a/y.o", true), ("a/w", true), ("a/z", false)]
    {
        assert_eq!(excluded(&chain, path), expected, "{path}");
    }
    assert_eq!(enter(&mut chain, "a/b", &[(".deep", "- z\n+ x")]), ".rules .more .cvsignore .deep");
    for (path, expected) in [("a/b/x", true), ("a/b/z", true), ("a/b/y.o", false), ("a/b/w", true)] {
        assert_eq!(excluded(&chain, path), expected, "{path}");
    }
    chain.leave();
    // As CVS: what stands before a mark does not count, and a name may begin with one.
    let files = [(".rules", rules), (".cvsignore", "x.o ! y.o !z.o")];
    enter(&mut chain, "a/c", &files);
    for (path, expected) in [("a/c/x.o", false), ("a/c/y.o", true), ("a/c/!z.o", true), ("a/c/!", false)] {
        assert_eq!(excluded(&chain, path), expected, "{path}");
    }
    chain.leave();
    chain.leave();
    assert_eq!(enter(&mut chain, "c", &[(".more", "- x")]), ".rules");
    assert!(!excluded(&chain, "c/x"), "it is left with the directory that names it");
    chain.leave();
    let files = [(".rules", ": .more\n!\n: .more"), (".more", "- x")];
    assert_eq!(enter(&mut chain, "e", &files), ".rules .more");
    assert!(excluded(&chain, "e/x"), "what is named again after all was cleared counts");
    assert_eq!(enter(&mut chain, "e/f", &[(".rules", ": .other\n!")]), ".rules .more");
    chain.leave();
    chain.leave();
    let many: String = (0..DIRECTORY_FILES_MAX).map(|index| format!(": .f{index}\n")).collect();
    let failures = chain.enter(b"d", &mut |name| Ok((name == b".rules").then(|| many.clone().into_bytes())));
    assert!(failures.len() == 1 && failures[0].contains("more than 64 rules name a file"), "{failures:?}");
}

#[test]
fn a_directory_whose_filter_file_is_bad_is_reported() {
    let mut chain = Chain::new(Arc::new(filter(&[": .rules"])), Side::Sender, b"");
    let mut report = |text: &str| chain.enter(b"d", &mut |_| Ok(Some(text.as_bytes().to_vec())));
    for (text, why) in [
        ("nonsense", "begins with none"),
        (". other", "none to be read at once"),
        (": a/b", "a name without '/'"),
        (":C-", "no modifier that fits"),
        ("-C x", "patterns of CVS"),
        (&"- a\n".repeat(20_000), "larger than 64 KiB"),
    ] {
        let failures = report(text);
        assert!(failures.len() == 1 && failures[0].contains(why), "{failures:?}");
        assert!(failures[0].contains("'d/.rules'"), "{failures:?}");
    }
    // A client may name a file that it may not read.
    for text in ["# ours\n- a\nTOPSECRET", ": ../TOPSECRET", "-QZ x", ". TOPSECRET", "!QZ"] {
        let failures = report(text);
        assert!(failures.len() == 1 && failures[0].contains("its rule "), "{failures:?}");
        assert!(!failures[0].contains("SECRET") && !failures[0].contains(['Q', 'Z']), "{failures:?}");
    }
}

#[test]
fn where_a_filter_file_cannot_be_used_everything_is_excluded() {
    let mut chain = Chain::new(Arc::new(filter(&["+ /bad/wanted", ": .rules"])), Side::Sender, b"");
    let enter = |chain: &mut Chain, directory: &str, text: io::Result<&str>| {
        let mut text = Some(text.map(|text| Some(text.as_bytes().to_vec())));
        chain.enter(directory.as_bytes(), &mut |_| text.take().expect("asked once")).len()
    };
    let excluded = |chain: &Chain, path: &str| chain.excludes(path.as_bytes(), NameKind::Other);
    assert_eq!(enter(&mut chain, "", Ok("- x")), 0);
    for unusable in [Ok("no rule"), Err(io::ErrorKind::PermissionDenied.into())] {
        assert_eq!(enter(&mut chain, "bad", unusable), 1);
        assert_eq!(enter(&mut chain, "bad/in", Ok("+ *")), 0);
        assert!(excluded(&chain, "bad/in/a"));
        chain.leave();
        assert!(excluded(&chain, "bad/a") && excluded(&chain, "bad/wanted"));
        chain.leave();
        assert!(!excluded(&chain, "a") && excluded(&chain, "x"), "it is left with its directory");
    }
}

#[test]
fn perishable_rules_do_not_keep_a_directory() {
    let chain = Chain::new(Arc::new(filter(&["-p *~"])), Side::Receiver, b"");
    assert_eq!(chain.judge(b"a~", NameKind::Other, Perishable::Counted), Some(Action::Exclude));
    assert_eq!(chain.judge(b"a~", NameKind::Other, Perishable::Ignored), None);
}

proptest! {
    #[test]
    fn any_rule_is_refused_or_survives_its_own_text(
        rule in prop::collection::vec(prop::sample::select(&b"+-HSPR.:!/aprsnweC_ *?[]"[..]), 0..16),
    ) {
        let mut filter = Filter::default();
        if filter.add_rule(&rule, &mut no_files).is_ok() {
            prop_assert_eq!(Filter::of(&filter.rules()), Ok(filter));
        }
    }
}

/// What another host is told of a rule is parsed there to the same rule.
#[test]
fn rules_for_files_of_directories_travel_whole() {
    for rule in [":C", ":C .cvsignore", ":Cp", ":Csr other", ":nw- x", ":/p+ x", ": x", ":er x", ":w x"] {
        let of = |text: &[u8]| {
            let mut filter = Filter::default();
            filter.add_rule(text, &mut |_| unreachable!("it names no file to be read now")).expect("a rule");
            filter
        };
        let filter = of(rule.as_bytes());
        let mut again = Filter::default();
        for text in filter.to_rules() {
            again.add_rule(&text, &mut |_| unreachable!("it names no file to be read now")).expect("a rule");
        }
        assert_eq!(again, filter, "{rule}");
    }
}
