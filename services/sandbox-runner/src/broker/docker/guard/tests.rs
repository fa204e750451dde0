use camino::Utf8PathBuf;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    broker::docker::{
        facts::{CgroupVersion, EngineKind},
        template::Blueprint,
    },
    jail::{Access, container_rlimits},
};

/// Where the engine has the workspace of a broker in a container.
const SOURCE: &str = "/var/lib/docker/volumes/workspace/_data";

fn blueprint() -> Blueprint {
    blueprint_for(EngineKind::Docker)
}

fn blueprint_for(kind: EngineKind) -> Blueprint {
    let limits = Limits::default();
    Blueprint {
        image_id: format!("sha256:{}", "ab".repeat(32)),
        workspace: Utf8PathBuf::from("/srv/workspace"),
        source: Utf8PathBuf::from(SOURCE),
        engine_spreads: false,
        limits,
        runtime: "runc".to_owned(),
        kind,
        cgroups: CgroupVersion::Two,
        owner: "home".to_owned(),
        broker: "0a1b".to_owned(),
        rlimits: container_rlimits(&limits),
    }
}

/// Of each kind one: read-only, all of the workspace to be written, parts of it.
fn kinds() -> Vec<Option<Access>> {
    let writing = |folders: &[&str]| {
        Some(Access {
            folders: folders.iter().map(|path| (*path).to_owned()).collect(),
            places: Vec::new(),
            writer: Writer {
                uid: 61_102,
                gid: 65_534,
            },
        })
    };
    vec![None, writing(&[""]), writing(&["a/.git", "b"])]
}

fn judged(body: &Value) -> Result<(), Violation> {
    judged_for(EngineKind::Docker, body, None)
}

fn judged_as(body: &Value, access: Option<&Access>) -> Result<(), Violation> {
    judged_for(EngineKind::Docker, body, access)
}

fn judged_for(kind: EngineKind, body: &Value, access: Option<&Access>) -> Result<(), Violation> {
    let blueprint = blueprint_for(kind);
    check_value(body, &policy(&blueprint, access))
}

fn policy<'a>(blueprint: &'a Blueprint, access: Option<&'a Access>) -> Policy<'a> {
    Policy {
        writer: access.map(|access| access.writer),
        writable: access.map_or(&[], |access| &access.folders),
        image_id: &blueprint.image_id,
        workspace: &blueprint.workspace,
        source: &blueprint.source,
        engine_spreads: blueprint.engine_spreads,
        runtime: &blueprint.runtime,
        owner: &blueprint.owner,
        kind: blueprint.kind,
        most: &blueprint.limits,
    }
}

fn good() -> Value {
    made(None)
}

fn made(access: Option<&Access>) -> Value {
    serde_json::to_value(blueprint().body(1_900_000_000, access)).unwrap()
}

/// Every place in `value`, as JSON pointers.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let step = |key: &str| format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields {
                found.push(step(key));
                places(inner, &step(key), found);
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                found.push(step(&index.to_string()));
                places(inner, &step(&index.to_string()), found);
            }
        }
        _ => {}
    }
}

#[test]
fn the_template_passes() {
    for access in kinds() {
        let access = access.as_ref();
        assert_eq!(judged_as(&made(access), access), Ok(()), "{access:?}");
    }
}

#[test]
fn a_request_of_one_kind_does_not_pass_for_another() {
    for (made_as, access) in kinds().iter().enumerate() {
        for (judged_by, policy) in kinds().iter().enumerate() {
            let passed = judged_as(&made(access.as_ref()), policy.as_ref()).is_ok();
            assert_eq!(passed, made_as == judged_by, "{access:?} by {policy:?}");
        }
    }
}

#[test]
fn nothing_outside_of_the_workspace_is_ever_writable() {
    for folders in [
        vec!["..".to_owned()],
        vec!["/etc".to_owned()],
        vec!["a/../../etc".to_owned()],
        vec!["a/".to_owned()],
        vec![String::new(), "a".to_owned()],
        vec!["a".to_owned(); WRITABLE_MAX + 1],
    ] {
        let access = Access {
            folders,
            ..kinds().remove(1).unwrap()
        };
        let body = made(Some(&access));
        assert!(judged_as(&body, Some(&access)).is_err(), "{access:?}");
    }
    let mut root = kinds().remove(1).unwrap();
    root.writer = Writer { uid: 0, gid: 0 };
    assert!(judged_as(&made(Some(&root)), Some(&root)).is_err());
}

