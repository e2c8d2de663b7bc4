//! Rules for the names of extended attributes (modifier `x`).

use std::sync::{Arc, Mutex, PoisonError};

use super::pattern::{NameKind, Subject};
use super::rule::{Action, PatternRule, Side};
use super::work::Work;
use super::{Filter, Rule};

/// The rules of one side for the names of extended attributes.
#[derive(Debug, Clone, Default)]
pub struct XattrRules {
    rules: Option<Arc<Rules>>,
    acls: AclNames,
}

/// Whether ACLs count as extended attributes where rules are given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum AclNames {
    /// As in rsync.
    #[default]
    Count,
    /// They are permissions, which the peer may not choose.
    Spared,
}

#[derive(Debug)]
struct Rules {
    rules: Vec<Arc<PatternRule>>,
    side: Side,
    delete_excluded: bool,
    /// Files are read and dressed by several threads.
    work: Mutex<Work>,
}

impl XattrRules {
    /// Those of a filter.
    pub fn of(filter: &Filter, side: Side) -> XattrRules {
        let of_xattrs = |rule: &Rule| match rule {
            Rule::Pattern(rule) if rule.subject == Subject::Xattr => Some(Arc::clone(rule)),
            Rule::Pattern(_) | Rule::DirectoryFile(_) => None,
        };
        let rules = filter.rules.iter().filter_map(of_xattrs).collect();
        XattrRules::new(rules, side, filter.delete_excluded)
    }

    pub(super) fn new(rules: Vec<Arc<PatternRule>>, side: Side, delete_excluded: bool) -> XattrRules {
        if rules.is_empty() {
            return XattrRules::default();
        }
        let work = Mutex::new(Work::new());
        let rules = Some(Arc::new(Rules { rules, side, delete_excluded, work }));
        XattrRules { rules, acls: AclNames::Count }
    }

    /// The same of a peer that may not choose permissions.
    pub fn sparing_acls(self) -> XattrRules {
        XattrRules { acls: AclNames::Spared, ..self }
    }

    /// Whether ACLs count as the other names do.
    pub fn cover_acls(&self) -> bool {
        self.are_given() && self.acls == AclNames::Count
    }

    /// Whether there is one, for whichever side: then they alone say which names count.
    pub fn are_given(&self) -> bool {
        self.rules.is_some()
    }

    /// Whether a name counts; `None` once they took more work than they may.
    pub fn include(&self, name: &[u8]) -> Option<bool> {
        let Some(Rules { rules, side, delete_excluded, work }) = self.rules.as_deref() else {
            return Some(true);
        };
        let work = work.lock().unwrap_or_else(PoisonError::into_inner);
        let mut steps = work.begin();
        for rule in rules.iter().filter(|rule| rule.sides.include(*side, *delete_excluded)) {
            if steps.are_spent() {
                return None;
            }
            if rule.matches(name, NameKind::Other, b"", &mut steps.taken) {
                return Some(rule.action == Action::Include);
            }
        }
        (!steps.are_spent()).then_some(true)
    }
}
