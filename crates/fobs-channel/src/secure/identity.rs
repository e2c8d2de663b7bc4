//! An identity: an Ed25519 key pair in a file, and its public key in one line of text.

use std::fmt;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::io::Errno;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;

use zeroize::{Zeroize, Zeroizing};

use super::{config_directory, make_private_parent, read_bounded};
use fobs_model::error::{Error, ErrorKind, Result};
pub use fobs_model::public_key::{KEY_TYPE, PublicKey};
use fobs_sys::named;

/// Largest identity file that is read, bytes: an Ed25519 key in PEM is under 200, the rest is room for
/// comments.
const IDENTITY_FILE_BYTES_MAX: u64 = 64 << 10;

/// The default path of a client's identity.
pub fn default_identity_path() -> Result<PathBuf> {
    Ok(config_directory()?.join("identity"))
}

/// The default path of a server's identity.
pub fn default_server_identity_path() -> Result<PathBuf> {
    Ok(config_directory()?.join("server_identity"))
}

/// Where an identity came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provenance {
    /// It was in the file.
    Loaded,
    /// The file did not exist; it was made and saved.
    Made,
}

/// Loads the identity at `path`; makes and saves one if there is no such file. If several processes do this
/// at once, one makes the key and all use it.
pub fn load_or_generate(path: &Path) -> Result<(Identity, Provenance)> {
    match named::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let identity = Identity::generate();
            match identity.write_new(path) {
                Ok(()) => Ok((identity, Provenance::Made)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    Ok((Identity::load(path)?, Provenance::Loaded))
                }
                Err(error) => Err(cannot_save(path, &error)),
            }
        }
        _ => Ok((Identity::load(path)?, Provenance::Loaded)),
    }
}

/// An Ed25519 key pair.
pub struct Identity {
    /// PKCS#8, DER. Wiped on drop.
    pkcs8: Zeroizing<Vec<u8>>,
    public: PublicKey,
}

impl Identity {
    /// A new key pair.
    ///
    /// # Panics
    /// If the operating system provides no randomness.
    pub fn generate() -> Identity {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
            .expect("the operating system gives random bytes");
        Identity::from_pkcs8(document.as_ref()).expect("a key just made is well formed")
    }

    /// Reads a key pair from a PEM file (`PRIVATE KEY`, PKCS#8), as [`save`](Self::save) and
    /// `openssl genpkey -algorithm ed25519` write it. Refuses a file that others can read or write.
    pub fn load(path: &Path) -> Result<Identity> {
        let cannot = |why: &dyn fmt::Display, remedy: &str| {
            let message = format!("cannot use the identity {}: {why}{remedy}", path.display());
            Error::new(ErrorKind::Denied, message)
        };
        let file = named::open(path).map_err(|error| match Errno::from_io_error(&error) {
            // The key is not to blame.
            Some(Errno::MFILE | Errno::NFILE) => {
                let message = format!(
                    "cannot open the identity '{}': Too many open files; raise the limit of open files (ulimit -n)",
                    path.display()
                );
                Error::new(ErrorKind::Socket, message)
            }
            Some(Errno::NOENT) => cannot(&error, "; check its path, or make one with fobs keygen"),
            _ => cannot(&error, ""),
        })?;
        let metadata = file.metadata().map_err(|error| cannot(&error, ""))?;
        if !metadata.is_file() {
            return Err(cannot(&"it is not a file", ""));
        }
        if metadata.mode() & 0o077 != 0 {
            let why = format!("its mode is {:04o}, so others can get at the key", metadata.mode() & 0o7777);
            return Err(cannot(&why, &format!("; run: chmod 600 {}", shell_quoted(path))));
        }
        let pem = read_bounded(&file, IDENTITY_FILE_BYTES_MAX).map_err(|error| cannot(&error, ""))?;
        Identity::from_pem(&Zeroizing::new(pem)).ok_or_else(|| {
            cannot(
                &"it holds no Ed25519 key in PEM (PRIVATE KEY, PKCS#8)",
                "; name another file or make a new identity",
            )
        })
    }

