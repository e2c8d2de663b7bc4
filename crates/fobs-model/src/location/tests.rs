use super::*;

fn parsed(argument: impl AsRef<[u8]>) -> Result<Location> {
    parse(OsStr::from_bytes(argument.as_ref()))
}

/// Carrier, user, host, port, path: a row of the tables below.
type Parts<'a> = (Carrier, Option<&'a str>, &'a str, Option<u16>, &'a [u8]);

fn location((carrier, user, host, port, path): Parts) -> Location {
    Location::Remote(Remote {
        carrier,
        user: user.map(str::to_owned),
        host: host.to_owned(),
        port,
        path: path.to_vec(),
    })
}

#[test]
fn remote_locations_are_parsed() {
    use Carrier::{Daemon, Ssh};
    let table: &[(&[u8], Parts)] = &[
        (b"host:", (Ssh, None, "host", None, b"")),
        (b"host:file", (Ssh, None, "host", None, b"file")),
        (b"host:/abs/dir/", (Ssh, None, "host", None, b"/abs/dir/")),
        (b"host:a:b", (Ssh, None, "host", None, b"a:b")),
        (b"host:-", (Ssh, None, "host", None, b"-")),
        (b"host:100%", (Ssh, None, "host", None, b"100%")),
        (b"host:caf\xe9", (Ssh, None, "host", None, b"caf\xe9")),
        (b"host:~", (Ssh, None, "host", None, b"")),
        (b"host:~/", (Ssh, None, "host", None, b"./")),
        (b"host:~/x", (Ssh, None, "host", None, b"x")),
        (b"host:~//x", (Ssh, None, "host", None, b"x")),
        (b"host:./~", (Ssh, None, "host", None, b"./~")),
        (b"host:~other/x", (Ssh, None, "host", None, b"~other/x")),
        (b"me@host:file", (Ssh, Some("me"), "host", None, b"file")),
        (b"me@corp@host:file", (Ssh, Some("me@corp"), "host", None, b"file")),
        (b"@host:file", (Ssh, None, "host", None, b"file")),
        (b"host:a@b", (Ssh, None, "host", None, b"a@b")),
        (b"host:a@b/c:d", (Ssh, None, "host", None, b"a@b/c:d")),
        (b"host:/a@b:c", (Ssh, None, "host", None, b"/a@b:c")),
        (b"host://x", (Ssh, None, "host", None, b"//x")),
        (b"[::1]:file", (Ssh, None, "::1", None, b"file")),
        (b"[host]:file", (Ssh, None, "host", None, b"file")),
        (b"[fe80::1%eth0]:", (Ssh, None, "fe80::1%eth0", None, b"")),
        (b"me@[fd00::2]:/x]:y", (Ssh, Some("me"), "fd00::2", None, b"/x]:y")),
        (b"ssh://host", (Ssh, None, "host", None, b"")),
        (b"ssh://host/", (Ssh, None, "host", None, b"")),
        (b"ssh://host/file", (Ssh, None, "host", None, b"file")),
        (b"ssh://host//abs", (Ssh, None, "host", None, b"/abs")),
        (b"ssh://host/~/x", (Ssh, None, "host", None, b"x")),
        (b"scp://host/file", (Ssh, None, "host", None, b"file")),
        (b"ssh://me@host:2222/a%20b%2fc%FF", (Ssh, Some("me"), "host", Some(2222), b"a b/c\xff")),
        (b"ssh://me%40corp@host/x", (Ssh, Some("me@corp"), "host", None, b"x")),
        (b"ssh://me@[::1]:22/x", (Ssh, Some("me"), "::1", Some(22), b"x")),
        (b"ssh://[::1]", (Ssh, None, "::1", None, b"")),
        (b"fobs+ssh://host/abs/%41%2Fb", (Ssh, None, "host", None, b"/abs/A/b")),
        (b"fobs+ssh://me@host:22//abs/", (Ssh, Some("me"), "host", Some(22), b"/abs/")),
        (b"fobsssh://host/~/x", (Ssh, None, "host", None, b"/~/x")),
        (b"fobsssh://host", (Ssh, None, "host", None, b"/")),
        (b"fobs://host", (Daemon, None, "host", None, b"")),
        (b"fobs://host/", (Daemon, None, "host", None, b"")),
        (b"fobs://host/a/b/", (Daemon, None, "host", None, b"a/b/")),
        (b"fobs://host//a", (Daemon, None, "host", None, b"a")),
        (b"fobs://host/%2f%2Fa", (Daemon, None, "host", None, b"a")),
        (b"fobs://host/~/a", (Daemon, None, "host", None, b"~/a")),
        (b"fobs://[fe80::1%25eth0]:45600/a", (Daemon, None, "fe80::1%eth0", Some(45600), b"a")),
        (b"ssh://me@[fe80::1%eth0]/a", (Ssh, Some("me"), "fe80::1%eth0", None, b"a")),
        (b"fobs://[fe80::1%253]/a", (Daemon, None, "fe80::1%3", None, b"a")),
        (b"fobs://[fe80::1%25]/a", (Daemon, None, "fe80::1%25", None, b"a")),
        (b"fobs://[fd00::2]:45600/a%25", (Daemon, None, "fd00::2", Some(45600), b"a%")),
        (b"fobs://10.0.0.1:1/a?b#c", (Daemon, None, "10.0.0.1", Some(1), b"a?b#c")),
    ];
    for (argument, parts) in table {
        let shown = String::from_utf8_lossy(argument);
        assert_eq!(parsed(argument), Ok(location(*parts)), "{shown}");
    }
}

