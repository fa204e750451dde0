use secrecy::ExposeSecret as _;

use super::*;
use crate::https::tests::pair;

fn written(folder: &tempfile::TempDir, pem: &Pem) -> Files {
    let path = |name: &str| Utf8PathBuf::from_path_buf(folder.path().join(name)).unwrap();
    fs::write(path("cert.pem"), &pem.certificate).unwrap();
    fs::write(path("key.pem"), pem.key.expose_secret()).unwrap();
    Files::new(Some(&path("cert.pem")), Some(&path("key.pem")))
        .unwrap()
        .unwrap()
}

#[test]
fn both_are_set_or_none() {
    let path = Utf8Path::new("x");
    let empty = Some(Utf8Path::new(""));
    assert!(Files::new(None, None).unwrap().is_none());
    assert!(Files::new(empty, empty).unwrap().is_none());
    for (certificate, key, missing) in [
        (Some(path), None, "KAZMA_TLS_KEY: set it too"),
        (Some(path), empty, "KAZMA_TLS_KEY: set it too"),
        (None, Some(path), "KAZMA_TLS_CERT: set it too"),
    ] {
        let refused = Files::new(certificate, key).unwrap_err().to_string();
        assert!(refused.starts_with(missing), "{refused}");
    }
}

#[test]
fn what_cannot_be_used_is_refused_with_the_setting_s_name() {
    let folder = tempfile::tempdir().unwrap();
    let (good, other) = (pair(), pair());
    let with = |certificate: &str, key: &str| Pem {
        certificate: certificate.to_owned(),
        key: key.to_owned().into(),
    };
    let (own, strange) = (good.key.expose_secret(), other.key.expose_secret());
    let broken = good.certificate.replacen("MII", "AII", 1);
    for (pem, says) in [
        (with("", own), "KAZMA_TLS_CERT: no certificate"),
        (with("words", own), "KAZMA_TLS_CERT: no certificate"),
        (with(&broken, own), "KAZMA_TLS_CERT: no certificate"),
        (with(own, own), "KAZMA_TLS_CERT: no certificate"),
        (with(&good.certificate, ""), "KAZMA_TLS_KEY: no private key"),
        (
            with(&good.certificate, &good.certificate),
            "KAZMA_TLS_KEY: no private key",
        ),
        (
            with(&good.certificate, strange),
            "KAZMA_TLS_KEY: it is not the key",
        ),
    ] {
        let refused = written(&folder, &pem).read().unwrap_err().to_string();
        assert!(refused.starts_with(says), "{refused}");
        assert!(!refused.contains("PRIVATE"), "{refused}");
    }
    assert_eq!(written(&folder, &good).read().unwrap(), good);
    fs::remove_file(folder.path().join("key.pem")).unwrap();
    let files = Files::new(
        Utf8Path::from_path(&folder.path().join("cert.pem")),
        Utf8Path::from_path(&folder.path().join("key.pem")),
    );
    let refused = files.unwrap().unwrap().read().unwrap_err().to_string();
    assert!(refused.starts_with("KAZMA_TLS_KEY: /"), "{refused}");
}

#[test]
fn folders_are_those_of_the_names_and_of_the_files_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(folder.path())
        .unwrap()
        .canonicalize_utf8()
        .unwrap();
    for name in ["live", "archive"] {
        fs::create_dir(root.join(name)).unwrap();
    }
    for name in ["cert.pem", "key.pem"] {
        fs::write(root.join("archive").join(name), "").unwrap();
        std::os::unix::fs::symlink(format!("../archive/{name}"), root.join("live").join(name))
            .unwrap();
    }
    let (certificate, key) = (root.join("live/cert.pem"), root.join("live/key.pem"));
    let files = Files::new(Some(&certificate), Some(&key)).unwrap().unwrap();
    assert_eq!(files.folders(), [root.join("archive"), root.join("live")]);
}

#[tokio::test(start_paused = true)]
async fn a_renewed_pair_is_told_of_once_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (pair(), pair());
    let files = written(&folder, &first);
    let (shown, mut told) = watch::channel(first.clone());
    let stop = CancellationToken::new();
    let following = tokio::spawn({
        let (files, stop) = (files.clone(), stop.clone());
        async move { files.follow(&shown, stop).await }
    });
    tokio::time::sleep(EVERY * 3).await;
    assert!(!told.has_changed().unwrap(), "nothing was renewed");

    // The certificate is there before its key.
    fs::write(folder.path().join("cert.pem"), &second.certificate).unwrap();
    tokio::time::sleep(EVERY * 3).await;
    assert!(!told.has_changed().unwrap(), "half a pair was told of");
    fs::write(folder.path().join("key.pem"), second.key.expose_secret()).unwrap();
    told.changed().await.unwrap();
    assert_eq!(*told.borrow_and_update(), second);

    fs::remove_file(folder.path().join("key.pem")).unwrap();
    tokio::time::sleep(EVERY * 3).await;
    assert!(
        !told.has_changed().unwrap(),
        "a file that is gone was told of"
    );
    stop.cancel();
    following.await.unwrap();
}
