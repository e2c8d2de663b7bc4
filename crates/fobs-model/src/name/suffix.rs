//! The end of a backup's name (`--suffix`).

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ours::is_ours;
use super::{BadName, Component, ComponentBuf, NAME_LEN_MAX};

/// What a backup's name has behind that of its file. It keeps a backup in its file's directory, and makes no
/// name of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupSuffix(Vec<u8>);

impl BackupSuffix {
    /// Checks a suffix: not empty, no `/` or NUL, shorter than a name, and not the end of a journal's name.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(suffix: Vec<u8>) -> Result<BackupSuffix, BadName> {
        match &suffix[..] {
            b"" => return Err(BadName::Empty),
            _ if suffix.contains(&b'/') => return Err(BadName::Slash),
            _ if suffix.contains(&0) => return Err(BadName::Nul),
            _ if suffix.len() >= NAME_LEN_MAX => return Err(BadName::TooLong),
            // The backup of a hidden file would be one.
            _ if is_ours(&[b".x", &suffix[..]].concat()) => return Err(BadName::Ours),
            _ => {}
        }
        Ok(BackupSuffix(suffix))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The name of the backup of `name`.
    ///
    /// # Errors
    /// `TooLong`, or `Ours` where both together are a name of ours.
    pub fn of(&self, name: Component<'_>) -> Result<ComponentBuf, BadName> {
        let backup = ComponentBuf::new([name.as_bytes(), &self.0].concat())?;
        if is_ours(backup.as_bytes()) { Err(BadName::Ours) } else { Ok(backup) }
    }
}

/// In a message: an array of numbers, as in 0.2.
impl Serialize for BackupSuffix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for BackupSuffix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<BackupSuffix, D::Error> {
        use serde::de::Error;
        let suffix = Vec::<u8>::deserialize(deserializer)?;
        BackupSuffix::new(suffix)
            .map_err(|bad| D::Error::custom(format!("a backup's suffix is refused: {bad}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_stays_beside_its_file() {
        for bad in [
            &b""[..],
            b"/",
            b"c/../../.ssh/authorized_keys",
            b"/../x",
            b"a\0",
            b".fobs-journal",
            b"y.fobs-journal",
            b".fobs-abc123",
            &[b's'; NAME_LEN_MAX],
        ] {
            assert!(BackupSuffix::new(bad.to_vec()).is_err(), "{}", String::from_utf8_lossy(bad));
        }
        let tilde = BackupSuffix::new(b"~".to_vec()).expect("the default");
        let name = Component::new(b"a").expect("a name");
        assert_eq!(tilde.of(name).expect("short enough").as_bytes(), b"a~");
        let long = [b'n'; NAME_LEN_MAX];
        assert_eq!(tilde.of(Component::new(&long).expect("a name")), Err(BadName::TooLong));
    }

    #[test]
    fn file_and_suffix_together_make_no_name_of_ours() {
        for (name, suffix) in [(&b".x.fobs"[..], &b"-journal"[..]), (b".x.fobs-", b"journal")] {
            let suffix = BackupSuffix::new(suffix.to_vec());
            let name = Component::new(name);
            let made = name.and_then(|name| suffix.and_then(|suffix| suffix.of(name)));
            assert!(made.is_err(), "{made:?}");
        }
    }

    #[test]
    fn a_suffix_from_a_message_is_checked() {
        let text = serde_json::to_string(&BackupSuffix::new(b".old".to_vec()).expect("a suffix"));
        assert_eq!(text.expect("it has a form"), "[46,111,108,100]");
        let escaping = serde_json::to_string(b"/../x").expect("bytes");
        let error = serde_json::from_str::<BackupSuffix>(&escaping).expect_err("it leaves the directory");
        assert!(error.to_string().contains("suffix"), "{error}");
    }
}
