//! Many rules: they say what they say one by one, and cost no more than they may.

use super::super::rule_list::{Judged, RuleList};
use super::super::work::{STEPS_FREE, STEPS_PER_NAME, Work};
use super::*;
use fobs_model::budget::MemoryBudget;
use fobs_model::error::ErrorKind;
use std::hash::RandomState;

/// The first rule that matches, by comparing them one by one.
fn one_by_one(
    rules: &[Arc<PatternRule>],
    path: &[u8],
    kind: NameKind,
    top: &[u8],
    side: Side,
) -> Option<usize> {
    rules.iter().position(|rule| rule.sides.include(side, false) && rule.matches(path, kind, top, &mut 0))
}

fn pattern_rules(filter: &Filter) -> Vec<Arc<PatternRule>> {
    let patterns = filter.rules.iter().filter_map(|rule| match rule {
        Rule::Pattern(rule) => Some(Arc::clone(rule)),
        Rule::DirectoryFile(_) => None,
    });
    patterns.collect()
}

/// What a chain of these rules takes for these names, each of which it does not exclude.
fn steps(rules: impl Iterator<Item = String>, names: impl Iterator<Item = String>) -> u64 {
    let mut filter = Filter::default();
    for rule in rules {
        filter.add_rule(rule.as_bytes(), &mut no_files).expect("a rule");
    }
    let chain = Chain::new(Arc::new(filter), Side::Sender, b"srv/top");
    let mut taken = 0;
    for name in names {
        let left = chain.steps_left();
        let excluded = chain.excludes(name.as_bytes(), NameKind::Other);
        assert!(chain.failure().is_none() && !excluded, "{name}");
        taken += left - chain.steps_left().min(left);
        // What one name leaves over is not for the next.
        assert!(chain.steps_left() <= STEPS_FREE);
    }
    taken
}

proptest! {
    /// Among rules that match often, so that the order decides: on both sides, with and without a top.
    #[test]
    fn a_list_finds_what_comparing_one_by_one_finds(
        rules in prop::collection::vec(
            "[+-](s|r|p|!|/)? (/|/srv/top/)?(a|b|a/b|a\\*|\\*|\\*\\*/b|a/\\*\\*\\*|b/a|\\?)(/b|/a/b)?/?", 33..90
        ),
        path in "(a|b|c)(/(a|b|ab)){0,3}",
        directory in any::<bool>(),
        absolute in any::<bool>(),
    ) {
        let mut filter = Filter::default();
        for rule in &rules {
            // `\*` above is for the generator of texts.
            let rule = rule.replace("\\", "");
            filter.add_rule(rule.as_bytes(), &mut no_files).expect("a rule");
        }
        let rules = pattern_rules(&filter);
        let top: &[u8] = if absolute { b"srv/top" } else { b"" };
        let kind = if directory { NameKind::Directory } else { NameKind::Other };
        let (hashes, work) = (RandomState::new(), Work::new());
        let list = RuleList::new(rules.clone(), top, &hashes, &MemoryBudget::default()).expect("room");
        let name = Judged::new(path.as_bytes(), kind, (top, glob::mask_of(top)), &hashes);
        for side in [Side::Sender, Side::Receiver] {
            let counts = |rule: &PatternRule| rule.sides.include(side, false);
            let found = list.find(&name, &counts, &mut work.begin());
            let wanted = one_by_one(&rules, path.as_bytes(), kind, top, side);
            prop_assert_eq!(found, wanted.map(|index| &*rules[index]), "{:?}", filter.to_rules());
        }
    }
}

#[test]
fn names_without_wildcards_cost_a_look_up_each() {
    for rule in [|at: u32| format!("- x{at}"), |at| format!("- /d/x{at}"), |at| format!("- a/b/x{at}")] {
        let taken = steps((0..50_000).map(rule), (0..1000).map(|at| format!("d/a/b/y{at}")));
        assert!(taken < 20 * 1000, "{taken} steps for 1000 names");
    }
    // The same rule again and again is one.
    for rule in ["- x", "- *y*z", "- x/"] {
        let taken = steps((0..60_000).map(|_| rule.to_owned()), (0..1000).map(|at| format!("y{at}")));
        assert!(taken < 100 * 1000, "{rule}: {taken}");
    }
}

#[test]
fn wildcards_that_need_a_byte_the_name_lacks_are_passed_over() {
    let taken = steps((0..50_000).map(|at| format!("- *y{at}*")), (0..10_000).map(|at| format!("n{at}-19")));
    assert!(taken < 10_000 * (50_000 / 4 + 100), "{taken}");
}

#[test]
fn rules_that_take_too_much_work_are_refused_and_exclude_all() {
    for rule in
        [|at: usize| format!("- *a*a*a*a*b*{at}[x]"), |at| format!("- {}{at}[x]", "?*".repeat(at % 20 + 1))]
    {
        let mut filter = Filter::default();
        for at in 0..15_000 {
            filter.add_rule(rule(at).as_bytes(), &mut no_files).expect("a rule");
        }
        let chain = Chain::new(Arc::new(filter), Side::Sender, b"");
        let name = format!("{}0123456789", "ab".repeat(100));
        // Most of the work is done; what is left ends within few names.
        chain.leave_steps(1 << 22);
        let names = (0..1_000_000).take_while(|_| {
            chain.excludes(name.as_bytes(), NameKind::Other);
            chain.failure().is_none()
        });
        assert!(names.count() < 256);
        let error = chain.failure().expect("it is spent");
        assert!(
            error.kind == ErrorKind::Usage && error.message.contains("fewer patterns with wildcards"),
            "{error}"
        );
        assert!(chain.excludes(b"anything", NameKind::Other), "and stays so: nothing is sent or deleted");
    }
}

