//! The receiving end of streams.

use super::{Datagram, Receiving};
use crate::check::rule;
use crate::flow::fobs::FobsConfig;
use crate::net::Net;
use crate::object::Cut;
use crate::packet::Ecn;
use crate::time::stamp;
use fobs_proto::receiver::{Disposition, Reject};
use fobs_proto::sender::FrameOut;
use fobs_proto::wire::{Ack, DATA_HEADER_LEN};

impl Receiving {
    /// A frame has arrived.
    pub(in crate::flow::fobs) fn on_frame(
        &mut self,
        net: &mut Net,
        config: &FobsConfig,
        cut: &Cut,
        frame: &FrameOut,
    ) {
        self.newest = Some(stamp(net.now));
        for (header, range) in frame.header.packets(frame.len as usize) {
            let disposition = self.machine.handle_framed(stamp(net.now), &header, range.len());
            let within = !matches!(disposition, Disposition::Reject(Reject::NoRoom | Reject::Geometry));
            rule!(net, within, "frames keep credit and geometry", "{disposition:?} of {header:?}");
            let place = Datagram {
                number: 0,
                header: [0; DATA_HEADER_LEN],
                offset: frame.offset + range.start as u32,
                body: range.len() as u16,
                ecn: Ecn::NotCapable,
                damaged: false,
                drops: 0,
            };
            self.store(net, (config, cut), &header, &place, disposition);
        }
        self.wake_soon(net);
    }

    /// The newest ack; whether it was asked for before.
    pub(in crate::flow::fobs) fn newest_ack(&mut self) -> Option<(&Ack, bool)> {
        let (ack, asked) = self.newest_ack.as_mut()?;
        let before = std::mem::replace(asked, true);
        Some((ack, before))
    }
}
