//! Models as files: versioned JSON, small enough for a person to read.

use std::path::Path;

use fobs_proto::loss_cause::complexity::WordCounter;
use fobs_proto::loss_cause::features::{COVARIATES, FEATURE_NAMES, FEATURES};
use fobs_proto::loss_cause::mixture::{Group, Mixture, Residual, SubCause};
use fobs_proto::loss_cause::paper::{Curve, Fit, Normal, Paper};
use fobs_proto::loss_cause::{Judge, JudgeMethod};
use serde::{Deserialize, Serialize};

/// Version of both formats; other versions are refused.
pub const VERSION: u32 = 1;
/// Largest model file that is read, bytes; the shipped one has 23 kB.
const FILE_MAX: u64 = 4 << 20;

/// The shipped model of the method `signature` (docs/classifier.md describes its training).
const SIGNATURE: &str = include_str!("../models/signature.json");
/// The shipped fits of the method `paper`.
const PAPER: &str = include_str!("../models/paper.json");

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelFileError {
    /// The file cannot be read or written.
    #[error("cannot use the model file {path}: {source}; check the path")]
    Io {
        /// Which file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is not a valid model.
    #[error("{path} is no model of version {VERSION}: {reason}; make one with `fobs-lab diagnose train`")]
    Content {
        /// Which file.
        path: String,
        /// What is wrong.
        reason: String,
    },
}

/// The judge of a live transfer's losses by this method, with the shipped model.
pub fn judge(method: JudgeMethod) -> Judge {
    let mixture = || MixtureFile::shipped().build().expect("the shipped model is tested");
    match method {
        JudgeMethod::Off => Judge::Off,
        JudgeMethod::Paper => Judge::Paper(
            PaperFile::shipped().build().expect("the shipped fits are tested"),
            WordCounter::new(),
        ),
        JudgeMethod::Signature => Judge::Signature(mixture()),
        JudgeMethod::On => Judge::On(mixture()),
    }
}

/// A model of the method `signature`, as in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MixtureFile {
    /// [`VERSION`].
    pub version: u32,
    /// `signature`.
    pub method: String,
    /// A note on how it was made.
    pub made: String,
    /// Names of the features; a model with other features is refused.
    pub features: Vec<String>,
    /// Prior weights of the groups receiver, network and mixed.
    pub priors: [f64; 3],
    /// Packets, and share of all losses, that may lie in short runs.
    pub residual: (u32, f64),
    /// Set in a model that was trained for a pair of hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<Learned>,
    /// The known ways to lose packets.
    pub sub_causes: Vec<SubCauseFile>,
}

/// Origin of a model that was trained for a pair of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learned {
    /// Windows that it was trained on.
    pub windows: u32,
    /// [`MixtureFile::shipped_mark`] of the model that it extends; void with another shipped model.
    pub shipped: u32,
}

/// A sub-cause in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubCauseFile {
    /// Its name in output.
    pub name: String,
    /// `receiver`, `network` or `mixed`.
    pub group: String,
    /// Share of the group.
    pub share: f64,
    /// Windows it was fitted to.
    pub windows: usize,
    /// For each covariate (constant, log2 lost, log2 burst): what a unit of it adds to each feature.
    pub mean: [[f64; FEATURES]; COVARIATES],
    /// Scale matrix.
    pub scale: [[f64; FEATURES]; FEATURES],
}

impl MixtureFile {
    /// Validates the numbers and makes the model; the error says what is wrong.
    pub fn build(&self) -> Result<Mixture, String> {
        if self.version != VERSION || self.method != "signature" {
            return Err(format!("it has version {} and method `{}`", self.version, self.method));
        }
        if self.features != FEATURE_NAMES {
            return Err(format!("its features are {:?}, not {FEATURE_NAMES:?}", self.features));
        }
        let sub_causes = self.sub_causes.iter().map(SubCauseFile::build).collect::<Result<_, _>>()?;
        let residual = Residual { packets: self.residual.0, share: self.residual.1 };
        Mixture::new(self.priors, residual, sub_causes).map_err(|error| error.to_string())
    }

    /// The shipped file.
    pub fn shipped() -> MixtureFile {
        serde_json::from_str(SIGNATURE).expect("the shipped model is tested")
    }

    /// Identifies the shipped model: the CRC-32 of its text.
    pub fn shipped_mark() -> u32 {
        let mut crc = flate2::Crc::new();
        crc.update(SIGNATURE.as_bytes());
        crc.sum()
    }

    /// Reads and validates a file.
    pub fn load(path: &Path) -> Result<MixtureFile, ModelFileError> {
        let file: MixtureFile = load(path)?;
        file.build()
            .map_err(|reason| ModelFileError::Content { path: path.display().to_string(), reason })?;
        Ok(file)
    }

