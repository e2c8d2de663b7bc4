//! Proof of possession of raw Ed25519 keys. Which keys are accepted is decided elsewhere.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible, SignatureScheme,
};

use crate::secure::identity::PublicKey;

/// Requires a raw Ed25519 key and a signature by it, from servers and clients.
#[derive(Debug)]
pub(super) struct RawKeyVerifier {
    algorithms: WebPkiSupportedAlgorithms,
}

impl RawKeyVerifier {
    pub(super) fn new(provider: &CryptoProvider) -> RawKeyVerifier {
        RawKeyVerifier { algorithms: provider.signature_verification_algorithms }
    }

    fn well_formed(key: &CertificateDer<'_>, chain: &[CertificateDer<'_>]) -> Result<(), Error> {
        match PublicKey::from_spki_der(key) {
            Some(_) if chain.is_empty() => Ok(()),
            _ => Err(CertificateError::BadEncoding.into()),
        }
    }

    fn signed(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if signature.scheme != SignatureScheme::ED25519 {
            return Err(PeerIncompatible::NoSignatureSchemesInCommon.into());
        }
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }
}

/// What both ends verify alike: a signature by the key itself.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _cert: &CertificateDer<'_>,
            _dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(PeerIncompatible::Tls12NotOffered.into())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.signed(message, cert, dss)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for RawKeyVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Self::well_formed(end_entity, intermediates).map(|()| ServerCertVerified::assertion())
    }

    signatures!();
}

impl ClientCertVerifier for RawKeyVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Self::well_formed(end_entity, intermediates).map(|()| ClientCertVerified::assertion())
    }

    signatures!();
}
