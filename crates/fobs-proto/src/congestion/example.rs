//! The example of docs/new-controller.md, `aimd.rs`, in a registry of its own.

use super::testing::{Acks, PACKET};
use super::*;

family! {
    #[path = "aimd.rs"]
    mod aimd { Aimd "aimd" "Half of the window at a loss, as TCP Reno" |new| aimd::Aimd::new(new.packet_len) }
}

/// The example, for the tests of all controllers.
pub(super) fn aimd(packet_len: u16) -> Box<dyn Controller> {
    CongestionControl::Aimd.make(&New { packet_len, priority: Priority::Fair, params: &Params::default() })
}

#[test]
fn the_documented_example_is_a_controller() {
    let page = include_str!("../../../../docs/new-controller.md");
    assert!(page.contains(include_str!("aimd.rs")), "docs/new-controller.md lacks aimd.rs as it is");
    let row = include_str!("example.rs").lines().find(|line| line.trim().starts_with("mod aimd"));
    assert!(page.contains(row.expect("the row above").trim()), "docs/new-controller.md lacks its row");

    let [aimd] = CongestionControl::ALL;
    let mut controller = super::example::aimd(PACKET);
    assert_eq!((controller.name(), aimd.summary().is_empty()), (aimd.name(), false));
    assert_eq!(aimd.schedule(), (ScheduleKind::LossDriven, None));
    let mut acks = Acks::new(Duration::from_millis(50));
    controller.on_ack(&acks.round(controller.congestion_window()));
    let before = controller.congestion_window();
    controller.on_loss(&acks.loss());
    assert!(controller.congestion_window().abs_diff(before / 2) <= u64::from(PACKET));
}
