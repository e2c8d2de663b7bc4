//! What fits, what does not, and what is said of it.

use super::*;
use crate::error::{Error, ErrorKind};

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let budget = MemoryBudget::of(2 << 20);
    let mut names = budget.charge(Keeps::Names);
    names.grow(2 << 20).expect("all of it");
    let spent = budget.charge(Keeps::Deletions).grow(1).expect_err("nothing is left");
    let sentence = "the names to delete and what else is kept take more than the 2 MiB a session may keep; \
        run the sync again";
    assert_eq!(spent.to_string(), sentence);
    assert_eq!(Error::from(spent).kind, ErrorKind::FileIo);
    drop(names);
    assert_eq!(budget.used(), 0, "what is dropped is given back");
    assert!(budget.charge(Keeps::Deletions).grow(2 << 20).is_ok());
}

#[test]
fn all_sessions_together_have_a_bound() {
    let process = MemoryBudget::of(100);
    let [one, other] = [process.session_below(0), process.session_below(0)].map(|it| it.expect("room"));
    let mut kept = one.charge(Keeps::Rules);
    kept.grow(60).expect("room");
    let error = Error::from(other.charge(Keeps::Rules).grow(41).expect_err("one byte too many"));
    assert!(
        error.kind == ErrorKind::Connect && error.message.contains("all sessions of this server"),
        "{error}"
    );
    assert_eq!((one.used(), other.used(), process.used()), (60, 0, 60), "a refusal leaves nothing");
    let chunk = other.outside(Keeps::Chunks, 40).expect("room");
    assert_eq!((other.used(), process.used()), (0, 100), "chunks count for the process only");
    assert!(one.outside(Keeps::Chunks, 1).is_err());
    drop((kept, chunk));
    let third = process.session_below(70).expect("room");
    let error = Error::from(process.session_below(31).expect_err("30 are left"));
    assert!(
        error.kind == ErrorKind::Connect && error.message.contains("the sessions and what they keep take"),
        "{error}"
    );
    drop(third);
    assert_eq!(process.used(), 0);
}

#[test]
fn vectors_and_sets_are_charged_by_what_they_take() {
    let budget = MemoryBudget::of(1 << 20);
    let mut charge = budget.charge(Keeps::Seen);
    let (mut vec, mut set) = (Vec::new(), HashSet::new());
    for value in 0..20_000_u64 {
        charge.push(&mut vec, value).expect("room");
    }
    assert_eq!(charge.bytes(), vec.capacity() * 8);
    assert!(vec.capacity() <= 20_000 * 3 / 2 + GROWTH_MIN);
    let before = charge.bytes();
    for value in 0..20_000_u64 {
        charge.insert(&mut set, value).expect("room");
    }
    // hashbrown: buckets of 8 bytes and one of control each, seven of eight in use.
    let buckets = (set.capacity() * 8).div_ceil(7).next_power_of_two();
    assert_eq!(charge.bytes() - before, buckets * 9);
    let more = (20_000..).take_while(|&value| charge.insert(&mut set, value).is_ok()).count();
    assert!(more > 0 && budget.used() <= 1 << 20, "{more}");
}

/// What is kept, in the order of the tables of protocol 8.1.
const ALL: [Keeps; 19] = [
    Keeps::Sources,
    Keeps::Names,
    Keeps::Rules,
    Keeps::Subdirectories,
    Keeps::HardLinks,
    Keeps::Survey,
    Keeps::Seen,
    Keeps::Listing,
    Keeps::Deletions,
    Keeps::Backups,
    Keeps::Resent,
    Keeps::Links,
    Keeps::Removals,
    Keeps::Journal,
    Keeps::Adoptions,
    Keeps::Linkable,
    Keeps::Answers,
    Keeps::Session,
    Keeps::Chunks,
];

#[test]
fn the_documents_list_what_is_kept() {
    let protocol = include_str!("../../../../docs/protocol.md");
    let (_, table) = protocol.split_once("8.1 **What a session keeps.**").expect("its section");
    let mut rest = table;
    for what in ALL {
        let row = format!("\n| {} |", what.words().0);
        if what != Keeps::Listing {
            rest = rest.split_once(&row).unwrap_or_else(|| panic!("no row {row}")).1;
        }
    }
    let mib = |bytes: usize| format!("{} MiB", bytes >> 20);
    assert!(protocol.contains(&format!("one\nbudget of {} for each", mib(KEPT_BYTES_MAX))));
    assert!(table.contains(&format!("| {} for each |", mib(SESSION_BYTES_MIN))));
    let security = include_str!("../../../../docs/security.md");
    let promise = format!("memory: {} for each session, at most", mib(SESSION_BYTES_MAX));
    assert!(security.contains(&promise), "{promise}");
}

#[test]
fn an_allocation_that_fails_is_an_error() {
    let budget = MemoryBudget::of(usize::MAX);
    let mut charge = budget.charge(Keeps::Journal);
    let mut vec: Vec<u8> = Vec::new();
    let spent = charge.room_in_vec(&mut vec, isize::MAX as usize / 2).expect_err("no host has that");
    assert!(spent.to_string().starts_with("the host has no memory left for the journal"), "{spent}");
    assert_eq!(budget.used(), 0);
}

#[test]
fn transfers_of_a_process_share_what_is_in_transit() {
    const MIB: u64 = 1 << 20;
    let process = MemoryBudget::of(4096 << 20);
    let session = || process.session_below(SESSION_BYTES_MIN).expect("there is room");
    let plenty = u64::MAX;
    // 4 GiB less the session itself, of which each leaves seven of eight parts.
    let (one, other) = (session(), session());
    let first = one.allot(plenty);
    assert_eq!(first.bytes(), (4096 * MIB - 2 * SESSION_BYTES_MIN as u64) / 8);
    let second = other.allot(plenty);
    assert_eq!(second.bytes(), (4096 * MIB - first.bytes()) / 8);
    let many: Vec<_> = (0..100).map(|_| one.allot(plenty)).collect();
    assert!(many.windows(2).all(|pair| pair[0].bytes() >= pair[1].bytes()));
    // Never less than a copy needs: then chunks are refused as they are made.
    assert_eq!(many.last().map(Allotment::bytes), Some(64 * MIB));
    assert_eq!(one.allot(1024 * MIB).bytes(), 64 * MIB);
    drop((many, second, first));
    assert_eq!(one.allot(1024 * MIB).bytes(), 128 * MIB, "what the host has available");
    assert_eq!(process.0.allotted.load(Ordering::Relaxed), 0);
    // A session by itself shares with no other.
    assert_eq!(MemoryBudget::default().allot(plenty).bytes(), MEMORY_DEFAULT_MAX);
}
