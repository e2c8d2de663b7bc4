//! The arguments of a copy that runs on another host for this one.

use std::fmt::Display;

use fobs::options::Priority;
use jiff::Timestamp;

use super::CpArgs;

impl CpArgs {
    /// The options that count where the sources are; those that say how to reach hosts count here.
    pub fn far_words(&self) -> Vec<Vec<u8>> {
        let mut words: Vec<Vec<u8>> = Vec::new();
        let mut add = |word: String| words.push(word.into_bytes());
        let switches = [
            ("-r", self.recursive),
            ("-p", self.preserve),
            ("-C", self.compress),
            ("--fsync", self.fsync),
            ("--no-partial", self.resume.no_partial),
            ("--append-verify", self.resume.append_verify),
            ("--checksum", self.resume.checksum),
            ("-4", self.route.ipv4),
            ("-6", self.route.ipv6),
        ];
        switches.iter().filter(|(_, given)| *given).for_each(|(word, _)| add((*word).to_owned()));
        let mut value = |name: &str, value: Option<&dyn Display>| {
            if let Some(value) = value {
                add(format!("--{name}={value}"));
            }
        };
        let display = |given: &Option<u64>| given.map(|number| number.to_string());
        let rate = display(&self.rate.or(self.limit_kbit.map(|kbit| kbit.saturating_mul(1000))));
        let ports = self.route.udp_ports.map(|ports| format!("{}-{}", ports.first, ports.last));
        let deadline = self.deadline.and_then(|at| Timestamp::try_from(at).ok());
        let seconds = self.timeout.map(|time| time.as_secs());
        let floor = self.min_rate.map(|floor| format!("{}/{}s", floor.bits_per_second, floor.over.as_secs()));
        let transport = if self.through_here { "ssh".to_owned() } else { self.transport.to_string() };
        let priority = Some(self.priority).filter(|priority| *priority != Priority::Fair);
        value("cc", Some(&self.cc.name()));
        value("transport", Some(&transport));
        value("tcp-cc", self.tcp_cc.as_ref().map(|it| it as &dyn Display));
        value("tcp-buffer", self.tcp_buffer.as_ref().map(|it| it as &dyn Display));
        value("stream-allotment", Some(&self.stream_allotment));
        value("loss-cause", Some(&self.loss_cause.name()));
        value("priority", priority.as_ref().map(|it| it as &dyn Display));
        value("rate", rate.as_ref().map(|it| it as &dyn Display));
        value("udp-ports", ports.as_ref().map(|it| it as &dyn Display));
        value("deadline", deadline.as_ref().map(|it| it as &dyn Display));
        value("timeout", seconds.as_ref().map(|it| it as &dyn Display));
        value("min-rate", floor.as_ref().map(|it| it as &dyn Display));
        value("ack-every", self.ack_every.as_ref().map(|it| it as &dyn Display));
        value("burst", self.burst.as_ref().map(|it| it as &dyn Display));
        value("packet-size", self.packet_size.as_ref().map(|it| it as &dyn Display));
        words
    }
}

#[cfg(test)]
mod tests {
    use crate::args::{Cli, Command};
    use clap::Parser;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    fn parsed(words: Vec<OsString>) -> fobs::options::TransferOptions {
        let words = ["fobs", "cp"].map(OsString::from).into_iter().chain(words);
        let Ok(Cli { command: Command::Cp(args) }) = Cli::try_parse_from(words) else {
            panic!("valid words")
        };
        crate::resolve::copy(&args).expect("valid options").options
    }

    #[test]
    fn options_of_the_data_reach_the_host_of_the_sources() {
        for given in [
            "",
            "-rp -C --fsync --append-verify --checksum -4",
            "--no-partial -6 --udp-ports 5000-5009 --transport tcp:4",
            "--rate 200M --timeout 90 --min-rate 1Mbit/30s --ack-every 64 --burst 2 --packet-size 8KiB",
            "--priority scavenger --loss-cause off -l 8000",
            "--cc fixed --rate 1G",
            "--tcp-cc cubic --tcp-buffer 4M --stream-allotment equal-parts",
        ] {
            let words: Vec<OsString> = given.split_whitespace().map(OsString::from).collect();
            let all = [words.clone(), vec!["a".into(), "b:".into()]].concat();
            let args = ["fobs", "cp"].map(OsString::from).into_iter().chain(all.clone());
            let Ok(Cli { command: Command::Cp(args) }) = Cli::try_parse_from(args) else { panic!("{given}") };
            let mut far: Vec<OsString> = args.far_words().into_iter().map(OsString::from_vec).collect();
            far.extend(["a".into(), "b:".into()]);
            assert_eq!(parsed(far), parsed(all), "{given}");
        }
    }
}