#[test]
fn twenty_ordinary_rules_are_never_too_much() {
    let rules =
        ["*.o", "*.pyc", ".git/", "target/", "node_modules", "*~", "#*#", "build/**", "*.swp", "/cache"];
    let rules = rules.iter().flat_map(|rule| [format!("- {rule}"), format!("- old-{rule}")]);
    let taken = steps(rules, (0..1000).map(|at| format!("projects/one/source/module{at}/file-{at}.rs")));
    assert!(taken < STEPS_PER_NAME / 16 * 1000, "{taken}");
}

#[test]
fn the_longest_patterns_stay_within_their_work() {
    let long = "*a".repeat(PATTERN_LEN_MAX / 2 - 1);
    let filter = filter(&[&format!("- {long}b")]);
    let chain = Chain::new(Arc::new(filter), Side::Sender, b"");
    let path = vec![b'a'; 4000];
    assert!(!chain.excludes(&path, NameKind::Other));
    // Its end tells, and what one name leaves over is not kept.
    assert_eq!(chain.steps_left(), STEPS_FREE);
    let long = format!("- {long}?");
    let chain = Chain::new(Arc::new(super::filter(&[&long])), Side::Sender, b"");
    chain.excludes(&path, NameKind::Other);
    let taken = STEPS_FREE + STEPS_PER_NAME - chain.steps_left();
    assert!(taken < 2 * 4096 * 4096, "{taken}: in proportion to pattern and path");
}

#[test]
fn rules_beyond_their_number_are_refused() {
    let mut filter = Filter::default();
    for _ in 0..RULES_MAX {
        filter.add_rule(b"- x", &mut no_files).expect("room");
    }
    let error = filter.add_rule(b"- x", &mut no_files).expect_err("one too many");
    assert!(error.to_string().contains("more than 100000 rules"), "{error}");
    filter.add_rule(b"!", &mut no_files).expect("it clears");
    for at in 0..DIRECTORY_FILES_MAX {
        filter.add_rule(format!(": x{at}").as_bytes(), &mut no_files).expect("room");
    }
    let error = filter.add_rule(b": x", &mut no_files).expect_err("one too many");
    assert!(error.to_string().contains("more than 64 rules that name a file of each directory"), "{error}");
}

#[test]
fn directories_without_files_of_rules_share_those_above() {
    let names: Vec<String> = (0..DIRECTORY_FILES_MAX).map(|at| format!(": .rules{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let budget = MemoryBudget::default();
    let mut chain = Chain::within(Arc::new(filter(&names)), Side::Sender, b"", &budget).expect("room");
    let text = (0..500).fold(String::new(), |text, at| format!("{text}/x{at}\n")).replace("\n/", "\n- /");
    let text = format!("- {text}");
    chain.enter(b"", &mut |_| Ok(Some(text.as_bytes().to_vec())));
    let of_one = budget.used();
    assert!(of_one > 64 * 500 * 50, "{of_one}");
    // As deep as a path can be.
    let mut opens = 0;
    for depth in 1..2000 {
        let directory = vec!["d"; depth].join("/");
        chain.enter(directory.as_bytes(), &mut |_| {
            opens += 1;
            Ok(None)
        });
    }
    assert_eq!((budget.used(), opens), (of_one, 1999 * 64));
    // One more rule in each directory shares the others.
    let mut chain = Chain::within(Arc::new(filter(&[": .rules"])), Side::Sender, b"", &budget).expect("room");
    let before = budget.used();
    for depth in 0..2000 {
        let directory = vec!["d"; depth].join("/");
        let failures = chain.enter(directory.as_bytes(), &mut |_| Ok(Some(b"- /x".to_vec())));
        assert_eq!(failures, Vec::<String>::new());
    }
    assert!(chain.excludes(b"x", NameKind::Other));
    assert!(budget.used() - before < 2000 * 600, "{}", budget.used() - before);
    (0..2000).for_each(|_| chain.leave());
    assert_eq!(budget.used(), before);
}

#[test]
fn rules_that_do_not_fit_the_budget_are_refused() {
    let mut filter = Filter::default();
    for at in 0..10_000 {
        filter.add_rule(format!("- [ab]{at}*").as_bytes(), &mut no_files).expect("room");
    }
    let filter = Arc::new(filter);
    let roomy = MemoryBudget::default();
    let chain = Chain::within(Arc::clone(&filter), Side::Sender, b"", &roomy).expect("room");
    let used = roomy.used();
    assert!((10_000 * 150..10_000 * 500).contains(&used), "{used}");
    drop(chain);
    assert_eq!(roomy.used(), 0);
    let error =
        Chain::within(filter, Side::Sender, b"", &MemoryBudget::of(used - 1)).expect_err("one byte less");
    assert!(error.to_string().contains("the filter rules"), "{error}");
}
