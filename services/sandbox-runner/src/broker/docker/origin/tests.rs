//! On what engines of 2022 to 2025 showed of a container of theirs (Docker 20.10, Podman 4.3), with their folders at
//! the usual places.

use proptest::prelude::*;

use super::{here::Mounted, *};

const DOCKER: &str = include_str!("fixtures/docker.json");
const DOCKER_MOUNTS: &str = include_str!("fixtures/docker.mountinfo");
const DOCKER_GROUPS: &str = include_str!("fixtures/docker.cgroup");
const DOCKER_ID: &str = "00be4c34d1c099fc419fe4b63c035ca7c38b301995e7da4afc3759655b957dd2";
/// With groups of its own (`--cgroupns private`, which is what all get with groups of the second kind), and a folder
/// in place of a volume.
const PRIVATE: &str = include_str!("fixtures/docker-private-groups.json");
const PRIVATE_MOUNTS: &str = include_str!("fixtures/docker-private-groups.mountinfo");
const PRIVATE_GROUPS: &str = "0::/\n";
/// It shares the network of [`DOCKER`], and with it the files by which that one is found.
const SHARED_MOUNTS: &str = include_str!("fixtures/docker-shared-network.mountinfo");
const WORDS: &str = include_str!("fixtures/docker-two-words.json");
const WORDS_MOUNTS: &str = include_str!("fixtures/docker-two-words.mountinfo");
const PODMAN: &str = include_str!("fixtures/podman.json");
const PODMAN_MOUNTS: &str = include_str!("fixtures/podman.mountinfo");
const PODMAN_GROUPS: &str = include_str!("fixtures/podman.cgroup");

fn described(json: &str) -> Described {
    serde_json::from_str(json).unwrap()
}

/// In these containers no path is a link.
fn as_is(path: &str) -> Utf8PathBuf {
    path.into()
}

/// What comes out for a workspace, in a container that shows `here` and that the engine describes so.
fn found(json: &str, here: &Here, workspace: &str) -> Result<String, Doubt> {
    let container = described(json);
    container.is_ours(here, as_is)?;
    container
        .source_of(workspace.into(), here, as_is)
        .map(Utf8PathBuf::into_string)
}

fn docker() -> Here {
    Here::parse(DOCKER_MOUNTS, DOCKER_GROUPS, "00be4c34d1c0")
}

/// The description of [`DOCKER`] with one field of the workspace's mount changed.
fn changed(field: &str, value: &str) -> String {
    let mut json: serde_json::Value = serde_json::from_str(DOCKER).unwrap();
    let mounts = json["Mounts"].as_array_mut().unwrap();
    let workspace = mounts
        .iter_mut()
        .find(|mount| mount["Destination"] == "/workspace")
        .unwrap();
    workspace[field] = value.into();
    json.to_string()
}

#[test]
fn a_container_finds_its_own_id() {
    assert_eq!(docker().ids, [DOCKER_ID]);
    assert_eq!(docker().short_id.as_deref(), Some("00be4c34d1c0"));
    // The files that the engine mounts tell it without the groups, and the groups without the files.
    assert_eq!(
        Here::parse(DOCKER_MOUNTS, PRIVATE_GROUPS, "").ids,
        [DOCKER_ID]
    );
    assert_eq!(Here::parse("", DOCKER_GROUPS, "").ids, [DOCKER_ID]);
    let podman = Here::parse(PODMAN_MOUNTS, PRIVATE_GROUPS, "").ids;
    assert_eq!(podman, [described(PODMAN).id]);
    assert_eq!(Here::parse("", PODMAN_GROUPS, "").ids, podman);
    let private = Here::parse(PRIVATE_MOUNTS, PRIVATE_GROUPS, "broker");
    assert_eq!(private.ids, [described(PRIVATE).id]);
    assert_eq!(private.short_id, None);
    for (line, found) in [
        (format!("0::/system.slice/docker-{DOCKER_ID}.scope"), true),
        (
            format!("0::/machine.slice/libpod-{DOCKER_ID}.scope/container"),
            true,
        ),
        (format!("0::/docker/{DOCKER_ID}/../other"), true),
        (format!("0::/docker/x{DOCKER_ID}"), false),
        (format!("0::/docker/{}", DOCKER_ID.to_uppercase()), false),
        ("0::/user.slice/user-1000.slice".to_owned(), false),
    ] {
        assert_eq!(
            Here::parse("", &line, "").ids.len(),
            usize::from(found),
            "{line}"
        );
    }
}

