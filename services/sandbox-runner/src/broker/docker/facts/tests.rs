use std::collections::HashMap;

use bollard::models::{Runtime, SystemVersionComponents};

use super::*;

fn version() -> SystemVersion {
    SystemVersion {
        version: Some("20.10.24".to_owned()),
        api_version: Some("1.41".to_owned()),
        min_api_version: Some("1.12".to_owned()),
        os: Some("linux".to_owned()),
        ..SystemVersion::default()
    }
}

fn info() -> SystemInfo {
    SystemInfo {
        memory_limit: Some(true),
        swap_limit: Some(true),
        pids_limit: Some(true),
        cpu_cfs_quota: Some(true),
        cgroup_version: Some(SystemInfoCgroupVersionEnum::_1),
        runtimes: Some(HashMap::from([("runc".to_owned(), Runtime::default())])),
        security_options: Some(vec!["name=seccomp,profile=default".to_owned()]),
        ..SystemInfo::default()
    }
}

fn refused(version: &SystemVersion, info: &SystemInfo) -> NotReady {
    Facts::judge(version, info, EngineRuntime::Runc).unwrap_err()
}

#[test]
fn an_engine_that_holds_everything_is_taken_and_named() {
    let facts = Facts::judge(&version(), &info(), EngineRuntime::Runc).unwrap();
    assert_eq!(facts.name, "Docker Engine 20.10.24");
    assert_eq!((facts.api, facts.cgroups), ((1, 41), CgroupVersion::One));
    assert!(!facts.rootless);
    let newer = SystemVersion {
        api_version: Some("1.99".to_owned()),
        min_api_version: Some("1.44".to_owned()),
        ..version()
    };
    let facts = Facts::judge(&newer, &info(), EngineRuntime::Runc).unwrap();
    assert_eq!(facts.api, NEWEST_API);
}

#[test]
fn docker_alone_spreads_what_is_its_own() {
    let info = SystemInfo {
        docker_root_dir: Some("/var/lib/docker".to_owned()),
        ..info()
    };
    let mut facts = Facts::judge(&version(), &info, EngineRuntime::Runc).unwrap();
    let spreads = |facts: &Facts, source: &str| facts.spreads_itself(Utf8Path::new(source));
    for (source, own) in [
        ("/var/lib/docker/volumes/x/_data", true),
        // It goes by the letters.
        ("/var/lib/docker-too/x", true),
        ("/var", true),
        ("/srv/workspace", false),
    ] {
        assert_eq!(spreads(&facts, source), own, "{source}");
    }
    facts.root.clear();
    assert!(!spreads(&facts, "/srv/workspace"));
    let podman = Facts {
        kind: EngineKind::Podman,
        root: "/srv".to_owned(),
        ..facts
    };
    assert!(!spreads(&podman, "/srv/workspace"));
}

#[test]
fn podman_is_told_apart() {
    let podman = SystemVersion {
        components: Some(vec![SystemVersionComponents {
            name: "Podman Engine".to_owned(),
            version: "4.3.1".to_owned(),
            ..SystemVersionComponents::default()
        }]),
        ..version()
    };
    let facts = Facts::judge(&podman, &info(), EngineRuntime::Runc).unwrap();
    assert_eq!(facts.name, "Podman 4.3.1");
    assert_eq!(facts.kind, EngineKind::Podman);
}

#[test]
fn a_limit_that_is_not_held_is_named_with_the_fix() {
    let mut rootless = info();
    rootless.pids_limit = Some(false);
    rootless.memory_limit = None;
    rootless
        .security_options
        .as_mut()
        .unwrap()
        .push("name=rootless".to_owned());
    let said = refused(&version(), &rootless);
    assert_eq!(
        said.reason,
        "Docker Engine 20.10.24 does not limit memory, processes"
    );
    assert!(said.fix.contains("cgroup v2"), "{}", said.fix);
    rootless.cgroup_version = Some(SystemInfoCgroupVersionEnum::_2);
    assert!(refused(&version(), &rootless).fix.contains("Delegate"));
    let mut no_swap = info();
    no_swap.swap_limit = Some(false);
    assert!(refused(&version(), &no_swap).fix.contains("swapaccount"));
    // Groups of the second kind always count swap.
    no_swap.cgroup_version = Some(SystemInfoCgroupVersionEnum::_2);
    assert!(Facts::judge(&version(), &no_swap, EngineRuntime::Runc).is_ok());
}

#[test]
fn a_missing_filter_runtime_or_api_is_refused() {
    let mut open = info();
    open.security_options = Some(vec!["name=seccomp,profile=unconfined".to_owned()]);
    assert!(
        refused(&version(), &open)
            .reason
            .contains("system call filter")
    );
    open.security_options = None;
    assert!(
        refused(&version(), &open)
            .reason
            .contains("system call filter")
    );
    let gone = Facts::judge(&version(), &info(), EngineRuntime::Runsc).unwrap_err();
    assert!(gone.reason.contains("no runtime runsc") && gone.fix.contains("daemon.json"));
    let old = SystemVersion {
        api_version: Some("1.40".to_owned()),
        ..version()
    };
    assert!(refused(&old, &info()).reason.contains("too old"));
    let ahead = SystemVersion {
        api_version: Some("2.3".to_owned()),
        min_api_version: Some("2.0".to_owned()),
        ..version()
    };
    assert!(refused(&ahead, &info()).fix.contains("newer Kazma"));
    let windows = SystemVersion {
        os: Some("windows".to_owned()),
        ..version()
    };
    assert!(refused(&windows, &info()).reason.contains("Linux"));
}

#[test]
fn kata_is_known_by_its_names() {
    let mut info = info();
    let runtimes = info.runtimes.as_mut().unwrap();
    runtimes.insert("kata-runtime".to_owned(), Runtime::default());
    let facts = Facts::judge(&version(), &info, EngineRuntime::Kata).unwrap();
    assert_eq!(facts.runtime, "kata-runtime");
}
