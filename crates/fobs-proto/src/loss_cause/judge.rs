//! Who judges the losses of a live transfer: the method that the user chose, with its model.

use super::complexity::WordCounter;
use super::mixture::LOST_MIN;
use super::witness::Pattern;
use super::{Features, Mixture, Paper, Signature};
use std::fmt;
use std::str::FromStr;

/// How losses are attributed (`--loss-cause`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum JudgeMethod {
    /// Not at all: every loss is the network's.
    Off,
    /// By the pattern alone, as the paper does (001 section 3.3).
    Paper,
    /// By the pattern alone, our mixture.
    Signature,
    /// By the receiver's counters, audited by our mixture and the receiver's lag; where nothing counts, by those alone.
    #[default]
    On,
}

impl JudgeMethod {
    /// All of them.
    pub const ALL: [JudgeMethod; 4] =
        [JudgeMethod::Off, JudgeMethod::Paper, JudgeMethod::Signature, JudgeMethod::On];

    /// A line of help.
    pub fn summary(self) -> &'static str {
        match self {
            JudgeMethod::Off => "no attribution: every loss counts as the network's",
            JudgeMethod::Paper => "by the pattern of losses, as in the paper",
            JudgeMethod::Signature => "by the pattern of losses, with a mixture of known causes",
            JudgeMethod::On => "by the counters of the receiver's kernel, checked against the pattern",
        }
    }

    /// As `--loss-cause` spells it.
    pub fn name(self) -> &'static str {
        match self {
            JudgeMethod::Off => "off",
            JudgeMethod::Paper => "paper",
            JudgeMethod::Signature => "signature",
            JudgeMethod::On => "on",
        }
    }
}

impl fmt::Display for JudgeMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no method.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no way {0:?} to judge losses; use off, paper, signature or on")]
pub struct UnknownMethod(pub String);

impl FromStr for JudgeMethod {
    type Err = UnknownMethod;

    fn from_str(name: &str) -> Result<JudgeMethod, UnknownMethod> {
        let known = JudgeMethod::ALL.into_iter().find(|method| method.name() == name);
        known.ok_or_else(|| UnknownMethod(name.to_owned()))
    }
}

/// A method with what it needs.
#[derive(Debug)]
pub enum Judge {
    /// [`JudgeMethod::Off`].
    Off,
    /// [`JudgeMethod::Paper`].
    Paper(Paper, WordCounter),
    /// [`JudgeMethod::Signature`].
    Signature(Mixture),
    /// [`JudgeMethod::On`].
    On(Mixture),
}

impl Judge {
    /// Whether it does anything at all.
    pub fn is_off(&self) -> bool {
        matches!(self, Judge::Off)
    }

    /// The same method with this model, where it has one.
    pub fn with_mixture(self, mixture: Mixture) -> Judge {
        match self {
            Judge::Off | Judge::Paper(..) => self,
            Judge::Signature(_) => Judge::Signature(mixture),
            Judge::On(_) => Judge::On(mixture),
        }
    }

    /// Whether it uses a [`Mixture`].
    pub fn has_mixture(&self) -> bool {
        matches!(self, Judge::Signature(_) | Judge::On(_))
    }

    /// Whether it listens to the receiver's counters and lag.
    pub fn hears_receiver(&self) -> bool {
        matches!(self, Judge::On(_))
    }

    /// What the pattern says; `None` where it says too little.
    pub fn pattern(&mut self, signature: &Signature) -> Option<Pattern> {
        if signature.lost() < LOST_MIN {
            return None;
        }
        match self {
            Judge::Off => None,
            Judge::Paper(paper, words) => {
                Some(Pattern { p_receiver: paper.p_receiver(signature, words), p_mixed: 0.0 })
            }
            Judge::Signature(mixture) | Judge::On(mixture) => {
                let diagnosis = mixture.diagnose(&Features::of(signature)?);
                Some(Pattern { p_receiver: diagnosis.p_receiver, p_mixed: diagnosis.p_mixed })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_named_and_read() {
        for method in JudgeMethod::ALL {
            assert_eq!(method.to_string().parse(), Ok(method));
        }
        let error = "maybe".parse::<JudgeMethod>().expect_err("no such method");
        assert!(error.to_string().contains("signature or on"), "{error}");
    }
}
