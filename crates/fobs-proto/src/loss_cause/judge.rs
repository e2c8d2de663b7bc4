//! The attribution method of a live transfer, as chosen by the user, with its model.

use super::complexity::WordCounter;
use super::mixture::LOST_MIN;
use super::witness::Pattern;
use super::{Features, Mixture, Paper, Signature};
use std::fmt;
use std::str::FromStr;

/// How losses are attributed (`--loss-cause`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum JudgeMethod {
    /// No attribution: every loss counts as a network loss.
    Off,
    /// By the signature alone, with the paper's classifier (001 section 3.3).
    Paper,
    /// By the signature alone, with our mixture model.
    Signature,
    /// By the receiver's drop counters, checked against the mixture model and the receiver's lag; without
    /// counters, by these two alone.
    #[default]
    On,
}

impl JudgeMethod {
    /// All methods.
    pub const ALL: &[JudgeMethod] =
        &[JudgeMethod::Off, JudgeMethod::Paper, JudgeMethod::Signature, JudgeMethod::On];

    /// One line of help.
    pub fn summary(self) -> &'static str {
        match self {
            JudgeMethod::Off => "no attribution: every loss counts as the network's",
            JudgeMethod::Paper => "by the pattern of losses, as in the paper",
            JudgeMethod::Signature => "by the pattern of losses, with a mixture of known causes",
            JudgeMethod::On => "by the counters of the receiver's kernel, checked against the pattern",
        }
    }

    /// Name as in `--loss-cause`.
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

/// The error for an unknown method name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no way {0:?} to judge losses; use off, paper, signature or on")]
pub struct UnknownMethod(pub String);

impl FromStr for JudgeMethod {
    type Err = UnknownMethod;

    fn from_str(name: &str) -> Result<JudgeMethod, UnknownMethod> {
        let known = JudgeMethod::ALL.iter().copied().find(|method| method.name() == name);
        known.ok_or_else(|| UnknownMethod(name.to_owned()))
    }
}

/// A method with its model.
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
    /// Whether losses are not attributed at all.
    pub fn is_off(&self) -> bool {
        matches!(self, Judge::Off)
    }

    /// The same method with `mixture` as its model, if it uses one.
    pub fn with_mixture(self, mixture: Mixture) -> Judge {
        match self {
            Judge::Off | Judge::Paper(..) => self,
            Judge::Signature(_) => Judge::Signature(mixture),
            Judge::On(_) => Judge::On(mixture),
        }
    }

    /// Whether the method uses a [`Mixture`].
    pub fn has_mixture(&self) -> bool {
        matches!(self, Judge::Signature(_) | Judge::On(_))
    }

    /// Whether the method uses the receiver's counters and lag.
    pub fn hears_receiver(&self) -> bool {
        matches!(self, Judge::On(_))
    }

    /// Probabilities from the signature; `None` below [`LOST_MIN`] losses or with [`JudgeMethod::Off`].
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
        for &method in JudgeMethod::ALL {
            assert_eq!(method.to_string().parse(), Ok(method));
        }
        let error = "maybe".parse::<JudgeMethod>().expect_err("no such method");
        assert!(error.to_string().contains("signature or on"), "{error}");
    }
}
