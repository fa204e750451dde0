//! Where a database cannot be: in a file that another process holds, and on a file system that is not this machine's.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use crate::stack::{Stack, command, refused, up_command};

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_whose_file_another_process_holds_says_so() {
    let mut stack = Stack::start();
    assert!(stack.end().await.success());
    let path = stack.folder().join("gate-registry/registry.db.lock");
    let held = fs::File::open(path).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let output = refused(up_command(stack.folder())).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("another process uses") && said.contains("registry.db"),
        "{said}"
    );
    drop(held);
    stack.start_again();
}

/// A folder on FUSE, which is a network file system as far as anybody can tell.
struct Foreign {
    folder: tempfile::TempDir,
}

impl Foreign {
    fn mount() -> Self {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let open = |path: &std::path::Path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        open(folder.path());
        let below = ["lower", "upper", "work", "there"].map(|name| folder.path().join(name));
        for path in &below {
            fs::create_dir(path).unwrap();
            open(path);
        }
        let [lower, upper, work, there] = below.map(|path| path.display().to_string());
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work},allow_other");
        let mut mount = command("/usr/bin/fuse-overlayfs");
        let mounted = mount.args(["-o", &options, &there]).output().unwrap();
        assert!(mounted.status.success(), "{mounted:?}");
        Self { folder }
    }

    fn there(&self) -> PathBuf {
        self.folder.path().join("there")
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let gone = command("/usr/bin/umount").arg(self.there()).output();
        assert!(gone.is_ok_and(|gone| gone.status.success()) || std::thread::panicking());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_folder_on_a_network_file_system_is_refused() {
    let foreign = Foreign::mount();
    let data = foreign.there().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o711)).unwrap();
    let output = refused(up_command(&data)).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("network file system (FUSE)"), "{said}");
    assert!(said.contains("local disk"), "{said}");
    assert!(!data.join("gate-registry/registry.db").exists());
}
