//! The control channel over TLS 1.3 to a `fobs serve` daemon, with raw public keys on both sides (protocol
//! 2.6, RFC 7250).
//!
//! Both sides prove that they own a key. Callers check whether it is an expected one: the client in `pin`,
//! before it shows its own key, the server by [`Peer::key`] after the handshake.

mod stream;
mod tcp;
mod verifier;

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::aws_lc_rs::kx_group::{X25519, X25519MLKEM768};
use rustls::crypto::aws_lc_rs::sign::any_eddsa_type;
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, Connection, NamedGroup, ServerConfig, ServerConnection};

use self::stream::TlsStream;
use self::tcp::connect_tcp;
use self::verifier::RawKeyVerifier;
use super::{ControlChannel, Peer};
use crate::secure::identity::{Identity, PublicKey};
use crate::secure::schedule::SessionSecret;
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Busy, Error, ErrorKind, Result};
use fobs_model::message::{LEVEL_2, LEVEL_3, LEVELS, Level};
use fobs_model::options::{AddressFamily, Carrier};

/// The application protocol that both sides insist on (protocol 2.6).
pub const ALPN: &[u8] = b"fobs/1";
/// Those that are offered, the preferred one first: a level is the promise that the server's hello names
/// version 1 and the level's features (protocol 2.6), so a client sends its request with its own hello, a
/// round trip earlier.
pub const ALPNS: &[&[u8]] = &[LEVEL_3.alpn, LEVEL_2.alpn, ALPN];
/// The label of the exporter that yields the session secret (protocol 3.2).
const EXPORTER_LABEL: &[u8] = b"EXPORTER-fobs-data-v1";
/// How long a handshake may take as a whole, however the peer spreads its bytes.
pub const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);
/// How keys are exchanged, the preferred one first: a hybrid that holds against quantum computers too.
/// Clients send shares for both, so a server of any release answers without another round trip.
const KEY_EXCHANGES: &[&dyn SupportedKxGroup] = &[X25519MLKEM768, X25519];

/// Where a client connects.
#[derive(Debug, Clone, Copy)]
pub struct Dialed<'d> {
    /// The name or address.
    pub host: &'d str,
    /// The TCP port.
    pub port: u16,
    /// Which addresses of it.
    pub family: AddressFamily,
    /// How long all of it may take, where the user chose that.
    pub limit: Option<Duration>,
}

/// As [`connect_within`], without a limit of the user's.
///
/// # Errors
/// Its.
pub fn connect(
    host: &str,
    port: u16,
    family: AddressFamily,
    identity: &Identity,
    cancel: &CancelToken,
    pin: impl Fn(&PublicKey) -> Result<()>,
) -> Result<ControlChannel> {
    connect_within(&Dialed { host, port, family, limit: None }, identity, cancel, pin)
}

/// Connects to a daemon. `pin` checks the server's proven key; its error ends the connection before the
/// client has shown anything, and is returned. Cancellation ends every wait but name resolution.
///
/// # Errors
/// `Connect` where nothing that answers is reached, `Timeout` where that is for the limit, `Protocol` for
/// what is no daemon, and those of `pin`.
pub fn connect_within(
    dialed: &Dialed<'_>,
    identity: &Identity,
    cancel: &CancelToken,
    pin: impl Fn(&PublicKey) -> Result<()>,
) -> Result<ControlChannel> {
    let Dialed { host, port, limit, .. } = *dialed;
    let begun = Instant::now();
    let socket = connect_tcp(dialed, cancel)?;
    let config = client_config(identity, ALPNS).map_err(|error| unusable_identity(&error))?;
    // With raw keys a name proves nothing and none is sent, but the library wants one.
    let name = ServerName::try_from("fobs.invalid").map_err(|error| unusable_identity(&error))?;
    let connection =
        ClientConnection::new(Arc::new(config), name).map_err(|error| unusable_identity(&error))?;
    let description = format!("{host} via tls");
    let usual = Instant::now() + HANDSHAKE_WAIT;
    let chosen = limit.map(|limit| begun + limit).filter(|chosen| *chosen < usual);
    let (kind, wait) = match limit {
        Some(limit) if chosen.is_some() => (ErrorKind::Timeout, limit),
        _ => (ErrorKind::Connect, HANDSHAKE_WAIT),
    };
    let deadline = chosen.unwrap_or(usual);
    establish(connection.into(), socket, description, deadline, cancel, pin, |failure| {
        match failure {
        HandshakeFailure::Io(error) if is_timeout(&error) => Error::new(
            kind,
            format!(
                "{host} port {port} accepts connections but says nothing for {} s; is it fobs serve that listens there?",
                wait.as_secs_f64()
            ),
        ),
        HandshakeFailure::Io(error) => Error::new(
            ErrorKind::Connect,
            format!(
                "the server at {host} port {port} is busy: it ended the connection before it said anything \
                 ({error}); try again later, and if it stays so, check that it is fobs serve that listens there"
            ),
        )
        .of_busy(Busy::Closed),
        HandshakeFailure::Protocol(why) => Error::new(
            ErrorKind::Protocol,
            format!(
                "{host} port {port} does not speak the FOBS protocol: {why}; is it fobs serve that listens there?"
            ),
        ),
        HandshakeFailure::Refused(error) => error,
    }
    })
}

