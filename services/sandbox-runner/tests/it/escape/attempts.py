# What a snippet tries in order to get out, in groups. Runs inside; whether it did any harm is looked at outside.
# Each attempt is a process of its own. One that comes back with something has got something; an exception
# means that it was refused.
import ctypes, errno, json, mmap, os, socket, struct, sys, time

ATTEMPTS = []
libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"
F = {}


def attempt(group, title):
    def note(function):
        ATTEMPTS.append((group, title, function))
        return function
    return note


def call(x86, arm, *arguments):
    ctypes.set_errno(0)
    arguments = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(x86 if X86 else arm), *arguments)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def write(path, text):
    with open(path, "w") as file:
        file.write(text)
    return "wrote " + path


def read(path):
    with open(path, "rb") as file:
        return file.read(1 << 16)


def run(group, facts):
    F.update(facts)
    for its, title, function in ATTEMPTS:
        if its != group:
            continue
        sys.stdout.flush()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            try:
                got = function()
            except BaseException as error:
                got = None
            os.write(writer, (repr(got)[:300] if got else "").encode())
            os._exit(0)
        os.close(writer)
        got = b""
        deadline = time.monotonic() + 8
        os.set_blocking(reader, False)
        while time.monotonic() < deadline:
            try:
                piece = os.read(reader, 4096)
                if not piece:
                    break
                got += piece
            except BlockingIOError:
                time.sleep(0.002)
        else:
            try:
                os.kill(child, 9)
            except OSError:
                pass
        os.close(reader)
        os.waitpid(child, 0)
        print(title, got.decode("utf-8", "replace"), sep="\t")


# -- network

def reach(family, kind, address, protocol=0):
    with socket.socket(family, kind, protocol) as s:
        s.settimeout(1)
        s.connect(address)
        s.send(b"escaped")
        return "sent to %r" % (address,)


@attempt("network", "TCP to the host over IPv4")
def _(): return reach(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", F["tcp"]))


@attempt("network", "TCP to the host over IPv6")
def _(): return reach(socket.AF_INET6, socket.SOCK_STREAM, ("::1", F["tcp6"]))


@attempt("network", "TCP to the host's other addresses")
def _():
    for address in F["addresses"]:
        try:
            return reach(socket.AF_INET, socket.SOCK_STREAM, (address, F["tcp"]))
        except OSError:
            pass


@attempt("network", "UDP to the host")
def _(): return reach(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", F["udp"]))


@attempt("network", "a cloud's metadata address")
def _(): return reach(socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80))


@attempt("network", "looking up a name")
def _(): return socket.getaddrinfo("deb.debian.org", 80)


@attempt("network", "a raw socket")
def _(): return socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)


@attempt("network", "a packet socket")
def _(): return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)


@attempt("network", "routes by netlink")
def _(): return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)


@attempt("network", "a socket of any other family")
def _():
    for family in (3, 4, 5, 9, 15, 16, 17, 20, 21, 26, 29, 30, 31, 38, 39, 40, 44):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            try:
                return socket.socket(family, kind)
            except OSError:
                pass


@attempt("network", "a socket file in the workspace")
def _(): return reach(socket.AF_UNIX, socket.SOCK_STREAM, F["workspace"] + "/host.sock")


@attempt("network", "an abstract socket of the host")
def _(): return reach(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + F["abstract"])


@attempt("network", "half of a datagram pair, sent to a socket file")
def _():
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return left.sendto(b"escaped", F["workspace"] + "/host.dgram")


@attempt("network", "listening")
def _():
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    s.bind(("127.0.0.1", 0))
    s.listen()
    return s.getsockname()


# -- files

@attempt("files", "a secret of the host by its path")
def _(): return F["needle"] in read(F["secret"]).decode()


@attempt("files", "the secret by a link in the workspace")
def _(): return F["needle"] in read("link").decode()


@attempt("files", "the secret by the root of process 1")
def _(): return F["needle"] in read("/proc/1/root" + F["secret"]).decode()


@attempt("files", "the secret by a way up")
def _(): return F["needle"] in read(F["workspace"] + "/.." * 30 + F["secret"]).decode()


@attempt("files", "the secret by racing a link that is turned")
def _():
    end = time.monotonic() + 2
    while time.monotonic() < end:
        try:
            if F["needle"] in read("turning").decode():
                return "read"
        except OSError:
            pass


@attempt("files", "the password file of the host")
def _(): return b"root:" in read("/etc/shadow")


