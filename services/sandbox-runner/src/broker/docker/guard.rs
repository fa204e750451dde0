//! The second look at a request before the engine sees it. It denies by default: a field that is not
//! named here is not sent, and a named one has the one value that it may have.
//!
//! It knows nothing of how [`super::template`] builds the request, only what a sandbox is. So a mistake
//! there, or a value that got in where none belongs, is held back here.

use bollard::models::ContainerCreateBody;
use camino::Utf8Path;
use serde_json::Value;

use super::{
    facts::EngineKind,
    template::{
        COVER, ENVIRONMENT, INIT, LABEL_BROKER, LABEL_DEADLINE, LABEL_MANAGED, LABEL_OWNER, NOBODY,
        PROCESSES_OF_NOBODY, PYTHON,
    },
};
use crate::jail::{Limits, WRITABLE_MAX, Writer, init::CONTAINER_MODE, is_plain};

/// What this broker's containers may be.
#[derive(Debug, Clone)]
pub(super) struct Policy<'a> {
    pub(super) image_id: &'a str,
    /// Where the workspace is inside.
    pub(super) workspace: &'a Utf8Path,
    /// The one folder of the engine's machine that may be mounted there.
    pub(super) source: &'a Utf8Path,
    /// Whether the engine says by itself what of later mounts shows inside; else nothing may.
    pub(super) engine_spreads: bool,
    pub(super) runtime: &'a str,
    pub(super) owner: &'a str,
    pub(super) kind: EngineKind,
    /// Who writes, where it may write anything.
    pub(super) writer: Option<Writer>,
    /// The folders that it may write, from the workspace; an empty path is all of it.
    pub(super) writable: &'a [String],
    /// No limit may be above these.
    pub(super) most: &'a Limits,
}

/// Which field was wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not as a sandbox has it")]
pub(super) struct Violation(String);

type Checked = Result<(), Violation>;

/// Fields without which a container is not locked down.
const NEEDED: [&str; 14] = [
    "Image",
    "User",
    "WorkingDir",
    "Entrypoint",
    "Cmd",
    "Env",
    "Labels",
    "Healthcheck",
    "OpenStdin",
    "StdinOnce",
    "Tty",
    "NetworkDisabled",
    "Hostname",
    "HostConfig",
];
const NEEDED_OF_HOST: [&str; 17] = [
    "NetworkMode",
    "IpcMode",
    "Memory",
    "MemorySwap",
    "NanoCpus",
    "PidsLimit",
    "Ulimits",
    "ReadonlyRootfs",
    "Privileged",
    "CapDrop",
    "SecurityOpt",
    "Tmpfs",
    "Mounts",
    "LogConfig",
    "RestartPolicy",
    "AutoRemove",
    "Runtime",
];

/// Checks the request as it will be written.
pub(super) fn check(body: &ContainerCreateBody, policy: &Policy<'_>) -> Checked {
    let written = serde_json::to_value(body).map_err(|_| Violation("the request".to_owned()))?;
    check_value(&written, policy)
}

pub(super) fn check_value(body: &Value, policy: &Policy<'_>) -> Checked {
    let fields = object(body, "the request")?;
    all_there(fields, &NEEDED)?;
    fields
        .iter()
        .try_for_each(|(name, value)| holds(name, top(name, value, policy)?))
}

fn top(name: &str, value: &Value, policy: &Policy<'_>) -> Result<bool, Violation> {
    Ok(match name {
        "Image" => value == policy.image_id && is_id(policy.image_id),
        "User" => user(value, policy),
        "Hostname" => value == "sandbox",
        "WorkingDir" => value == policy.workspace.as_str(),
        "Entrypoint" => is_words(value, &[INIT]),
        "Cmd" => match value.as_array().map(Vec::as_slice) {
            Some([mode, python, limits]) => {
                mode == CONTAINER_MODE && python == PYTHON && limits.as_str().is_some_and(numbers)
            }
            _ => false,
        },
        "Env" => is_words(value, &ENVIRONMENT),
        "Labels" => labels(value, policy)?,
        "Healthcheck" => *value == serde_json::json!({"Test": ["NONE"]}),
        "AttachStdin" | "AttachStdout" | "AttachStderr" | "OpenStdin" | "StdinOnce"
        | "NetworkDisabled" => value == true,
        "Tty" => value == false,
        "HostConfig" => {
            let fields = object(value, "HostConfig")?;
            all_there(fields, &NEEDED_OF_HOST)?;
            for (name, value) in fields {
                holds(name, host(name, value, policy)?)?;
            }
            true
        }
        _ => false,
    })
}

