//! Where the messages of the control channel go at the sender.

use super::places::PlaceTeller;
use crate::Reporter;
use crate::failure::unasked;
use crate::letters::{Post, Routed, ToSender, forward_control};
use crate::survey::{Docket, violation};
use fobs_channel::control::ControlReader;
use fobs_model::error::Result;
use fobs_model::message::Message;
use fobs_store::delta::{FineAnswer, ListPart, Lists, WireForm};
use std::sync::Arc;

/// Takes decisions to the docket, lists of pieces to the reader, and every other message to the sender.
pub(super) fn forward(
    reader: ControlReader,
    post: Post<ToSender>,
    routes: Option<(Docket, Option<Lists>)>,
    mut places: PlaceTeller,
    reporter: Arc<Reporter>,
) -> Result<()> {
    let routes = routes.map(|(docket, lists)| {
        let guards = (docket.guard(), lists.as_ref().map(Lists::guard));
        (docket, lists, guards)
    });
    forward_control(reader, post, ToSender::Control, move |message| match (message, &routes) {
        (
            Message::Basis { row, first, average, names, in_place, pieces, last },
            Some((_, Some(lists), _)),
        ) => {
            reporter.advance();
            let form = WireForm { average, names, in_place };
            let taken = lists.take(ListPart { row, first, form, pieces: &pieces.0, last });
            taken.map_or_else(|what| Routed::Broken(violation(what)), |()| Routed::Taken)
        }
        (Message::Pieces { row, from, average, names, in_place, pieces }, Some((_, Some(lists), _))) => {
            reporter.advance();
            let form = WireForm { average, names, in_place };
            let taken = lists.answer(FineAnswer { row, from, form, pieces: &pieces.0 });
            taken.map_or_else(|what| Routed::Broken(violation(what)), |()| Routed::Taken)
        }
        (Message::Basis { .. } | Message::Pieces { .. }, _) => Routed::Broken(unasked("pieces of files")),
        (Message::HasPath { path }, _) => places.tell(&path.0),
        (Message::Decisions { first, choices, last }, Some((docket, ..))) => {
            if !choices.0.is_empty() {
                reporter.advance();
            }
            docket.decide(first, &choices.0, last).map_or_else(Routed::Broken, |()| Routed::Taken)
        }
        (Message::Decisions { .. }, None) => Routed::Broken(unasked("decisions")),
        (message, _) => Routed::Deliver(message),
    })
}