#[test]
fn only_the_one_source_is_mounted_and_only_where_it_belongs() {
    for access in kinds() {
        let access = access.as_ref();
        let count = made(access)["HostConfig"]["Mounts"]
            .as_array()
            .unwrap()
            .len();
        for mount in 0..count {
            for (field, value) in [
                // As a broker on the engine's own machine would have it.
                ("Source", "/srv/workspace"),
                ("Source", "/srv/workspace/a/.git"),
                ("Source", "/var/lib/docker/volumes/workspace"),
                ("Source", "/var/lib/docker/volumes/workspace/_data/"),
                ("Source", "/var/lib/docker/volumes/workspace/_data/other"),
                ("Source", "/var/lib/docker/volumes/other/_data"),
                ("Source", "workspace"),
                ("Target", SOURCE),
                ("Target", "/srv/workspace/other"),
                ("Target", "/usr/lib/kazma"),
            ] {
                let mut body = made(access);
                body["HostConfig"]["Mounts"][mount][field] = value.into();
                assert!(judged_as(&body, access).is_err(), "{mount} {field} {value}");
            }
        }
    }
}

#[test]
fn how_mounts_spread_is_as_it_must_be_and_not_otherwise() {
    for access in kinds() {
        let access = access.as_ref();
        let made = |engine_spreads: bool| Blueprint {
            engine_spreads,
            ..blueprint()
        };
        for (is, must_be) in [(false, false), (false, true), (true, false), (true, true)] {
            let body = serde_json::to_value(made(is).body(1, access)).unwrap();
            let judge = made(must_be);
            let judged = check_value(&body, &policy(&judge, access));
            assert_eq!(judged.is_ok(), is == must_be, "{is} {must_be}");
        }
        let judge = made(true);
        for options in [
            json!({}),
            json!({"Propagation": "rshared"}),
            json!({"NonRecursive": false}),
            Value::Null,
        ] {
            let mut body = serde_json::to_value(judge.body(1, access)).unwrap();
            body["HostConfig"]["Mounts"][0]["BindOptions"] = options.clone();
            assert!(
                check_value(&body, &policy(&judge, access)).is_err(),
                "{options}"
            );
        }
    }
}

#[test]
fn a_source_that_leads_to_everything_or_somewhere_else_is_refused_even_if_settings_name_it() {
    for source in [
        "/",
        "",
        "workspace",
        "/srv/../etc",
        "/srv/./x",
        "/srv//x",
        "/srv/",
        "/a\0b",
    ] {
        let bad = Blueprint {
            source: source.into(),
            ..blueprint()
        };
        let body = serde_json::to_value(bad.body(1, None)).unwrap();
        let good = blueprint();
        let policy = Policy {
            source: &bad.source,
            ..policy(&good, None)
        };
        assert!(check_value(&body, &policy).is_err(), "{source:?}");
    }
}

#[test]
fn podman_has_a_template_of_its_own_and_no_other_passes() {
    let podman = serde_json::to_value(blueprint_for(EngineKind::Podman).body(1, None)).unwrap();
    assert_eq!(judged_for(EngineKind::Podman, &podman, None), Ok(()));
    assert!(judged(&podman).is_err());
    assert!(judged_for(EngineKind::Podman, &good(), None).is_err());
    for place in ["/run", "/var/tmp", "/dev/shm"] {
        let at = format!("/HostConfig/Tmpfs/{}", place.replace('/', "~1"));
        let mut open = podman.clone();
        *open.pointer_mut(&at).unwrap() = json!("rw,noexec,nosuid,nodev,size=4096,mode=0555");
        assert!(
            judged_for(EngineKind::Podman, &open, None).is_err(),
            "{place}"
        );
    }
}

#[test]
fn nothing_that_is_there_may_be_missing() {
    for access in kinds() {
        nothing_may_be_missing(access.as_ref());
    }
}

