//! What a hijacked agent process reaches of its neighbours, tried with exactly its user and nothing else.

use std::{
    collections::BTreeMap, fs, io::Write, os::unix::fs::MetadataExt, path::Path, process::Stdio,
};

use serde_json::{Value, json};

use crate::stack::{Process, Stack, command};

/// Tries everything it is told on its standard input. Each attempt must fail because it is not permitted:
/// a thing that is not there, or that fails for another reason, proves nothing.
const PROBE: &str = r#"
import ctypes, errno, json, os, socket, sys
told = json.load(sys.stdin)
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE = 0x4206
def broker(path):
    socket.socket(socket.AF_UNIX).connect(path)
def trace(pid):
    if libc.ptrace(PTRACE_SEIZE, int(pid), None, None) == -1:
        raise OSError(ctypes.get_errno(), "ptrace")
acts = {
    "list": os.listdir,
    "read": lambda path: open(path, "rb").read(1),
    "write": lambda path: open(path, "ab"),
    "create": lambda path: os.open(path + "/by-the-agent", os.O_WRONLY | os.O_CREAT),
    "link": os.readlink,
    "connect": broker,
    "signal": lambda pid: os.kill(int(pid), 0),
    "trace": trace,
}
def attempt(act, target):
    try:
        acts[act](target)
        return "worked"
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            return "refused"
        return errno.errorcode[error.errno]
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({
    "status": {name: value.split() for name, value in status.items()},
    "answers": [attempt(act, target) for act, target in told],
}))
"#;

/// What counts in `/proc/PID/status`: who it is, and what it may do.
const POWERS: [&str; 8] = [
    "Uid",
    "Gid",
    "Groups",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapAmb",
    "NoNewPrivs",
];

type Attempt = (&'static str, String);

/// Runs the probe as `uid` with what a service that `kazma up` starts has.
fn probe(uid: &str, attempts: &[Attempt]) -> Value {
    let mut probe = command("/usr/bin/setpriv")
        .args(["--reuid", uid, "--regid", uid, "--clear-groups"])
        .arg("--no-new-privs")
        .args(["/usr/bin/python3", "-I", "-c", PROBE])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let told = serde_json::to_vec(attempts).unwrap();
    probe.stdin.take().unwrap().write_all(&told).unwrap();
    let output = probe.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn status(process: &Process) -> BTreeMap<String, Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap();
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| {
            let values = value.split_whitespace().map(str::to_owned).collect();
            (name.to_owned(), values)
        })
        .collect()
}

/// All that belongs to another service or to the operator, and every way to it.
fn what_is_not_the_agent_s(stack: &Stack) -> Vec<Attempt> {
    let folder = stack.folder();
    let mut attempts = vec![
        ("list", text(folder)),
        ("create", text(folder)),
        ("create", text(&folder.join("run"))),
        ("read", text(&folder.join("token"))),
        ("write", text(&folder.join("token"))),
        ("write", text(&folder.join("run/services.json"))),
        ("connect", text(&folder.join("run/broker.sock"))),
    ];
    let secrets = [
        "gate-registry/registry.db",
        "gate-registry/permit.key",
        "gate-registry/ca",
        "gate-registry/keys/mesh.key",
    ];
    for secret in secrets {
        assert!(folder.join(secret).exists(), "{secret} is elsewhere now");
    }
    let others = [
        "gate-registry",
        "runner-api",
        "runner-broker",
        "runner-egress",
        "gateway",
        "workspace",
    ];
    for other in others {
        everything_below(&folder.join(other), &mut attempts);
    }
    for (name, process) in stack.services() {
        if name != "agent" {
            neighbour(&process.unwrap(), &mut attempts);
        }
    }
    neighbour(&Process::of(stack.supervisor()).unwrap(), &mut attempts);
    attempts
}

/// Every file and folder there is, root looking.
fn everything_below(path: &Path, attempts: &mut Vec<Attempt>) {
    if path.is_dir() {
        attempts.extend([("list", text(path)), ("create", text(path))]);
        for entry in fs::read_dir(path).unwrap() {
            everything_below(&entry.unwrap().path(), attempts);
        }
    } else {
        attempts.extend([("read", text(path)), ("write", text(path))]);
    }
}

