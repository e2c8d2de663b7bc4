//! Whether the figures of a run mean something.

use crate::link::counters::Counters;
use crate::link::spec::Way;
use crate::tool::Protocol;

/// Why a run does not count, as far as the wire shows; empty if it does.
pub fn doubts(wire: &Counters, complete: &[Crossing]) -> Vec<String> {
    let mut doubts = emulators_doubts(wire);
    doubts.extend(protocol_doubts(wire, complete));
    doubts
}

/// Why the emulator itself would not vouch for the run.
fn emulators_doubts(wire: &Counters) -> Vec<String> {
    let mut doubts = wire.invalid_because.clone();
    if doubts.is_empty() && !wire.valid {
        doubts.push("the emulator did not say that it kept up".to_owned());
    }
    doubts
}

/// A flow that is complete, as far as the link is concerned.
pub struct Crossing {
    /// The direction of its data.
    pub way: Way,
    /// What its tool should have used.
    pub protocol: Protocol,
    /// Payload bytes, as its tool reports them.
    pub bytes: u64,
}

/// Bytes that tools report but that did not cross by the expected protocol.
fn protocol_doubts(wire: &Counters, flows: &[Crossing]) -> Vec<String> {
    let mut doubts = Vec::new();
    for way in Way::BOTH {
        for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Either] {
            let these = flows.iter().filter(|flow| flow.way == way && flow.protocol == protocol);
            let reported: u64 = these.map(|flow| flow.bytes).sum();
            let counters = if way == Way::Forward { &wire.forward } else { &wire.backward };
            let by = counters.bytes_by_protocol;
            let (seen, name) = match protocol {
                Protocol::Tcp => (by.tcp, "Tcp"),
                Protocol::Udp => (by.udp, "Udp"),
                Protocol::Either => (by.tcp + by.udp, "Tcp or Udp"),
            };
            if seen < reported {
                doubts.push(format!(
                    "{reported} bytes should have crossed {} by {name}, {seen} did",
                    way.name()
                ));
            }
        }
    }
    doubts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_that_used_another_protocol_is_found_out() {
        let wire: Counters = serde_json::from_value(json!({
            "forward": {"bytes_by_protocol": {"tcp": 1_050_000, "udp": 9_000}},
            "backward": {"bytes_by_protocol": {"tcp": 20_000}}
        }))
        .unwrap();
        let flow = |protocol| [Crossing { way: Way::Forward, protocol, bytes: 1_000_000 }];
        assert!(protocol_doubts(&wire, &flow(Protocol::Tcp)).is_empty());
        let doubts = protocol_doubts(&wire, &flow(Protocol::Udp));
        assert!(doubts.len() == 1 && doubts[0].contains("Udp") && doubts[0].contains("9000"), "{doubts:?}");
        assert!(protocol_doubts(&wire, &flow(Protocol::Either)).is_empty());
        let back = [Crossing { way: Way::Backward, protocol: Protocol::Tcp, bytes: 1_000_000 }];
        assert!(protocol_doubts(&wire, &back)[0].contains("backward"));
    }

    #[test]
    fn a_run_counts_only_if_the_emulator_vouches_for_it() {
        let doubts = |whole| emulators_doubts(&serde_json::from_value::<Counters>(whole).unwrap());
        let wire = |more: serde_json::Value| {
            let mut wire = json!({"forward": {}, "backward": {}});
            wire.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            doubts(wire)
        };
        assert!(wire(json!({"valid": true, "invalid_because": []})).is_empty());
        assert_eq!(wire(json!({"valid": false, "invalid_because": ["3 host drops"]})), ["3 host drops"]);
        assert_eq!(wire(json!({})).len(), 1);
    }
}
