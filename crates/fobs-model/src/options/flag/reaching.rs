//! Options about the way to the other host: the same for every command that calls one.

use super::{CP, DOCTOR, Flag, Names, PIPE, SYNC, Side, Takes, TransferOptions};
use crate::options::{AddressFamily, Carrier, NewKeys, PushBinary, Via};

type Row = Flag<TransferOptions>;

/// How the other host is reached.
pub const REACHING: &[Row] = &[
    Row::new(
        "port",
        "PORT",
        Takes::Number(1, u16::MAX as u64, |it, port| it.port = u16::try_from(port).ok()),
    )
    .help("Port of the other host's SSH server or daemon, unless the location has one")
    .on(&[CP.letter('P'), SYNC, DOCTOR.letter('P'), PIPE.letter('P')])
    .library("port"),
    Row::new("identity", "FILE", Takes::Path(Names::File, |it, file| it.identity = Some(file)))
        .help("Private key: an SSH identity file, or for fobs:// a file made by fobs keygen")
        .on(&[CP.letter('i'), SYNC, DOCTOR.letter('i'), PIPE.letter('i')])
        .library("identity"),
    Row::new("ssh-config", "FILE", Takes::Path(Names::File, |it, file| it.ssh.config_file = Some(file)))
        .help("Configuration file for ssh")
        .on(&[CP.letter('F'), SYNC, DOCTOR.letter('F'), PIPE.letter('F')])
        .carrier(Carrier::Ssh)
        .library("ssh_config"),
    Row::new("jump", "HOST", Takes::Text(Names::Host, |it, host| it.ssh.jump = Some(host)))
        .help("Jump host for the control channel (ssh -J); the data goes directly to the other host")
        .on(&[CP.letter('J'), SYNC, DOCTOR.letter('J'), PIPE.letter('J')])
        .carrier(Carrier::Ssh)
        .library("ssh_jump"),
    Row::new("ssh-option", "OPT", Takes::Texts(|it, option| it.ssh.options.push(option)))
        .help("Option for ssh, as in its configuration file; repeatable")
        .on(&[CP.letter('o'), SYNC, DOCTOR.letter('o'), PIPE.letter('o')])
        .carrier(Carrier::Ssh)
        .library("ssh_option"),
    Row::switch("ipv4", |it, on| family(it, on, AddressFamily::V4))
        .help("Use IPv4 only")
        .on(&[CP.letter('4'), SYNC.letter('4'), DOCTOR.letter('4'), PIPE.letter('4')])
        .overrides(&["ipv6"])
        .side(Side::Both),
    Row::switch("ipv6", |it, on| family(it, on, AddressFamily::V6))
        .help("Use IPv6 only")
        .on(&[CP.letter('6'), SYNC.letter('6'), DOCTOR.letter('6'), PIPE.letter('6')])
        .overrides(&["ipv4"])
        .side(Side::Both),
    // The two above in one word, for programs.
    Row::new("address-family", "FAMILY", Takes::Form(|it, text| {
        it.address_family = match text {
            "any" => AddressFamily::Any,
            "4" => AddressFamily::V4,
            "6" => AddressFamily::V6,
            _ => return Err("give any, 4 or 6".to_owned()),
        };
        Ok(())
    }))
    .on(&[])
    .library("address_family"),
    Row::new("udp-ports", "A-B", Takes::Ports(|it, ports| it.udp_ports = Some(ports)))
        .help("UDP ports for the data on the other host, as in 45601-45664, if a firewall restricts them")
        .on(&[CP, SYNC, DOCTOR, PIPE])
        .library("udp_ports")
        .side(Side::Both),
    Row::new("via", "ADDR|IFACE", Takes::Forms(|it, text| {
        it.lanes.via.push(text.parse::<Via>()?);
        Ok(())
    }))
    .help("Path of the data, by an interface or an address of this host, or an address of the other one; repeatable")
    .detail(
        "With several, each has a congestion control of its own, one file goes over all of them, and what a path \
         that fails has not brought goes to the others. The control channel goes where routes and ssh have it go.",
    )
    .on(&[CP, SYNC])
    .library("via"),
    Row::new("fobs-path", "PATH", Takes::Text(Names::Other, |it, path| it.fobs_path = path))
        .help("Path of fobs on the other host [default: fobs]")
        .detail(
            "Without it, where the PATH there has none, a second login looks in /usr/local/bin, ~/.local/bin and \
             where --push-binary puts it.",
        )
        .on(&[CP, SYNC, DOCTOR, PIPE])
        .carrier(Carrier::Ssh)
        .library("fobs_path"),
    Row::switch("push-binary", |it, on| {
        it.ssh.push = if on { PushBinary::IfMissing } else { PushBinary::Never };
    })
    .help(
        "Send fobs to a host that has none, over ssh, into ~/.cache/fobs there [default: ask on a terminal]",
    )
    .detail(
        "A static program for that host's CPU is sent, checked and run there; the answer is remembered for the \
         host. Nothing is sent without this option or a yes.",
    )
    .on(&[CP, SYNC.of_one_run(), DOCTOR, PIPE])
    .carrier(Carrier::Ssh)
    .overrides(&["no-push-binary"])
    .library("push_binary"),
    Row::switch("no-push-binary", |it, _| it.ssh.push = PushBinary::Never)
        .help("Send no program to other hosts, and do not ask")
        .on(&[CP, SYNC.of_one_run(), DOCTOR, PIPE])
        .overrides(&["push-binary"]),
    Row::new("known-hosts", "FILE", Takes::Path(Names::File, |it, file| it.known_hosts = Some(file)))
        .help("File with the pinned keys of daemons, instead of the default file")
        .on(&[CP, SYNC, DOCTOR, PIPE])
        .carrier(Carrier::Daemon)
        .library("known_hosts"),
    Row::new("ssh", "PROGRAM", Takes::Path(Names::Program, |it, program| it.ssh.program = Some(program)))
        .help("ssh program to run [default: ssh]")
        .on(&[CP.letter('S'), SYNC, DOCTOR.letter('S'), PIPE.letter('S')])
        .carrier(Carrier::Ssh)
        .library("ssh_program"),
    Row::switch("strict-host-key", |it, on| {
        it.new_keys = if on { NewKeys::Refused } else { NewKeys::Pinned };
    })
    .on(&[])
    .library("strict_host_key"),
];

fn family(it: &mut TransferOptions, on: bool, family: AddressFamily) {
    it.address_family = if on { family } else { AddressFamily::Any };
}
