//! The certificate of the API over TLS: an operator's, or one that is made once and known by its fingerprint.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::dial::Fingerprint;

/// Where our own is, below the state's directory.
const OWN_FOLDER: &str = "tls";
/// Largest file of a certificate or a key, bytes: chains have some kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// PEM files of a certificate with its chain, and of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The server's certificate, then those that lead to an authority.
    pub certificate: PathBuf,
    /// Its key: PKCS #8, PKCS #1 or SEC 1, without a passphrase.
    pub key: PathBuf,
}

impl CertificateFiles {
    /// Our own below a directory, made where they are not there yet.
    ///
    /// # Errors
    /// A sentence where they cannot be made.
    pub(super) fn own(directory: &Path) -> Result<CertificateFiles, String> {
        let folder = directory.join(OWN_FOLDER);
        let files =
            CertificateFiles { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") };
        if !files.certificate.exists() || !files.key.exists() {
            let made = make(&folder, &files);
            made.map_err(|why| format!("cannot make a certificate in {}: {why}", folder.display()))?;
        }
        Ok(files)
    }

    /// What a server needs of them, and the fingerprint of the first one.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub(super) fn load(&self) -> Result<(Arc<ServerConfig>, Fingerprint), String> {
        let bytes = read(&self.certificate)?;
        let named = |path: &Path, why: String| format!("{}: {why}", path.display());
        let chain = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| named(&self.certificate, error.to_string()))?;
        let first =
            chain.first().ok_or_else(|| named(&self.certificate, "it has no certificate".to_owned()))?;
        let fingerprint = Fingerprint::of(first);
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?);
        let key =
            key.map_err(|error| named(&self.key, format!("it has no key without a passphrase: {error}")))?;
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]);
        let builder = builder.map_err(|error| error.to_string())?.with_no_client_auth();
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| named(&self.certificate, format!("it cannot be used with its key: {error}")))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok((Arc::new(config), fingerprint))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let named = |error: io::Error| format!("{}: {error}", path.display());
    if fs::metadata(path).map_err(named)?.len() > FILE_BYTES_MAX {
        return Err(format!("{}: it is larger than a certificate or a key", path.display()));
    }
    fs::read(path).map_err(named)
}

/// Without an end: it is known by its fingerprint, and one that changes by itself would be another one.
fn make(folder: &Path, files: &CertificateFiles) -> Result<(), String> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    // A host without a name that DNS could have is reached by another one, or by address.
    if !host.is_empty() && rcgen::CertificateParams::new(vec![host.clone()]).is_ok() {
        names.push(host);
    }
    let made = rcgen::generate_simple_self_signed(names).map_err(|error| error.to_string())?;
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    // The key first: without the certificate beside it both are made anew.
    write(&files.key, &made.signing_key.serialize_pem()).map_err(|error| error.to_string())?;
    write(&files.certificate, &made.cert.pem()).map_err(|error| error.to_string())
}

/// Whole or not at all: beside its name first.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn our_own_is_made_once_and_its_key_is_its_users() {
        let home = tempfile::tempdir().expect("a directory");
        let files = CertificateFiles::own(home.path()).expect("made");
        let (_, first) = files.load().expect("ours");
        let (_, second) = CertificateFiles::own(home.path()).expect("there").load().expect("ours");
        assert_eq!(first, second);
        assert_eq!(fs::metadata(&files.key).expect("there").mode() & 0o777, 0o600);
        fs::remove_file(&files.certificate).expect("ours");
        let (_, third) = CertificateFiles::own(home.path()).expect("made").load().expect("ours");
        assert_ne!(first, third);
    }

    #[test]
    fn files_that_are_none_are_named() {
        let home = tempfile::tempdir().expect("a directory");
        let files = CertificateFiles::own(home.path()).expect("made");
        let other = CertificateFiles::own(&home.path().join("other")).expect("made");
        let no_pem = home.path().join("text");
        fs::write(&no_pem, "hello").expect("own directory");
        let gone = home.path().join("gone");
        let large = home.path().join("large");
        fs::write(&large, vec![b'x'; 2 << 20]).expect("own directory");
        for (certificate, key, why) in [
            (&gone, &files.key, "gone"),
            (&no_pem, &files.key, "no certificate"),
            (&files.certificate, &no_pem, "no key"),
            (&files.certificate, &other.key, "cannot be used with its key"),
            (&large, &files.key, "larger"),
        ] {
            let files = CertificateFiles { certificate: certificate.clone(), key: key.clone() };
            let said = files.load().expect_err(why);
            assert!(said.contains(why), "{said}");
        }
    }
}