#[test]
fn local_paths_and_standard_streams_are_parsed() {
    let table: [&[u8]; 9] =
        [b"file", b"/abs", b"./a:b", b"dir/a:b", b":a", b"[a", b"[a/b]:c", b"caf\xe9", b"./-"];
    for argument in table {
        let path = PathBuf::from(OsStr::from_bytes(argument));
        assert_eq!(parsed(argument), Ok(Location::Local(path)), "{}", String::from_utf8_lossy(argument));
    }
    assert_eq!(parsed("-"), Ok(Location::Stdio));
}

#[test]
fn invalid_locations_are_refused_with_the_reason() {
    let table: &[(&[u8], &str)] = &[
        (b"", "name is empty"),
        (b"[]:x", "host name is missing"),
        (b"me@:x", "host name is missing"),
        (b"ssh://", "host name is missing"),
        (b"ssh:///x", "host name is missing"),
        (b"ssh://me@/x", "host name is missing"),
        (b"fobs://:5/x", "host name is missing"),
        (b"fobs://[]/x", "host name is missing"),
        (b"-oProxyCommand=x:y", "cannot start with '-'"),
        (b"-me@host:y", "cannot start with '-'"),
        (b"me@-host:y", "cannot start with '-'"),
        (b"[-x]:y", "cannot start with '-'"),
        (b"ssh://-host/x", "cannot start with '-'"),
        (b"ssh://%2dme@host/x", "cannot start with '-'"),
        (b"fobs://-host/x", "cannot start with '-'"),
        (b"a b:x", "white space or control"),
        (b"a\x1b:x", "white space or control"),
        (b"h\xff:x", "not UTF-8"),
        (b"h\xff@h:x", "not UTF-8"),
        (b"ssh://host:0/x", "not a port"),
        (b"ssh://host:/x", "not a port"),
        (b"ssh://host:65536/x", "not a port"),
        (b"ssh://host:+22/x", "not a port"),
        (b"ssh://host:22x/x", "not a port"),
        (b"ssh://::1/x", "brackets"),
        (b"ssh://[::1/x", "closing ']'"),
        (b"ssh://[::1]x/x", "after ']'"),
        (b"ssh://host/%", "two hexadecimal digits"),
        (b"ssh://host/%4", "two hexadecimal digits"),
        (b"ssh://host/%zz", "two hexadecimal digits"),
        (b"ssh://host/%+1", "two hexadecimal digits"),
        (b"ssh://host/a%00b", "%00"),
        (b"fobs://me@host/x", "takes no user name"),
        (b"https://h/x", "curl or wget"),
        (b"HTTP://h/x", "curl or wget"),
        (b"rsync://h/m/x", "another protocol"),
        (b"s3://b/k", "rclone"),
        (b"gs://b/k", "rclone"),
        (b"sftp://h/x", "no SFTP"),
        (b"SSH://h/x", "small letters"),
        (b"file:///tmp/x", "give the path alone"),
        (b"davs://h/x", "WebDAV"),
        (b"gsiftp://h/x", "grid protocols"),
        (b"abfs://c@account/x", "rclone"),
        (b"smb://h/share", "mount it"),
        (b"NFS://h/x", "mount it"),
        (b"host::module/x", "rsync's daemon"),
        (b"me@host::module", "rsync's daemon"),
        (b"fe80::1:x", "brackets"),
        (b"me:secret@host:x", "a password"),
        (b"me:secret@host:/x", "a password"),
        (b"ssh://me:secret@host/x", "a password"),
    ];
    for (argument, why) in table {
        let shown = String::from_utf8_lossy(argument);
        let error = parsed(argument).expect_err(&shown);
        assert_eq!(error.kind, ErrorKind::Usage);
        assert!(
            error.message.contains(why) && error.message.starts_with(&*shown),
            "{shown}: {}",
            error.message
        );
    }
}

#[test]
fn a_sync_is_between_this_host_and_one_other() {
    let read = |argument: &str| parsed(argument).expect("a valid location");
    for (sources, destination, why) in [
        (&["host:a"][..], "other:b", "two other hosts"),
        (&["host:a", "other:b"], ".", "one sync per host"),
        (&["host:a", "me@host:b"], ".", "one sync per host"),
    ] {
        let locations: Vec<Location> = sources.iter().map(|source| read(source)).collect();
        let error = check_pair(&locations, &read(destination)).expect_err(why);
        assert!(error.message.contains(why), "{error}");
    }
    assert_eq!(check_pair(&[read("host:a"), read("host:b")], &read(".")), Ok(()));
}

