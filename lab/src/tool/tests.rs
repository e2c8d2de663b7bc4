//! Command lines of tools, and figures from what their programs really printed (`captured/`).

use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::record::End;

/// Directories and programs of a task that is never run.
struct Place {
    folder: tempfile::TempDir,
    programs: Programs,
    options: Options,
    amount: Amount,
}

impl Place {
    /// A place where every program is `echo`, but for `ssh-keygen`, which does nothing: its key is there
    /// already.
    fn new(options: &str, amount: Amount) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let programs = folder.path().join("bin");
        fs::create_dir(&programs).unwrap();
        let peers = ["globus-gridftp-server", "globus-url-copy", "qcp", "udt-recv", "udt-send"];
        for name in ["fobs", "iperf3", "rsync", "scp", "ssh", "sshd"].into_iter().chain(peers) {
            symlink("/bin/echo", programs.join(name)).unwrap();
        }
        symlink("/bin/true", programs.join("ssh-keygen")).unwrap();
        fs::create_dir(folder.path().join("ssh")).unwrap();
        fs::write(folder.path().join("ssh/user_key.pub"), "public\n").unwrap();
        let programs = Programs::only_in(&programs);
        Place { programs, folder, options: options.parse().unwrap(), amount }
    }

    /// The second flow of a contest.
    fn task(&self) -> Task<'_> {
        let host = |name: &str, number: u8| Host {
            name: name.to_owned(),
            namespace: format!("ns-{name}"),
            address: format!("10.77.0.{number}"),
            address6: format!("fd77::{number}"),
        };
        let rtt = Duration::from_millis(65);
        Task {
            options: &self.options,
            programs: &self.programs,
            path: PathFacts { rate_bps: 1e8, return_rate_bps: 1e8, rtt, queue_bytes: 812_500, mtu: 1500 },
            sender: host("a", 1),
            receiver: host("b", 2),
            amount: self.amount,
            source: self.folder.path().join("data-1000"),
            destination: self.folder.path().join("arrived"),
            directory: self.folder.path().to_owned(),
            index: 1,
        }
    }

    /// The words of a program, without the folder of this place.
    fn words(&self, program: &Program) -> String {
        let words: Vec<String> =
            program.words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        words.join(" ").replace(&self.folder.path().display().to_string(), "~")
    }

    /// The outputs of a flow: standard outputs of the client and the server, a line every 0.5 s.
    fn outputs(end: End, client: &str, server: &str) -> Outputs {
        let output = |text: &str, exit| Output {
            exit,
            lines: text.lines().enumerate().map(|(n, line)| (0.5 * n as f64, line.to_owned())).collect(),
            stderr: String::new(),
        };
        let exit = if end == End::Complete { 0 } else { 1 };
        Outputs { end, client: output(client, Some(exit)), servers: vec![output(server, Some(0))] }
    }
}

const ALL_OF_IT: Amount = Amount::Bytes(1000);

#[test]
fn fobs_is_called_as_its_options_say() {
    let place = Place::new(
        "cc = \"fixed\"\nrate = \"90Mbit\"\nack_every = 16\nargs = [\"--burst\", \"2\"]",
        ALL_OF_IT,
    );
    let launch = fobs::Fobs.launch(&place.task()).unwrap();
    assert_eq!(
        place.words(&launch.client),
        "~/bin/fobs cp --json -i ~/fobs-keys/client --known-hosts ~/fobs-keys/known_hosts --cc fixed --rate 90Mbit \
         --ack-every 16 --burst 2 ~/data-1000 fobs://10.77.0.2:45700/"
    );
    assert_eq!(
        place.words(&launch.servers[0].program),
        "~/bin/fobs serve --listen 10.77.0.2:45700 --udp-ports 45701-45764 --root ~/arrived --authorized-keys \
         ~/fobs-keys/authorized_keys --identity ~/fobs-keys/server"
    );
    let authorized = fs::read_to_string(place.folder.path().join("fobs-keys/authorized_keys")).unwrap();
    assert!(authorized.starts_with("read-write keygen --out "), "the line that keygen printed: {authorized}");
    assert_eq!((launch.side, launch.servers[0].side), (Side::Sender, Side::Receiver));
    assert_eq!((launch.protocol, launch.stores, launch.tcp), (Protocol::Udp, Stores::File, None));

    assert_eq!(launch.history, History::Fresh);

    let place = Place::new("call = \"pull\"", ALL_OF_IT);
    let launch = fobs::Fobs.launch(&place.task()).unwrap();
    assert!(place.words(&launch.client).ends_with("fobs://10.77.0.1:45700/data-1000 ~/arrived"));
    assert!(place.words(&launch.servers[0].program).contains("--root ~ "));
    assert_eq!((launch.side, launch.servers[0].side), (Side::Receiver, Side::Sender));
}

