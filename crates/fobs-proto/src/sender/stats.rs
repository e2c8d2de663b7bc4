//! Counters of a sender.

/// Counters since the session began.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SenderStats {
    /// Packets that the object was cut into (first layouts).
    pub packets_needed: u64,
    /// Data packets sent.
    pub packets_sent: u64,
    /// Data packets declared lost.
    pub packets_lost: u64,
    /// Data packets declared lost that arrived after all.
    pub packets_late: u64,
    /// Data packets lost at the receiver, so that they did not slow the sender down.
    pub packets_spared: u64,
    /// Drops at the receiver's socket as its kernel counts them, as last reported; merged datagrams count
    /// once.
    pub socket_drops: u32,
    /// Data packets sent again without being declared lost: by the circular schedule, by the tail, after a
    /// probe timeout.
    pub packets_copied: u64,
    /// Packets that the local host refused to send.
    pub packets_refused: u64,
    /// Acks handled.
    pub acks: u64,
    /// Chunks that the receiver has in full and has not stored, as last reported.
    pub backlog: u16,
    /// Datagram bytes of data packets sent.
    pub bytes_sent: u64,
    /// Datagram bytes acknowledged.
    pub bytes_acked: u64,
    /// Datagram bytes of data packets acknowledged.
    pub data_bytes_acked: u64,
    /// Packets that arrived with a congestion mark.
    pub packets_marked: u32,
    /// Probes acknowledged.
    pub probes_acked: u64,
    /// Data packets in flight that were given back because datagrams were no longer wanted.
    pub packets_abandoned: u64,
    /// Packets that left in frames.
    pub packets_framed: u64,
    /// Packets in frames that were lost with their stream or late, and given back.
    pub packets_returned: u64,
    /// Bytes of the records of data frames.
    pub bytes_framed: u64,
    /// Of those, bytes that the receiver has taken.
    pub bytes_frames_delivered: u64,
    /// Data frames that the receiver has taken.
    pub frames_delivered: u64,
}

impl SenderStats {
    /// Packets sent beyond those that the object needs, as a share of these, by whatever way they left.
    pub fn waste(&self) -> f64 {
        let sent = self.packets_sent + self.packets_framed;
        sent.saturating_sub(self.packets_needed) as f64 / self.packets_needed.max(1) as f64
    }
}
