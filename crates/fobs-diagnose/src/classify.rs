//! What a window is diagnosed with.

use fobs_proto::loss_cause::complexity::WordCounter;
use fobs_proto::loss_cause::mixture::{Mixture, Withheld};
use fobs_proto::loss_cause::{Features, Paper, Signature, Verdict};

use crate::model::{MixtureFile, PaperFile};

/// How to tell causes apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// The paper's: complexity or success proportion, and exponential models.
    Paper,
    /// Ours: run lengths and gaps, and a mixture of sub-causes.
    #[default]
    Signature,
}

/// A method with its model; classifying allocates little, so keep one.
#[derive(Debug)]
pub struct Classifier {
    words: WordCounter,
    model: Model,
}

#[derive(Debug)]
enum Model {
    Paper(Paper),
    Mixture(Mixture),
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Probability that the receiver lost all that was lost; 0.5 where nothing was.
    pub p_receiver: f64,
    /// What follows.
    pub verdict: Verdict,
    /// What was read from the runs; `None` where nothing was lost.
    pub features: Option<Features>,
    /// Why, where the method can say.
    pub evidence: Option<Evidence>,
}

/// What speaks for a finding of the method `signature`.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// Name of the likeliest sub-cause.
    pub sub_cause: String,
    /// Probability that both sides lost packets.
    pub p_mixed: f64,
    /// Why the receiver is not blamed although it looks like it.
    pub withheld: Option<Withheld>,
}

impl Classifier {
    /// With the shipped model.
    pub fn shipped(method: Method) -> Classifier {
        match method {
            Method::Paper => Classifier::paper(&PaperFile::shipped()),
            Method::Signature => Classifier::signature(&MixtureFile::shipped()),
        }
        .expect("the shipped models are tested")
    }

    /// The paper's method with these fits; the error says what is wrong with them.
    pub fn paper(file: &PaperFile) -> Result<Classifier, String> {
        Ok(Classifier { words: WordCounter::new(), model: Model::Paper(file.build()?) })
    }

    /// Ours with this model; the error says what is wrong with it.
    pub fn signature(file: &MixtureFile) -> Result<Classifier, String> {
        Ok(Classifier { words: WordCounter::new(), model: Model::Mixture(file.build()?) })
    }

    /// Diagnoses a window.
    pub fn classify(&mut self, signature: &Signature) -> Finding {
        let Some(features) = Features::of(signature) else {
            let verdict = Verdict::Inconclusive;
            return Finding { p_receiver: 0.5, verdict, features: None, evidence: None };
        };
        let with = |p_receiver, evidence| Finding {
            p_receiver,
            verdict: Verdict::from_probability(p_receiver),
            features: Some(features),
            evidence,
        };
        match &self.model {
            Model::Paper(paper) => with(paper.p_receiver(signature, &mut self.words), None),
            Model::Mixture(mixture) => {
                let found = mixture.diagnose(&features);
                let evidence = Evidence {
                    sub_cause: mixture.sub_causes()[found.likeliest].name.clone(),
                    p_mixed: found.p_mixed,
                    withheld: found.withheld,
                };
                with(found.p_receiver, Some(evidence))
            }
        }
    }

    /// C1 of a window, which only the paper's method uses.
    pub fn complexity(&mut self, signature: &Signature) -> f64 {
        self.words.complexity(signature)
    }
}