/// Answers a client, which has proven to own [`Peer::key`]; the caller checks the rights of that key. `began`
/// is when it connected.
pub fn accept(
    socket: TcpStream,
    began: Instant,
    identity: &Identity,
    cancel: &CancelToken,
) -> Result<ControlChannel> {
    accept_as(ALPNS, socket, began, identity, cancel)
}

/// The same with these application protocols, the preferred one first.
pub fn accept_as(
    alpn: &[&[u8]],
    socket: TcpStream,
    began: Instant,
    identity: &Identity,
    cancel: &CancelToken,
) -> Result<ControlChannel> {
    let peer = socket.peer_addr().map_err(|error| {
        Error::new(ErrorKind::Connect, format!("a client was gone before it could be answered: {error}"))
    })?;
    let config = server_config(identity, alpn).map_err(|error| unusable_identity(&error))?;
    let connection = ServerConnection::new(Arc::new(config)).map_err(|error| unusable_identity(&error))?;
    let client = peer.ip().to_canonical();
    establish(
        connection.into(),
        socket,
        format!("{client} via tls"),
        began + HANDSHAKE_WAIT,
        cancel,
        |_| Ok(()),
        |failure| match failure {
            HandshakeFailure::Io(error) if is_timeout(&error) => Error::new(
                ErrorKind::Timeout,
                format!("{client} did not complete the TLS handshake in {} s", HANDSHAKE_WAIT.as_secs()),
            ),
            HandshakeFailure::Io(error) => Error::new(
                ErrorKind::Connect,
                format!("{client} went away during the TLS handshake: {error}"),
            ),
            HandshakeFailure::Protocol(why) => {
                Error::new(ErrorKind::Protocol, format!("{client} does not speak the FOBS protocol: {why}"))
            }
            HandshakeFailure::Refused(error) => error,
        },
    )
}

/// Why a handshake did not succeed.
enum HandshakeFailure {
    /// The socket failed or the time was up.
    Io(io::Error),
    /// The peer uses another protocol, or a proof is wrong.
    Protocol(String),
    /// The caller refused the peer's key.
    Refused(Error),
}

impl From<io::Error> for HandshakeFailure {
    fn from(error: io::Error) -> Self {
        HandshakeFailure::Io(error)
    }
}