@attempt("files", "changing a file in the workspace")
def _(): return write("kept", "changed")


@attempt("files", "making a file in the workspace")
def _(): return write("new", "x")


@attempt("files", "an unnamed file in the workspace")
def _(): return os.open(".", os.O_TMPFILE | os.O_RDWR)


@attempt("files", "renaming and linking in the workspace")
def _():
    for act in (lambda: os.rename("kept", "other"), lambda: os.link("kept", "other"), lambda: os.symlink("kept", "other")):
        try:
            act()
            return "done"
        except OSError:
            pass


@attempt("files", "mode, owner and times of a file in the workspace")
def _():
    for act in (lambda: os.chmod("kept", 0o777), lambda: os.chown("kept", 65534, 65534), lambda: os.utime("kept", (0, 0)), lambda: os.setxattr("kept", "user.x", b"x")):
        try:
            act()
            return "done"
        except OSError:
            pass


@attempt("files", "writing through a descriptor opened anew")
def _():
    with open("kept") as file:
        return os.write(os.open("/proc/self/fd/%d" % file.fileno(), os.O_RDWR), b"changed")


@attempt("files", "writing through shared memory of a file")
def _():
    with open("kept", "rb") as file:
        memory = mmap.mmap(file.fileno(), 4, mmap.MAP_SHARED, mmap.PROT_READ)
        address = ctypes.c_long.from_buffer_copy(struct.pack("l", id(memory)))
        if libc.mprotect(ctypes.c_void_p(address.value & ~4095), 4096, 7) == 0:
            memory[0] = 1
            return "wrote"


@attempt("files", "writing anywhere else")
def _():
    wrote = []
    for folder in ("/", "/usr", "/usr/bin", "/etc", "/dev", "/dev/shm", "/run", "/var", "/sys", "/proc", "/proc/sys/kernel", "/lib"):
        try:
            write(folder + "/escape", "x")
            wrote.append(folder)
        except OSError:
            pass
    return wrote


@attempt("files", "executing a file of one's own in /tmp")
def _():
    write("/tmp/x", "#!/bin/sh\n")
    os.chmod("/tmp/x", 0o755)
    return os.posix_spawn("/tmp/x", ["x"], {})


@attempt("files", "executing an unnamed file in memory")
def _():
    descriptor = os.memfd_create("x")
    os.write(descriptor, read("/usr/bin/true"))
    return os.posix_spawn("/proc/self/fd/%d" % descriptor, ["x"], {})


# -- mounts and namespaces

def mount(source, target, kind, flags=0, data=None):
    ctypes.set_errno(0)
    if libc.mount(source, target, kind, ctypes.c_ulong(flags), data) != 0:
        raise OSError(ctypes.get_errno(), "")
    return "mounted"


@attempt("mounts", "mounting proc, a temporary folder or another's folder")
def _():
    for arguments in ((b"proc", b"/tmp", b"proc"), (b"tmpfs", b"/tmp", b"tmpfs"), (b"/", b"/tmp", None, 4096), (b"cgroup", b"/tmp", b"cgroup")):
        try:
            return mount(*arguments)
        except OSError:
            pass


@attempt("mounts", "making the root writable")
def _(): return mount(None, b"/", None, 32)


@attempt("mounts", "making the workspace writable")
def _(): return mount(None, F["workspace"].encode(), None, 32 | 4096)


@attempt("mounts", "taking a mount away")
def _():
    for target in (b"/tmp", b"/proc", b"/sys", F["workspace"].encode()):
        if libc.umount2(target, 2) == 0:
            return target


@attempt("mounts", "the newer mount calls")
def _():
    for number, arguments in ((428, (-100, b"/", 1)), (429, (-100, b"/", -100, b"/tmp", 0)), (430, (b"tmpfs", 0)), (442, (-100, b"/", 0, 0, 0))):
        try:
            return call(number, number, *arguments)
        except OSError:
            pass


@attempt("mounts", "another root")
def _():
    for act in (lambda: os.chroot("/tmp"), lambda: call(155, 41, b"/tmp", b"/tmp")):
        try:
            act()
            return "done"
        except OSError:
            pass


@attempt("namespaces", "a user namespace")
def _(): return call(272, 97, 0x10000000) + 1


@attempt("namespaces", "any other namespace")
def _():
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x20000000, 0x40000000, 0x80):
        try:
            call(272, 97, flag)
            return hex(flag)
        except OSError:
            pass


