use super::*;
use std::fs::{create_dir_all, write};

const MIB: u64 = 1 << 20;

/// A host with these files.
struct Host {
    places: Places,
    _directory: tempfile::TempDir,
}

fn host(files: &[(&str, &str)]) -> Host {
    let directory = tempfile::tempdir().expect("a directory");
    for (path, text) in files {
        let path = directory.path().join(path);
        create_dir_all(path.parent().expect("it has one")).expect("a directory");
        write(path, text).expect("a file");
    }
    let places = Places { proc: directory.path().join("proc"), cgroup: directory.path().join("cgroup") };
    Host { places, _directory: directory }
}

const MEMINFO: (&str, &str) =
    ("proc/meminfo", "MemTotal:       4194304 kB\nMemFree:        1024 kB\nMemAvailable:   2097152 kB\n");

#[test]
fn without_groups_the_host_counts() {
    let host = host(&[MEMINFO]);
    assert_eq!((host.places.limit(), host.places.available()), (Some(4096 * MIB), Some(2048 * MIB)));
}

#[test]
fn a_kernel_that_does_not_tell_what_is_available_tells_what_is_free() {
    let text = "MemTotal: 4096 kB\nMemFree: 100 kB\nBuffers: 20 kB\nCached: 3 kB\n";
    assert_eq!(host(&[("proc/meminfo", text)]).places.available(), Some(123 << 10));
    for text in
        ["", "MemTotal: 4096 kB\n", "MemFree: 1 kB\nBuffers: kB\nCached: 3 kB\n", "MemAvailable: -1 kB\n"]
    {
        assert_eq!(host(&[("proc/meminfo", text)]).places.available(), None, "{text:?}");
    }
    assert_eq!(host(&[]).places.limit(), None);
}

#[test]
fn the_least_of_nested_groups_counts() {
    let host = host(&[
        MEMINFO,
        ("proc/self/cgroup", "0::/slice/unit/leaf\n"),
        ("cgroup/slice/memory.max", "1073741824\n"),
        ("cgroup/slice/memory.current", "943718400\n"),
        // 800 MiB of its 900 MiB are page cache.
        (
            "cgroup/slice/memory.stat",
            "anon 1\nfile 838860800\ninactive_file 524288000\nactive_file 314572800\n",
        ),
        ("cgroup/slice/unit/memory.max", "max\n"),
        ("cgroup/slice/unit/memory.high", "536870912\n"),
        ("cgroup/slice/unit/memory.current", "104857600\n"),
        ("cgroup/slice/unit/leaf/memory.max", "max\n"),
        ("cgroup/slice/unit/leaf/memory.current", "104857600\n"),
    ]);
    assert_eq!(host.places.limit(), Some(512 * MIB));
    assert_eq!(host.places.available(), Some(412 * MIB), "100 of 512 MiB are in use");
    write(host.places.cgroup.join("slice/memory.stat"), "inactive_file 0\n").expect("a file");
    assert_eq!(host.places.available(), Some(124 * MIB), "900 of 1024 MiB are in use above it");
}

#[test]
fn groups_of_the_first_version_count() {
    let host = host(&[
        MEMINFO,
        (
            "proc/self/cgroup",
            "12:cpu,cpuacct:/x\n9:memory:/docker/c0ffee\n1:name=systemd:/init.scope\n0::/init.scope\n",
        ),
        ("cgroup/memory/docker/memory.limit_in_bytes", "9223372036854771712\n"),
        ("cgroup/memory/docker/c0ffee/memory.limit_in_bytes", "268435456\n"),
        ("cgroup/memory/docker/c0ffee/memory.usage_in_bytes", "209715200\n"),
        ("cgroup/memory/docker/c0ffee/memory.stat", "total_inactive_file 104857600\ntotal_active_file 0\n"),
    ]);
    assert_eq!((host.places.limit(), host.places.available()), (Some(256 * MIB), Some(156 * MIB)));
}

#[test]
fn a_container_that_sees_its_group_as_the_top_one_is_held_to_it() {
    for line in ["0::/", "0::/docker/c0ffee", "0::/../../elsewhere"] {
        let host = host(&[
            MEMINFO,
            ("proc/self/cgroup", line),
            ("cgroup/memory.max", "134217728\n"),
            ("cgroup/memory.current", "268435456\n"),
        ]);
        assert_eq!(host.places.limit(), Some(128 * MIB), "{line}");
        assert_eq!(host.places.available(), Some(0), "{line}: more is in use than may be");
    }
}

#[test]
fn what_the_kernel_writes_otherwise_limits_nothing() {
    for text in ["", "\n", "nonsense", "0:", "0::", "9:memory", "a:memory:b:c\n::::"] {
        let host = host(&[MEMINFO, ("proc/self/cgroup", text), ("cgroup/memory.max", "much\n")]);
        assert_eq!(host.places.limit(), Some(4096 * MIB), "{text:?}");
    }
}

#[test]
fn this_host_has_memory() {
    let (limit, available) = (limit().expect("Linux says so"), available().expect("Linux says so"));
    assert!(limit > 64 * MIB && available <= limit, "{available} of {limit}");
}
