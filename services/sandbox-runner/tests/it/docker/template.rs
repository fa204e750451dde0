//! The lock-down, read back from the engine and from inside.

use kazma_sandbox_runner::broker::{EngineRuntime, Outcome};

use crate::{engine::Engine, house::text};

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_has_what_the_threat_model_says() {
    let engine = Engine::shared();
    let (house, owner) = engine.house(EngineRuntime::Runc, |_| {}).await;
    house.until(|s| s.pool.idle == 2).await;
    let image = house.client.status().await.unwrap().image;
    for container in engine.containers(&owner).await {
        let found = engine.inspect(&container).await;
        let host = found.host_config.unwrap();
        let mib512 = Some(512 << 20);
        assert_eq!((host.memory, host.memory_swap), (mib512, mib512));
        assert_eq!(
            (host.nano_cpus, host.pids_limit),
            (Some(1_000_000_000), Some(64))
        );
        assert_eq!(host.network_mode.as_deref(), Some("none"));
        assert_eq!(host.ipc_mode.as_deref(), Some("none"));
        assert_eq!(host.pid_mode.as_deref(), Some(""));
        assert_eq!(host.userns_mode.as_deref(), Some(""));
        assert_eq!(
            (host.privileged, host.readonly_rootfs),
            (Some(false), Some(true))
        );
        assert_eq!(host.cap_drop.unwrap(), ["ALL"]);
        assert_eq!(host.cap_add, None);
        assert_eq!(host.security_opt.unwrap(), ["no-new-privileges"]);
        assert_eq!(host.devices.unwrap_or_default(), []);
        assert_eq!(host.binds, None);
        assert_eq!(host.log_config.unwrap().typ.as_deref(), Some("none"));
        assert_eq!(host.auto_remove, Some(false));
        assert_eq!(
            host.tmpfs.unwrap()["/tmp"],
            "rw,noexec,nosuid,nodev,size=67108864,nr_inodes=8192,mode=1777"
        );
        // Masked by the engine's own list, which we do not touch.
        assert!(
            host.masked_paths
                .unwrap()
                .contains(&"/proc/kcore".to_owned())
        );
        let mounts = found.mounts.unwrap();
        assert_eq!(mounts.len(), 1);
        assert_eq!(mounts[0].source.as_deref(), Some(house.workspace.as_str()));
        assert_eq!(mounts[0].rw, Some(false));
        let config = found.config.unwrap();
        assert_eq!(config.user.as_deref(), Some("65534:65534"));
        assert_eq!((config.tty, config.stdin_once), (Some(false), Some(true)));
        let labels = config.labels.unwrap();
        assert_eq!(labels["kazma.sandbox.owner"], owner);
        let deadline: i64 = labels["kazma.sandbox.deadline"].parse().unwrap();
        assert!(deadline > 1_700_000_000);
        assert_eq!(found.image, image);
    }
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inside_says_the_same() {
    let names = "['HOME', 'HOSTNAME', 'LANG', 'PATH', 'TMPDIR']";
    inside(Engine::shared(), names).await;
    // It says what it is, whether it is asked to or not.
    let names = "['HOME', 'HOSTNAME', 'LANG', 'PATH', 'TERM', 'TMPDIR', 'container']";
    inside(Engine::podman(), names).await;
}

async fn inside(engine: Engine, environment: &str) {
    let (house, _) = engine.house(EngineRuntime::Runc, |_| {}).await;
    std::fs::write(house.workspace.join("hello.txt"), "from outside").unwrap();
    let code = format!(
        "import os, resource\n\
        own = dict(l.rstrip('\\n').split(':\\t', 1) for l in open('/proc/self/status') if ':\\t' in l)\n\
        print(os.getuid(), os.getgid(), own['NoNewPrivs'], own['Seccomp'], {{own[n].strip('0') for n in own if n.startswith('Cap')}})\n\
        print(sorted(os.environ), os.getcwd() == {0:?}, open('hello.txt').read())\n\
        print([resource.getrlimit(r)[1] for r in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_FSIZE)])\n\
        print(os.uname().nodename, open('/proc/net/dev').read().count(':'), os.path.exists('/dev/shm/x'))\n\
        for folder in ('/', '/usr', '/etc', '/dev', '/dev/shm', '/run', '/run/lock', '/var/tmp', '/sys/fs/cgroup/memory', '/proc/sys/kernel', {0:?}):\n\
        \x20   try: open(folder + '/x', 'w'); print('wrote', folder)\n\
        \x20   except OSError: pass\n\
        setuid = [p for d, _, f in os.walk('/usr') for p in (os.path.join(d, n) for n in f) if not os.path.islink(p) and os.stat(p).st_mode & 0o6000]\n\
        print(setuid)",
        house.workspace.as_str()
    );
    let run = house.run(&code).await;
    assert_eq!(
        run.finished.outcome,
        Outcome::Exited { code: 0 },
        "{}",
        text(&run.stderr)
    );
    let lines: Vec<_> = text(&run.stdout).lines().collect();
    assert_eq!(
        lines,
        [
            "65534 65534 1 2 {''}",
            &format!("{environment} True from outside"),
            "[256, 0, 67108864]",
            "sandbox 1 False",
            "[]",
        ]
    );
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_image_has_the_programs_of_the_shell_and_no_others_that_matter() {
    let engine = Engine::shared();
    let (house, _) = engine.house(EngineRuntime::Runc, |_| {}).await;
    let code = "import shutil, ssl, sqlite3, ctypes, decimal, json, zoneinfo\n\
        wanted = 'ls cat head tail grep find wc sort uniq echo printf date whoami pwd df du free uptime uname hostname '\\\n\
        \x20   'git jq tr cut sleep mkdir cp mv touch tar gzip gunzip zip unzip ps pgrep '\
        \x20   'uv ruff mypy pytest'\n\
        print([name for name in wanted.split() if not shutil.which(name)])\n\
        unwanted = 'apt dpkg perl bash su mount passwd curl wget ssh nc ping gcc docker nsenter unshare'\n\
        print([name for name in unwanted.split() if shutil.which(name)])";
    let run = house.run(code).await;
    assert_eq!(text(&run.stdout), "[]\n[]\n", "{}", text(&run.stderr));
    house.close().await;
}
