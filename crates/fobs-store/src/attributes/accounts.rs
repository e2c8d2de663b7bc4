//! Users and groups: their names at the sender, their numbers at the receiver.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use nix::unistd::{Gid, Group, Uid, User};
use rustix::process::{getegid, geteuid, getgroups};

use super::{ACCOUNT_NAME_LEN_MAX, Account, MODE_BITS, SET_ID_BITS};
use fobs_model::options::{IdMapping, Privileges};
use fobs_sys::confine::{Errand, outside};

/// Most bytes of answers that are remembered of each kind, 16,384 of ordinary names; others are asked for
/// again.
const REMEMBERED_BYTES_MAX: usize = 1 << 20;
/// What an answer takes beside the bytes of names, in a table of them.
const ANSWER_COST: usize = 48;

/// What this process may give files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rights {
    /// It has root's rights, so it may give files away and make devices.
    pub(crate) is_root: bool,
    /// The groups that it may give its files to otherwise.
    pub(crate) groups: HashSet<u32>,
    /// The bits of a mode that it may set.
    pub(crate) mode_bits: u32,
}

impl Rights {
    pub(crate) fn new(privileges: Privileges) -> Rights {
        match privileges {
            Privileges::OfTheUser => {
                let groups = getgroups().unwrap_or_default().into_iter().chain([getegid()]);
                let groups = groups.map(|group| group.as_raw()).collect();
                Rights { is_root: geteuid().is_root(), groups, mode_bits: MODE_BITS }
            }
            Privileges::Withheld => {
                Rights { is_root: false, groups: HashSet::new(), mode_bits: MODE_BITS & !SET_ID_BITS }
            }
        }
    }

    /// Which of a wanted user and group are set, as rsync does: what only root can set is left as it is.
    pub(super) fn settable(&self, user: Option<u32>, group: Option<u32>) -> (Option<u32>, Option<u32>) {
        let user = user.filter(|_| self.is_root);
        (user, group.filter(|group| self.is_root || self.groups.contains(group)))
    }
}

/// The number that an account has here; `find` looks for its name.
pub(super) fn local_id(account: &Account, mapping: IdMapping, find: impl FnOnce(&str) -> Option<u32>) -> u32 {
    match (&account.name, mapping) {
        (Some(name), IdMapping::Names) if account.id != 0 => find(name).unwrap_or(account.id),
        _ => account.id,
    }
}

/// Asks for accounts once.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    user_names: Remembered<u32, Option<String>>,
    group_names: Remembered<u32, Option<String>>,
    user_ids: Remembered<String, Option<u32>>,
    group_ids: Remembered<String, Option<u32>>,
}

impl Accounts {
    /// The user of this number, with the name where names count.
    pub(super) fn user(&self, id: u32, mapping: IdMapping) -> Account {
        let name = move |id| User::from_uid(Uid::from_raw(id)).ok().flatten().map(|user| user.name);
        let find = |&id: &u32| outside(Errand::Accounts, move || name(id));
        Account { id, name: named(mapping, || self.user_names.get(&id, find)) }
    }

    /// The group of this number, likewise.
    pub(super) fn group(&self, id: u32, mapping: IdMapping) -> Account {
        let name = move |id| Group::from_gid(Gid::from_raw(id)).ok().flatten().map(|group| group.name);
        let find = |&id: &u32| outside(Errand::Accounts, move || name(id));
        Account { id, name: named(mapping, || self.group_names.get(&id, find)) }
    }

    /// The number of a peer's user here.
    pub(super) fn user_id(&self, user: &Account, mapping: IdMapping) -> u32 {
        let number = |name: String| User::from_name(&name).ok().flatten().map(|user| user.uid.as_raw());
        let find = |name: &String| {
            let name = name.clone();
            outside(Errand::Accounts, move || number(name))
        };
        local_id(user, mapping, |name| self.user_ids.get(&name.to_owned(), find))
    }

    /// The number of a peer's group here.
    pub(super) fn group_id(&self, group: &Account, mapping: IdMapping) -> u32 {
        let number = |name: String| Group::from_name(&name).ok().flatten().map(|group| group.gid.as_raw());
        let find = |name: &String| {
            let name = name.clone();
            outside(Errand::Accounts, move || number(name))
        };
        local_id(group, mapping, |name| self.group_ids.get(&name.to_owned(), find))
    }
}