fn nothing_may_be_missing(access: Option<&Access>) {
    let mut paths = Vec::new();
    places(&made(access), "", &mut paths);
    assert!(paths.len() > 60, "{paths:?}");
    // To be attached from the start is a convenience of the engine's, and its groups may be of the first kind.
    let optional = [
        "/AttachStdin",
        "/AttachStdout",
        "/AttachStderr",
        "/HostConfig/CgroupnsMode",
    ];
    for path in paths
        .iter()
        .filter(|path| !optional.contains(&path.as_str()))
    {
        let mut body = made(access);
        let (parent, key) = path.rsplit_once('/').unwrap();
        let key = key.replace("~1", "/").replace("~0", "~");
        match body.pointer_mut(parent).unwrap() {
            Value::Object(fields) => drop(fields.remove(&key)),
            Value::Array(items) => drop(items.remove(key.parse().unwrap())),
            _ => unreachable!(),
        }
        assert!(judged_as(&body, access).is_err(), "without {path}");
    }
}

/// What others have got out of containers by, and what would lift a limit.
fn ways_out() -> Vec<(&'static str, Value)> {
    vec![
        ("/HostConfig/Privileged", json!(true)),
        ("/HostConfig/CapAdd", json!(["SYS_ADMIN"])),
        ("/HostConfig/Devices", json!([{"PathOnHost": "/dev/kvm"}])),
        ("/HostConfig/DeviceRequests", json!([{"Count": -1}])),
        ("/HostConfig/PidMode", json!("host")),
        ("/HostConfig/IpcMode", json!("host")),
        ("/HostConfig/UsernsMode", json!("host")),
        ("/HostConfig/UTSMode", json!("host")),
        ("/HostConfig/CgroupnsMode", json!("host")),
        ("/HostConfig/CgroupParent", json!("/")),
        ("/HostConfig/NetworkMode", json!("host")),
        ("/HostConfig/NetworkMode", json!("container:x")),
        ("/HostConfig/Binds", json!(["/:/host"])),
        ("/HostConfig/VolumesFrom", json!(["x"])),
        ("/HostConfig/Links", json!(["x:y"])),
        (
            "/HostConfig/Sysctls",
            json!({"kernel.core_pattern": "|/bin/sh"}),
        ),
        (
            "/HostConfig/SecurityOpt",
            json!(["no-new-privileges", "seccomp=unconfined"]),
        ),
        (
            "/HostConfig/SecurityOpt",
            json!(["no-new-privileges=false"]),
        ),
        (
            "/HostConfig/SecurityOpt",
            json!(["apparmor=unconfined", "no-new-privileges"]),
        ),
        ("/HostConfig/MaskedPaths", json!([])),
        ("/HostConfig/ReadonlyPaths", json!([])),
        ("/HostConfig/Runtime", json!("other")),
        ("/HostConfig/Memory", json!(0)),
        ("/HostConfig/Memory", json!(1_u64 << 40)),
        ("/HostConfig/MemorySwap", json!(-1)),
        ("/HostConfig/PidsLimit", json!(-1)),
        ("/HostConfig/PidsLimit", json!(65)),
        ("/HostConfig/NanoCpus", json!(2_000_000_000_u64)),
        ("/HostConfig/OomKillDisable", json!(true)),
        ("/HostConfig/OomScoreAdj", json!(-1000)),
        ("/HostConfig/LogConfig", json!({"Type": "json-file"})),
        ("/HostConfig/GroupAdd", json!(["0"])),
        (
            "/HostConfig/PortBindings",
            json!({"80/tcp": [{"HostPort": "80"}]}),
        ),
        ("/HostConfig/RestartPolicy", json!({"Name": "always"})),
        (
            "/HostConfig/Tmpfs",
            json!({"/tmp": "rw,exec,nosuid,nodev,size=1,nr_inodes=1,mode=1777"}),
        ),
        (
            "/HostConfig/Tmpfs",
            json!({"/tmp": "rw,noexec,nosuid,nodev,size=1,nr_inodes=1,mode=1777,exec"}),
        ),
        ("/HostConfig/Tmpfs/~1usr", json!("rw")),
        ("/HostConfig/Mounts/0/Source", json!("/")),
        (
            "/HostConfig/Mounts/0/Source",
            json!("/srv/workspace/../../etc"),
        ),
        ("/HostConfig/Mounts/0/Source", json!("/var/run/docker.sock")),
        ("/HostConfig/Mounts/0/ReadOnly", json!(false)),
        ("/HostConfig/Mounts/0/Type", json!("volume")),
        (
            "/HostConfig/Mounts/0/BindOptions",
            json!({"Propagation": "rshared"}),
        ),
        (
            "/HostConfig/Mounts/0/BindOptions",
            json!({"Propagation": "rprivate", "CreateMountpoint": true}),
        ),
        ("/User", json!("0:0")),
        ("/Image", json!("kazma-sandbox")),
        ("/Entrypoint", json!(["/bin/sh"])),
        ("/Cmd", json!(["container", "/usr/bin/python3", "1; sh"])),
        ("/Env", json!(["LD_PRELOAD=/tmp/x.so"])),
        ("/Tty", json!(true)),
        ("/NetworkDisabled", json!(false)),
        (
            "/NetworkingConfig",
            json!({"EndpointsConfig": {"bridge": {}}}),
        ),
        ("/Volumes", json!({"/data": {}})),
        ("/ExposedPorts", json!({"80/tcp": {}})),
        ("/Healthcheck", json!({"Test": ["CMD", "sh"]})),
        ("/Labels/kazma.sandbox.owner", json!("other")),
        ("/Labels/com.example", json!("x")),
    ]
}

