//! From inside a process that is confined as a service's is: what it still reaches.

use std::{
    fs,
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::Stdio,
};

use kazma_runtime::{Held, confine};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, getppid, pidfd_getfd, pidfd_open};
use serde_json::{Value, json};

use super::*;

/// How an attempt ended.
fn word<T>(result: std::io::Result<T>) -> &'static str {
    match result {
        Ok(_) => "worked",
        Err(error) if error.kind() == ErrorKind::PermissionDenied => "refused",
        Err(_) => "failed otherwise",
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "whether a program can be started is what is tried"
)]
fn start(program: &str) -> std::io::Result<std::process::Child> {
    std::process::Command::new(program)
        .stdout(Stdio::null())
        .spawn()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test's program takes no arguments of its own"
)]
/// Not a test: the process that the next one looks into.
#[test]
#[ignore = "started by a_service_s_process_reaches_its_folder_and_its_peers_alone"]
fn a_process_confined_as_a_service_s() {
    let told = fs::read_to_string(std::env::var("KAZMA_TEST_BOOT").unwrap()).unwrap();
    let boot: Boot = serde_json::from_str(&told).unwrap();
    let elsewhere: SocketAddr = std::env::var("KAZMA_TEST_ELSEWHERE")
        .unwrap()
        .parse()
        .unwrap();
    let data = boot.folder.parent().unwrap().to_owned();
    let parent = getppid().unwrap();
    let held = confine(&boot.needs()).unwrap();
    let connect = |at: SocketAddr| word(TcpStream::connect(at));
    let proc = |part: &str| format!("/proc/{}/{part}", parent.as_raw_nonzero());
    let stolen = || -> std::io::Result<()> {
        let pidfd = pidfd_open(parent, PidfdFlags::empty())?;
        pidfd_getfd(pidfd, 0, PidfdGetfdFlags::empty())?;
        Ok(())
    };
    let signalled = |pid: Pid| rustix::process::test_kill_process(pid).map_err(Into::into);
    let answer = json!({
        "held": format!("{held:?}"),
        "read its own": word(fs::read(boot.folder.join("note"))),
        "write its own": word(fs::write(boot.folder.join("new"), "x")),
        "connect to the registry": connect(boot.peers.registry.to_string().parse().unwrap()),
        "connect elsewhere": connect(elsewhere),
        "listen": word(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))),
        "read another's": word(fs::read(data.join("gateway/secret"))),
        "list another's": word(fs::read_dir(data.join("gateway"))),
        "write into the data folder": word(fs::write(data.join("new"), "x")),
        "read another's environment": word(fs::read(proc("environ"))),
        "signal another": word(signalled(parent)),
        "take another's descriptor": word(stolen()),
        "start a program": word(start("/bin/true")),
    });
    fs::write(boot.folder.join("answer"), answer.to_string()).unwrap();
}

#[test]
fn a_service_s_process_reaches_its_folder_and_its_peers_alone() {
    for (service, role) in [
        ("agent", Role::Agent),
        (
            "runner-egress",
            Role::RunnerEgress(egress::Settings { search: None }),
        ),
    ] {
        confined_as(service, role);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a confined process cannot be let go again, so it is another one"
)]
fn confined_as(service: &str, role: Role) {
    let data = tempfile::tempdir().unwrap();
    let data = Utf8PathBuf::try_from(data.path().to_owned()).unwrap();
    for (folder, file) in [(service, "note"), ("gateway", "secret")] {
        fs::create_dir_all(data.join(folder)).unwrap();
        fs::write(data.join(folder).join(file), "words").unwrap();
    }
    let listeners = [(); 3].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let [registry, egress, elsewhere] = listeners.each_ref().map(|l| l.local_addr().unwrap());
    let boot = Boot {
        folder: data.join(service),
        log: None,
        metrics: None,
        token: None,
        peers: Peers {
            registry: registry.into(),
            gateway: registry.into(),
            runner: registry.into(),
            egress: egress.into(),
            agent: registry.into(),
        },
        role,
    };
    let told = data.join("boot.json");
    fs::write(&told, serde_json::to_string(&boot).unwrap()).unwrap();
    let ended = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "boot::tests::a_process_confined_as_a_service_s"])
        .arg("--ignored")
        .env("KAZMA_TEST_BOOT", &told)
        .env("KAZMA_TEST_ELSEWHERE", elsewhere.to_string())
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let answer = fs::read(data.join(service).join("answer")).unwrap();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    let mut expected = json!({
        "held": answer["held"],
        "read its own": "worked",
        "write its own": "worked",
        "connect to the registry": "worked",
        "connect elsewhere": "refused",
        "listen": "refused",
        "read another's": "refused",
        "list another's": "refused",
        "write into the data folder": "refused",
        "read another's environment": "refused",
        "signal another": "refused",
        "take another's descriptor": "refused",
        "start a program": "refused",
    });
    if answer["held"] != format!("{:?}", Held::All) {
        // An older kernel: the filter alone is promised.
        for (attempt, word) in expected.as_object_mut().unwrap() {
            if !["take another's descriptor", "start a program"].contains(&attempt.as_str()) {
                *word = answer[attempt].clone();
            }
        }
    }
    assert_eq!(answer, expected, "{service}");
}
