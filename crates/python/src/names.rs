//! The names that are refused.

/// Modules that reach files, processes, the network, the interpreter itself or memory; each with all beneath it.
///
/// The first part is the reference system's list of forty. The second are other names of the same things.
const MODULES: &str = "socket ssl select selectors subprocess multiprocessing concurrent ctypes cffi http urllib urllib3 \
    requests httpx aiohttp ftplib smtplib poplib imaplib telnetlib xmlrpc webbrowser pty fcntl resource os sys pathlib \
    shutil io tempfile importlib runpy code codeop builtins pickle marshal shelve sqlite3 \
    posix posixpath nt ntpath _io _pyio _socket _ssl _ctypes _posixsubprocess _winapi _pickle _sqlite3 _frozen_importlib \
    _frozen_importlib_external _imp _multiprocessing imp pkgutil zipimport socketserver nntplib pydoc pip ensurepip __builtin__ __main__ \
    asyncore asynchat smtpd wsgiref antigravity pipes commands tty termios mmap dbm _dbm _gdbm syslog pdb bdb trace site venv distutils \
    cPickle _compat_pickle dill cloudpickle jsonpickle joblib pexpect ptyprocess paramiko plumbum websockets websocket pycurl \
    _posixshmem _testcapi _testinternalcapi _xxsubinterpreters _interpreters _cffi_backend _pyrepl _osx_support \
    _aix_support rlcompleter lib2to3 py_compile compileall zipapp setuptools \
    _distutils_hack pkg_resources importlib_metadata importlib_resources IPython ipykernel bpython ptpython httplib2 aiosmtplib \
    asyncssh fabric invoke sh psutil docker kubernetes tornado twisted trio anyio gevent eventlet zmq grpc socks scapy dns \
    ftputil treq niquests redis pymongo psycopg psycopg2 asyncpg pymysql MySQLdb boto3 botocore aiofiles";

/// Builtins that run text as code, or stop for a person.
const BUILTINS: &str = "exec eval compile breakpoint __import__ __builtins__ __loader__ __spec__";

/// Attributes through which code gets at the above without naming them.
const ATTRIBUTES: &str = "__import__ __builtins__ __globals__ __subclasses__ __loader__ __spec__ f_globals f_builtins f_locals \
    f_back gi_frame cr_frame ag_frame tb_frame create_subprocess_exec create_subprocess_shell subprocess_exec subprocess_shell \
    create_datagram_endpoint create_unix_connection create_unix_server connect_accepted_socket";

/// Methods of asyncio's loops that reach the network, by names that code also gives to harmless things of its own.
const LOOP_METHODS: &str =
    "create_connection create_server sock_connect sock_accept sock_sendto sock_recvfrom";

/// Functions and classes of other modules that reach the same: by their whole names.
const REACHING: &str = "asyncio.open_connection asyncio.open_unix_connection asyncio.start_server asyncio.start_unix_server \
    asyncio.streams.open_connection asyncio.streams.open_unix_connection asyncio.streams.start_server \
    asyncio.streams.start_unix_server logging.handlers.SocketHandler logging.handlers.DatagramHandler \
    logging.handlers.SMTPHandler logging.handlers.HTTPHandler logging.handlers.SysLogHandler logging.config.listen \
    logging.config.fileConfig gc.get_objects gc.get_referrers gc.get_referents threading.settrace threading.setprofile \
    inspect.getclosurevars dataclasses._create_fn pandas.read_pickle yaml.unsafe_load platform.popen \
    platform._syscmd_file platform._syscmd_ver uuid._get_command_stdout tkinter.Tcl";

/// Functions that run a text as code.
const RUNS: &str = "timeit.timeit timeit.repeat timeit.Timer timeit.main cProfile.run cProfile.runctx cProfile.Profile.run \
    cProfile.Profile.runctx profile.run profile.runctx profile.Profile.run profile.Profile.runctx typing.ForwardRef";

/// What makes functions and their code, when it is called.
const MAKES_CODE: &str = "types.FunctionType types.LambdaType types.CodeType";

/// Parts by which a code object is made of another one: `code.replace(co_names=…)`.
const PARTS_OF_CODE: &str =
    "co_code co_consts co_names co_varnames co_freevars co_cellvars co_flags";

/// Functions that get at an attribute by its name.
const LOOKUPS: &str = "getattr hasattr setattr delattr attrgetter methodcaller";

