//! The judgement of machines that are not here.

use jiff::Timestamp;
use kazma_sandbox_runner::broker::EngineReport;

use super::{
    facts::{Clock, Facts, Folder, Group, Jail, Kernel, Port, Process, Running, Seen, Store, Told},
    judge::findings,
    *,
};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn seen(name: &str, uid: u32) -> Seen {
    Seen {
        name: name.to_owned(),
        process: Some(Process {
            uid,
            no_new_privileges: true,
            filtered: true,
        }),
        told: (name != "runner-broker").then(|| Told {
            landlock: Some("all".to_owned()),
            certificate: Some(72_000.0),
            sandbox: (name == "runner-api").then_some(true),
        }),
    }
}

/// A machine on which all is well, with everything running.
fn sound() -> Facts {
    let engine = EngineReport {
        name: Some("Docker Engine 28.1.0".to_owned()),
        api: Some("1.49".to_owned()),
        runtimes: vec!["runc".to_owned(), "runsc".to_owned()],
        cgroups: Some(2),
        rootless: false,
        image: Some("sha256:0123".to_owned()),
        trouble: None,
    };
    Facts {
        root: true,
        kernel: Kernel {
            release: "6.12.9".to_owned(),
            landlock: 6,
            filter: true,
            namespaces_closed: None,
            groups: [Group::Ours(2); 3],
        },
        jail: Jail {
            bubblewrap: Some("bubblewrap 0.8.0".to_owned()),
            refused: None,
            python: Some("Python 3.11.2".to_owned()),
        },
        engines: vec![("/run/docker.sock".into(), engine)],
        runtime: "runsc",
        folder: Folder {
            path: "/var/lib/kazma".into(),
            exists: true,
            remote: None,
            free: Some(40 << 30),
            writable: true,
            closed_above: None,
        },
        store: Store::File,
        clock: Clock {
            now: at("2026-12-01T12:00:00Z"),
            last_written: Some(at("2026-12-01T11:00:00Z")),
        },
        port: ("127.0.0.1:9090".parse().unwrap(), Port::Ours),
        running: Running::Yes(vec![
            seen("gate-registry", 61101),
            seen("runner-broker", 0),
            seen("runner-egress", 61103),
            seen("runner-api", 61102),
            seen("agent", 61104),
            seen("gateway", 61105),
        ]),
    }
}

#[test]
fn a_sound_machine() {
    let findings = findings(&sound());
    insta::assert_snapshot!(text(&findings));
    assert_eq!(worst(&findings), State::Ok);
}

/// An old laptop, an ordinary user, nothing running.
#[test]
fn a_weak_machine() {
    let sound = sound();
    let facts = Facts {
        root: false,
        kernel: Kernel {
            release: "6.1.0-30-amd64".to_owned(),
            landlock: 2,
            groups: [Group::Theirs(2), Group::Theirs(2), Group::Missing],
            ..sound.kernel
        },
        engines: Vec::new(),
        runtime: "runc",
        folder: Folder {
            path: "/home/ada/.local/share/kazma".into(),
            exists: false,
            free: Some(600 << 20),
            ..sound.folder
        },
        clock: Clock {
            last_written: None,
            ..sound.clock
        },
        port: (sound.port.0, Port::Free),
        running: Running::No,
        ..sound
    };
    let findings = findings(&facts);
    insta::assert_snapshot!(text(&findings));
    assert_eq!(worst(&findings), State::Weaker);
}