/// Every way into another process. `mem` is guarded as an attached debugger is.
fn neighbour(process: &Process, attempts: &mut Vec<Attempt>) {
    let at = |part: &str| format!("/proc/{}/{part}", process.pid);
    for part in ["mem", "environ", "maps", "auxv"] {
        attempts.push(("read", at(part)));
    }
    attempts.push(("list", at("fd")));
    for part in ["cwd", "root", "exe", "ns/net"] {
        attempts.push(("link", at(part)));
    }
    for act in ["signal", "trace"] {
        attempts.push((act, process.pid.to_string()));
    }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_s_user_reaches_nothing_of_the_others() {
    if !rustix::process::geteuid().is_root() {
        return all_are_one_user_and_the_documents_say_so();
    }
    let stack = Stack::start();
    let file = stack.folder().join("workspace/notes.txt");
    let thread = stack.api.say("write notes.txt: mine").await.unwrap();
    let card = stack.api.card(&thread).await.unwrap();
    stack.api.decide(&card, "approve").await.unwrap();
    stack.api.ended(&thread).await.unwrap();
    assert!(file.exists());

    let agent = stack.service("agent");
    let has = status(&agent);
    let uid = has["Uid"][0].clone();
    assert_eq!(has["CapEff"], ["0000000000000000"]);

    // What must work, or the rest would prove nothing: its own folder and its own process.
    let mine = stack.folder().join("agent");
    let allowed: [Attempt; 5] = [
        ("list", text(&mine)),
        ("read", text(&mine.join("keys/mesh.key"))),
        ("create", text(&mine)),
        ("read", text(&stack.folder().join("run/services.json"))),
        ("signal", agent.pid.to_string()),
    ];
    let answers = probe(&uid, &allowed);
    assert_eq!(answers["answers"], json!(vec!["worked"; allowed.len()]));
    for power in POWERS {
        assert_eq!(answers["status"][power], json!(has[power]), "{power}");
    }

    let mut attempts = what_is_not_the_agent_s(&stack);
    // Not even a process of its own user looks into it.
    neighbour(&agent, &mut attempts);
    attempts.retain(|attempt| *attempt != ("signal", agent.pid.to_string()));
    assert!(attempts.len() > 100, "{}", attempts.len());
    let answers = probe(&uid, &attempts);
    let answers = answers["answers"].as_array().unwrap();
    let wrong: Vec<_> = attempts
        .iter()
        .zip(answers)
        .filter(|(_, answer)| **answer != "refused")
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

/// No descriptor comes along that opens what its user may not: the supervisor, root, holds many.
#[tokio::test(flavor = "multi_thread")]
async fn no_service_inherits_what_it_may_not_open() {
    // The caller, too, may have left something open.
    let left = tempfile::NamedTempFile::new().unwrap();
    let flags = rustix::fs::OFlags::RDONLY;
    let open = rustix::fs::open(left.path(), flags, rustix::fs::Mode::empty()).unwrap();
    let stack = Stack::start();
    drop(open);
    for (name, process) in stack.services() {
        let process = process.unwrap();
        let pid = process.pid;
        assert_eq!(status(&process)["NoNewPrivs"], ["1"], "{name}");
        assert_eq!(status(&process)["Seccomp"], ["2"], "{name}");
        // The kernel's own: nobody else of this user may look into it.
        let environment = fs::metadata(format!("/proc/{pid}/environ")).unwrap();
        assert_eq!(environment.uid(), 0, "{name}");
        for entry in fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
            // One that was closed meanwhile was nobody's inheritance.
            let Ok(link) = fs::read_link(entry.unwrap().path()) else {
                continue;
            };
            let foreign = link.starts_with(stack.folder())
                && !link.starts_with(stack.folder().join(&name))
                && link != stack.folder().join("log")
                && !(name == "runner-api" && link.starts_with(stack.folder().join("workspace")));
            let strange = link == left.path();
            assert!(!foreign && !strange, "{name} holds {}", link.display());
        }
    }
}

/// Started by an ordinary user all services are that user, and the documents must say so as long as it is so.
fn all_are_one_user_and_the_documents_say_so() {
    let stack = Stack::start();
    let own = rustix::process::geteuid().as_raw().to_string();
    for (name, process) in stack.services() {
        assert_eq!(status(&process.unwrap())["Uid"][0], own, "{name}");
    }
    let gaps = include_str!("../../docs/known-gaps.md");
    assert!(gaps.contains("As an ordinary user all services are that user"));
}