fn establish(
    mut connection: Connection,
    socket: TcpStream,
    description: String,
    deadline: Instant,
    cancel: &CancelToken,
    judge: impl Fn(&PublicKey) -> Result<()>,
    explain: impl Fn(HandshakeFailure) -> Error,
) -> Result<ControlChannel> {
    let established = (|| {
        tcp::configure(&socket)?;
        let ours = socket.try_clone()?;
        // A read or write that blocks ends at once.
        let _hook = cancel.on_cancel(move || drop(ours.shutdown(Shutdown::Both)));
        let at = socket.peer_addr()?;
        let (key, foretold) = handshake(&mut connection, &socket, deadline, judge)?;
        let export = |to: &mut [u8; 32]| {
            connection.export_keying_material(&mut to[..], EXPORTER_LABEL, None).map(|_| ())
        };
        let secret =
            SessionSecret::filled(export).map_err(|error| HandshakeFailure::Protocol(error.to_string()))?;
        Ok((at, key, foretold, secret))
    })();
    let (at, key, foretold, secret): (SocketAddr, PublicKey, Option<Level>, SessionSecret) =
        established.map_err(|failure| cancel.explain(explain(failure)))?;
    let key_exchange = connection.negotiated_key_exchange_group().map(|group| name_of(group.name()));
    let stream = TlsStream::new(connection, socket).map_err(|error| explain(error.into()))?;
    let zone = match at {
        SocketAddr::V6(at) => at.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    let peer = Peer { description, address: Some(at.ip().to_canonical()), zone, key: Some(key) };
    let (read, outlet) = stream.split();
    let channel = ControlChannel::new(Box::new(read), outlet, Some(secret), Carrier::Daemon, peer);
    Ok(ControlChannel { foretold, key_exchange, ..channel })
}

/// Takes a connection through its handshake; returns the peer's key, and what a server has told of its hello.
fn handshake(
    connection: &mut Connection,
    mut socket: &TcpStream,
    deadline: Instant,
    judge: impl Fn(&PublicKey) -> Result<()>,
) -> std::result::Result<(PublicKey, Option<Level>), HandshakeFailure> {
    let mut key = None;
    while connection.is_handshaking() || connection.wants_write() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
        if connection.wants_write() {
            socket.set_write_timeout(Some(left))?;
            connection.write_tls(&mut socket)?;
            continue;
        }
        socket.set_read_timeout(Some(left))?;
        match connection.read_tls(&mut socket) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        }
        if let Err(error) = connection.process_new_packets() {
            // The alert tells the peer the reason; if it cannot be sent, the connection just closes.
            let _ = connection.write_tls(&mut socket);
            return Err(HandshakeFailure::Protocol(error.to_string()));
        }
        // The client checks the server's key before it writes its own.
        if key.is_none()
            && let Some(proven) = peer_key(connection)
        {
            judge(&proven).map_err(HandshakeFailure::Refused)?;
            key = Some(proven);
        }
    }
    let level = LEVELS.iter().find(|level| connection.alpn_protocol() == Some(level.alpn));
    if level.is_none() && connection.alpn_protocol() != Some(ALPN) {
        return Err(HandshakeFailure::Protocol("it is a TLS peer for another purpose (ALPN)".to_owned()));
    }
    // Only a server promises something of its hello.
    let foretold = level.copied().filter(|_| matches!(&*connection, Connection::Client(_)));
    let key = key.ok_or_else(|| HandshakeFailure::Protocol("it has no key".to_owned()))?;
    Ok((key, foretold))
}

fn peer_key(connection: &Connection) -> Option<PublicKey> {
    PublicKey::from_spki_der(connection.peer_certificates()?.first()?)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

fn unusable_identity(error: &dyn std::error::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("TLS cannot be set up with this identity: {error}; report this"))
}

fn client_config(identity: &Identity, alpn: &[&[u8]]) -> std::result::Result<ClientConfig, rustls::Error> {
    client_config_with(provider(), identity, alpn)
}

fn client_config_with(
    provider: Arc<CryptoProvider>,
    identity: &Identity,
    alpn: &[&[u8]],
) -> std::result::Result<ClientConfig, rustls::Error> {
    let key = Arc::new(AlwaysResolvesClientRawPublicKeys::new(certified(identity)?));
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(RawKeyVerifier::new(&provider)))
        .with_client_cert_resolver(key);
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config.enable_sni = false;
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn server_config(identity: &Identity, alpn: &[&[u8]]) -> std::result::Result<ServerConfig, rustls::Error> {
    server_config_with(provider(), identity, alpn)
}

fn server_config_with(
    provider: Arc<CryptoProvider>,
    identity: &Identity,
    alpn: &[&[u8]],
) -> std::result::Result<ServerConfig, rustls::Error> {
    let key = Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified(identity)?));
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::new(RawKeyVerifier::new(&provider)))
        .with_cert_resolver(key);
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    // No resumption: every session proves its keys.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}

fn provider() -> Arc<CryptoProvider> {
    provider_with(KEY_EXCHANGES)
}

fn provider_with(key_exchanges: &[&'static dyn SupportedKxGroup]) -> Arc<CryptoProvider> {
    let kx_groups = key_exchanges.to_vec();
    Arc::new(CryptoProvider { kx_groups, ..rustls::crypto::aws_lc_rs::default_provider() })
}

/// For people.
fn name_of(group: NamedGroup) -> &'static str {
    match group {
        NamedGroup::X25519MLKEM768 => "X25519MLKEM768",
        NamedGroup::X25519 => "X25519",
        _ => "another group",
    }
}

/// The key is read in place: a copy would not be wiped.
fn certified(identity: &Identity) -> std::result::Result<Arc<CertifiedKey>, rustls::Error> {
    let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(identity.pkcs8_der()))?;
    Ok(Arc::new(CertifiedKey::new(vec![CertificateDer::from(identity.public().to_spki_der())], key)))
}

#[cfg(test)]
mod tests;