    /// Writes the key pair to a new file of mode 0600, in directories of mode 0700 where they are missing.
    /// Never overwrites, because a lost key cannot be recovered.
    pub fn save(&self, path: &Path) -> Result<()> {
        self.write_new(path).map_err(|error| cannot_save(path, &error))
    }

    /// The public key.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// PKCS#8, DER: what TLS signs with.
    pub(crate) fn pkcs8_der(&self) -> &[u8] {
        &self.pkcs8
    }

    /// The first private key of a PEM file, if it is an Ed25519 key.
    pub fn from_pem(pem: &[u8]) -> Option<Identity> {
        let mut der = PrivatePkcs8KeyDer::from_pem_slice(pem).ok()?;
        let identity = Identity::from_pkcs8(der.secret_pkcs8_der());
        der.zeroize();
        identity
    }

    fn from_pkcs8(pkcs8: &[u8]) -> Option<Identity> {
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8).ok()?;
        let public = PublicKey::from_bytes(pair.public_key().as_ref().try_into().ok()?);
        Some(Identity { pkcs8: Zeroizing::new(pkcs8.to_vec()), public })
    }

    /// The file is written beside and then linked, so that no other process ever reads a partial key.
    fn write_new(&self, path: &Path) -> io::Result<()> {
        make_private_parent(path)?;
        let beside = beside(path);
        let written = (|| {
            let mut file = named::create_new(&beside, 0o600)?;
            let pem = Zeroizing::new(pem_private_key(&self.pkcs8));
            file.write_all(&pem).and_then(|()| file.sync_all())?;
            std::fs::hard_link(&beside, path)
        })();
        // Only the link matters; a file that is left over has mode 0600.
        let _ = std::fs::remove_file(&beside);
        written
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.public)
    }
}

fn cannot_save(path: &Path, error: &io::Error) -> Error {
    let message = if error.kind() == io::ErrorKind::AlreadyExists {
        let path = path.display();
        format!(
            "{path} exists and is not overwritten: fobs keygen --show {path} prints its line; for another key name \
             another file (--out FILE)"
        )
    } else {
        format!("cannot save the identity {}: {error}; name a file that can be written", path.display())
    };
    Error::new(ErrorKind::Denied, message)
}

/// A name in the same directory that no other process uses.
fn beside(path: &Path) -> PathBuf {
    let mut random = [0; 8];
    getrandom::fill(&mut random).expect("the operating system gives random bytes");
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{:016x}.new", u64::from_ne_bytes(random)));
    PathBuf::from(name)
}

/// PEM of RFC 7468: base64 in lines of 64.
fn pem_private_key(pkcs8: &[u8]) -> Vec<u8> {
    let encoded = Zeroizing::new(STANDARD.encode(pkcs8).into_bytes());
    // Allocated once, so that no smaller buffer with a part of the secret is freed.
    let mut pem = Vec::with_capacity(2 * encoded.len() + 64);
    pem.extend(b"-----BEGIN PRIVATE KEY-----\n");
    for line in encoded.chunks(64) {
        pem.extend(line);
        pem.push(b'\n');
    }
    pem.extend(b"-----END PRIVATE KEY-----\n");
    pem
}