@attempt("namespaces", "a process in a new namespace")
def _():
    for flag in (0x10000000, 0x10000000 | 0x20000, 0x10000000 | 0x40000000):
        try:
            child = call(56, 220, flag | 17, 0, 0, 0, 0)
            if child == 0:
                os._exit(0)
            return hex(flag)
        except OSError:
            pass


@attempt("namespaces", "the same by the newer call")
def _():
    arguments = struct.pack("8Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0)
    child = call(435, 435, arguments, len(arguments))
    if child == 0:
        os._exit(0)
    return child


@attempt("namespaces", "joining those of process 1")
def _():
    for name in os.listdir("/proc/self/ns"):
        try:
            descriptor = os.open("/proc/1/ns/" + name, os.O_RDONLY)
            call(308, 268, descriptor, 0)
            return name
        except OSError:
            pass


@attempt("namespaces", "another map of users")
def _(): return write("/proc/self/uid_map", "0 0 4294967295")


# -- /proc and /sys

for _title, _path, _text in (
    ("the handler of core dumps", "/proc/sys/kernel/core_pattern", "|/tmp/x"),
    ("the name of the host in /proc", "/proc/sys/kernel/hostname", "escaped"),
    ("the emergency keys", "/proc/sysrq-trigger", "h"),
    ("the helper of devices", "/sys/kernel/uevent_helper", "/tmp/x"),
    ("the path of modules", "/proc/sys/kernel/modprobe", "/tmp/x"),
    ("a safer place from the memory killer", "/proc/self/oom_score_adj", "-1000"),
    ("the handlers of binary formats", "/proc/sys/fs/binfmt_misc/register", ":x:M::x::/tmp/x:"),
    ("random addresses off", "/proc/sys/kernel/randomize_va_space", "0"),
    ("forwarding between networks", "/proc/sys/net/ipv4/ip_forward", "1"),
):
    @attempt("kernel files", "writing " + _title)
    def _(path=_path, text=_text): return write(path, text)


@attempt("kernel files", "raising one's own limits in the control group")
def _():
    done = []
    for root, _, names in os.walk("/sys/fs/cgroup"):
        for name in names:
            if name in ("memory.max", "pids.max", "cpu.max", "memory.limit_in_bytes", "cpu.cfs_quota_us", "release_agent", "notify_on_release"):
                try:
                    write(os.path.join(root, name), "1")
                    done.append(name)
                except OSError:
                    pass
    return done


@attempt("kernel files", "leaving the control group")
def _():
    for root, folders, names in os.walk("/sys/fs/cgroup"):
        for name in ("cgroup.procs", "tasks"):
            if name in names:
                try:
                    return write(os.path.join(root, name), "0")
                except OSError:
                    pass
        try:
            os.mkdir(os.path.join(root, "escape"))
            return root
        except OSError:
            pass


@attempt("kernel files", "memory of the kernel")
def _():
    for path in ("/proc/kcore", "/dev/mem", "/dev/kmem", "/dev/port"):
        try:
            if read(path):
                return path
        except OSError:
            pass


@attempt("kernel files", "messages of the kernel")
def _():
    for act in (lambda: os.open("/proc/kmsg", os.O_RDONLY | os.O_NONBLOCK), lambda: os.open("/dev/kmsg", os.O_RDONLY), lambda: call(103, 116, 3, ctypes.create_string_buffer(4096), 4096)):
        try:
            return act() + 1
        except OSError:
            pass


@attempt("kernel files", "addresses of the kernel")
def _():
    lines = read("/proc/kallsyms").decode().splitlines()
    return [line for line in lines if int(line.split()[0], 16)][:3]


@attempt("kernel files", "keys of others")
def _(): return F["key"] in read("/proc/keys").decode()


@attempt("kernel files", "debugging and tracing")
def _():
    for path in ("/sys/kernel/debug", "/sys/kernel/tracing", "/sys/fs/bpf", "/sys/kernel/security"):
        try:
            if os.listdir(path):
                return path
        except OSError:
            pass


# -- processes

@attempt("processes", "seeing the processes of the host")
def _():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if F["marker"].encode() in read("/proc/%s/cmdline" % pid) and int(pid) != os.getpid() and b"attempt" not in read("/proc/%s/cmdline" % pid):
            return pid


@attempt("processes", "a signal to a process of the host")
def _():
    for number in (15, 19, 9):
        try:
            os.kill(F["victim"], number)
            return number
        except OSError:
            pass


@attempt("processes", "a handle on a process of the host")
def _(): return os.pidfd_open(F["victim"])


@attempt("processes", "tracing process 1")
def _():
    for request in (16, 0x4206):
        if libc.ptrace(request, 1, 0, 0) == 0:
            return request


@attempt("processes", "memory of process 1")
def _():
    try:
        if read("/proc/1/mem"):
            return "read"
    except OSError:
        pass
    buffer = ctypes.create_string_buffer(8)
    local = struct.pack("PN", ctypes.addressof(buffer), 8)
    return call(310, 270, 1, local, 1, local, 1, 0)


@attempt("processes", "descriptors of process 1")
def _():
    for number in os.listdir("/proc/1/fd"):
        try:
            os.open("/proc/1/fd/" + number, os.O_RDONLY)
            return number
        except OSError as error:
            if error.errno == errno.EBADF:
                return number


@attempt("processes", "stealing a descriptor of process 1")
def _(): return call(438, 438, os.pidfd_open(1), 0, 0) + 1


@attempt("processes", "the environment of process 1")
def _(): return F["needle"] in read("/proc/1/environ").decode()


@attempt("processes", "real-time priority")
def _():
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    return "done"


@attempt("processes", "more weight than others")
def _():
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    return "done"


@attempt("processes", "raising resource limits")
def _():
    import resource
    for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_MEMLOCK):
        try:
            resource.setrlimit(which, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            return which + 1
        except (OSError, ValueError):
            pass


# -- rights

@attempt("rights", "becoming root")
def _():
    for act in (lambda: os.setuid(0), lambda: os.setresuid(0, 0, 0), lambda: os.setgid(0), lambda: os.setgroups([0])):
        try:
            act()
            return "done"
        except OSError:
            pass


@attempt("rights", "taking capabilities")
def _():
    header, data = struct.pack("Ii", 0x20080522, 0), struct.pack("6I", *[0xFFFFFFFF] * 6)
    call(126, 91, header, data)
    return [line for line in read("/proc/self/status").decode().splitlines() if line.startswith("CapEff") and line.strip("CapEf:\t0")]


@attempt("rights", "a program that runs as its owner")
def _():
    for folder in ("/usr", "/bin", "/sbin"):
        for root, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(root, name)
                if os.path.islink(path) or not os.stat(path).st_mode & 0o6000:
                    continue
                child = os.posix_spawn("/usr/bin/python3", ["python3", "-c", "pass"], {})
                os.waitpid(child, 0)
                if os.geteuid() != 65534:
                    return path


@attempt("rights", "another personality")
def _(): return call(135, 92, 0x0040000) + 1


# -- devices

@attempt("devices", "a device of one's own")
def _():
    for kind, number in ((0o060000, os.makedev(8, 0)), (0o060000, os.makedev(254, 0)), (0o020000, os.makedev(1, 1))):
        try:
            os.mknod("/tmp/device", 0o666 | kind, number)
            return open("/tmp/device", "rb").read(1) or "made"
        except OSError:
            pass


@attempt("devices", "the host's disks and special devices")
def _():
    for name in ("vda", "sda", "nvme0n1", "mem", "kmsg", "kvm", "fuse", "net/tun", "loop-control", "loop0", "mapper/control", "vsock", "vhost-net", "uinput", "snapshot"):
        try:
            os.close(os.open("/dev/" + name, os.O_RDONLY))
            return name
        except OSError:
            pass


@attempt("devices", "typing into a terminal")
def _():
    import fcntl
    for descriptor in (0, 1, 2):
        try:
            fcntl.ioctl(descriptor, 0x5412, b"x")
            return descriptor + 1
        except OSError:
            pass


@attempt("devices", "ports of the machine")
def _():
    for number in (172, 173):
        try:
            call(number, 9999, 3, 1, 1)
            return number
        except OSError:
            pass


# -- calls to the kernel that nobody needs

for _title, _x86, _arm, _arguments in (
    ("a program in the kernel", 321, 280, (5, 0, 0)),
    ("counters of the kernel", 298, 241, (ctypes.create_string_buffer(struct.pack("II", 1, 128) + bytes(120)), 0, -1, -1, 0)),
    ("handling of page faults", 323, 282, (0,)),
    ("a key in the kernel's ring", 248, 217, (b"user", b"escape", b"x", 1, -3)),
    ("joining the kernel's keys", 250, 219, (1, b"escape")),
    ("a module", 313, 273, (0, b"", 0)),
    ("another kernel", 246, 104, (0, 0, 0, 0)),
    ("a restart", 169, 142, (0xFEE1DEAD, 672274793, 0x01234567, 0)),
    ("swapping", 167, 224, (b"/tmp/x", 0)),
    ("accounting", 163, 89, (b"/tmp/x",)),
    ("files by handle", 304, 265, (-100, struct.pack("Ii", 8, 1) + bytes(8), 0)),
    ("watching a whole file system", 300, 262, (0x0C, 0)),
    ("a queue of calls", 425, 425, (8, ctypes.create_string_buffer(120))),
    ("the clock", 227, 112, (0, struct.pack("qq", 1, 0))),
    ("the clock's speed", 159, 171, (struct.pack("I", 0x4000) + bytes(204),)),
    ("the name of the host", 170, 161, (b"escaped", 7)),
    ("the domain of the host", 171, 162, (b"escaped", 7)),
    ("shared memory of System V", 29, 194, (0x6B617A, 4096, 0o1666)),
    ("semaphores of System V", 64, 190, (0x6B617A, 1, 0o1666)),
    ("messages of System V", 68, 186, (0x6B617A, 0o1666)),
    ("a queue of POSIX messages", 240, 180, (b"escape", 0o102, 0o666, 0)),
    ("secret memory", 447, 447, (0,)),
    ("calls by their 32-bit names", 0x40000000 + 41, 9999, (2, 1, 0)),
):
    @attempt("calls", _title)
    def _(x86=_x86, arm=_arm, arguments=_arguments): return call(x86, arm, *arguments) + 1


# -- using everything up

@attempt("exhaustion", "filling /tmp")
def _():
    wrote = 0
    try:
        with open("/tmp/fill", "wb", buffering=0) as file:
            for _ in range(200):
                wrote += file.write(bytes(1 << 20))
    except OSError:
        pass
    os.remove("/tmp/fill")
    return wrote > 65 << 20


@attempt("exhaustion", "many small files")
def _():
    made = 0
    try:
        for made in range(20000):
            os.close(os.open("/tmp/n%d" % made, os.O_CREAT | os.O_WRONLY))
    except OSError:
        pass
    for name in os.listdir("/tmp"):
        if name.startswith("n"):
            os.remove("/tmp/" + name)
    return made > 8192 and made


@attempt("exhaustion", "many open files")
def _():
    opened = []
    try:
        for _ in range(1000):
            opened.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    return len(opened) > 256


@attempt("exhaustion", "locking memory")
def _():
    memory = mmap.mmap(-1, 1 << 24)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if libc.mlock(ctypes.c_void_p(address), 1 << 24) == 0:
        return "locked"


@attempt("processes bomb", "a fork bomb")
def _():
    for _ in range(2000):
        if os.fork() == 0:
            time.sleep(1000)
    return "2000 processes"


@attempt("memory bomb", "a memory bomb")
def _():
    hoard = []
    while len(hoard) < 200:
        hoard.append(bytearray(8 << 20))
    return "1.6 GB"


@attempt("flood", "a flood of output")
def _():
    for _ in range(64):
        os.write(1, b"x" * (1 << 20))


@attempt("staying", "outliving the run")
def _():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in range(1, 65):
                try:
                    import signal
                    signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError):
                    pass
            os.execv("/bin/sh", ["sh", "-c", "while :; do :; done", F["marker"] + "-stays"])
        os._exit(0)


@attempt("signals", "a signal to everybody")
def _():
    for number in (1, 2, 15, 19):
        try:
            os.kill(1, number)
        except OSError:
            pass


# -- what can be seen

@attempt("sight", "the version of the host's kernel")
def _(): return os.uname().release == F["release"]


@attempt("sight", "the host's memory and load")
def _(): return F["memory"] in read("/proc/meminfo").decode() and read("/proc/loadavg").decode()


@attempt("sight", "how the host was started")
def _(): return F["cmdline"] and F["cmdline"] in read("/proc/cmdline").decode()


@attempt("sight", "where the workspace lies on the host's disks")
def _(): return [line for line in read("/proc/self/mountinfo").decode().splitlines() if F["workspace"] in line]


@attempt("sight", "how full the host's disk is")
def _():
    disk = os.statvfs(F["workspace"])
    return disk.f_blocks == F["blocks"]


@attempt("sight", "the time")
def _(): return abs(time.time() - F["now"]) < 600
