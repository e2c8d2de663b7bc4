//! What carries the data of a transfer.

use std::fmt;
use std::str::FromStr;

/// Most streams of one transfer: more bring nothing on any path that we know, and each costs both hosts
/// memory.
pub const STREAMS_MAX: u32 = 64;

/// What carries the data (`--transport`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// UDP; where that gets nothing through, or much less than TCP does, streams.
    #[default]
    Auto,
    /// UDP alone.
    Udp,
    /// Streams over TCP alone.
    Tcp {
        /// Their number, 1 to [`STREAMS_MAX`]; `None` finds it.
        count: Option<u32>,
    },
    /// One stream inside the control channel: ssh, or the connection to the daemon.
    Channel,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Transport::Auto => f.write_str("auto"),
            Transport::Udp => f.write_str("udp"),
            Transport::Tcp { count: None } => f.write_str("tcp"),
            Transport::Tcp { count: Some(count) } => write!(f, "tcp:{count}"),
            Transport::Channel => f.write_str("ssh"),
        }
    }
}

impl FromStr for Transport {
    /// What is possible instead.
    type Err = String;

    fn from_str(text: &str) -> Result<Transport, String> {
        match text {
            "auto" => return Ok(Transport::Auto),
            "udp" => return Ok(Transport::Udp),
            "tcp" => return Ok(Transport::Tcp { count: None }),
            // Toward a daemon there is no ssh, so the channel has a name of its own too.
            "ssh" | "channel" => return Ok(Transport::Channel),
            _ => {}
        }
        let digits =
            text.strip_prefix("tcp:").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let count =
            digits.and_then(|digits| digits.parse().ok()).filter(|count| (1..=STREAMS_MAX).contains(count));
        match count {
            Some(count) => Ok(Transport::Tcp { count: Some(count) }),
            None => Err(format!("give auto, udp, tcp, tcp:N with 1 to {STREAMS_MAX} connections, or ssh")),
        }
    }
}

/// What is asked of the kernel's TCP for connections that carry data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TcpTuning {
    /// `--tcp-cc`: the sender's congestion control; `None` is its host's default.
    pub congestion: Option<String>,
    /// `--tcp-buffer`: bytes of the send and receive buffers at both ends, within the kernels' limits; `None`
    /// lets the kernels adapt them.
    pub buffer: Option<u32>,
}

/// How data is given to streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StreamAllotment {
    /// A stream that is free takes what is next.
    #[default]
    NextFree,
    /// Each stream has its part of the data, fixed in advance, as in the paper on PSockets: to compare with.
    EqualParts,
}

impl fmt::Display for StreamAllotment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StreamAllotment::NextFree => "next-free",
            StreamAllotment::EqualParts => "equal-parts",
        })
    }
}

impl FromStr for StreamAllotment {
    /// What is possible instead.
    type Err = String;

    fn from_str(text: &str) -> Result<StreamAllotment, String> {
        let all = [StreamAllotment::NextFree, StreamAllotment::EqualParts];
        all.into_iter()
            .find(|allotment| allotment.to_string() == text)
            .ok_or_else(|| "give next-free or equal-parts".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_are_read_as_they_are_shown() {
        let count = |count| Transport::Tcp { count };
        let table = [
            ("auto", Transport::Auto),
            ("udp", Transport::Udp),
            ("tcp", count(None)),
            ("tcp:1", count(Some(1))),
            ("tcp:64", count(Some(64))),
            ("ssh", Transport::Channel),
        ];
        for (text, transport) in table {
            assert_eq!(text.parse(), Ok(transport), "{text}");
            assert_eq!(transport.to_string(), text);
        }
        assert_eq!("channel".parse(), Ok(Transport::Channel));
        for allotment in [StreamAllotment::NextFree, StreamAllotment::EqualParts] {
            assert_eq!(allotment.to_string().parse(), Ok(allotment));
        }
        assert!("other".parse::<StreamAllotment>().is_err());
        for text in [
            "",
            "tcp:",
            "tcp:0",
            "tcp:65",
            "tcp:+4",
            "tcp: 4",
            "tcp:4 ",
            "TCP",
            "quic",
            "udp:2",
            "tcp:99999999999",
        ] {
            let why = text.parse::<Transport>().expect_err(text);
            assert!(why.contains("tcp:N"), "{why}");
        }
    }
}