/// Nothing that can run code, a network disk, a clock gone back, and services that are not held.
#[test]
fn a_broken_machine() {
    let sound = sound();
    let mut loose = seen("agent", 1000);
    loose.told = Some(Told {
        landlock: Some("none".to_owned()),
        certificate: Some(-60.0),
        sandbox: None,
    });
    let mut open = seen("gateway", 1000);
    open.process = Some(Process {
        uid: 1000,
        no_new_privileges: true,
        filtered: false,
    });
    let mut dead = seen("gate-registry", 1000);
    dead.process = None;
    let mut silent = seen("runner-api", 1000);
    silent.told = None;
    let (socket, engine) = sound.engines[0].clone();
    let engine = EngineReport {
        image: None,
        trouble: Some((
            "the engine has no image kazma-sandbox".to_owned(),
            "Make the image kazma-sandbox with scripts/images, or name another.".to_owned(),
        )),
        ..engine
    };
    let facts = Facts {
        root: false,
        kernel: Kernel {
            landlock: 4,
            filter: false,
            namespaces_closed: Some("kernel.apparmor_restrict_unprivileged_userns"),
            groups: [Group::Missing; 3],
            ..sound.kernel
        },
        jail: Jail {
            refused: Some("bwrap: setting up uid map: Permission denied".to_owned()),
            ..sound.jail
        },
        engines: vec![(socket, engine)],
        folder: Folder {
            remote: Some("NFS"),
            ..sound.folder
        },
        clock: Clock {
            now: at("2026-12-01T10:00:00Z"),
            ..sound.clock
        },
        port: (
            sound.port.0,
            Port::Taken("Address already in use (os error 98)".to_owned()),
        ),
        running: Running::Yes(vec![dead, loose, open, silent]),
        ..sound
    };
    let findings = findings(&facts);
    insta::assert_snapshot!(text(&findings));
    assert_eq!(worst(&findings), State::Broken);
}

#[test]
fn whatever_is_not_well_says_what_it_means_and_what_to_do() {
    let sound = sound();
    let no = |change: &dyn Fn(&mut Facts)| {
        let mut facts = sound.clone();
        change(&mut facts);
        facts
    };
    let changed = [
        no(&|facts| facts.kernel.landlock = 0),
        no(&|facts| facts.kernel.landlock = 5),
        no(&|facts| facts.jail.bubblewrap = None),
        no(&|facts| facts.jail.python = None),
        no(&|facts| facts.jail.refused = Some("no".to_owned())),
        no(&|facts| facts.folder.free = Some(1 << 20)),
        no(&|facts| facts.folder.free = None),
        no(&|facts| {
            facts.folder.writable = false;
            facts.running = Running::No;
        }),
        no(&|facts| facts.folder.closed_above = Some("/root".into())),
        no(&|facts| facts.clock.now = Timestamp::UNIX_EPOCH),
        no(&|facts| facts.running = Running::Hidden("Permission denied".to_owned())),
        no(&|facts| {
            let Running::Yes(services) = &mut facts.running else {
                return;
            };
            services[0].told.as_mut().unwrap().certificate = Some(600.0);
            services[4].told.as_mut().unwrap().landlock = Some("partly".to_owned());
        }),
    ];
    for facts in changed {
        let findings = findings(&facts);
        let bad: Vec<&Finding> = findings.iter().filter(|f| f.state != State::Ok).collect();
        assert!(!bad.is_empty(), "{facts:?} is found to be well");
        for finding in bad {
            assert!(
                !finding.means.is_empty() && !finding.fix.is_empty(),
                "{finding:?}"
            );
        }
    }
    for finding in findings(&sound) {
        assert!(
            finding.means.is_empty() && finding.fix.is_empty(),
            "{finding:?}"
        );
    }
}

#[test]
fn a_registry_on_a_server() {
    let on = |holder: Option<&str>| Store::Server {
        place: "database kazma, schema registry, on db.lan".to_owned(),
        said: kazma_store::Look {
            version: 15,
            holder: holder.map(ToOwned::to_owned),
        },
    };
    let judged = |store, running| {
        let facts = Facts {
            store,
            running,
            ..sound()
        };
        let all = findings(&facts);
        let found = all.into_iter().find(|one| one.id == "registry-store");
        let found = found.unwrap();
        (found.state, found.found)
    };
    let (state, found) = judged(on(None), Running::No);
    assert_eq!(state, State::Ok);
    assert!(
        found.contains("PostgreSQL 15") && found.contains("db.lan"),
        "{found}"
    );
    let other = Some("kazma registry, process 7 from 192.0.2.7");
    let (state, found) = judged(on(other), Running::No);
    assert_eq!(state, State::Broken);
    assert!(found.contains("192.0.2.7"), "{found}");
    // Ours.
    let (state, _) = judged(on(other), sound().running);
    assert_eq!(state, State::Ok);
    let away = Store::Nowhere("database kazma, schema registry, on db.lan: no route".to_owned());
    let (state, found) = judged(away, Running::No);
    assert_eq!(state, State::Broken);
    assert!(found.contains("no route"), "{found}");
}
