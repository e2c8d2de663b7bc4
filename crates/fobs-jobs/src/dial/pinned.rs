//! A certificate that is known by its fingerprint.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// SHA-256 of a certificate as it is sent (DER): what openssl and browsers show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The one of a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Fingerprint {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, certificate).as_ref());
        Fingerprint(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    /// 64 hexadecimal digits, with or without colons.
    fn from_str(text: &str) -> Result<Fingerprint, String> {
        let wrong = || format!("{text:?} is no fingerprint: write the 64 hexadecimal digits of its SHA-256");
        let digits: Vec<char> = text.chars().filter(|digit| *digit != ':').collect();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(wrong());
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let (high, low) = (pair[0].to_digit(16), pair[1].to_digit(16));
            let value = high.zip(low).map(|(high, low)| high * 16 + low).ok_or_else(wrong)?;
            *byte = u8::try_from(value).map_err(|_| wrong())?;
        }
        Ok(Fingerprint(bytes))
    }
}

/// Takes the one certificate, whatever its name and dates say; that the server owns it is proved as usual.
#[derive(Debug)]
pub(super) struct Pinned {
    fingerprint: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl Pinned {
    pub(super) fn new(fingerprint: Fingerprint, provider: Arc<CryptoProvider>) -> Pinned {
        Pinned { fingerprint, provider }
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if Fingerprint::of(end_entity) == self.fingerprint {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_as_openssl_and_we_write_it() {
        let fingerprint = Fingerprint::of(&CertificateDer::from(b"x".to_vec()));
        let text = fingerprint.to_string();
        assert_eq!(text.parse(), Ok(fingerprint));
        let pairs: Vec<String> =
            text.as_bytes().chunks(2).map(|pair| String::from_utf8_lossy(pair).to_uppercase()).collect();
        assert_eq!(pairs.join(":").parse(), Ok(fingerprint));
        for wrong in
            ["", "ab", &text[1..], &format!("{text}0"), &text.replace(&text[..1], "g"), &"é".repeat(32)]
        {
            wrong.parse::<Fingerprint>().expect_err(wrong);
        }
    }
}