#[test]
fn a_transport_of_fobs_says_what_its_data_crosses_by() {
    let launch = |options: &str| fobs::Fobs.launch(&Place::new(options, ALL_OF_IT).task()).unwrap();
    let tcp = launch("transport = \"tcp:4\"\ntcp_cc = \"cubic\"\nwindows = \"small\"");
    let settings =
        Tcp { congestion: Some("cubic".to_owned()), buffers: Buffers::Tuned, windows: Windows::Small };
    assert_eq!((tcp.protocol, tcp.tcp), (Protocol::Tcp, Some(settings)));
    assert_eq!(launch("transport = \"ssh\"\ncarrier = \"daemon\"").protocol, Protocol::Tcp);
    assert_eq!(launch("transport = \"auto\"").protocol, Protocol::Either);
    assert_eq!(launch("transport = \"udp\"").protocol, Protocol::Udp);
    let words = launch("transport = \"tcp:4\"").client.words.join(std::ffi::OsStr::new(" "));
    assert!(words.to_string_lossy().contains("--transport tcp:4"), "{words:?}");
}

#[test]
fn a_fobs_that_shall_remember_needs_a_copy_with_an_end() {
    let options = "history = \"remembered\"";
    let place = Place::new(options, ALL_OF_IT);
    assert_eq!(fobs::Fobs.launch(&place.task()).unwrap().history, History::Remembered);
    let place = Place::new(options, Amount::Time(Duration::from_secs(2)));
    let error = fobs::Fobs.launch(&place.task()).unwrap_err();
    assert!(error.contains("history") && error.contains("bytes instead of duration"), "{error}");
}

#[test]
fn what_an_installed_fobs_lacks_is_named() {
    let help = include_str!("captured/fobs-cp-help.txt");
    let understands = |text: &str| fobs::understands(help, &text.parse().unwrap());
    for known in [
        "",
        "cc = \"greedy\"\nack_every = 2\nburst = 2\npacket_size = 1024",
        "cc = \"tricolor\"\nargs = [\"-C\", \"--rate=1M\", \"--explain\"]",
    ] {
        assert_eq!(understands(known), Ok(()), "{known}");
    }
    assert_eq!(understands("cc = \"warp\"").unwrap_err(), "this fobs has no --cc warp");
    assert_eq!(understands("args = [\"--resume\"]").unwrap_err(), "this fobs has no option --resume");
    assert!(understands("args = [\"--resume=1\"]").is_err());
}

#[test]
fn fobs_says_what_it_did_in_its_done_line() {
    let place = Place::new("", Amount::Bytes(12_000_000));
    let outputs = Place::outputs(End::Complete, include_str!("captured/fobs-done.jsonl"), "");
    let figures = fobs::Fobs.figures(&place.task(), &outputs).unwrap();
    assert_eq!(figures.bytes, Some(12_000_000));
    assert_eq!(figures.data_s, Some(2.420_035_774_499_999_6));
    assert_eq!(figures.goodput_bps, Some(39_668_835.069_115_63));
    assert_eq!(figures.report["packets_sent"], 1537);
    // Lines 0.5 s apart: start, 262144, 4194304, 8388608, (file), 12000000 bytes.
    let expected = [262_144.0, 3_932_160.0, 4_194_304.0].map(|bytes| bytes * 16.0);
    let rates: Vec<f64> = figures.series.iter().map(|[_, rate]| *rate).collect();
    assert_eq!(rates[..3], expected);
    assert_eq!(figures.series[3], [3.0, 3_611_392.0 * 8.0]);
}