#[test]
fn a_machine_is_no_container_whatever_is_mounted_on_it() {
    // A collector of logs sees the folders of all containers, and that makes it none of them.
    let mounts = format!(
        "27 1 254:0 / / rw - ext4 /dev/sda1 rw\n\
         28 27 254:0 /var/lib/docker/containers/{DOCKER_ID}/hostname /logs/hostname ro - ext4 /dev/sda1 rw\n\
         29 27 254:0 /srv/{DOCKER_ID}/hostname /etc/hostname ro - ext4 /dev/sda1 rw"
    );
    let here = Here::parse(&mounts, "0::/init.scope\n", "myserver");
    assert_eq!((here.ids.len(), here.short_id), (0, None));
}

#[test]
fn a_volume_a_folder_and_what_lies_in_them_are_found() {
    let volume = "/var/lib/docker/volumes/shop_workspace/_data";
    let private = Here::parse(PRIVATE_MOUNTS, PRIVATE_GROUPS, "broker");
    let words = Here::parse(WORDS_MOUNTS, "", "");
    let podman = Here::parse(PODMAN_MOUNTS, PODMAN_GROUPS, "");
    for (json, here, workspace, source) in [
        (DOCKER, &docker(), "/workspace", volume),
        (
            DOCKER,
            &docker(),
            "/workspace/a/b",
            &format!("{volume}/a/b"),
        ),
        (PRIVATE, &private, "/workspace", "/srv/kazma"),
        (PRIVATE, &private, "/workspace/inner", "/srv/kazma/inner"),
        (WORDS, &words, "/workspace", "/srv/kazma/two words"),
        (
            PODMAN,
            &podman,
            "/workspace",
            "/var/lib/containers/storage/volumes/shop_workspace/_data",
        ),
    ] {
        assert_eq!(found(json, here, workspace).as_deref(), Ok(source));
    }
}

#[test]
fn another_container_is_not_taken_for_ours() {
    let shared = Here::parse(SHARED_MOUNTS, PRIVATE_GROUPS, "00be4c34d1c0");
    assert_eq!(shared.ids, [DOCKER_ID]);
    let other = |place: &str| {
        Err(Doubt::Other {
            id: "00be4c34d1c0".to_owned(),
            place: place.to_owned(),
        })
    };
    assert_eq!(
        found(DOCKER, &shared, "/workspace"),
        other("/run/engine.sock")
    );
    // It has all that ours has, but may write where ours may not; the other way round the kernel decides.
    let mut loose = docker();
    for mount in &mut loose.mounts {
        mount.read_only = false;
    }
    assert_eq!(found(DOCKER, &loose, "/workspace"), other("/workspace"));
}

#[test]
fn a_workspace_that_no_other_container_can_have_is_said_so() {
    let inside = |path: &str| Err(Doubt::Inside(path.into()));
    assert_eq!(found(DOCKER, &docker(), "/srv/x"), inside("/srv/x"));
    // Beside the mount, not in it.
    assert_eq!(
        found(DOCKER, &docker(), "/workspaces"),
        inside("/workspaces")
    );
    assert_eq!(
        found(DOCKER, &docker(), "/tmp/x"),
        Err(Doubt::Unlisted("/tmp".into()))
    );
    let mut covered = docker();
    covered.mounts.push(Mounted {
        root: "/".into(),
        place: "/workspace/a".into(),
        read_only: true,
    });
    assert_eq!(
        found(DOCKER, &covered, "/workspace/a/b"),
        Err(Doubt::Unlisted("/workspace/a".into()))
    );
    let here = docker();
    let now = |field, value| found(&changed(field, value), &here, "/workspace");
    assert!(matches!(now("Type", "tmpfs"), Err(Doubt::Kind(_))));
    assert!(matches!(now("Type", ""), Err(Doubt::Kind(_))));
    assert!(matches!(now("Driver", "nfs"), Err(Doubt::Driver { .. })));
    assert!(matches!(now("Driver", ""), Err(Doubt::Driver { .. })));
    assert!(matches!(now("SubPath", "part"), Err(Doubt::Part(_))));
    for bad in [
        "",
        "relative",
        "/",
        "/srv/../etc",
        "/etc/x",
        r"C:\work",
        "/run",
    ] {
        assert!(
            matches!(now("Source", bad), Err(Doubt::Path { .. })),
            "{bad}"
        );
    }
    let mut json: serde_json::Value = serde_json::from_str(DOCKER).unwrap();
    json["HostConfig"]["Mounts"] = serde_json::json!([
        {"Type": "volume", "Target": "/other", "VolumeOptions": {"Subpath": "x"}},
        {"Type": "volume", "Target": "/workspace", "VolumeOptions": {"Subpath": "part"}},
    ]);
    assert_eq!(
        found(&json.to_string(), &here, "/workspace"),
        Err(Doubt::Part("part".to_owned()))
    );
}

