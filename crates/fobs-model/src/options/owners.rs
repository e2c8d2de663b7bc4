//! `--usermap`, `--groupmap`, `--chown`: the accounts that entries get in place of their own.

use serde::{Deserialize, Serialize};

/// Most rules that a request may have.
const RULES_MAX: usize = 10_000;

/// Rules for accounts, in order; the first that fits counts. Empty changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<Rule>", into = "Vec<Rule>")]
pub struct AccountMap(Vec<Rule>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Rule {
    from: From,
    /// A name, or a number.
    to: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum From {
    Any,
    /// An account without a name.
    Nameless,
    Name(String),
    /// Numbers, the first and the last of them.
    Numbers(u32, u32),
}

impl TryFrom<Vec<Rule>> for AccountMap {
    type Error = &'static str;

    fn try_from(rules: Vec<Rule>) -> Result<AccountMap, &'static str> {
        if rules.len() > RULES_MAX { Err("too many rules for accounts") } else { Ok(AccountMap(rules)) }
    }
}

impl std::convert::From<AccountMap> for Vec<Rule> {
    fn from(map: AccountMap) -> Vec<Rule> {
        map.0
    }
}

impl AccountMap {
    /// Everything becomes this one account.
    pub fn all_to(account: &str) -> AccountMap {
        AccountMap(vec![Rule { from: From::Any, to: account.to_owned() }])
    }

    /// Reads rsync's notation: `0-99:nobody,wayne:admin,*:normal,:guests`.
    ///
    /// # Errors
    /// A sentence that names the rule.
    pub fn parse(text: &str) -> Result<AccountMap, String> {
        let rules: Result<Vec<Rule>, String> = text.split(',').map(rule).collect();
        Ok(AccountMap::try_from(rules?)?)
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether something becomes an account that only a name says.
    pub fn has_names(&self) -> bool {
        self.0.iter().any(|rule| rule.to.parse::<u32>().is_err())
    }

    /// What an account becomes; none if it stays.
    pub fn of(&self, id: u32, name: Option<&str>) -> Option<&str> {
        let fits = |rule: &&Rule| match &rule.from {
            From::Any => true,
            From::Nameless => name.is_none(),
            From::Name(wanted) => name == Some(wanted),
            From::Numbers(first, last) => (*first..=*last).contains(&id),
        };
        self.0.iter().find(fits).map(|rule| rule.to.as_str())
    }
}

fn rule(text: &str) -> Result<Rule, String> {
    let wrong = || {
        format!("{text:?} is no rule for accounts: write FROM:TO, as in 1000:ann, *:nobody or 0-99:daemon")
    };
    let (from, to) = text.split_once(':').filter(|(_, to)| !to.is_empty()).ok_or_else(wrong)?;
    let numbers = match from.split_once('-') {
        Some((first, last)) => first.parse().ok().zip(last.parse().ok()),
        None => from.parse().ok().map(|id| (id, id)),
    };
    let from = match (from, numbers) {
        ("*", _) => From::Any,
        ("", _) => From::Nameless,
        (_, Some((first, last))) if first <= last => From::Numbers(first, last),
        (name, None) if !name.contains(['*', '?', '[']) => From::Name(name.to_owned()),
        _ => return Err(wrong()),
    };
    Ok(Rule { from, to: to.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_counts() {
        let map = AccountMap::parse("0-99:nobody,ann:admin,1001:5,:guests,*:normal").expect("rules");
        for (id, name, expected) in [
            (0, Some("root"), "nobody"),
            (99, None, "nobody"),
            (1000, Some("ann"), "admin"),
            (1001, Some("bob"), "5"),
            (1002, None, "guests"),
            (1002, Some("eve"), "normal"),
        ] {
            assert_eq!(map.of(id, name), Some(expected), "{id} {name:?}");
        }
        assert_eq!(AccountMap::default().of(1, None), None);
        assert_eq!(AccountMap::parse("ann:x").expect("a rule").of(1, Some("bob")), None);
        for bad in ["", "ann", "ann:", "9-1:x", "w*:x", ",a:b"] {
            AccountMap::parse(bad).expect_err(bad);
        }
    }

    #[test]
    fn rules_travel_as_they_are() {
        let map = AccountMap::parse("0-99:nobody,:guests,ann:admin,*:5").expect("rules");
        let text = serde_json::to_string(&map).expect("JSON");
        assert_eq!(serde_json::from_str::<AccountMap>(&text).expect("the same"), map);
    }
}
