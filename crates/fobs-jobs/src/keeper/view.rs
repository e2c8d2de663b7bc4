//! A job as it is shown.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Figures;
use crate::job::{JobId, Spec};
use crate::schedule::Reason;
use crate::store::{Attempt, Standing};

/// A job as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobView {
    /// Its number.
    pub id: JobId,
    /// What was submitted.
    pub spec: Spec,
    /// Whose it is, where the keeper is the host's.
    #[serde(default)]
    pub user: Option<u32>,
    /// When, ms since 1970.
    pub submitted_ms: u64,
    /// How it stands.
    pub standing: Standing,
    /// Why it does not run.
    #[serde(default)]
    pub reason: Option<Reason>,
    /// The reason in a sentence.
    #[serde(default)]
    pub why: Option<String>,
    /// How its attempt stands, while one runs.
    #[serde(default)]
    pub figures: Option<Figures>,
    /// Its attempts, where one job is shown.
    #[serde(default)]
    pub attempts: Vec<Attempt>,
}