/// A path quoted for a shell command in a message.
pub(super) fn shell_quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%".contains(c);
    if text.chars().all(plain) && !text.is_empty() {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn an_identity_survives_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/deep/identity");
        let (made, provenance) = load_or_generate(&path).unwrap();
        assert_eq!(provenance, Provenance::Made);
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        let (loaded, provenance) = load_or_generate(&path).unwrap();
        assert_eq!(provenance, Provenance::Loaded);
        assert_eq!(made.public(), loaded.public());
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing left beside");
    }

    #[test]
    fn identities_differ() {
        assert_ne!(Identity::generate().public(), Identity::generate().public());
    }

    #[test]
    fn a_key_is_never_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("identity");
        let first = Identity::generate();
        first.save(&path).unwrap();
        let error = Identity::generate().save(&path).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied);
        assert!(error.message.contains("not overwritten"), "{error}");
        assert_eq!(Identity::load(&path).unwrap().public(), first.public());
    }

    #[test]
    fn many_first_users_agree_on_one_key() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("identity");
        let keys: Vec<PublicKey> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| load_or_generate(&path).unwrap().0.public())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    }

    #[test]
    fn a_key_that_others_can_read_is_refused_with_the_remedy() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("my identity");
        Identity::generate().save(&path).unwrap();
        for shared in [0o640, 0o604, 0o620, 0o644] {
            set_mode(&path, shared);
            let error = Identity::load(&path).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Denied);
            assert!(error.message.contains(&format!("{shared:04o}")), "{error}");
            assert!(error.message.contains("chmod 600 '"), "{error}");
        }
        set_mode(&path, 0o400);
        assert!(Identity::load(&path).is_ok());
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("identity");
        let whole = pem_private_key(Identity::generate().pkcs8_der());
        let rsa_like = pem_private_key(&[0x30, 0x03, 0x02, 0x01, 0x00]);
        let long = "#".repeat(IDENTITY_FILE_BYTES_MAX as usize + 1);
        for content in [b"".as_slice(), b"hello", &whole[..whole.len() / 2], &rsa_like, long.as_bytes()] {
            std::fs::write(&path, content).unwrap();
            set_mode(&path, 0o600);
            let error = Identity::load(&path).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Denied);
            assert!(error.message.contains("identity"), "{error}");
        }
        assert!(Identity::load(&directory.path().join("absent")).is_err());
        assert!(Identity::load(directory.path()).is_err());
    }

    /// PKCS#8 version 1, without the public half: the form that OpenSSL writes. Key and public key are RFC
    /// 8032's first test vector.
    #[test]
    fn a_key_of_another_program_loads() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("identity");
        let seed = [
            0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4,
            0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
        ];
        let prefix =
            [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
        std::fs::write(&path, pem_private_key(&[prefix.as_slice(), &seed].concat())).unwrap();
        set_mode(&path, 0o600);
        let public = Identity::load(&path).unwrap().public();
        assert_eq!(public.as_bytes()[..4], [0xd7, 0x5a, 0x98, 0x01]);
        assert_eq!(public.as_bytes()[28..], [0xf7, 0x07, 0x51, 0x1a]);
    }

    #[test]
    fn public_keys_round_trip() {
        let key = Identity::generate().public();
        assert_eq!(PublicKey::parse(&key.to_string()), Ok(key));
        assert_eq!(PublicKey::parse(&format!("  {key}  ann at home \n")), Ok(key));
        assert_eq!(PublicKey::from_spki_der(&key.to_spki_der()), Some(key));
    }

    #[test]
    fn bad_public_keys_are_refused() {
        let good = Identity::generate().public().to_string();
        let short = format!("{KEY_TYPE} {}", STANDARD.encode([1; 31]));
        let long = format!("{KEY_TYPE} {}", STANDARD.encode([1; 33]));
        for text in ["", KEY_TYPE, "ssh-ed25519 AAAA", "fobs-ed25519 !!!!", &short, &long, &good[1..]] {
            assert!(PublicKey::parse(text).is_err(), "{text}");
        }
        let spki = Identity::generate().public().to_spki_der();
        assert_eq!(PublicKey::from_spki_der(&spki[..43]), None);
        assert_eq!(PublicKey::from_spki_der(&[spki.as_slice(), &[0]].concat()), None);
        assert_eq!(PublicKey::from_spki_der(&spki[1..]), None);
    }

    #[test]
    fn the_fingerprint_is_sha256_of_the_key() {
        // SHA-256 of 32 zero bytes, from `head -c32 /dev/zero | sha256sum | xxd -r -p | base64`.
        assert_eq!(
            PublicKey::from_bytes([0; 32]).fingerprint(),
            "SHA256:Zmh6rfhivXdsj8GLjp+OIAiXFIVu4jOzkCpZHQ1fKSU".to_owned()
        );
    }
}