fn host(name: &str, value: &Value, policy: &Policy<'_>) -> Result<bool, Violation> {
    let most = policy.most;
    Ok(match name {
        "NetworkMode" | "IpcMode" => value == "none",
        "CgroupnsMode" => value == "private",
        "Memory" | "MemorySwap" => within(value, most.memory_bytes),
        "NanoCpus" => within(value, most.cpu_millis.saturating_mul(1_000_000)),
        "PidsLimit" => within(value, most.pids),
        "Ulimits" => ulimits(value, most),
        "ReadonlyRootfs" => value == true,
        "Privileged" | "AutoRemove" => value == false,
        "CapDrop" => is_words(value, &["ALL"]),
        "SecurityOpt" => is_words(value, &["no-new-privileges"]),
        "Tmpfs" => tmpfs(value, policy)?,
        "Mounts" => mounts(value, policy)?,
        "LogConfig" => *value == serde_json::json!({"Type": "none"}),
        "RestartPolicy" => *value == serde_json::json!({"Name": "no"}),
        "Runtime" => value == policy.runtime && !policy.runtime.is_empty(),
        _ => false,
    })
}

fn labels(value: &Value, policy: &Policy<'_>) -> Result<bool, Violation> {
    let fields = object(value, "Labels")?;
    all_there(
        fields,
        &[LABEL_MANAGED, LABEL_OWNER, LABEL_BROKER, LABEL_DEADLINE],
    )?;
    Ok(fields.iter().all(|(name, value)| {
        let Some(value) = value.as_str() else {
            return false;
        };
        match name.as_str() {
            LABEL_MANAGED => value == "1",
            LABEL_OWNER => value == policy.owner,
            LABEL_BROKER => plain(value),
            LABEL_DEADLINE => value.parse::<i64>().is_ok_and(|deadline| deadline > 0),
            _ => false,
        }
    }))
}

fn ulimits(value: &Value, most: &Limits) -> bool {
    let held = [
        ("nproc", PROCESSES_OF_NOBODY),
        ("nofile", most.open_files),
        ("fsize", most.tmp_bytes),
        ("cpu", most.cpu_seconds),
        ("core", 0),
        ("memlock", 0),
        ("msgqueue", 0),
    ];
    let limit = |limit: &Value, (name, most): (&str, u64)| {
        let field = |key| limit.get(key).and_then(Value::as_u64);
        limit.as_object().is_some_and(|fields| fields.len() == 3)
            && limit.get("Name").is_some_and(|named| named == name)
            && field("Soft").is_some_and(|soft| soft <= most)
            && field("Hard").is_some_and(|hard| hard <= most)
    };
    value.as_array().is_some_and(|limits| {
        limits.len() == held.len() && limits.iter().zip(held).all(|(one, of)| limit(one, of))
    })
}

fn tmpfs(value: &Value, policy: &Policy<'_>) -> Result<bool, Violation> {
    let fields = object(value, "Tmpfs")?;
    let Some(options) = fields.get("/tmp").and_then(Value::as_str) else {
        return Ok(false);
    };
    let options: Vec<_> = options.split(',').collect();
    let has = |wanted: &&str| options.contains(wanted);
    let sized = |name: &str, most: u64| {
        options
            .iter()
            .filter_map(|option| option.strip_prefix(name))
            .filter_map(|number| number.parse::<u64>().ok())
            .filter(|number| (1..=most).contains(number))
            .count()
            == 1
    };
    let most = policy.most;
    let counted = policy.kind.counts_files();
    let covered = policy.kind.covered();
    let covers = covered
        .iter()
        .all(|place| fields.get(*place).is_some_and(|options| options == COVER));
    Ok(covers
        && fields.len() == covered.len().saturating_add(1)
        && options.len() == if counted { 7 } else { 6 }
        && ["rw", "noexec", "nosuid", "nodev", "mode=1777"]
            .iter()
            .all(has)
        && sized("size=", most.tmp_bytes)
        && (!counted || sized("nr_inodes=", most.tmp_files)))
}

