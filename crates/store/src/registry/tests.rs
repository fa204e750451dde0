//! Every schema that was ever released leads to this build's, on both databases.

use camino::Utf8PathBuf;
use jiff::Timestamp;
use kazma_domain::{Digest, MessageId, ThreadId, TurnId, TurnState, Wait};
use kazma_wire::agent::EntryKind;
use uuid::Uuid;

use super::*;
use crate::{
    Database, Place, StoreError, postgres::tests::schema, row::json, statement::Statement,
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn uuid(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

/// What a registry of the first schema had written: a turn with its message, and a record of it.
fn first_words() -> Vec<Statement> {
    let message = EntryKind::Message {
        text: "tidy up".to_owned(),
        by: "Lea".to_owned(),
    };
    let micros = at(0).as_microsecond();
    vec![
        Statement::new(
            "INSERT INTO threads (id, created_at, created_by, changed_at, title)
             VALUES ($1, $2, $3, $2, 'tidy up')",
        )
        .bind(uuid(1))
        .bind(micros)
        .bind(uuid(7)),
        Statement::new(
            "INSERT INTO turns (id, thread, state, opened_at, message, changed)
             VALUES ($1, $2, 'open', $3, 1, 1)",
        )
        .bind(uuid(2))
        .bind(uuid(1))
        .bind(micros),
        Statement::new(
            "INSERT INTO entries (id, thread, turn, at, kind, body)
             VALUES ($1, $2, $3, $4, 'message', $5)",
        )
        .bind(uuid(3))
        .bind(uuid(1))
        .bind(uuid(2))
        .bind(micros)
        .bind(json("entries", "3", &message).unwrap()),
        Statement::new("INSERT INTO audit (seq, record, hash) VALUES (1, 'record', $1)")
            .bind(&Digest::of_bytes(b"record")),
        Statement::new("INSERT INTO audit_payloads (seq, body) VALUES (1, 'payload')"),
        Statement::new("INSERT INTO meta (name, value) VALUES ('epoch', '3')"),
    ]
}

async fn holds_the_first_words(database: &Database) {
    database
        .read(|tx| {
            Box::pin(async move {
                let (thread, id) = (ThreadId::from_uuid(uuid(1)), TurnId::from_uuid(uuid(2)));
                let turn = threads::turn(tx, id).await?.unwrap();
                // As everybody waited before there was another way.
                assert_eq!((turn.state, turn.wait), (TurnState::Open, Wait::Parked));
                let entries = threads::entries(tx, thread, 0, 10).await?;
                assert_eq!(entries.len(), 1);
                assert_eq!((entries[0].seq, entries[0].at), (1, at(0)));
                assert!(
                    matches!(&entries[0].kind, EntryKind::Message { text, .. } if text == "tidy up")
                );
                let found = threads::holding(tx, thread, "idy", 10, 10).await?;
                assert_eq!(found.len(), 1);
                assert_eq!(meta::epoch(tx).await?, 3);
                let records = audit::after(tx, 0, 10).await?;
                assert_eq!(records[0].payload.as_deref(), Some("payload"));
                assert_eq!(
                    audit::head(tx).await?,
                    Some((1, Digest::of_bytes(b"record")))
                );
                Ok::<_, StoreError>(())
            })
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn what_the_first_schema_kept_is_there_in_each_that_followed() {
    let folder = tempfile::tempdir().unwrap();
    let place = schema().map_or_else(
        || Place::File(Utf8PathBuf::try_from(folder.path().join("registry.db")).unwrap()),
        Place::Server,
    );
    let up_to = |step: usize| Schema {
        sqlite: &SCHEMA.sqlite[..step],
        postgres: &SCHEMA.postgres[..step],
    };
    let database = Database::open_at(&place, &up_to(1)).await.unwrap();
    database
        .write(|tx| {
            Box::pin(async move {
                for words in first_words() {
                    tx.execute(words).await?;
                }
                Ok::<_, StoreError>(())
            })
        })
        .await
        .unwrap();
    database.close().await.unwrap();
    // One step after the other, as an installation that took every release; a step is taken once.
    for step in 2..=SCHEMA.sqlite.len() {
        for _ in 0..2 {
            let database = Database::open_at(&place, &up_to(step)).await.unwrap();
            database.close().await.unwrap();
        }
    }
    let database = Database::open_at(&place, &SCHEMA).await.unwrap();
    holds_the_first_words(&database).await;
    // And what is new goes on behind it.
    let (thread, turn) = (ThreadId::from_uuid(uuid(1)), TurnId::from_uuid(uuid(4)));
    database
        .write(move |tx| {
            Box::pin(async move {
                threads::open_turn(tx, turn, thread, Wait::Blocking, at(1), 2);
                let message = MessageId::from_uuid(uuid(5));
                let kind = EntryKind::Message {
                    text: "\0 and \u{1f9f9}".to_owned(),
                    by: "Lea".to_owned(),
                };
                threads::append(tx, message, thread, turn, at(1), &kind)?;
                threads::set_message(tx, turn, message);
                threads::touch(tx, thread, at(-1));
                Ok::<_, StoreError>(())
            })
        })
        .await
        .unwrap();
    let (turns, entries, threads) = database
        .read(move |tx| {
            Box::pin(async move {
                let entries = threads::newest_entries(tx, thread, 1).await?;
                let (turns, _) = threads::live_turns(tx, 0).await?;
                Ok::<_, StoreError>((turns, entries, threads::summaries(tx, 10).await?))
            })
        })
        .await
        .unwrap();
    assert_eq!(
        turns.iter().map(|turn| turn.seq).collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(entries[0].seq, 2);
    assert!(
        matches!(&entries[0].kind, EntryKind::Message { text, .. } if text == "\0 and \u{1f9f9}")
    );
    // Nothing goes back in time.
    assert_eq!(threads[0].changed_at, at(0));
}

#[test]
fn both_databases_have_the_same_steps() {
    let steps = |of: &[Migration]| of.iter().map(|m| (m.version, m.name)).collect::<Vec<_>>();
    assert_eq!(steps(SCHEMA.sqlite), steps(SCHEMA.postgres));
    for (place, (version, _)) in steps(SCHEMA.sqlite).into_iter().enumerate() {
        assert_eq!(usize::try_from(version).unwrap(), place + 1);
    }
}

/// Released steps: a change of one of these texts is a database that no longer opens.
#[test]
fn released_steps_stay_as_they_are() {
    let digests = |of: &[Migration]| -> Vec<String> {
        let texts = of.iter().map(|step| Digest::of_bytes(step.sql.as_bytes()));
        texts.map(|digest| digest.to_string()).collect()
    };
    let live = "sha256:33a1b576bb0df83bf8191c1d20b2b7a2ae51d58b3c5e58568c4fea9b19abbcfb";
    let wait = "sha256:b35474d22c2d3f15559c14657aed86a5abcf4a5ced309755fb771aefb16fdb5a";
    assert_eq!(
        digests(SCHEMA.sqlite),
        [
            "sha256:ab5e5788048f50992b585fa0fba1e9c24305ac1da563c44337d135d1f0522259",
            live,
            wait,
        ]
    );
    assert_eq!(
        digests(SCHEMA.postgres),
        [
            "sha256:226b60a3e6b5c6525ce7de937e27018bf03c341d3a63a1bfcafde36816a1f74b",
            live,
            wait,
        ]
    );
}
