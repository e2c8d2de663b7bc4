//! The table is complete: every wait reaches a limit, and every limit has all its sentences.

use super::*;
use crate::budget::Budget;
use crate::interval::intervals;
use crate::kind::PathKind;
use crate::tests::{STEP_US, trace_of};
use crate::{Trace, explain};
use fobs_model::units::Wait;

/// A transfer whose sender waits for one thing; the receiver wants a CPU for a share of the time, in percent.
fn waiting(wait: Wait, delayed: u64) -> Trace {
    trace_of("cubic", |_, s, r| {
        s.waits.add_us(wait, STEP_US);
        r.cpu.delay_us += STEP_US / 100 * delayed;
    })
}

#[test]
fn every_wait_reaches_a_limit() {
    for &wait in Wait::ALL {
        let trace = waiting(wait, 0);
        let budget = Budget::of(&intervals(&trace));
        assert!((budget.total() - 3.0).abs() < 1e-6, "{wait:?} is lost: {} of 3 s", budget.total());
        let why = explain(&trace);
        assert!(why.limit.is_some() && why.share > 0.99, "{wait:?}: {why:?}");
    }
}

#[test]
fn every_stage_has_exactly_one_limit() {
    for (kind, delayed) in PathKind::ALL.iter().copied().flat_map(|kind| [(kind, 0), (kind, 50)]) {
        let trace = waiting(Wait::Pacer, delayed);
        let mut facts = Facts::of(&trace);
        facts.path.kind = kind;
        for stage in Stage::ALL {
            let claims = |limit: &&Limit| (limit.row().stages)(&facts).contains(stage);
            let limits: Vec<_> = Limit::ALL.iter().filter(claims).collect();
            assert_eq!(limits.len(), 1, "{stage:?} on a path of {kind:?}: {limits:?}");
        }
    }
}

#[test]
fn every_row_is_complete() {
    let traces = [waiting(Wait::Pacer, 0), waiting(Wait::Pacer, 50)];
    for (limit, trace) in Limit::ALL.iter().flat_map(|limit| traces.each_ref().map(|trace| (limit, trace))) {
        let (row, facts) = (limit.row(), Facts::of(trace));
        let mut sentences = (row.evidence)(&facts, facts.sender().expect("samples"));
        assert!(!sentences.is_empty(), "{limit:?} has no evidence");
        sentences.extend([(row.phrase)(&facts), (row.fix)(&facts), limit.description().to_owned()]);
        for sentence in sentences {
            assert!(sentence.len() > 10 && !sentence.ends_with('.'), "{limit:?}: {sentence:?}");
            assert!(!sentence.contains("  ") && !sentence.contains('\n'), "{limit:?}: {sentence:?}");
        }
        assert_eq!(serde_json::json!(limit), limit.name());
    }
}

/// Acks that come in every third sample only: half of the intervals deliver nothing.
#[test]
fn no_rate_of_a_path_is_below_what_it_delivered() {
    let trace = trace_of("auto", |step, s, _| {
        s.waits.add_us(Wait::Pacer, STEP_US);
        s.packets_sent += 1000;
        s.bytes_sent += 1000 * 1250;
        if step % 3 == 2 {
            s.bytes_acked = s.bytes_sent;
        }
    });
    for &kind in PathKind::ALL {
        let mut facts = Facts::of(&trace);
        facts.path.kind = kind;
        facts.before = Some(facts.path);
        assert!(facts.path.rates.median() == 0.0 && facts.goodput_bps > 90e6, "{kind:?}");
        assert!(facts.carried_bps(&facts.path) >= 0.99 * facts.goodput_bps, "{kind:?}");
        for limit in Limit::ALL {
            let says = (limit.row().phrase)(&facts);
            assert!(
                !says.contains(" 0.00 ") || limit.row().place == Place::Ends,
                "{kind:?} {limit:?}: {says}"
            );
        }
    }
}

#[test]
fn losses_are_told_apart_in_words() {
    let trace = waiting(Wait::Pacer, 0);
    let mut facts = Facts::of(&trace);
    for (uneven, words) in [
        (0.0, "too few to say"),
        (0.1, "more evenly than by chance"),
        (1.0, "as by chance"),
        (3.5, "in bunches"),
    ] {
        (facts.path.loss, facts.path.uneven) = (0.01, uneven);
        let says = facts::path_evidence(&facts).join("; ");
        assert!(says.contains(words), "{uneven}: {says}");
    }
}

#[test]
fn the_document_lists_every_limit_and_stage() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/explain.md");
    let document = std::fs::read_to_string(path).expect("docs/explain.md");
    let table = |heading: &str| -> Vec<Vec<String>> {
        let section = document.split(&format!("\n## {heading}\n")).nth(1).expect(heading);
        let section = section.split("\n## ").next().unwrap_or_default();
        let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
        rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
            .collect()
    };
    let limits: Vec<_> = table("Limits").into_iter().map(|row| (row[0].clone(), row[1].clone())).collect();
    let expected = Limit::ALL.iter().map(|it| (format!("`{}`", it.name()), it.description().to_owned()));
    assert_eq!(limits, expected.collect::<Vec<_>>());
    let stages: Vec<_> = table("Stages").into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(stages, Stage::ALL.iter().map(|stage| stage.name()).collect::<Vec<_>>());
}