/// The same as functions of modules and objects.
const LOOKUP_METHODS: &str =
    "attrgetter methodcaller get_field getattr_static __getattribute__ __getattr__";

/// Modules that are refused under any other module too: many of the standard library hold them (`logging.os`). Names that
/// libraries also give to harmless things (`numpy.select`) are not among them.
const REACHED: &str = "os sys subprocess builtins importlib socket shutil ctypes multiprocessing posix pathlib pickle \
    tempfile runpy ssl selectors urllib webbrowser pty fcntl pkgutil zipimport marshal smtplib ftplib xmlrpc";

/// Functions of the module of builtins: `print.__self__` is that module.
const FUNCTIONS: &str = "abs all any ascii bin callable chr delattr dir divmod format getattr globals hasattr hash hex id \
    input isinstance issubclass iter len locals max min next oct open ord pow print repr round setattr sorted sum vars \
    aiter anext __build_class__";

/// Kazma's own stores, and those of the reference system.
const STORES: &str = "registry.db gateway.db agent.db hitl_gates.db vault.db settings.db audit.db rbac.db security_audit.db \
    chat_sessions.db checkpoints.db cron.db swarm_tasks.db agent_artifacts.db memory_state.db memory_ops.db callbacks.db";

pub(crate) fn is_module(root: &str) -> bool {
    has(MODULES, root)
}

pub(crate) fn is_builtin(name: &str) -> bool {
    has(BUILTINS, name)
}

pub(crate) fn is_attribute(name: &str) -> bool {
    has(ATTRIBUTES, name)
}

/// Whether a name in a module is one of the modules that are refused, as modules import them: `os`, `_os`.
pub(crate) fn is_reached(name: &str) -> bool {
    has(REACHED, name.trim_start_matches('_'))
}

/// Whether a whole name is one of a function that reaches what the refused modules do.
pub(crate) fn is_reaching(whole: &str) -> bool {
    has(REACHING, whole)
}

/// Whether a name is one of a method by which asyncio's loops reach the network.
pub(crate) fn is_loop_method(name: &str) -> bool {
    has(LOOP_METHODS, name)
}

/// The functions that are known by their whole names and come with `from module import *`.
pub(crate) fn of_module(module: &str) -> impl Iterator<Item = &'static str> {
    let prefix = format!("{module}.");
    [REACHING, RUNS, MAKES_CODE]
        .into_iter()
        .flat_map(str::split_whitespace)
        .filter_map(move |whole| whole.strip_prefix(&prefix))
        .filter(|name| !name.contains('.'))
}

/// Whether a whole name is one of a function that runs its texts.
pub(crate) fn runs_text(whole: &str) -> bool {
    has(RUNS, whole)
}

/// Whether a whole name is one of a type whose call makes a function or its code.
pub(crate) fn makes_code(whole: &str) -> bool {
    has(MAKES_CODE, whole)
}

pub(crate) fn is_part_of_code(name: &str) -> bool {
    has(PARTS_OF_CODE, name)
}

pub(crate) fn is_lookup(name: &str) -> bool {
    has(LOOKUPS, name)
}

pub(crate) fn is_lookup_method(name: &str) -> bool {
    has(LOOKUP_METHODS, name)
}

pub(crate) fn is_function(name: &str) -> bool {
    has(FUNCTIONS, name)
}

/// Whether a text for `str.format` goes through one of the attributes that are refused: `{0.__globals__}`.
pub(crate) fn formats_attribute(text: &str) -> Option<&'static str> {
    let (_, field) = text.split_once('{')?;
    ATTRIBUTES.split_whitespace().find(|name| {
        field.match_indices(name).any(|(at, _)| {
            field
                .get(..at)
                .is_some_and(|before| before.ends_with(['.', '[']))
        })
    })
}

/// Whether a text is the name, path or address of a store of Kazma, or of what SQLite keeps beside it.
pub fn is_store(text: &str) -> bool {
    let path = text.split(['?', '#']).next().unwrap_or(text);
    let name = path.rsplit(['/', '\\', ':']).next().unwrap_or(path);
    let name = ["-wal", "-shm", "-journal"]
        .iter()
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(name);
    has(STORES, &name.to_ascii_lowercase())
}

fn has(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|known| known == name)
}