#[test]
fn a_fobs_that_did_not_finish_says_how_far_it_came_or_why() {
    let place = Place::new("", ALL_OF_IT);
    let figures = |end, text| fobs::Fobs.figures(&place.task(), &Place::outputs(end, text, ""));
    let stopped = figures(End::Stopped, include_str!("captured/fobs-stopped.jsonl")).unwrap();
    assert_eq!((stopped.bytes, stopped.data_s), (Some(4_194_304), Some(1.0)));
    assert_eq!(stopped.report["code"], "interrupted");
    let error = figures(End::Failed, include_str!("captured/fobs-failed.jsonl")).unwrap_err();
    assert!(error.starts_with("fobs: cannot read 'no-such-file'"), "{error}");
    assert!(figures(End::Complete, "").is_err(), "silence is no success");
    let partly =
        r#"{"event":"done","bytes":5,"seconds":1.0,"goodput_bps":40.0,"errors":[{"message":"disk full"}]}"#;
    assert!(figures(End::Complete, partly).unwrap_err().contains("disk full"));
}

#[test]
fn iperf3_is_called_as_its_options_say() {
    let words = |options: &str, amount| {
        let place = Place::new(options, amount);
        let launch = iperf3::Iperf3.launch(&place.task()).unwrap();
        (place.words(&launch.client), place.words(&launch.servers[0].program), launch)
    };
    let (client, server, launch) = words("", ALL_OF_IT);
    assert_eq!(client, "~/bin/iperf3 -J -i 0.5 -p 5301 -c 10.77.0.2 -C bbr -n 1000");
    assert_eq!(server, "~/bin/iperf3 -J -i 0.5 -p 5301 -s -1 -B 10.77.0.2");
    assert_eq!((launch.side, launch.stop, launch.stores), (Side::Sender, Stop::ByTool, Stores::Nothing));
    let options = "call = \"pull\"\ncc = \"reno\"\nstreams = 8\nwindow = \"64KiB\"\nwindows = \"small\"";
    let (client, _, launch) = words(options, Amount::Time(Duration::from_secs(10)));
    assert_eq!(client, "~/bin/iperf3 -J -i 0.5 -p 5301 -c 10.77.0.1 -C reno -t 10 -P 8 -w 65536 -R");
    assert_eq!(launch.side, Side::Receiver);
    assert_eq!(launch.tcp.unwrap().windows, Windows::Small);
}

#[test]
fn iperf3s_receiver_has_the_last_word() {
    let place = Place::new("", Amount::Bytes(6_000_000));
    let client = include_str!("captured/iperf3-push-client.json");
    let outputs = Place::outputs(End::Complete, client, include_str!("captured/iperf3-push-server.json"));
    let push = iperf3::Iperf3.figures(&place.task(), &outputs).unwrap();
    assert_eq!((push.bytes, push.data_s), (Some(5_767_168), Some(1.15478)));
    assert_eq!(push.goodput_bps.map(f64::round), Some(39_953_363.0));
    assert_eq!(push.series.len(), 3);
    assert_eq!(push.series[2][0], 1.15478, "the server's interval, not the client's");
    assert_eq!(push.report["sender_tcp_congestion"], "cubic");

    let place = Place::new("call = \"pull\"", Amount::Bytes(6_000_000));
    let outputs = Place::outputs(End::Complete, include_str!("captured/iperf3-pull-client.json"), "");
    let pull = iperf3::Iperf3.figures(&place.task(), &outputs).unwrap();
    assert_eq!((pull.bytes, pull.series.len()), (Some(6_029_312), 3));
}

