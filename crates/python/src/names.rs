//! The names that are refused.

/// Modules that reach files, processes, the network, the interpreter itself or memory; each with all beneath it.
///
/// The first part is the reference system's list of forty. The second are other names of the same things.
const MODULES: &str = "socket ssl select selectors subprocess multiprocessing concurrent ctypes cffi http urllib urllib3 \
    requests httpx aiohttp ftplib smtplib poplib imaplib telnetlib xmlrpc webbrowser pty fcntl resource os sys pathlib \
    shutil io tempfile importlib runpy code codeop builtins pickle marshal shelve sqlite3 \
    posix posixpath nt ntpath _io _pyio _socket _ssl _ctypes _posixsubprocess _winapi _pickle _sqlite3 _frozen_importlib \
    _frozen_importlib_external _imp _multiprocessing imp pkgutil zipimport socketserver nntplib pydoc pip ensurepip __builtin__ __main__";

/// Builtins that run text as code, or stop for a person.
const BUILTINS: &str = "exec eval compile breakpoint __import__ __builtins__ __loader__ __spec__";

/// Attributes through which code gets at the above without naming them.
const ATTRIBUTES: &str = "__import__ __builtins__ __globals__ __subclasses__ __loader__ __spec__ f_globals f_builtins f_locals \
    f_back gi_frame cr_frame ag_frame tb_frame create_subprocess_exec create_subprocess_shell";

/// Modules that are refused under any other module too: many of the standard library hold them (`logging.os`). Names that
/// libraries also give to harmless things (`numpy.select`) are not among them.
const REACHED: &str = "os sys subprocess builtins importlib socket shutil ctypes multiprocessing posix pathlib pickle \
    tempfile runpy";

/// Functions of the module of builtins: `print.__self__` is that module.
const FUNCTIONS: &str = "abs all any ascii bin callable chr delattr dir divmod format getattr globals hasattr hash hex id \
    input isinstance issubclass iter len locals max min next oct open ord pow print repr round setattr sorted sum vars";

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
