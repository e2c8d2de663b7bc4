use super::file::Value;
use super::*;
use crate::args::CpArgs;
use crate::args::sync::SyncArgs;
use crate::flags::{Chosen, Consent, Limit};
use fobs::{AddressFamily, CongestionControl, Priority};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Two files in a directory of their own, and variables.
struct World {
    directory: tempfile::TempDir,
    variables: Vec<(&'static str, &'static str)>,
}

impl World {
    fn new(user: &str, system: &str) -> World {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, text) in [("user.toml", user), ("system.toml", system)] {
            let path = directory.path().join(name);
            fs::write(&path, text).expect("room");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("own file");
        }
        World { directory, variables: Vec::new() }
    }

    fn with(mut self, name: &'static str, value: &'static str) -> World {
        self.variables.push((name, value));
        self
    }

    fn places(&self) -> Places {
        Places {
            user: Some(self.directory.path().join("user.toml")),
            system: self.directory.path().join("system.toml"),
            variables: self.variables.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            home: Some("/home/me".into()),
        }
    }

    fn cp(&self, line: &str) -> Result<CpArgs, Refusal> {
        let words = ["fobs", "cp"].into_iter().chain(line.split_whitespace()).map(OsString::from).collect();
        parse_with(words, &|| self.places(), &|_| ()).map(|cli| match cli.command {
            args::Command::Cp(copy) => *copy,
            other => panic!("{other:?}"),
        })
    }

    #[track_caller]
    fn sync(&self, line: &str) -> SyncArgs {
        let words = ["fobs", "sync"].into_iter().chain(line.split_whitespace()).map(OsString::from).collect();
        match parse_with(words, &|| self.places(), &|_| ())
            .unwrap_or_else(|refusal| panic!("{line}: {refusal:?}"))
            .command
        {
            args::Command::Sync(sync) => *sync,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn good(&self, line: &str) -> CpArgs {
        self.cp(line).unwrap_or_else(|refusal| panic!("{line}: {refusal:?}"))
    }

    #[track_caller]
    fn bad(&self, line: &str) -> String {
        match self.cp(line).expect_err(line) {
            Refusal::Configuration(error) => {
                error.message.replace(&self.directory.path().display().to_string(), "D")
            }
            Refusal::Parser(error) => panic!("{line}: {error}"),
        }
    }
}

#[test]
fn a_nearer_place_takes_precedence() {
    let both = World::new("rate = '2M'\n", "rate = '1M'\nack-every = 7\n");
    let copy = both.good("a h:");
    assert_eq!((copy.chosen.options.rate_limit, copy.chosen.options.ack_every), (Some(2_000_000), Some(7)));
    let varied = both.with("FOBS_RATE", "3M").with("FOBS_ACK_EVERY", "");
    let copy = varied.good("a h:");
    assert_eq!((copy.chosen.options.rate_limit, copy.chosen.options.ack_every), (Some(3_000_000), Some(7)));
    assert_eq!(varied.good("--rate 4M a h:").chosen.options.rate_limit, Some(4_000_000));
    assert_eq!(varied.good("--no-rate a h:").chosen.options.rate_limit, None);
}

#[test]
fn the_first_block_that_matches_sets_a_key() {
    let text = "rate = '1M'\ncompress = true\n[host.'*.slow.org']\nrate = '2M'\n[host.'*.org']\nrate = '3M'\n\
                compress = false\n[host.'fobs://d']\nidentity = '~/key'\n";
    let world = World::new(text, "[host.'*']\nfsync = true\nrate = '9M'\n");
    for (host, rate, compress) in [
        ("a.slow.org:", 2, false),
        ("me@b.ORG:x", 3, false),
        ("c:", 1, true),
        ("ssh://a.slow.org/", 2, false),
    ] {
        let copy = world.good(&format!("a {host}")).chosen.options.clone();
        assert_eq!(
            (copy.rate_limit, copy.compress, copy.fsync),
            (Some(rate * 1_000_000), compress, true),
            "{host}"
        );
    }
    assert_eq!(world.good("a fobs://d/").chosen.options.identity.as_deref(), Some(Path::new("/home/me/key")));
    assert_eq!(world.good("a d:").chosen.options.identity, None);
}

#[test]
fn the_command_line_displaces_what_it_contradicts() {
    let text = "rate = '1M'\nquiet = true\nipv4 = true\npriority = 'scavenger'\ndeadline = '2h'\nverbose = 2\n\
                ssh-option = ['A=1', 'B=2']\nrecursive = true\n";
    let world = World::new(text, "");
    let Chosen { options, program, .. } = world.good("a h:").chosen.clone();
    assert_eq!((program.quiet, options.recursive, program.verbose), (true, true, 2));
    assert_eq!(options.address_family, AddressFamily::V4);
    assert_eq!(options.ssh.options, ["A=1", "B=2"]);
    let Chosen { options, program, limit, .. } =
        world.good("-l 5 -v -6 --cc cubic --no-recursive -o C=3 a h:").chosen.clone();
    assert_eq!((options.rate_limit, limit), (None, Some(Limit { bits_per_second: Some(5000) })));
    assert_eq!((program.quiet, program.verbose, options.address_family), (false, 1, AddressFamily::V6));
    assert_eq!((options.priority, options.deadline, options.recursive), (Priority::Fair, None, false));
    // ssh takes the first value of each option.
    assert_eq!(options.ssh.options, ["C=3", "A=1", "B=2"]);
    assert!(world.good("--cc auto a h:").chosen.options.deadline.is_some());
    let other = World::new("cc = 'cubic'\n", "");
    assert_eq!(
        other.good("--priority greedy a h:").chosen.options.congestion_control,
        CongestionControl::Auto
    );
    assert_eq!(other.good("a h:").chosen.options.congestion_control, CongestionControl::Cubic);
    // After `--` there are only names.
    assert_eq!(world.good("-- -r h:").paths, ["-r", "h:"]);
}

#[test]
fn a_sync_takes_the_way_to_its_host_but_no_rule() {
    let text = "rate = '2M'\ncompress = true\nrecursive = true\nchecksum = true\nquiet = true\n\
                [host.h]\nport = 7\ntimeout = '20'\nfsync = true\n";
    let world = World::new(text, "").with("FOBS_JUMP", "gate");
    let sync = world.sync("-t a h:");
    let plain = |line: &str| World::new("", "").sync(line);
    let expected = plain("--compress --fsync -t a h:");
    assert_eq!(sync.chosen.sync, expected.chosen.sync, "rules stay as they were typed");
    assert_eq!(sync.chosen.program, expected.chosen.program, "and what is printed");
    let options = &sync.chosen.options;
    assert_eq!((options.rate_limit, options.timeout.as_secs()), (Some(2_000_000), 20));
    assert!(options.compress && options.fsync);
    assert_eq!((options.port, options.ssh.jump.as_deref()), (Some(7), Some("gate")));
    let sync = world.sync("--bwlimit=1M --no-compress --no-fsync --no-jump -t a h:");
    let Chosen { options, limit, .. } = &sync.chosen;
    assert_eq!((options.rate_limit, &options.ssh.jump, limit.is_some()), (None, &None, true));
    assert!(!options.compress && !options.fsync);
    let fixed = World::new("cc = 'fixed'\n", "");
    let words = ["fobs", "sync", "-a", "a", "h:"].map(OsString::from).to_vec();
    match parse_with(words, &|| fixed.places(), &|_| ()) {
        Err(Refusal::Configuration(error)) => assert!(error.message.contains("defaults in effect: cc")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn options_of_the_other_carrier_are_left_out() {
    let text = "known-hosts = 'k'\nssh-config = 'c'\njump = 'j'\nssh-option = 'A=1'\nssh = 's'\nfobs-path = 'f'\n\
         push-binary = true\n";
    let world = World::new(text, "");
    for (line, of_ssh) in [("a h:", true), ("a fobs://h/", false)] {
        let copy = world.good(line);
        let options = &copy.chosen.options;
        assert_eq!((options.ssh.jump.is_some(), options.ssh.options.is_empty()), (of_ssh, !of_ssh), "{line}");
        let is_named = copy.has("fobs-path");
        assert_eq!((options.known_hosts.is_some(), is_named), (!of_ssh, of_ssh), "{line}");
        assert_eq!(copy.consent() == Consent::Given, of_ssh, "{line}");
        crate::resolve::copy(&copy).expect(line);
    }
}

#[test]
fn mistakes_name_their_place_and_the_remedy() {
    for (text, expected) in [
        ("\nrat = '1M'\n", "D/user.toml:2: there is no key \"rat\"; did you mean \"rate\"?"),
        ("ack_every = 1\n", "D/user.toml:1: there is no key \"ack_every\"; did you mean \"ack-every\"?"),
        ("warp = 9\n", "D/user.toml:1: there is no key \"warp\"; 'fobs config --why' lists them all"),
        ("json = true\n", "D/user.toml:1: json cannot have a default: give --json to the command"),
        ("delete = true\n", "D/user.toml:1: delete cannot have a default: give --delete to the command"),
        ("compress = 'yes'\n", "D/user.toml:1: compress takes true or false, not a text"),
        ("rate = true\n", "D/user.toml:1: rate takes a text, not true or false"),
        ("rate = '10Q'\n", "D/user.toml:1: invalid value '10Q' for '--rate <RATE>': \"Q\" is not a unit"),
        ("cc = 'warp'\n", "D/user.toml:1: invalid value 'warp' for '--cc <CC>' [possible values: auto"),
        ("[host.b]\nack-every = 0\n", "D/user.toml:2 [host.\"b\"]: invalid value '0' for '--ack-every <N>'"),
        ("verbose = 10\n", "D/user.toml:1: verbose takes a number from 0 to 9, not 10"),
        ("rate =\n", "D/user.toml:1: rate: "),
        (
            "cc = 'fixed'\n",
            "--cc fixed needs its rate, as in --cc fixed --rate 1Gbit; defaults in effect: cc (D/user.toml:1)",
        ),
    ] {
        let why = World::new(text, "").bad("a h:");
        assert!(why.starts_with(expected), "{text:?}: {why}");
    }
    for (name, value, expected) in [
        ("FOBS_COMPRESS", "maybe", "FOBS_COMPRESS: compress takes true or false, not \"maybe\""),
        ("FOBS_RATE", "1Q", "FOBS_RATE: invalid value '1Q' for '--rate <RATE>'"),
    ] {
        let why = World::new("", "").with(name, value).bad("a h:");
        assert!(why.starts_with(expected), "{name}: {why}");
    }
    World::new("", "").with("FOBS_SOMETHING_ELSE", "1").good("a h:");
}

/// What a copy with this variable set is told.
fn told(variables: &[&'static str]) -> Vec<String> {
    let world = variables.iter().fold(World::new("", ""), |world, name| world.with(name, "1M"));
    let told = std::cell::RefCell::new(Vec::new());
    let words = ["fobs", "cp", "a", "h:"].map(OsString::from).to_vec();
    parse_with(words, &|| world.places(), &|notice| told.borrow_mut().push(notice.to_owned()))
        .expect("valid");
    let told = told.into_inner();
    let error = show::values(&world.places(), &Target::default(), show::Rows::Set).err();
    assert_eq!(error.map(|error| error.message).as_ref(), told.first());
    told
}

#[test]
fn a_variable_that_sets_nothing_is_told_once_and_ends_no_copy() {
    let near = "the variable FOBS_RTAE sets nothing; did you mean FOBS_RATE?";
    assert_eq!(told(&["FOBS_RTAE"]), [near]);
    for (typed, meant) in [
        ("FOBS_RATE_LIMIT", "FOBS_RATE"),
        ("FOBS_MIN_RATES", "FOBS_MIN_RATE"),
        ("FOBS_COMPRES", "FOBS_COMPRESS"),
    ] {
        let expected = format!("the variable {typed} sets nothing; did you mean {meant}?");
        assert_eq!(told(&[typed]), [expected]);
    }
    let help = "'fobs config --why' lists what can be set";
    assert_eq!(told(&["FOBS_HOME"]), [format!("the variable FOBS_HOME sets nothing; {help}")]);
    let many = ["FOBS_Q1", "FOBS_Q2", "FOBS_Q3", "FOBS_Q4", "FOBS_Q5", "FOBS_Q6"];
    let expected = format!("the variables FOBS_Q1, FOBS_Q2, FOBS_Q3, FOBS_Q4 and 2 more set nothing; {help}");
    assert_eq!(told(&many), [expected]);
    assert!(told(&["FOBS_TEST_BIN", "FOBS_CONFIG", "OTHER"]).is_empty());
}

#[test]
fn a_quiet_copy_is_told_errors_only() {
    let world = World::new("", "").with("FOBS_RTAE", "1M");
    for option in ["-q", "--quiet"] {
        let words = ["fobs", "cp", option, "a", "h:"].map(OsString::from).to_vec();
        parse_with(words, &|| world.places(), &|notice| panic!("{notice}")).expect("valid");
    }
    let sync = ["fobs", "sync", "-aq", "a", "h:"].map(OsString::from).to_vec();
    parse_with(sync, &|| world.places(), &|notice| panic!("{notice}")).expect("valid");
    assert!(told(&["FOBS_RTAE"]).len() == 1);
}

#[test]
fn a_file_that_others_can_write_is_refused() {
    let world = World::new("rate = '1M'\n", "");
    let file = world.directory.path().join("user.toml");
    for (mode, part) in
        [(0o664, "other users can write it; run chmod go-w D/user.toml"), (0o602, "chmod go-w")]
    {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("own file");
        let why = world.bad("a h:");
        assert!(why.starts_with("cannot use D/user.toml: ") && why.contains(part), "{why}");
    }
    fs::remove_file(&file).expect("own file");
    world.good("a h:");
    fs::create_dir(&file).expect("own directory");
    assert!(world.bad("a h:").contains("not a regular file"));
}

#[test]
fn help_needs_no_configuration() {
    let world = World::new("broken", "");
    match world.cp("--help") {
        Err(Refusal::Parser(error)) => assert_eq!(error.kind(), clap::error::ErrorKind::DisplayHelp),
        other => panic!("{other:?}"),
    }
}

#[test]
fn why_names_value_and_origin_of_every_key() {
    let world = World::new("rate = '1M'\n[host.h]\nssh-option = ['A=1']\n", "").with("FOBS_COMPRESS", "yes");
    let target = Target::of_host("h:".as_ref()).expect("a host");
    let text = show::values(&world.places(), &target, show::Rows::All).expect("valid");
    let text = text.replace(&world.directory.path().display().to_string(), "D");
    let row = |name: &str| {
        let line = text.lines().find(|line| line.split(' ').next() == Some(name)).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("rate"), "rate \"1M\" D/user.toml:1");
    assert_eq!(row("ssh-option"), "ssh-option [\"A=1\"] D/user.toml:3 [host.\"h\"]");
    assert_eq!(row("compress"), "compress true FOBS_COMPRESS");
    assert_eq!(row("cc"), "cc \"auto\" default");
    assert_eq!(row("known-hosts"), "", "over SSH it has no meaning");
    assert_eq!(text.lines().count(), keys::all().len() - 1);
    let set = show::values(&world.places(), &target, show::Rows::Set).expect("valid");
    assert_eq!(set.lines().count(), 3, "{set}");
    // Without a host, what is set for some hosts is shown too.
    let world = World::new("[host.h]\nrate = '1M'\n[host.\"*.x\"]\nrate = '2M'\n", "");
    let set = show::values(&world.places(), &Target::default(), show::Rows::Set).expect("valid");
    let blocks: Vec<&str> = set.lines().filter_map(|line| line.split(" [host.").nth(1)).collect();
    assert_eq!(blocks, ["\"h\"]", "\"*.x\"]"], "{set}");
    let other = Target::of_host("other:".as_ref()).expect("a host");
    assert_eq!(show::values(&world.places(), &other, show::Rows::Set).expect("valid"), "");
}

#[test]
fn the_definition_with_its_negations_is_consistent() {
    definition().debug_assert();
}

#[test]
fn every_key_takes_a_value_of_its_type() {
    for key in keys::all() {
        let value = match key.kind {
            Shape::Switch | Shape::Count => Value::Flag(true),
            Shape::Value => Value::Text("x".to_owned()),
            Shape::List => Value::List(vec!["x".to_owned()]),
        };
        assert_eq!(key.arguments(&value).expect("its type").len(), 1, "{}", key.name);
    }
}

#[test]
fn every_file_of_the_fuzz_corpus_is_survived() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/config");
    let files: Vec<_> = fs::read_dir(corpus).expect("the corpus").collect();
    assert!(!files.is_empty());
    for file in files {
        let text = fs::read(file.expect("its entries").path()).expect("a file");
        if let Err(problem) = super::file::parse(&String::from_utf8_lossy(&text)) {
            assert!(problem.line >= 1, "{problem:?}");
        }
    }
}