    /// Writes the file, replacing an existing one.
    pub fn save(&self, path: &Path) -> Result<(), ModelFileError> {
        let mut text = serde_json::to_string(self).unwrap_or_default().replace("{\"name\"", "\n{\"name\"");
        text.push('\n');
        std::fs::write(path, text)
            .map_err(|source| ModelFileError::Io { path: path.display().to_string(), source })
    }
}

impl SubCauseFile {
    fn build(&self) -> Result<SubCause, String> {
        let group = Group::ALL
            .iter()
            .copied()
            .find(|group| group.name() == self.group)
            .ok_or_else(|| format!("`{}` is in no group: receiver, network or mixed", self.name))?;
        let (name, share) = (self.name.clone(), self.share);
        Ok(SubCause { name, group, share, mean: self.mean, scale: self.scale })
    }
}

/// Fits of the method `paper`, as in a file (docs/classifier.md describes how it is made).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PaperFile {
    /// [`VERSION`].
    pub version: u32,
    /// `paper`.
    pub method: String,
    /// A note on how it was made.
    pub made: String,
    /// One for each length of window.
    pub fits: Vec<FitFile>,
}

/// Fits to windows of one length. A curve is pairs of factor and rate, with a standard deviation; a success
/// proportion is a mean and a standard deviation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FitFile {
    /// Packets.
    pub packets: u32,
    /// C1 of network losses.
    pub network: (Vec<(f64, f64)>, f64),
    /// C1 of a receiver's losses.
    pub receiver: (Vec<(f64, f64)>, f64),
    /// Success proportion of network losses.
    pub network_success: (f64, f64),
    /// Success proportion of a receiver's losses.
    pub receiver_success: (f64, f64),
}

impl PaperFile {
    /// Validates the numbers and makes the model; the error says what is wrong.
    pub fn build(&self) -> Result<Paper, String> {
        if self.version != VERSION || self.method != "paper" {
            return Err(format!("it has version {} and method `{}`", self.version, self.method));
        }
        let curve = |(terms, deviation): &(Vec<(f64, f64)>, f64)| Curve {
            terms: terms.clone(),
            deviation: *deviation,
        };
        let normal = |(mean, deviation): (f64, f64)| Normal { mean, deviation };
        let fits = self.fits.iter().map(|fit| Fit {
            packets: fit.packets,
            network: curve(&fit.network),
            receiver: curve(&fit.receiver),
            network_success: normal(fit.network_success),
            receiver_success: normal(fit.receiver_success),
        });
        Paper::new(fits.collect()).ok_or_else(|| "a fit has an unusable number".to_owned())
    }

    /// The shipped file.
    pub fn shipped() -> PaperFile {
        serde_json::from_str(PAPER).expect("the shipped model is tested")
    }

    /// Reads and validates a file.
    pub fn load(path: &Path) -> Result<PaperFile, ModelFileError> {
        let file: PaperFile = load(path)?;
        file.build()
            .map_err(|reason| ModelFileError::Content { path: path.display().to_string(), reason })?;
        Ok(file)
    }
}

fn load<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, ModelFileError> {
    use std::io::Read;
    let name = || path.display().to_string();
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(FILE_MAX).read_to_string(&mut text))
        .map_err(|source| ModelFileError::Io { path: name(), source })?;
    serde_json::from_str(&text)
        .map_err(|error| ModelFileError::Content { path: name(), reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_models_are_valid() {
        let mixture = MixtureFile::shipped();
        let built = mixture.build().expect("usable");
        assert_eq!(built.sub_causes().len(), mixture.sub_causes.len());
        let paper = PaperFile::shipped();
        paper.build().expect("usable");
        assert_eq!(paper.fits.iter().map(|fit| fit.packets).collect::<Vec<_>>(), [70_000, 10_000]);
    }

    #[test]
    fn a_saved_model_loads_unchanged() {
        let path = tempfile::tempdir().expect("a directory").keep().join("model.json");
        let model = MixtureFile::shipped();
        model.save(&path).expect("written");
        assert_eq!(MixtureFile::load(&path).expect("read"), model);
        let mut other = model.clone();
        other.version = 99;
        other.save(&path).expect("written");
        let error = MixtureFile::load(&path).expect_err("another version").to_string();
        assert!(error.contains("version 99") && error.contains("fobs-lab diagnose train"), "{error}");
        let mut other = model;
        other.features.pop();
        other.save(&path).expect("written");
        MixtureFile::load(&path).expect_err("other features");
        std::fs::write(&path, "{").expect("written");
        MixtureFile::load(&path).expect_err("no JSON");
        std::fs::remove_dir_all(path.parent().expect("a parent")).expect("removed");
    }
}
