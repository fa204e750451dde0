//! What a snippet cannot do.

use kazma_sandbox_runner::broker::Outcome;

use crate::house::{House, text};

/// Runs code that prints one line per attempt, and gives the lines.
async fn attempts(house: &House, code: &str) -> Vec<String> {
    let run = house.run(code).await;
    assert_eq!(
        run.finished.outcome,
        Outcome::Exited { code: 0 },
        "{}",
        text(&run.stderr)
    );
    text(&run.stdout).lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_report_can_be_forged() {
    let house = House::open().await;
    let code = "import ctypes, os, signal, sys\n\
        lie = b'exited 0\\n'\n\
        for fd in range(1025):\n\
        \x20   if fd in (1, 2): continue\n\
        \x20   try: os.write(fd, lie); print('wrote to', fd)\n\
        \x20   except OSError: pass\n\
        for pid in ('1', 'self/task/1', str(os.getppid())):\n\
        \x20   for fd in range(64):\n\
        \x20       try:\n\
        \x20           with open(f'/proc/{pid}/fd/{fd}', 'wb') as file: file.write(lie)\n\
        \x20           print('opened', pid, fd)\n\
        \x20       except OSError: pass\n\
        \x20   for name in ('mem', 'environ', 'maps', 'syscall'):\n\
        \x20       try: open(f'/proc/{pid}/{name}', 'rb').read(1); print('read', pid, name)\n\
        \x20       except OSError: pass\n\
        libc = ctypes.CDLL(None, use_errno=True)\n\
        for request in (0, 16, 0x4206):\n\
        \x20   if libc.ptrace(request, 1, 0, 0) != -1: print('traced', request)\n\
        if libc.syscall(438, os.pidfd_open(1) if hasattr(os, 'pidfd_open') else -1, 0, 0) != -1: print('stole')\n\
        for number in list(range(1, 65)) * 50:\n\
        \x20   try: os.kill(1, number)\n\
        \x20   except OSError: pass\n\
        sys.stderr.write('exited 0\\n')\n\
        sys.stdout.write('\\x06exited 0\\n')\n\
        sys.stdout.flush()\n\
        os._exit(5)";
    let run = house.run(code).await;
    assert_eq!(
        run.finished.outcome,
        Outcome::Exited { code: 5 },
        "{}",
        text(&run.stderr)
    );
    assert_eq!(text(&run.stdout), "\x06exited 0\n");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_network_of_any_kind() {
    let house = House::open().await;
    let code = "import socket\n\
        for family in range(0, 46):\n\
        \x20   for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):\n\
        \x20       try: socket.socket(family, kind); print('socket', family, kind)\n\
        \x20       except OSError: pass\n\
        left, right = socket.socketpair()\n\
        left.send(b'x'); print(right.recv(1))\n\
        try: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); print('datagrams')\n\
        except OSError: pass\n\
        print(open('/proc/net/dev').read().count(':'))";
    assert_eq!(attempts(&house, code).await, ["b'x'", "1"]);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dangerous_system_calls_are_refused() {
    let house = House::open().await;
    // Numbers of x86-64 and aarch64, by name.
    let code = "import ctypes, os\n\
        libc = ctypes.CDLL(None, use_errno=True)\n\
        x = os.uname().machine == 'x86_64'\n\
        calls = dict(ptrace=(101, 117), process_vm_readv=(310, 270), unshare=(272, 97), setns=(308, 268), mount=(165, 40),\n\
        \x20   umount2=(166, 39), pivot_root=(155, 41), chroot=(161, 51), keyctl=(250, 219), bpf=(321, 280), perf=(298, 241),\n\
        \x20   userfaultfd=(323, 282), io_uring=(425, 425), personality=(135, 92), swapon=(167, 224), reboot=(169, 142),\n\
        \x20   init_module=(175, 105), clock_settime=(227, 112), by_handle=(304, 265), fanotify=(300, 262), kexec=(246, 104),\n\
        \x20   fsopen=(430, 430), mount_setattr=(442, 442), pidfd_getfd=(438, 438), memfd_create=(319, 279), shmget=(29, 194))\n\
        for name, numbers in calls.items():\n\
        \x20   ctypes.set_errno(0)\n\
        \x20   if libc.syscall(numbers[0 if x else 1], 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 1: print(name, ctypes.get_errno())\n\
        for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):\n\
        \x20   ctypes.set_errno(0)\n\
        \x20   if libc.syscall(56 if x else 220, flag | 17, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 1: print('clone', hex(flag))\n\
        for number in (435, 463, 600) + ((0x40000000 + 101, 0x40000000 + 41) if x else ()):\n\
        \x20   ctypes.set_errno(0)\n\
        \x20   if libc.syscall(number, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 38: print('number', number, ctypes.get_errno())";
    assert_eq!(attempts(&house, code).await, [] as [&str; 0]);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_snippet_is_nobody_with_nothing() {
    let house = House::open().await;
    let code = "import os, resource\n\
        own = dict(l.rstrip('\\n').split(':\\t', 1) for l in open('/proc/self/status') if ':\\t' in l)\n\
        print(os.getuid(), os.getgid(), own['NoNewPrivs'], own['Seccomp'], {own[n].strip('0') for n in own if n.startswith('Cap')})\n\
        print(sorted(os.environ), sorted(os.listdir('/')), sorted(os.listdir('/etc')), sorted(os.listdir('/dev')))\n\
        print(sorted(n for n in os.listdir('/proc') if n.isdigit()) == ['1', str(os.getpid())])\n\
        print([resource.getrlimit(r)[1] for r in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_FSIZE)])\n\
        print(os.uname().nodename)";
    let lines = attempts(&house, code).await;
    assert_eq!(lines[0], "65534 65534 1 2 {''}");
    assert!(
        lines[1].starts_with("['HOME', 'LANG', 'PATH', 'PWD', 'TMPDIR']")
            || lines[1].starts_with("['HOME', 'LANG', 'PATH', 'TMPDIR']"),
        "{}",
        lines[1]
    );
    for secret in ["root", "home", "var", "shadow", "passwd", "sys", "shm"] {
        assert!(!lines[1].contains(&format!("'{secret}'")), "{}", lines[1]);
    }
    assert_eq!(lines[2..], ["True", "[256, 0, 67108864]", "sandbox"]);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_tmp_can_be_written_and_nothing_in_it_executed() {
    let house = House::open().await;
    let code = format!(
        "import os\n\
        for folder in ('/', '/usr', '/etc', '/dev', '/run', '/run/kazma', '/proc/sys/kernel', {:?}):\n\
        \x20   try: open(folder + '/x', 'w'); print('wrote', folder)\n\
        \x20   except OSError: pass\n\
        open('/tmp/x', 'w').write('#!/bin/sh\\n')\n\
        os.chmod('/tmp/x', 0o755)\n\
        try: os.execv('/tmp/x', ['x'])\n\
        except OSError as error: print(error.errno)\n\
        try:\n\
        \x20   for n in range(100): open(f'/tmp/{{n}}', 'wb').write(bytes(1 << 20))\n\
        except OSError as error: print(error.errno, 60 <= n <= 64)\n\
        for n in range(100): os.path.exists(f'/tmp/{{n}}') and os.remove(f'/tmp/{{n}}')\n\
        try:\n\
        \x20   for n in range(100000): open(f'/tmp/f{{n}}', 'w').close()\n\
        except OSError as error: print(error.errno, n < 8192)",
        house.workspace.as_str()
    );
    let lines = attempts(&house, &code).await;
    assert_eq!(lines, ["13", "28 True", "28 True"]);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workspace_can_be_read_at_its_own_path() {
    let house = House::open().await;
    std::fs::write(house.workspace.join("hello.txt"), "from outside").unwrap();
    let code = format!(
        "import os\nprint(os.getcwd() == {0:?}, open('hello.txt').read(), os.listdir({0:?}))",
        house.workspace.as_str()
    );
    // The canary's own file is gone by now.
    assert_eq!(
        attempts(&house, &code).await,
        ["True from outside ['hello.txt']"]
    );
    house.close().await;
}
