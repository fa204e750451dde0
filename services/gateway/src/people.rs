//! Who may come in: persons, sessions, API tokens, one-time links, and the throttle before them.

mod name;
pub(crate) mod secret;

use std::{net::IpAddr, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use kazma_domain::{Clock, Digest, Entropy, PersonId, Role, SessionId, clock::after};
use kazma_store::{
    Database, StoreError,
    gateway::{self as store, Holder, Person, Session, Token},
};
use secrecy::{ExposeSecret as _, SecretString};
use uuid::Uuid;

pub(crate) use name::NotAName;

use crate::guard::limits::network;

/// How long a session is good. Source: the reference's session life.
pub(crate) const SESSION_LIFE: SignedDuration = SignedDuration::from_hours(14 * 24);
/// How long a one-time link is good.
pub(crate) const LINK_LIFE: SignedDuration = SignedDuration::from_mins(5);
/// Failed sign-ins are counted over this time.
const FAILURE_WINDOW: SignedDuration = SignedDuration::from_secs(300);
/// Failed sign-ins of one peer.
const FAILURES_OF_PEER: u32 = 10;
/// Failed sign-ins of everybody.
const FAILURES_OF_ALL: u32 = 200;
/// The name of the token that `kazma up` writes into the data folder.
const UP_TOKEN: &str = "kazma up";
/// The longest secret anybody may present.
const SECRET_MAX: usize = 512;

/// Everybody who may sign in.
#[derive(Debug, Clone)]
pub(crate) struct People {
    db: Database,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    /// The operator's shared secret, if there is one.
    secret: Option<SecretString>,
}

/// Why somebody did not get in. To them it is all the same.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotIn {
    #[error("the secret or link is not good")]
    Wrong,
    #[error("too many failed sign-ins")]
    Throttled { seconds: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a person was not added.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotAdded {
    #[error(transparent)]
    Name(#[from] NotAName),
    #[error("another person has this name")]
    Taken,
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for NotAdded {
    fn from(error: StoreError) -> Self {
        if error.is_taken() {
            Self::Taken
        } else {
            Self::Store(error)
        }
    }
}

/// Somebody who has just come in.
#[derive(Debug)]
pub(crate) struct Entered {
    pub(crate) person: Person,
    pub(crate) session: Session,
    pub(crate) secret: SecretString,
}

/// Who knocks, and what their session will say about them.
#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    pub(crate) peer: IpAddr,
    /// What the browser calls itself; cut short before it is kept.
    pub(crate) client: String,
    /// The session they had, which ends when they come in anew.
    pub(crate) earlier: Option<SecretString>,
}

impl People {
    /// Opens the house: at the first start there is the operator, and `token` is theirs from now on.
    pub(crate) async fn open(
        db: Database,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        secret: Option<SecretString>,
        token: &SecretString,
    ) -> Result<Self, StoreError> {
        let people = Self {
            db,
            clock,
            entropy,
            secret,
        };
        let now = people.clock.now();
        let fresh = Person {
            id: PersonId::new(now, &*people.entropy),
            name: "operator".to_owned(),
            role: Role::Admin,
            is_operator: true,
            created_at: now,
        };
        let held = people.token_row(fresh.id, UP_TOKEN, None);
        let digest = secret::digest(token);
        people
            .db
            .write::<_, StoreError, _>(move |tx| {
                Box::pin(async move {
                    store::sweep(tx, now).await?;
                    let operator = if let Some(operator) = store::operator(tx).await? {
                        operator
                    } else {
                        store::add_person(tx, &fresh).await?;
                        fresh
                    };
                    // The token in the data folder is the only one of its name that is good.
                    let known = store::by_token(tx, &digest, now)
                        .await?
                        .map(|holder| holder.credential);
                    for old in store::tokens_of(tx, operator.id, now).await? {
                        if old.name == UP_TOKEN && Some(old.id) != known {
                            store::end_token(tx, old.id, operator.id).await?;
                        }
                    }
                    if known.is_none() {
                        store::add_token(
                            tx,
                            &Token {
                                person: operator.id,
                                ..held
                            },
                            &digest,
                        )
                        .await?;
                    }
                    Ok(())
                })
            })
            .await?;
        Ok(people)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        &*self.entropy
    }

    pub(crate) fn database(&self) -> &Database {
        &self.db
    }

    fn uuid(&self) -> Uuid {
        SessionId::new(self.now(), &*self.entropy).uuid()
    }

    fn token_row(&self, person: PersonId, name: &str, life: Option<SignedDuration>) -> Token {
        let now = self.now();
        Token {
            id: self.uuid(),
            person,
            name: name.to_owned(),
            made_at: now,
            expires_at: life.map(|life| after(now, life)),
        }
    }

    /// Who holds a session or an API token, if it is good now.
    pub(crate) async fn holder(
        &self,
        secret: &SecretString,
        bearer: bool,
    ) -> Result<Option<Holder>, StoreError> {
        if secret.expose_secret().len() > SECRET_MAX {
            return Ok(None);
        }
        let (digest, now) = (secret::digest(secret), self.now());
        self.db
            .read(move |tx| {
                Box::pin(async move {
                    if bearer {
                        store::by_token(tx, &digest, now).await
                    } else {
                        store::by_session(tx, &digest, now).await
                    }
                })
            })
            .await
    }

    /// Lets somebody in who shows the operator's secret or a one-time link's code.
    ///
    /// Count, judgement and count again are one transaction: ten guesses at once are ten guesses.
    pub(crate) async fn enter(
        &self,
        shown: &SecretString,
        visitor: Visitor,
    ) -> Result<Entered, NotIn> {
        let now = self.now();
        let since = now.checked_sub(FAILURE_WINDOW).unwrap_or(Timestamp::MIN);
        let is_secret = self
            .secret
            .as_ref()
            .is_some_and(|secret| secret::same(secret, shown));
        let digest = secret::digest(shown);
        let new = secret::make("", &*self.entropy);
        let new_digest = secret::digest(&new);
        let id = SessionId::new(now, &*self.entropy);
        let peer = network(visitor.peer).to_string();
        let client: String = visitor
            .client
            .chars()
            .filter(|c| !c.is_control())
            .take(120)
            .collect();
        let earlier = visitor.earlier.as_ref().map(secret::digest);
        let (person, session) = self
            .db
            .write(move |tx| {
                Box::pin(async move {
                    let failures = store::failures_since(tx, &peer, since).await?;
                    if failures.of_peer >= FAILURES_OF_PEER || failures.of_all >= FAILURES_OF_ALL {
                        let until = after(failures.oldest.unwrap_or(now), FAILURE_WINDOW);
                        let wait = until.duration_since(now).as_secs().max(1);
                        return Ok(Err(NotIn::Throttled {
                            seconds: u64::try_from(wait).unwrap_or(1),
                        }));
                    }
                    let person = if is_secret {
                        store::operator(tx).await?
                    } else {
                        store::take_link(tx, &digest, now).await?
                    };
                    let Some(person) = person else {
                        store::add_failure(tx, &peer, now, since).await?;
                        return Ok(Err(NotIn::Wrong));
                    };
                    if let Some(earlier) = earlier
                        && let Some(holder) = store::by_session(tx, &earlier, now).await?
                    {
                        store::end_session(
                            tx,
                            SessionId::from_uuid(holder.credential),
                            holder.person.id,
                        )
                        .await?;
                    }
                    // A link proves nothing about guesses at the secret: whoever may make links for
                    // themselves would guess for ever.
                    if is_secret {
                        store::forget_failures(tx, &peer).await?;
                    }
                    store::sweep(tx, now).await?;
                    let session = Session {
                        id,
                        person: person.id,
                        way: if is_secret { "secret" } else { "link" }.to_owned(),
                        client,
                        opened_at: now,
                        expires_at: after(now, SESSION_LIFE),
                    };
                    store::add_session(tx, &session, &new_digest).await?;
                    Ok::<_, NotIn>(Ok((person, session)))
                })
            })
            .await??;
        Ok(Entered {
            person,
            session,
            secret: new,
        })
    }

    /// A new one-time link for a person.
    pub(crate) async fn link(&self, person: PersonId) -> Result<SecretString, StoreError> {
        let link = secret::make("", &*self.entropy);
        let (digest, now) = (secret::digest(&link), self.now());
        self.db
            .write::<_, StoreError, _>(move |tx| {
                Box::pin(async move {
                    store::sweep(tx, now).await?;
                    store::add_link(tx, &digest, person, now, after(now, LINK_LIFE)).await
                })
            })
            .await?;
        Ok(link)
    }

    /// A new person with a one-time link.
    pub(crate) async fn add(
        &self,
        name: &str,
        role: Role,
    ) -> Result<(Person, SecretString), NotAdded> {
        let now = self.now();
        let person = Person {
            id: PersonId::new(now, &*self.entropy),
            name: name::checked(name)?,
            role,
            is_operator: false,
            created_at: now,
        };
        let link = secret::make("", &*self.entropy);
        let (row, digest) = (person.clone(), secret::digest(&link));
        self.db
            .write::<_, NotAdded, _>(move |tx| {
                Box::pin(async move {
                    store::add_person(tx, &row).await?;
                    store::add_link(tx, &digest, row.id, now, after(now, LINK_LIFE)).await?;
                    Ok(())
                })
            })
            .await?;
        Ok((person, link))
    }

    pub(crate) async fn all(&self) -> Result<Vec<Person>, StoreError> {
        self.db.read(|tx| Box::pin(store::persons(tx))).await
    }

    pub(crate) async fn one(&self, id: PersonId) -> Result<Option<Person>, StoreError> {
        self.db
            .read(move |tx| Box::pin(store::person(tx, id)))
            .await
    }

    pub(crate) async fn remove(&self, id: PersonId) -> Result<bool, StoreError> {
        let now = self.now();
        self.db
            .write(move |tx| Box::pin(store::remove_person(tx, id, now)))
            .await
    }

    /// How many persons are expected to answer a card.
    pub(crate) async fn electorate(&self) -> Result<u32, StoreError> {
        let now = self.now();
        self.db
            .read(move |tx| Box::pin(store::electorate(tx, now)))
            .await
    }

    pub(crate) async fn sessions(&self, person: PersonId) -> Result<Vec<Session>, StoreError> {
        let now = self.now();
        self.db
            .read(move |tx| Box::pin(store::sessions_of(tx, person, now)))
            .await
    }

    pub(crate) async fn end_session(
        &self,
        id: SessionId,
        person: PersonId,
    ) -> Result<bool, StoreError> {
        self.db
            .write(move |tx| Box::pin(store::end_session(tx, id, person)))
            .await
    }

    /// A new API token of a person.
    pub(crate) async fn add_token(
        &self,
        person: PersonId,
        name: &str,
        life: Option<SignedDuration>,
    ) -> Result<(Token, SecretString), NotAdded> {
        let secret = secret::make("kazma_", &*self.entropy);
        let name = name::checked(name)?;
        if name.eq_ignore_ascii_case(UP_TOKEN) {
            return Err(NotAdded::Taken);
        }
        let token = self.token_row(person, &name, life);
        let (row, digest): (Token, Digest) = (token.clone(), secret::digest(&secret));
        self.db
            .write::<_, NotAdded, _>(move |tx| {
                Box::pin(async move { Ok(store::add_token(tx, &row, &digest).await?) })
            })
            .await?;
        Ok((token, secret))
    }

    pub(crate) async fn tokens(&self, person: PersonId) -> Result<Vec<Token>, StoreError> {
        let now = self.now();
        self.db
            .read(move |tx| Box::pin(store::tokens_of(tx, person, now)))
            .await
    }

    pub(crate) async fn end_token(&self, id: Uuid, person: PersonId) -> Result<bool, StoreError> {
        self.db
            .write(move |tx| Box::pin(store::end_token(tx, id, person)))
            .await
    }
}