#[test]
fn a_link_on_the_way_to_a_mount_is_no_riddle() {
    let resolve = |path: &str| Utf8PathBuf::from(path.replace("/var/run/", "/run/"));
    let json = DOCKER.replace("\"/run/engine.sock\"", "\"/var/run/engine.sock\"");
    let container = described(&json);
    assert_ne!(json, DOCKER);
    assert_eq!(container.is_ours(&docker(), resolve), Ok(()));
    assert!(container.is_ours(&docker(), as_is).is_err());
}

#[test]
fn every_doubt_has_a_way_out_in_words() {
    for doubt in [
        Doubt::Blind("no such file".to_owned()),
        Doubt::Stranger("/run/docker.sock".into()),
        Doubt::Inside("/workspace".into()),
        Doubt::Part("part".to_owned()),
    ] {
        let NotReady { reason, fix } = doubt.into();
        assert!(reason.len() > 30 && fix.ends_with('.'), "{reason} -- {fix}");
    }
}

fn escaped(path: &str) -> String {
    path.replace('\\', "\\134")
        .replace(' ', "\\040")
        .replace('\t', "\\011")
        .replace('\n', "\\012")
}

fn any_path() -> impl Strategy<Value = String> {
    proptest::collection::vec("[a-z0-9 é\\\\\t\n.-]{1,6}", 1..4)
        .prop_map(|names| format!("/{}", names.join("/")))
}

proptest! {
    /// Whatever the kernel's files hold: nothing breaks, and what is asked of the engine is an id.
    #[test]
    fn nothing_but_ids_comes_out(mountinfo in ".{0,200}", cgroup in ".{0,200}", name in ".{0,70}") {
        let here = Here::parse(&mountinfo, &cgroup, &name);
        for id in here.ids.iter().chain(&here.short_id) {
            prop_assert!((12..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_hexdigit()), "{}", id);
        }
    }

    #[test]
    fn a_mount_is_read_as_it_is(root in any_path(), place in any_path(), read_only: bool) {
        let options = if read_only { "nosuid,ro" } else { "rw,errors=remount-ro" };
        let line = format!("36 35 98:0 {} {} {options} master:1 - ext4 x rw", escaped(&root), escaped(&place));
        let here = Here::parse(&line, "", "");
        let wanted = Mounted { root: root.into(), place: place.into(), read_only };
        prop_assert_eq!(&here.mounts, &[wanted]);
    }

    /// What comes out is the source of the one mount that the workspace lies on, and beneath that what the workspace
    /// is beneath the mount.
    #[test]
    fn the_rest_of_the_path_is_kept(
        places in proptest::collection::vec("(/[ab]){1,4}", 1..6),
        workspace in "(/[ab]){1,6}",
    ) {
        let mut json: serde_json::Value = serde_json::from_str(DOCKER).unwrap();
        let mount = |place: &String| serde_json::json!({
            "Type": "bind", "Source": format!("/host{place}/end"), "Destination": place, "RW": true,
        });
        json["Mounts"] = places.iter().map(mount).collect();
        let mounts: Vec<String> = places.iter().map(|place| format!("1 1 1:1 / {place} rw - x x rw")).collect();
        let here = Here::parse(&mounts.join("\n"), "", "");
        let deepest = Utf8Path::new(&workspace).ancestors().find(|at| places.iter().any(|p| p == at));
        match (found(&json.to_string(), &here, &workspace), deepest) {
            (Ok(source), Some(at)) => {
                let rest = workspace.strip_prefix(at.as_str()).unwrap();
                prop_assert_eq!(source, format!("/host{at}/end{rest}"));
            }
            (Err(Doubt::Inside(_)), None) => {}
            (other, at) => prop_assert!(false, "{:?} {:?}", other, at),
        }
    }
}
