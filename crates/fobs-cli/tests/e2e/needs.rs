//! Requirements of some tests, and the list of those skipped because the machine lacks them.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// A requirement that not every machine meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Root that may make network namespaces.
    Root,
    /// `iptables` with the kernel's matches behind it.
    Iptables,
    /// Root, and a second user to become.
    SecondUser,
    /// Room for a gigabyte twice over in the memory file system or the temporary directory.
    Gigabytes,
    /// Root with loop devices, ext4 and Python.
    Disk,
    /// A browser that a program can drive, and Python.
    Chromium,
    /// A kernel with xfs, and the program that makes one.
    Xfs,
    /// Control groups of memory that this user may make.
    Groups,
}

/// Every test with a requirement, so that the list of skipped ones does not depend on the order of tests.
const TABLE: &[(&str, &[Need])] = &[
    ("a_gibibyte_is_pushed_through_the_daemon", &[Need::Gigabytes]),
    ("a_gibibyte_is_pulled_through_ssh", &[Need::Gigabytes]),
    ("a_blocked_udp_path_is_named_within_seconds", &[Need::Root, Need::Iptables]),
    ("a_blocked_udp_path_is_named_within_seconds_over_ssh", &[Need::Root, Need::Iptables]),
    ("where_udp_is_blocked_a_copy_goes_over_tcp", &[Need::Root, Need::Iptables]),
    ("where_only_ssh_is_open_a_copy_goes_through_it", &[Need::Root, Need::Iptables]),
    ("connections_fail_with_the_exit_codes_of_rsync", &[Need::Root]),
    ("a_full_device_ends_a_sync_as_rsync", &[Need::Root]),
    ("links_of_a_third_user_in_named_paths_are_not_followed", &[Need::Root]),
    ("the_commands_of_the_readme_work", &[Need::Root]),
    ("the_commands_of_the_guide_work", &[Need::Root]),
    ("the_commands_of_the_other_documents_work", &[Need::Root]),
    ("commands_for_newcomers_do_what_those_beside_them_did", &[Need::Root]),
    ("a_pipe_outlives_an_outage_and_loses_nothing", &[Need::Root, Need::Iptables]),
    ("a_path_that_stays_away_ends_both_programs_within_the_timeout", &[Need::Root, Need::Iptables]),
    ("doctor_says_at_which_end_udp_is_blocked", &[Need::Root, Need::Iptables]),
    ("forged_datagrams_from_the_peers_own_address_change_nothing", &[Need::Root]),
    ("datagrams_forged_from_a_capture_change_nothing", &[Need::Root]),
    ("every_datagram_arriving_twice_changes_nothing", &[Need::Root, Need::Iptables]),
    ("loss_both_ways_only_costs_time", &[Need::Root, Need::Iptables]),
    ("reordering_both_ways_only_costs_time", &[Need::Root, Need::Iptables]),
    ("a_push_outlives_an_outage", &[Need::Root, Need::Iptables]),
    ("a_pull_outlives_an_outage", &[Need::Root, Need::Iptables]),
    ("a_push_over_ssh_outlives_an_outage", &[Need::Root, Need::Iptables]),
    ("a_reset_control_connection_is_made_anew", &[Need::Root, Need::Iptables]),
    ("a_client_with_a_new_address_goes_on", &[Need::Root]),
    ("a_path_that_stays_dead_is_exit_30", &[Need::Root, Need::Iptables]),
    ("jumbo_frames_are_found_and_filled", &[Need::Root]),
    ("a_black_hole_for_large_packets_is_survived", &[Need::Root]),
    ("a_path_of_1280_bytes_is_enough", &[Need::Root]),
    ("two_paths_of_a_daemon_carry_one_file", &[Need::Root]),
    ("two_addresses_of_an_ssh_host_carry_one_file", &[Need::Root]),
    ("a_path_that_is_cut_leaves_its_chunks_to_the_other", &[Need::Root]),
    ("a_killed_copy_over_two_paths_goes_on", &[Need::Root]),
    ("a_path_that_is_silent_for_a_while_carries_data_again", &[Need::Root, Need::Iptables]),
    ("a_path_whose_routers_report_errors_for_a_while_carries_data_again", &[Need::Root, Need::Iptables]),
    ("an_interface_that_goes_down_and_up_carries_data_again", &[Need::Root]),
    ("an_interface_with_another_address_carries_data_again", &[Need::Root]),
    ("an_interface_that_is_not_there_is_left_out_where_another_is", &[Need::Root]),
    ("an_address_that_its_interface_loses_and_gets_back_carries_data_again", &[Need::Root]),
    ("an_address_that_stays_away_leaves_its_chunks_to_the_other_path", &[Need::Root]),
    ("a_path_that_leads_nowhere_is_named_and_the_copy_succeeds", &[Need::Root]),
    ("a_path_that_stops_udp_is_named_where_tcp_carries_the_data", &[Need::Root, Need::Iptables]),
    ("ipv4_and_ipv6_carry_one_file", &[Need::Root]),
    ("lanes_that_an_earlier_copy_needed_are_used_while_udp_passes", &[Need::Root, Need::Iptables]),
    ("a_device_below_the_base_size_is_filled", &[Need::Root]),
    ("a_path_that_drops_the_base_size_is_crossed", &[Need::Root, Need::Iptables]),
    ("a_path_that_carries_no_size_goes_over_streams", &[Need::Root, Need::Iptables]),
    ("a_path_that_carries_no_size_ends_by_its_timeout", &[Need::Root, Need::Iptables]),
    ("hosts_on_a_cable_need_link_local_addresses_only", &[Need::Root]),
    ("a_daemon_of_root_gives_owners_and_setuid_to_privileged_keys_only", &[Need::Root]),
    ("a_restricted_key_of_root_gives_owners_and_setuid_only_if_privileged", &[Need::Root]),
    ("links_above_the_root_are_followed_and_those_below_lead_nowhere", &[Need::Root]),
    ("a_push_with_x_deletes_nothing_below_what_it_leaves_out", &[Need::Root]),
    ("a_full_destination_ends_the_run_and_keeps_the_sources", &[Need::Root]),
    ("a_pull_with_x_empties_no_mounted_file_system", &[Need::Root]),
    ("what_did_not_change_shares_its_blocks_where_it_can", &[Need::Root, Need::Disk, Need::Xfs]),
    ("notes_of_fake_super_are_read_by_both_programs", &[Need::Root]),
    ("devices_are_read_and_written_as_files", &[Need::Root]),
    ("a_third_users_link_is_no_filter_file", &[Need::Root]),
    ("names_of_attributes_are_chosen_as_by_rsync", &[Need::Root]),
    ("a_push_removes_no_attribute_that_a_rule_excludes", &[Need::Root]),
    ("a_copy_as_another_user_has_that_users_rights", &[Need::Root]),
    ("copies_whose_destination_loses_its_power_go_on", &[Need::Root, Need::Disk]),
    ("copies_onto_xfs_that_lose_its_power_go_on", &[Need::Root, Need::Disk, Need::Xfs]),
    ("a_sync_ends_as_that_of_rsync_on_any_host", &[Need::Root]),
    ("a_packet_size_above_the_path_mtu_is_reduced", &[Need::Root]),
    ("the_bad_networks_lose_delay_duplicate_and_block", &[Need::Root, Need::Iptables]),
    ("forged_and_replayed_datagrams_do_arrive", &[Need::Root]),
    ("a_push_that_the_daemon_may_not_write_is_exit_4", &[Need::Root]),
    ("a_file_that_the_daemon_may_not_read_is_named", &[Need::Root]),
    ("a_job_outlives_an_outage_and_its_host", &[Need::Root, Need::Iptables]),
    ("a_job_waits_for_room_where_it_writes", &[Need::Root]),
    ("a_job_of_the_hosts_keeper_runs_as_its_submitter", &[Need::SecondUser]),
    ("a_user_reaches_no_job_of_another_user", &[Need::SecondUser]),
    ("what_a_user_hands_in_has_his_rights_alone", &[Need::SecondUser]),
    ("no_more_is_admitted_to_another_host_than_there_is_room", &[Need::Root]),
    ("a_host_that_does_not_tell_its_room_holds_up_no_job", &[Need::Root]),
    ("a_person_uses_the_page_of_jobs", &[Need::Chromium]),
    ("another_users_jobs_are_not_shown", &[Need::SecondUser]),
    ("a_copy_holds_an_eighth_of_the_control_groups_around_it", &[Need::Groups]),
    ("a_neighbour_changes_and_learns_nothing_outside_its_directory", &[Need::SecondUser]),
];

