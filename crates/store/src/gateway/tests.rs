use camino::Utf8Path;
use jiff::{SignedDuration, Timestamp};
use kazma_domain::{Digest, PersonId, Role, SessionId};
use uuid::Uuid;

use super::*;
use crate::{Database, StoreError};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn secret(text: &str) -> Digest {
    Digest::of_bytes(text.as_bytes())
}

fn lea(role: Role) -> Person {
    Person {
        id: PersonId::from_uuid(Uuid::from_u128(7)),
        name: "Lea".to_owned(),
        role,
        is_operator: false,
        created_at: at(0),
    }
}

async fn open() -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8Path::from_path(folder.path())
        .unwrap()
        .join("gateway.db");
    let db = Database::open(&path, MIGRATIONS).await.unwrap();
    (folder, db)
}

macro_rules! write {
    ($db:expr, |$tx:ident| $body:expr) => {
        $db.write::<_, StoreError, _>(move |$tx| Box::pin(async move { $body.await }))
    };
}

#[tokio::test]
async fn no_two_persons_have_one_name_until_one_is_removed() {
    let (_folder, db) = open().await;
    write!(db, |tx| add_person(tx, &lea(Role::Approver)))
        .await
        .unwrap();
    let twin = Person {
        id: PersonId::from_uuid(Uuid::from_u128(8)),
        name: "LEA".to_owned(),
        ..lea(Role::Viewer)
    };
    let again = twin.clone();
    let refused = write!(db, |tx| add_person(tx, &again)).await.unwrap_err();
    assert!(refused.is_taken(), "{refused:?}");
    assert!(
        write!(db, |tx| remove_person(tx, lea(Role::Viewer).id, at(1)))
            .await
            .unwrap()
    );
    write!(db, |tx| add_person(tx, &twin)).await.unwrap();
    let names: Vec<String> = write!(db, |tx| persons(tx))
        .await
        .unwrap()
        .into_iter()
        .map(|p| p.name)
        .collect();
    assert_eq!(names, ["LEA"]);
}

#[tokio::test]
async fn a_link_is_good_once_and_not_too_late() {
    let (_folder, db) = open().await;
    let id = lea(Role::Viewer).id;
    write!(db, |tx| add_person(tx, &lea(Role::Viewer)))
        .await
        .unwrap();
    for text in ["one", "two"] {
        write!(db, |tx| add_link(tx, &secret(text), id, at(0), at(300)))
            .await
            .unwrap();
    }
    assert_eq!(
        write!(db, |tx| take_link(tx, &secret("one"), at(299)))
            .await
            .unwrap(),
        Some(lea(Role::Viewer))
    );
    assert_eq!(
        write!(db, |tx| take_link(tx, &secret("one"), at(299)))
            .await
            .unwrap(),
        None
    );
    assert_eq!(
        write!(db, |tx| take_link(tx, &secret("two"), at(300)))
            .await
            .unwrap(),
        None
    );
    assert_eq!(
        write!(db, |tx| take_link(tx, &secret("three"), at(0)))
            .await
            .unwrap(),
        None
    );
}

#[tokio::test]
async fn a_removed_person_has_no_session_and_no_vote() {
    let (_folder, db) = open().await;
    let session = Session {
        id: SessionId::from_uuid(Uuid::from_u128(9)),
        person: lea(Role::Approver).id,
        way: "link".to_owned(),
        client: String::new(),
        opened_at: at(0),
        expires_at: at(0) + SignedDuration::from_hours(1),
    };
    write!(db, |tx| add_person(tx, &lea(Role::Approver)))
        .await
        .unwrap();
    assert_eq!(write!(db, |tx| electorate(tx, at(1))).await.unwrap(), 0);
    write!(db, |tx| add_session(tx, &session, &secret("s")))
        .await
        .unwrap();
    assert_eq!(write!(db, |tx| electorate(tx, at(1))).await.unwrap(), 1);
    assert!(
        write!(db, |tx| by_session(tx, &secret("s"), at(3599)))
            .await
            .unwrap()
            .is_some()
    );
    assert!(
        write!(db, |tx| by_session(tx, &secret("s"), at(3600)))
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        write!(db, |tx| by_token(tx, &secret("s"), at(1)))
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        write!(db, |tx| remove_person(tx, lea(Role::Approver).id, at(2)))
            .await
            .unwrap()
    );
    assert!(
        write!(db, |tx| by_session(tx, &secret("s"), at(3)))
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(write!(db, |tx| electorate(tx, at(3))).await.unwrap(), 0);
}

#[tokio::test]
async fn the_operator_counts_and_stays() {
    let (_folder, db) = open().await;
    let operator_row = Person {
        name: "operator".to_owned(),
        is_operator: true,
        ..lea(Role::Admin)
    };
    let added = operator_row.clone();
    write!(db, |tx| add_person(tx, &added)).await.unwrap();
    assert_eq!(write!(db, |tx| electorate(tx, at(1))).await.unwrap(), 1);
    assert!(
        !write!(db, |tx| remove_person(tx, lea(Role::Admin).id, at(1)))
            .await
            .unwrap()
    );
    assert_eq!(
        write!(db, |tx| operator(tx)).await.unwrap(),
        Some(operator_row)
    );
}

#[tokio::test]
async fn failures_are_counted_for_a_peer_and_for_all() {
    let (_folder, db) = open().await;
    for (peer, second) in [("a", 0), ("a", 10), ("b", 20)] {
        write!(db, |tx| add_failure(tx, peer, at(second), at(second - 300)))
            .await
            .unwrap();
    }
    let counted = write!(db, |tx| failures_since(tx, "a", at(0)))
        .await
        .unwrap();
    assert_eq!(
        counted,
        Failures {
            of_peer: 1,
            of_all: 2,
            oldest: Some(at(10))
        }
    );
    write!(db, |tx| forget_failures(tx, "a")).await.unwrap();
    let counted = write!(db, |tx| failures_since(tx, "a", at(-1)))
        .await
        .unwrap();
    assert_eq!(
        counted,
        Failures {
            of_peer: 0,
            of_all: 1,
            oldest: Some(at(20))
        }
    );
}