#[test]
fn copies_not_between_two_hosts_are_refused() {
    let table: &[(&[&str], &str, Option<&str>)] = &[
        (&["a"], "host:", None),
        (&["a", "b"], "host:", None),
        (&["-"], "host:x", None),
        (&["host:a", "host:b"], ".", None),
        (&["fobs://host/a", "fobs://host/b"], ".", None),
        (&["host:a"], "-", None),
        (&["a"], "b", Some("use cp")),
        (&["-"], "b", Some("use cp")),
        (&["-"], "-", Some("use cp")),
        (&["a", "b"], "-", Some("use cp")),
        (&["host:a"], "other:b", None),
        (&["host:a"], "host:b", None),
        (&["a", "host:a"], "host:b", None),
        (&["fobs://host/a"], "host:b", Some("needs ssh to both")),
        (&["host:a"], "fobs://other/b", Some("needs ssh to both")),
        (&["a", "host:a"], ".", Some("use cp for the local ones")),
        (&["host:a", "other:b"], ".", None),
        (&["host:a", "me@host:b"], ".", None),
        (&["host:a", "ssh://host:22/b"], ".", None),
        (&["host:a", "fobs://host/b"], ".", None),
        (&["host:a", "host:b"], "-", Some("only one source")),
        (&["-", "a"], "host:", Some("together with other sources")),
        (&["-", "-"], "host:", Some("together with other sources")),
        (&["host:a", "-"], ".", Some("together with other sources")),
    ];
    for (sources, destination, refusal) in table {
        let read = |argument: &str| parsed(argument).expect("a valid location");
        let locations: Vec<Location> = sources.iter().map(|source| read(source)).collect();
        let checked = check_route(&locations, &read(destination));
        match (refusal, checked) {
            (None, checked) => assert_eq!(checked, Ok(()), "{sources:?} {destination}"),
            (Some(why), Ok(())) => panic!("{sources:?} {destination} was not refused: {why}"),
            (Some(why), Err(error)) => {
                assert_eq!(error.kind, ErrorKind::Usage);
                assert!(error.message.contains(why), "{sources:?} {destination}: {}", error.message);
            }
        }
    }
}

#[test]
fn an_option_with_another_dash_is_told() {
    let told =
        |word: &str| mistyped_option(&["a".into(), word.into(), "b:".into()], |name| name == "\u{2013}there");
    for (word, meant) in [
        ("\u{2013}rate", Some("--rate")),
        ("\u{2014}-rate", Some("--rate")),
        ("-\u{2013}json", Some("--json")),
        ("\u{2013}r", Some("-r")),
        ("\u{2212}rp", Some("--rp")),
        ("\u{2013}there", None),
        ("\u{2013} a", None),
        ("a\u{2013}b", None),
        ("-r", None),
        ("\u{2013}", None),
    ] {
        let found = told(word);
        assert_eq!(found.is_some(), meant.is_some(), "{word}: {found:?}");
        assert!(
            found.is_none_or(|text| text.ends_with(&format!("type {}", meant.unwrap_or_default()))),
            "{word}"
        );
    }
}

#[test]
fn what_is_no_address_of_ours_is_told_by_what_it_is() {
    for (typed, told) in [
        ("C:\\Users\\ann\\x", Some("a path of Windows: WSL has it as /mnt/c/Users/ann/x")),
        ("d:\\", Some("WSL has it as /mnt/d/")),
        ("c:/x", None),
        ("./c:\\x", None),
        ("::1:x", Some("write [::1]:path")),
        ("::1", Some("write [::1]:path")),
        ("2001:db8::1:data/x", Some("write [2001:db8::1]:path")),
        ("2001:db8::1", Some("write [2001:db8::1]:path")),
        ("ann@2001:db8::1:x", Some("write ann@[2001:db8::1]:path")),
        ("fe80::1%eth0:x", Some("write [fe80::1%eth0]:path")),
        ("a::b", Some("rsync's daemon")),
        ("[::1]:x", None),
        ("host:12:30:05", None),
        ("./::1", None),
        (":1", None),
    ] {
        let found = parsed(typed).err().map(|error| error.message);
        assert_eq!(found.is_some(), told.is_some(), "{typed}: {found:?}");
        let found = found.unwrap_or_default();
        assert!(found.contains(told.unwrap_or_default()), "{typed}: {found}");
    }
    for (typed, is_password) in [
        ("ann:secret@host", true),
        ("ann:secret@host:x", true),
        ("ann@host", false),
        ("host:me@x", true),
        ("host:./me@x", false),
        ("host:/me@x", false),
        ("ssh://ann@host/x@y", false),
    ] {
        let found = host(OsStr::new(typed)).err().map(|error| error.message);
        assert_eq!(found.is_some_and(|why| why.contains("a password")), is_password, "{typed}");
    }
    for (typed, told) in [("h:{a,b}", true), ("h:{1..3}.tar", true), ("h:{a}", false), ("h:}..{", false)] {
        assert_eq!(unexpanded(&[typed.into()]).is_some(), told, "{typed}");
    }
}