impl Need {
    pub fn is_given(self) -> bool {
        match self {
            Need::Root => super::net::namespaces_work(),
            Need::Iptables => super::net::iptables_work(),
            Need::SecondUser => super::neighbours::can_be_played(),
            Need::Gigabytes => super::files::roomy_directory().is_some(),
            Need::Disk => {
                super::net::namespaces_work()
                    && std::path::Path::new("/dev/loop-control").exists()
                    && ["mkfs.ext4", "python3"].iter().all(|program| program_exists(program))
            }
            Need::Chromium => ["chromium", "python3"].iter().all(|program| program_exists(program)),
            Need::Groups => super::storage::Groups::make("need", 1 << 30).is_some(),
            Need::Xfs => {
                let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
                known.lines().any(|line| line.trim() == "xfs") && program_exists("mkfs.xfs")
            }
        }
    }

    fn words(self) -> &'static str {
        match self {
            Need::Root => "root (network namespaces)",
            Need::Iptables => "iptables",
            Need::SecondUser => "root and a second user",
            Need::Disk => "root with loop devices, mkfs.ext4 and python3",
            Need::Chromium => "chromium and python3",
            Need::Groups => "root with a control group for memory",
            Need::Xfs => "xfs in the kernel, and mkfs.xfs",
            Need::Gigabytes => "3 GiB of room under /dev/shm or the temporary directory",
        }
    }
}

