//! The names that are refused.

/// Modules that reach files, processes, the network, the interpreter itself or memory; each with all beneath it.
///
/// The first part is the reference system's list of forty. The second are other names of the same things.
const MODULES: &str = "socket ssl select selectors subprocess multiprocessing concurrent ctypes cffi http urllib urllib3 \
    requests httpx aiohttp ftplib smtplib poplib imaplib telnetlib xmlrpc webbrowser pty fcntl resource os sys pathlib \
    shutil io tempfile importlib runpy code codeop builtins pickle marshal shelve sqlite3 \
    posix posixpath nt ntpath _io _pyio _socket _ssl _ctypes _posixsubprocess _winapi _pickle _sqlite3 _frozen_importlib \
    _frozen_importlib_external imp pkgutil zipimport socketserver nntplib pydoc pip ensurepip __builtin__ __main__";

/// Builtins that run text as code, or stop for a person.
const BUILTINS: &str = "exec eval compile breakpoint __import__ __builtins__ __loader__";

/// Attributes through which code gets at the above without naming them.
const ATTRIBUTES: &str = "__import__ __builtins__ __globals__ __subclasses__ __loader__ f_globals f_builtins f_locals \
    f_back gi_frame cr_frame ag_frame tb_frame";

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

/// Whether a text is the name or path of a store of Kazma, or of what SQLite keeps beside it.
pub fn is_store(text: &str) -> bool {
    let name = text.rsplit(['/', '\\']).next().unwrap_or(text);
    let name = ["-wal", "-shm", "-journal"]
        .iter()
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(name);
    has(STORES, &name.to_ascii_lowercase())
}

fn has(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|known| known == name)
}
