//! The word that is left for the broker's canary.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// Starts an api in `dir` and gives what it left there.
fn left(dir: &std::path::Path, leave_canary: bool) -> Option<String> {
    let mut options = Options::new(Utf8PathBuf::from_path_buf(dir.to_owned()).unwrap());
    options.leave_canary = leave_canary;
    let mut seams = seams(&Scripted::new(), &Python::new());
    seams.entropy = Arc::new(kazma_runtime::SystemEntropy);
    executor(&options, seams, CancellationToken::new()).unwrap();
    std::fs::read_to_string(dir.join(".kazma-canary")).ok()
}

#[test]
fn each_start_leaves_another_word_and_only_where_it_is_told_to() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(left(dir.path(), false), None);
    let first = left(dir.path(), true).unwrap();
    assert_eq!(first.len(), 32);
    assert_ne!(left(dir.path(), true).unwrap(), first);
    let mode = std::fs::metadata(dir.path().join(".kazma-canary")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o640);
}

#[test]
fn a_workspace_where_it_cannot_be_left_is_served_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join(".kazma-canary/full")).unwrap();
    assert_eq!(left(dir.path(), true), None);
}
