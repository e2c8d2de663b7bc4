//! The classifier of a window: a method with its model.

use fobs_proto::loss_cause::complexity::WordCounter;
use fobs_proto::loss_cause::mixture::{Mixture, Withheld};
use fobs_proto::loss_cause::{Features, Paper, Signature, Verdict};

use fobs_diagnose::model::{MixtureFile, PaperFile};

/// How the cause of losses is determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// The paper's: complexity or success proportion, and exponential models.
    Paper,
    /// Ours: run lengths and gaps, and a mixture of sub-causes.
    #[default]
    Signature,
}

/// A method with its model. It keeps its buffers: use one for many windows.
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

/// The diagnosis of a window.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Probability that the receiver lost all of the lost packets; 0.5 for a window without losses.
    pub p_receiver: f64,
    /// The verdict that follows from it.
    pub verdict: Verdict,
    /// Features of the runs; `None` for a window without losses.
    pub features: Option<Features>,
    /// The reasons, for the method `signature`.
    pub evidence: Option<Evidence>,
}

/// The reasons for a finding of the method `signature`.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// Name of the likeliest sub-cause.
    pub sub_cause: String,
    /// Probability that both sides lost packets.
    pub p_mixed: f64,
    /// Why the verdict is not the receiver although the probabilities say so.
    pub withheld: Option<Withheld>,
}

impl Classifier {
    /// The method with its shipped model.
    pub fn shipped(method: Method) -> Classifier {
        match method {
            Method::Paper => Classifier::paper(&PaperFile::shipped()),
            Method::Signature => Classifier::signature(&MixtureFile::shipped()),
        }
        .expect("the shipped models are tested")
    }

    /// The paper's method with these fits; the error says why they are invalid.
    pub fn paper(file: &PaperFile) -> Result<Classifier, String> {
        Ok(Classifier { words: WordCounter::new(), model: Model::Paper(file.build()?) })
    }

    /// Our method with this model; the error says why it is invalid.
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

    /// The complexity C1 of a window, which only the paper's method uses.
    pub fn complexity(&mut self, signature: &Signature) -> f64 {
        self.words.complexity(signature)
    }
}