#[test]
fn an_iperf3_that_was_stopped_is_known_by_its_servers_intervals() {
    let place = Place::new("", ALL_OF_IT);
    let client = include_str!("captured/iperf3-stopped-client.json");
    let outputs = Place::outputs(End::Stopped, client, include_str!("captured/iperf3-stopped-server.json"));
    let figures = iperf3::Iperf3.figures(&place.task(), &outputs).unwrap();
    // The server repeats its last interval; once is right.
    assert_eq!((figures.bytes, figures.data_s), (Some(7_602_176), Some(1.502793)));
    let failed = r#"{"error": "unable to connect to server: Connection refused"}"#;
    let error = iperf3::Iperf3.figures(&place.task(), &Place::outputs(End::Failed, failed, "")).unwrap_err();
    assert_eq!(error, "iperf3: unable to connect to server: Connection refused");
    assert!(iperf3::Iperf3.figures(&place.task(), &Place::outputs(End::Complete, "", "")).is_err());
}

#[test]
fn rsync_and_scp_use_a_server_and_keys_of_their_own() {
    for (tool, push, pull) in [
        (&rsync::Rsync as &dyn Tool, "~/data-1000 peer:~/arrived/", "peer:~/data-1000 ~/arrived/"),
        (&scp::Scp, "~/data-1000 peer:~/arrived/", "peer:~/data-1000 ~/arrived/"),
    ] {
        for (options, ending, address) in
            [("", push, "10.77.0.2"), ("call = \"pull\"\ncc = \"cubic\"", pull, "10.77.0.1")]
        {
            let place = Place::new(options, ALL_OF_IT);
            assert!(tool.version(&place.programs).unwrap().contains("-V"));
            let launch = tool.launch(&place.task()).unwrap();
            let words = place.words(&launch.client);
            assert!(words.ends_with(ending) && words.contains("-F ~/ssh/config"), "{words}");
            let read = |name: &str| fs::read_to_string(place.folder.path().join("ssh").join(name)).unwrap();
            let (client, server) = (read("config"), read("sshd_config"));
            assert!(
                client.contains(&format!("HostName {address}\n")) && client.contains("Port 2322\n"),
                "{client}"
            );
            assert!(client.contains("Ciphers aes128-gcm@openssh.com\n"), "{client}");
            assert!(server.contains(&format!("ListenAddress {address}\n")) && server.contains("Port 2322\n"));
            assert_eq!(read("authorized_keys"), "public\n");
            assert_eq!(launch.servers[0].ready, Ready::Tcp(2322));
        }
    }
}

#[test]
fn every_tool_has_a_name_of_its_own_and_refuses_unknown_keys() {
    let names: std::collections::BTreeSet<&str> = names().collect();
    assert_eq!(names.len(), ALL.len());
    for name in names {
        let tool = by_name(name).unwrap();
        assert_eq!((tool.name(), tool.check(&Options::new())), (name, Ok(())));
        let error = tool.check(&"colour = 1".parse().unwrap()).unwrap_err();
        assert!(error.contains("colour"), "{name}: {error}");
    }
}

#[test]
fn gridftp_is_called_as_its_options_say() {
    let place = Place::new("", ALL_OF_IT);
    let launch = gridftp::Gridftp.launch(&place.task()).unwrap();
    assert_eq!(
        place.words(&launch.client),
        "~/bin/globus-url-copy -q -fast -p 4 file://~/data-1000 ftp://10.77.0.2:2911~/arrived/data-1000"
    );
    assert_eq!(
        place.words(&launch.servers[0].program),
        "~/bin/globus-gridftp-server -c /dev/null -aa -anonymous-user root -allow-root -1 -p 2911 -data-interface \
         10.77.0.2 -Z ~/transfers.log"
    );
    assert_eq!((launch.protocol, launch.stores), (Protocol::Tcp, Stores::File));
    let options = "streams = 3\nwindow = \"64KiB\"\ncc = \"cubic\"\nargs = [\"-bs\", \"1M\"]";
    let place = Place::new(options, Amount::Time(Duration::from_secs(10)));
    let launch = gridftp::Gridftp.launch(&place.task()).unwrap();
    let client = place.words(&launch.client);
    assert!(client.contains(" -p 3 -tcp-bs 65536 -t 10 -bs 1M file://~"), "{client}");
    assert_eq!(
        (launch.stores, launch.tcp.unwrap().congestion),
        (Stores::Discarded, Some("cubic".to_owned()))
    );
}

