//! Sessions, API tokens and one-time links.

use jiff::Timestamp;
use kazma_domain::{Digest, PersonId, SessionId};
use uuid::Uuid;

use super::persons::{Person, read as read_person};
use crate::{
    StoreError, Tx,
    row::{Reader, Row, micros},
    statement::Statement,
};

/// Who holds a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The person.
    pub person: Person,
    /// The credential's id.
    pub credential: Uuid,
    /// Until when it is good; none for ever.
    pub expires_at: Option<Timestamp>,
}

/// A signed-in session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Which.
    pub id: SessionId,
    /// Whose.
    pub person: PersonId,
    /// How they signed in: `link` or `secret`.
    pub way: String,
    /// What the browser called itself, cut short.
    pub client: String,
    /// Since when.
    pub opened_at: Timestamp,
    /// Until when.
    pub expires_at: Timestamp,
}

/// An API token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Which.
    pub id: Uuid,
    /// Whose.
    pub person: PersonId,
    /// What its holder calls it.
    pub name: String,
    /// Since when.
    pub made_at: Timestamp,
    /// Until when; none for ever.
    pub expires_at: Option<Timestamp>,
}

/// Opens a session whose secret has the digest `secret`.
pub async fn add_session(
    tx: &mut Tx,
    session: &Session,
    secret: &Digest,
) -> Result<(), StoreError> {
    tx.execute(
        Statement::new(
            "INSERT INTO sessions (id, person, secret, way, client, opened_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(session.id)
        .bind(session.person)
        .bind(secret)
        .bind(&session.way)
        .bind(&session.client)
        .bind(micros(session.opened_at))
        .bind(micros(session.expires_at)),
    )
    .await?;
    Ok(())
}

/// Adds an API token whose secret has the digest `secret`.
pub async fn add_token(tx: &mut Tx, token: &Token, secret: &Digest) -> Result<(), StoreError> {
    tx.execute(Statement::new(
        "INSERT INTO tokens (id, person, secret, name, made_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)",
    ).bind(token.id).bind(token.person).bind(secret).bind(&token.name).bind(micros(token.made_at)).bind(token.expires_at.map(micros)))
    .await?;
    Ok(())
}

/// Adds a one-time link whose secret has the digest `secret`.
pub async fn add_link(
    tx: &mut Tx,
    secret: &Digest,
    person: PersonId,
    made_at: Timestamp,
    expires_at: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(
        Statement::new(
            "INSERT INTO links (secret, person, made_at, expires_at) VALUES ($1, $2, $3, $4)",
        )
        .bind(secret)
        .bind(person)
        .bind(micros(made_at))
        .bind(micros(expires_at)),
    )
    .await?;
    Ok(())
}

/// Uses up a one-time link. None where it is unknown, used or too old.
pub async fn take_link(
    tx: &mut Tx,
    secret: &Digest,
    now: Timestamp,
) -> Result<Option<Person>, StoreError> {
    let found = tx
        .optional(
            Statement::new(
                "SELECT p.id AS person_id, p.name AS person_name, p.role AS person_role,
                p.is_operator AS person_is_operator, p.created_at AS person_created_at
         FROM links l JOIN persons p ON p.id = l.person
         WHERE l.secret = $1 AND l.expires_at > $2 AND p.removed_at IS NULL",
            )
            .bind(secret)
            .bind(micros(now)),
        )
        .await?;
    tx.execute(Statement::new("DELETE FROM links WHERE secret = $1").bind(secret))
        .await?;
    found.as_ref().map(read_person).transpose()
}

fn holder(row: &Row) -> Result<Holder, StoreError> {
    let reader = Reader::new(row, "credentials", "");
    let credential = reader.uuid("credential")?;
    let reader = Reader::new(row, "credentials", credential);
    let expires_at = reader.time_option("expires_at")?;
    Ok(Holder {
        person: read_person(row)?,
        credential,
        expires_at,
    })
}

/// Who holds the session whose secret has the digest `secret`, if it is good at `now`.
pub async fn by_session(
    tx: &mut Tx,
    secret: &Digest,
    now: Timestamp,
) -> Result<Option<Holder>, StoreError> {
    tx.optional(Statement::new(
        "SELECT s.id AS credential, s.expires_at AS expires_at, p.id AS person_id, p.name AS person_name,
                p.role AS person_role, p.is_operator AS person_is_operator, p.created_at AS person_created_at
         FROM sessions s JOIN persons p ON p.id = s.person
         WHERE s.secret = $1 AND s.expires_at > $2 AND p.removed_at IS NULL",
    ).bind(secret).bind(micros(now)))
    .await?
    .as_ref()
    .map(holder)
    .transpose()
}

/// Who holds the API token whose secret has the digest `secret`, if it is good at `now`.
pub async fn by_token(
    tx: &mut Tx,
    secret: &Digest,
    now: Timestamp,
) -> Result<Option<Holder>, StoreError> {
    tx.optional(Statement::new(
        "SELECT t.id AS credential, t.expires_at AS expires_at, p.id AS person_id, p.name AS person_name,
                p.role AS person_role, p.is_operator AS person_is_operator, p.created_at AS person_created_at
         FROM tokens t JOIN persons p ON p.id = t.person
         WHERE t.secret = $1 AND (t.expires_at IS NULL OR t.expires_at > $2) AND p.removed_at IS NULL",
    ).bind(secret).bind(micros(now)))
    .await?
    .as_ref()
    .map(holder)
    .transpose()
}

/// The live sessions of a person, newest first.
pub async fn sessions_of(
    tx: &mut Tx,
    person: PersonId,
    now: Timestamp,
) -> Result<Vec<Session>, StoreError> {
    tx.all(
        Statement::new(
            "SELECT id, person, way, client, opened_at, expires_at FROM sessions
         WHERE person = $1 AND expires_at > $2 ORDER BY id DESC LIMIT 200",
        )
        .bind(person)
        .bind(micros(now)),
    )
    .await?
    .iter()
    .map(|row| {
        let reader = Reader::new(row, "sessions", person);
        Ok(Session {
            id: reader.id("id")?,
            person: reader.id("person")?,
            way: reader.get("way")?,
            client: reader.get("client")?,
            opened_at: reader.time("opened_at")?,
            expires_at: reader.time("expires_at")?,
        })
    })
    .collect()
}

/// The live API tokens of a person, newest first.
pub async fn tokens_of(
    tx: &mut Tx,
    person: PersonId,
    now: Timestamp,
) -> Result<Vec<Token>, StoreError> {
    tx.all(
        Statement::new(
            "SELECT id, person, name, made_at, expires_at FROM tokens
         WHERE person = $1 AND (expires_at IS NULL OR expires_at > $2) ORDER BY id DESC LIMIT 200",
        )
        .bind(person)
        .bind(micros(now)),
    )
    .await?
    .iter()
    .map(|row| {
        let reader = Reader::new(row, "tokens", person);
        Ok(Token {
            id: reader.uuid("id")?,
            person: reader.id("person")?,
            name: reader.get("name")?,
            made_at: reader.time("made_at")?,
            expires_at: reader.time_option("expires_at")?,
        })
    })
    .collect()
}

/// Ends a session of `person`. False where they have no such session.
pub async fn end_session(tx: &mut Tx, id: SessionId, person: PersonId) -> Result<bool, StoreError> {
    let ended = tx
        .execute(
            Statement::new("DELETE FROM sessions WHERE id = $1 AND person = $2")
                .bind(id)
                .bind(person),
        )
        .await?;
    Ok(ended > 0)
}

/// Ends an API token of `person`. False where they have no such token.
pub async fn end_token(tx: &mut Tx, id: Uuid, person: PersonId) -> Result<bool, StoreError> {
    let ended = tx
        .execute(
            Statement::new("DELETE FROM tokens WHERE id = $1 AND person = $2")
                .bind(id)
                .bind(person),
        )
        .await?;
    Ok(ended > 0)
}

/// Drops what can no longer be used.
pub async fn sweep(tx: &mut Tx, now: Timestamp) -> Result<(), StoreError> {
    for statement in [
        "DELETE FROM sessions WHERE expires_at <= $1",
        "DELETE FROM tokens WHERE expires_at <= $1",
        "DELETE FROM links WHERE expires_at <= $1",
    ] {
        tx.execute(Statement::new(statement).bind(micros(now)))
            .await?;
    }
    Ok(())
}