/// Nobody, or who writes where something may be written: never root.
fn user(value: &Value, policy: &Policy<'_>) -> bool {
    match policy.writer {
        None => policy.writable.is_empty() && value == NOBODY,
        Some(Writer { uid, gid }) => {
            !policy.writable.is_empty() && uid != 0 && *value == format!("{uid}:{gid}")
        }
    }
}

/// The workspace read-only, and over it exactly the folders that may be written; or all of it to be written. Each
/// from its one place.
fn mounts(value: &Value, policy: &Policy<'_>) -> Result<bool, Violation> {
    let plain = policy.writable.iter().all(|path| is_plain(path)) && can_be_source(policy.source);
    let (Some(mounts), true) = (
        value.as_array(),
        plain && policy.writable.len() <= WRITABLE_MAX,
    ) else {
        return Ok(false);
    };
    if policy.writable.iter().any(String::is_empty) {
        let [mount] = mounts.as_slice() else {
            return Ok(false);
        };
        return Ok(policy.writable.len() == 1 && a_mount(mount, policy, "", false)?);
    }
    let Some((first, parts)) = mounts.split_first() else {
        return Ok(false);
    };
    if parts.len() != policy.writable.len() || !a_mount(first, policy, "", true)? {
        return Ok(false);
    }
    for (part, path) in parts.iter().zip(policy.writable) {
        if !a_mount(part, policy, path, false)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether it is the mount of `path` from the workspace; an empty one is the workspace itself.
fn a_mount(
    value: &Value,
    policy: &Policy<'_>,
    path: &str,
    read_only: bool,
) -> Result<bool, Violation> {
    let fields = object(value, "Mounts")?;
    let is = |value: &Value, folder: &Utf8Path| match path {
        "" => value == folder.as_str(),
        path => *value == format!("{folder}/{path}"),
    };
    all_there(fields, &["Type", "Source", "Target", "ReadOnly"])?;
    if !policy.engine_spreads {
        all_there(fields, &["BindOptions"])?;
    }
    Ok(fields.iter().all(|(name, value)| match name.as_str() {
        "Type" => value == "bind",
        "Source" => is(value, policy.source),
        "Target" => is(value, policy.workspace),
        "ReadOnly" => value == read_only,
        "BindOptions" => {
            !policy.engine_spreads && *value == serde_json::json!({"Propagation": "rprivate"})
        }
        _ => false,
    }))
}

/// An absolute path that says where it leads, and not to everything.
fn can_be_source(path: &Utf8Path) -> bool {
    path.as_str()
        .strip_prefix('/')
        .is_some_and(|path| !path.is_empty() && is_plain(path))
}

fn object<'a>(
    value: &'a Value,
    name: &str,
) -> Result<&'a serde_json::Map<String, Value>, Violation> {
    value.as_object().ok_or_else(|| Violation(name.to_owned()))
}

fn all_there(fields: &serde_json::Map<String, Value>, needed: &[&str]) -> Checked {
    needed
        .iter()
        .try_for_each(|name| holds(name, fields.contains_key(*name)))
}

fn holds(name: &str, held: bool) -> Checked {
    if held {
        Ok(())
    } else {
        Err(Violation(name.to_owned()))
    }
}

/// At least 1 too: to an engine, 0 means no limit.
fn within(value: &Value, most: u64) -> bool {
    value
        .as_u64()
        .is_some_and(|number| (1..=most).contains(&number))
}

fn is_words(value: &Value, wanted: &[&str]) -> bool {
    value
        .as_array()
        .is_some_and(|words| words.iter().eq(wanted.iter()))
}

fn numbers(text: &str) -> bool {
    !text.is_empty() && text.split(',').all(|number| number.parse::<u64>().is_ok())
}

/// `sha256:` and 64 hexadecimal digits.
fn is_id(text: &str) -> bool {
    text.strip_prefix("sha256:")
        .is_some_and(|digits| digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Letters, digits and dashes.
pub(super) fn plain(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

#[cfg(test)]
mod tests;