#[test]
fn gridftps_figures_are_its_servers_log() {
    let place = Place::new("", ALL_OF_IT);
    let outputs = Place::outputs(End::Complete, "", "");
    let error = gridftp::Gridftp.figures(&place.task(), &outputs).unwrap_err();
    assert!(error.contains("logged no transfer"), "{error}");
    let line = "DATE=20261121231832.500000 HOST=h START=20261121231831.500000 FILE=/f NBYTES=1000 STREAMS=4 CODE=226\n";
    fs::write(place.folder.path().join("transfers.log"), line).unwrap();
    let figures = gridftp::Gridftp.figures(&place.task(), &outputs).unwrap();
    assert_eq!((figures.bytes, figures.goodput_bps), (Some(1000), Some(8000.0)));
}

#[test]
fn udt_is_called_as_the_path_says() {
    let place = Place::new("", ALL_OF_IT);
    let launch = udt::Udt.launch(&place.task()).unwrap();
    let both =
        "--address 10.77.0.2 --port 9100 --mss 1500 --window 1625000 --udp-buffer 4194304 --timeout 3600";
    assert_eq!(place.words(&launch.client), format!("~/bin/udt-send {both} --file ~/data-1000"));
    let server = &launch.servers[0];
    assert_eq!(place.words(&server.program), format!("~/bin/udt-recv {both} --file ~/arrived/data-1000"));
    assert_eq!((server.ready, server.after), (Ready::Udp(9100), After::Waited));
    let place = Place::new("window = \"1MiB\"\nudp_buffer = \"64KiB\"", Amount::Time(Duration::from_secs(2)));
    let launch = udt::Udt.launch(&place.task()).unwrap();
    let client = place.words(&launch.client);
    assert!(
        client.contains("--window 1048576 --udp-buffer 65536") && client.ends_with(" --time-ms 2000"),
        "{client}"
    );
    assert!(place.words(&launch.servers[0].program).ends_with(" --file /dev/null"));
    assert_eq!(launch.stores, Stores::Discarded);
}

#[test]
fn qcp_is_told_the_path() {
    let words = |options: &str| {
        let place = Place::new(options, ALL_OF_IT);
        let launch = qcp::Qcp.launch(&place.task()).unwrap();
        (place.words(&launch.client), launch.side)
    };
    let ssh = "~/bin/qcp -S -F -S ~/ssh/config --ssh-config ~/ssh/config --remote-qcp-binary ~/bin/qcp --address-family \
               inet --color never --statistics --remote-port 46100-46163";
    let (client, side) = words("");
    let path = "--tx 12500000 --rx 12500000 --rtt 65 --initial-mtu 1472 --max-mtu 1472 --congestion bbr";
    assert_eq!(client, format!("{ssh} {path} ~/data-1000 peer:~/arrived/data-1000"));
    assert_eq!(side, Side::Sender);
    let (client, side) = words("call = \"pull\"\ncc = \"cubic\"\ntimes = 2");
    let path = "--tx 12500000 --rx 25000000 --rtt 65 --initial-mtu 1472 --max-mtu 1472 --congestion cubic";
    assert_eq!(client, format!("{ssh} {path} peer:~/data-1000 ~/arrived/data-1000"));
    assert_eq!(side, Side::Receiver);
}