/// A name that is sent: one that the rules of [`Account`] allow.
fn named(mapping: IdMapping, find: impl FnOnce() -> Option<String>) -> Option<String> {
    match mapping {
        IdMapping::Names => find().filter(|name| (1..=ACCOUNT_NAME_LEN_MAX).contains(&name.len())),
        IdMapping::Numbers => None,
    }
}

#[derive(Debug)]
struct Remembered<K, V>(Mutex<Known<K, V>>);

#[derive(Debug)]
struct Known<K, V> {
    answers: HashMap<K, V>,
    bytes: usize,
}

/// A question or an answer, and the bytes of a name in it.
trait NameLen {
    fn name_len(&self) -> usize {
        0
    }
}

impl NameLen for u32 {}
impl NameLen for Option<u32> {}

impl NameLen for String {
    fn name_len(&self) -> usize {
        self.len()
    }
}

impl NameLen for Option<String> {
    fn name_len(&self) -> usize {
        self.as_ref().map_or(0, String::len)
    }
}

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Remembered(Mutex::new(Known { answers: HashMap::new(), bytes: 0 }))
    }
}

impl<K: Hash + Eq + Clone + NameLen, V: Clone + NameLen> Remembered<K, V> {
    fn get(&self, key: &K, find: impl FnOnce(&K) -> V) -> V {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = known.answers.get(key) {
            return value.clone();
        }
        let value = find(key);
        let bytes = ANSWER_COST + key.name_len() + value.name_len();
        if known.bytes + bytes <= REMEMBERED_BYTES_MAX {
            known.bytes += bytes;
            known.answers.insert(key.clone(), value.clone());
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(id: u32, name: Option<&str>) -> Account {
        Account { id, name: name.map(str::to_owned) }
    }

    #[test]
    fn accounts_are_found_by_name_then_by_number() {
        let find = |name: &str| (name == "ann").then_some(7);
        for (account, mapping, id) in [
            (account(5, Some("ann")), IdMapping::Names, 7),
            (account(5, Some("bob")), IdMapping::Names, 5),
            (account(5, None), IdMapping::Names, 5),
            (account(5, Some("ann")), IdMapping::Numbers, 5),
            (account(0, Some("ann")), IdMapping::Names, 0),
        ] {
            assert_eq!(local_id(&account, mapping, find), id, "{account:?} {mapping:?}");
        }
    }

    #[test]
    fn only_root_gives_files_away() {
        let root = Rights { is_root: true, groups: HashSet::new(), mode_bits: MODE_BITS };
        let user = Rights { is_root: false, groups: HashSet::from([100]), mode_bits: MODE_BITS };
        assert_eq!(root.settable(Some(5), Some(6)), (Some(5), Some(6)));
        assert_eq!(root.settable(None, None), (None, None));
        assert_eq!(user.settable(Some(5), Some(100)), (None, Some(100)));
        assert_eq!(user.settable(Some(5), Some(6)), (None, None));
    }

    #[test]
    fn what_is_remembered_of_a_peers_names_is_bounded() {
        let remembered: Remembered<String, Option<u32>> = Remembered::default();
        for index in 0..REMEMBERED_BYTES_MAX / 256 {
            let name = format!("{index:0256}");
            assert_eq!(remembered.get(&name, |_| Some(7)), Some(7));
        }
        let known = remembered.0.lock().expect("not poisoned");
        assert!(known.bytes <= REMEMBERED_BYTES_MAX && known.answers.len() < REMEMBERED_BYTES_MAX / 256);
        drop(known);
        assert_eq!(remembered.get(&format!("{:0256}", 0), |_| panic!("it is known")), Some(7));
        assert_eq!(remembered.get(&"later".repeat(50), |_| None), None, "the others are asked for again");
    }

    #[test]
    fn accounts_of_this_host_are_known_both_ways() {
        let accounts = Accounts::default();
        let root = accounts.user(0, IdMapping::Names);
        assert_eq!(root.name.as_deref(), Some("root"));
        assert_eq!(accounts.user(0, IdMapping::Numbers).name, None);
        // No account of any host has this number.
        assert_eq!(accounts.user(u32::MAX - 7, IdMapping::Names).name, None);
        for _ in 0..2 {
            assert_eq!(accounts.user_id(&account(9, Some("root")), IdMapping::Names), 0);
            assert_eq!(accounts.group_id(&account(9, Some("no such group")), IdMapping::Names), 9);
        }
    }
}
