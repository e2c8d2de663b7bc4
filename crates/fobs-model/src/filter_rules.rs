//! Filter rules as they travel.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// How the lines of a file end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Separator {
    /// With a new line, or the two characters of DOS.
    #[default]
    Line,
    /// With a zero byte (`-0`).
    Nul,
}

/// An ordered list of filter rules, each as `--filter` takes it; nothing has read them yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Travelling", into = "Travelling")]
pub struct FilterRules {
    /// The rules, in order; none names a file to be read at once.
    pub rules: Vec<Vec<u8>>,
    /// How lines end in files of rules.
    pub separator: Separator,
    /// Rules without a side are for the sender only.
    pub delete_excluded: bool,
}

impl FilterRules {
    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

/// Its form in a request.
#[derive(Serialize, Deserialize)]
struct Travelling {
    /// In base64: patterns are of any bytes.
    #[serde(default)]
    rules: Vec<String>,
    #[serde(default)]
    separator: Separator,
    #[serde(default)]
    delete_excluded: bool,
}

impl TryFrom<Travelling> for FilterRules {
    type Error = &'static str;

    fn try_from(it: Travelling) -> Result<FilterRules, &'static str> {
        let rules: Result<_, _> = it.rules.iter().map(|rule| STANDARD.decode(rule)).collect();
        let rules = rules.map_err(|_| "a filter rule is no base64")?;
        Ok(FilterRules { rules, separator: it.separator, delete_excluded: it.delete_excluded })
    }
}

impl From<FilterRules> for Travelling {
    fn from(filter: FilterRules) -> Travelling {
        let rules = filter.rules.iter().map(|rule| STANDARD.encode(rule)).collect();
        Travelling { rules, separator: filter.separator, delete_excluded: filter.delete_excluded }
    }
}