#[test]
fn known_ways_out_are_held_back() {
    for (path, value) in ways_out() {
        let mut body = good();
        let (parent, key) = path.rsplit_once('/').unwrap();
        let key = key.replace("~1", "/");
        match body.pointer_mut(parent).unwrap() {
            Value::Object(fields) => drop(fields.insert(key, value.clone())),
            Value::Array(items) => items[key.parse::<usize>().unwrap()] = value.clone(),
            _ => unreachable!(),
        }
        assert!(judged(&body).is_err(), "{path} = {value}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z/:=.]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[A-Za-z/]{1,10}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Whatever is changed anywhere: the request is refused, or says no more than before.
    #[test]
    fn no_other_value_gets_through(
        kind in 0_usize..3,
        pick in any::<prop::sample::Index>(),
        value in any_json(),
    ) {
        let access = kinds().remove(kind);
        let access = access.as_ref();
        let mut paths = Vec::new();
        places(&made(access), "", &mut paths);
        let path = &paths[pick.index(paths.len())];
        let mut body = made(access);
        *body.pointer_mut(path).unwrap() = value.clone();
        if judged_as(&body, access).is_ok() {
            let before = made(access);
            let before = before.pointer(path).unwrap();
            let lower = value.as_u64().zip(before.as_u64()).is_some_and(|(now, then)| now <= then);
            let free = path == "/Labels/kazma.sandbox.broker" || path == "/Cmd/2";
            prop_assert!(before == &value || lower || free, "{} = {}", path, value);
        }
    }

    /// A request for one source never passes where another belongs.
    #[test]
    fn no_other_source_gets_through(
        kind in 0_usize..3,
        source in "(/[a-z._]{1,5}){1,4}",
        belongs in "(/[a-z._]{1,5}){1,4}",
    ) {
        let access = kinds().remove(kind);
        let access = access.as_ref();
        let made = Blueprint { source: source.clone().into(), ..blueprint() };
        let body = serde_json::to_value(made.body(1, access)).unwrap();
        let plain = is_plain(source.trim_start_matches('/'));
        let good = blueprint();
        let judge = |source: &str| {
            let policy = Policy { source: source.into(), ..policy(&good, access) };
            check_value(&body, &policy).is_ok()
        };
        prop_assert_eq!(judge(&source), plain);
        prop_assert!(source == belongs || !judge(&belongs), "{} for {}", source, belongs);
    }

    #[test]
    fn no_field_that_is_not_named_gets_through(name in "[A-Za-z]{1,16}", value in any_json(), inner in any::<bool>()) {
        let mut body = good();
        let fields = if inner { &mut body["HostConfig"] } else { &mut body };
        let fields = fields.as_object_mut().unwrap();
        prop_assume!(!fields.contains_key(&name));
        fields.insert(name.clone(), value);
        prop_assert!(judged(&body).is_err(), "{}", name);
    }
}