fn missing(needs: &[Need]) -> Vec<&'static str> {
    // iptables is tried inside a namespace, which needs root.
    let mut missing = Vec::new();
    for need in needs {
        if !need.is_given() {
            missing.push(need.words());
            break;
        }
    }
    missing
}

/// Writes past the test harness's capture, so that a passing run shows it too.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Whether the test can run; prints its name if not. The test must be in the table above.
pub fn given(test: &str) -> bool {
    let (_, needs) =
        TABLE.iter().find(|(name, _)| *name == test).expect("a test that needs something is listed");
    let missing = missing(needs);
    if !missing.is_empty() {
        say(&format!("skipped: {test} needs {}", missing.join(", ")));
    }
    missing.is_empty()
}

/// Whether a program is on the path.
pub fn program_exists(name: &str) -> bool {
    Command::new("sh")
        .args(["-c", "command -v \"$0\"", name])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs last by its name; prints all tests that were skipped.
#[test]
fn zz_everything_that_was_skipped_is_named() {
    let sentence = |(name, needs): &(&str, &[Need])| {
        let missing = missing(needs);
        (!missing.is_empty()).then(|| format!("skipped: {name} needs {}", missing.join(", ")))
    };
    let skipped: Vec<String> = TABLE.iter().filter_map(sentence).collect();
    say(&format!("{} end-to-end tests skipped on this machine", skipped.len()));
    for line in &skipped {
        say(line);
    }
    // As root with iptables nothing may be missing: a table that skips everything would be a test that cannot
    // fail.
    if super::net::iptables_work() && super::files::roomy_directory().is_some() {
        let is_of_the_host = |need: &Need| {
            matches!(need, Need::Chromium | Need::Disk | Need::Groups | Need::Xfs | Need::SecondUser)
        };
        let anywhere = TABLE.iter().filter(|(_, needs)| !needs.iter().any(is_of_the_host));
        assert_eq!(anywhere.filter_map(sentence).collect::<Vec<_>>(), Vec::<String>::new());
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e").read_dir().expect("this folder");
    let sources = sources.map(|source| source.expect("an entry").path()).filter(|path| path.is_file());
    let sources: Vec<String> = sources.map(|path| std::fs::read_to_string(path).expect("a source")).collect();
    for (name, _) in TABLE {
        let defined = sources.iter().any(|source| source.contains(&format!("fn {name}()")));
        assert!(defined, "{name} is in the table of needs but no such test exists");
    }
}
