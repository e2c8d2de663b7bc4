//! Addresses that are none of ours: what each is, and what to write instead.

use std::net::Ipv6Addr;

use super::host_colon;

/// The forms of an address that are ours.
const WRITE: &str = "write host:path (over ssh), ssh://host:port/path or fobs://host/path";
const PASSWORD: &str = "a password in front of a host would be seen by every user of this one: ssh asks for it, or uses \
                        a key; write user@host:path";

/// What to do about a URL of this scheme; `None` for a host of one word whose path begins with two slashes.
fn of_another_program(scheme: &[u8]) -> Option<&'static str> {
    const REFUSALS: &[(&[&str], &str)] = &[
        (&["http", "https", "ftp", "ftps", "tftp"], "a web address is fetched with curl or wget"),
        (&["rsync"], "rsync's daemon speaks another protocol: WRITE"),
        (
            &[
                "s3", "s3a", "s3n", "gs", "gcs", "az", "azure", "abfs", "abfss", "wasb", "wasbs", "b2",
                "oss", "swift", "gdrive", "dropbox",
            ],
            "object stores are not reached: use rclone, or run fobs on a host that has them mounted",
        ),
        (&["dav", "davs", "webdav", "webdavs"], "WebDAV is not spoken: use rclone or curl, or mount it"),
        (
            &["gsiftp", "globus", "gridftp", "xrootd", "root", "srm"],
            "grid protocols are not spoken: use that system's client, or run fobs on a host that has the files",
        ),
        (
            &["smb", "cifs", "nfs", "afp", "hdfs", "webhdfs", "ipfs"],
            "mount it and give the path, or run fobs on a host that has it mounted",
        ),
        (&["sftp"], "fobs runs on both hosts and speaks no SFTP: WRITE"),
        (&["ssh", "scp", "fobs", "fobs+ssh", "fobsssh"], "a scheme is written in small letters: WRITE"),
        (&["file"], "leave out file:// and give the path alone"),
    ];
    let has = |names: &[&str]| names.iter().any(|name| name.as_bytes() == scheme);
    REFUSALS.iter().find(|(names, _)| has(names)).map(|(_, refusal)| *refusal)
}

/// Why a URL of another program, or a password in front of the host, is none of ours.
pub(super) fn foreign(bytes: &[u8]) -> Option<String> {
    if let Some(why) = path_of_windows(bytes).or_else(|| bare_address(bytes)) {
        return Some(why);
    }
    let colon = host_colon(bytes)?;
    let (before, after) = (&bytes[..colon], &bytes[colon + 1..]);
    if after.starts_with(b"//")
        && before.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
    {
        return of_another_program(&before.to_ascii_lowercase())
            .map(|refusal| refusal.replace("WRITE", WRITE));
    }
    // As for rsync; `host_colon` has read the brackets of an address.
    if after.starts_with(b":") && !after.starts_with(b"::") {
        return Some(format!(
            "host::module is rsync's daemon, which speaks another protocol (an IPv6 address has brackets): {WRITE}"
        ));
    }
    let end = after.iter().position(|&byte| byte == b'/').unwrap_or(after.len());
    let at = after[..end].iter().position(|&byte| byte == b'@')?;
    let is_host = !before.contains(&b'@') && after[at + 1..end].contains(&b':');
    is_host.then(|| PASSWORD.to_owned())
}

/// Why `user:password@host`, where a host alone is meant, is none.
pub(super) fn password_of_a_host(bytes: &[u8]) -> Option<String> {
    let colon = host_colon(bytes)?;
    let (before, after) = (&bytes[..colon], &bytes[colon + 1..]);
    let end = after.iter().position(|&byte| byte == b'/').unwrap_or(after.len());
    let is_password = !before.contains(&b'@') && end > 0 && after[..end].contains(&b'@');
    is_password.then(|| PASSWORD.to_owned())
}

/// `C:\Users`, as it is typed within WSL.
fn path_of_windows(bytes: &[u8]) -> Option<String> {
    let [drive, b':', b'\\', rest @ ..] = bytes else { return None };
    drive.is_ascii_alphabetic().then(|| {
        let (drive, path) = (char::from(drive.to_ascii_lowercase()), String::from_utf8_lossy(rest));
        format!("a path of Windows: WSL has it as /mnt/{drive}/{}", path.replace('\\', "/"))
    })
}

/// `2001:db8::1:path`, an IPv6 address whose brackets are missing, or that address alone.
fn bare_address(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|&byte| byte == b'/').unwrap_or(bytes.len());
    let first = std::str::from_utf8(&bytes[..end]).ok()?;
    let (user, first) = first.rsplit_once('@').map_or(("", first), |(user, rest)| (user, rest));
    let is_address = |text: &&str| text.split('%').next().is_some_and(|it| it.parse::<Ipv6Addr>().is_ok());
    let before = first.rsplit_once(':').map(|(before, _)| before).filter(is_address);
    // `a::b` alone may be a module of rsync's.
    let alone = || {
        Some(first)
            .filter(is_address)
            .filter(|it| it.starts_with(':') || it.matches("::").count() == 0 || it.matches(':').count() > 2)
    };
    let address = before.or_else(alone)?;
    let user = if user.is_empty() { String::new() } else { format!("{user}@") };
    Some(format!(
        "an IPv6 address has brackets: write {user}[{address}]:path, or ./ before the name of a file"
    ))
}
