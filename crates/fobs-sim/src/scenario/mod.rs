//! Scenarios: worlds as TOML files. docs/simulator.md lists every key.
//!
//! `file` has the keys of a file, `bounds` the values of a key, `build` makes a world's configuration of it,
//! `lanes` several flows of one.
//! Any file gives a configuration within bounds or one sentence that names key and reason.

mod bounds;
mod build;
mod file;
mod lanes;

use crate::world::{Config, World};

/// Longest scenario file, bytes: a hundred times the largest useful one.
const FILE_LEN_MAX: usize = 1 << 20;

/// A scenario that can be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The world it describes; its hosts and routes exist.
    pub config: Config,
}

/// What is wrong with a scenario, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct ScenarioError {
    /// The key, as `link[1].rate_mbit`; `line 3` where the file is no TOML.
    pub key: String,
    /// What is wrong with it, and what would be right.
    pub reason: String,
}

impl ScenarioError {
    fn new(key: impl Into<String>, reason: impl Into<String>) -> ScenarioError {
        ScenarioError { key: key.into(), reason: reason.into() }
    }
}

impl Scenario {
    /// Reads a scenario. `name` is used where the file gives none.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn parse(name: &str, text: &str) -> Result<Scenario, ScenarioError> {
        if text.len() > FILE_LEN_MAX {
            let reason = format!("{} bytes are too many; a scenario has at most {FILE_LEN_MAX}", text.len());
            return Err(ScenarioError::new("file", reason));
        }
        let table = toml::Deserializer::parse(text).map_err(|error| {
            let before = error.span().map_or("", |span| text.get(..span.start).unwrap_or(text));
            let line = before.matches('\n').count() + 1;
            ScenarioError::new(format!("line {line}"), error.message())
        })?;
        let file: file::File = serde_path_to_error::deserialize(table).map_err(|error| {
            let path = error.path().to_string();
            let key = if path == "." { "file".to_owned() } else { path };
            ScenarioError::new(key, error.inner().message())
        })?;
        let config = build::build(name, &file)?;
        // Hosts and routes are looked at where they are used: by making the world once.
        World::new(config.clone()).map_err(|error| ScenarioError::new("flow", error.to_string()))?;
        Ok(Scenario { config })
    }
}

#[cfg(test)]
mod tests;
