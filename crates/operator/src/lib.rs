//! The operator's commands, spoken to the running gateway.

mod api;
mod gates;

use std::{io::Write, process::ExitCode};

use clap::Subcommand;
use kazma_domain::Role;
use kazma_launch::{Place, Usage};
use kazma_runtime::BoxError;
use serde_json::{Value, json};

pub use api::{Api, ApiError};

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Operator {
    /// Print a new one-time sign-in link
    LoginLink(Place),
    /// The people who may sign in
    Users {
        #[command(subcommand)]
        /// What to do with them.
        command: Users,
    },
    /// The cards, with the terminal as a surface
    Gates {
        #[command(subcommand)]
        /// What to do with them.
        command: Gates,
    },
}

/// `kazma users`.
#[derive(Debug, Subcommand)]
pub enum Users {
    /// Add a person and print their one-time sign-in link
    Add {
        /// The name others see
        name: String,
        /// viewer, approver, operator or admin
        #[arg(long)]
        role: Role,
        #[command(flatten)]
        /// Where the data is.
        place: Place,
    },
    /// List them
    List {
        #[command(flatten)]
        /// Where the data is.
        place: Place,
    },
}

/// `kazma gates`.
#[derive(Debug, Subcommand)]
pub enum Gates {
    /// List the cards that wait
    List {
        #[command(flatten)]
        /// Where the data is.
        place: Place,
    },
    /// Show a whole card
    Show {
        /// The gate's id
        id: String,
        #[command(flatten)]
        /// Where the data is.
        place: Place,
    },
    /// Show a whole card and ask
    Approve {
        /// The gate's id
        id: String,
        #[command(flatten)]
        /// Where the data is.
        place: Place,
    },
    /// Deny a card
    Deny {
        /// The gate's id
        id: String,
        /// Why, for the agent and the record
        #[arg(long)]
        reason: Option<String>,
        #[command(flatten)]
        /// Where the data is.
        place: Place,
    },
}

/// Runs one command.
///
/// # Errors
///
/// Says what is wrong with the command, or what the gateway said.
pub fn run(command: Operator) -> Result<ExitCode, BoxError> {
    kazma_mesh::install_crypto_provider();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match command {
            Operator::LoginLink(place) => {
                let link = at(&place)?.post("/api/auth/links", &json!({})).await?;
                say(text(&link, "login_url"))
            }
            Operator::Users { command } => users(command).await,
            Operator::Gates { command } => gates::run(command).await,
        }
    })
}

async fn users(command: Users) -> Result<ExitCode, BoxError> {
    match command {
        Users::Add { name, role, place } => {
            let body = json!({ "name": name, "role": role });
            let added = at(&place)?.post("/api/users", &body).await?;
            say(text(&added, "login_url"))
        }
        Users::List { place } => {
            let answer = at(&place)?.get("/api/users").await?;
            for person in answer
                .get("users")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                say(&format!(
                    "{:10} {}",
                    text(person, "role"),
                    text(person, "name")
                ))?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The gateway of the `kazma up` that uses this data folder.
fn at(place: &Place) -> Result<Api, BoxError> {
    let folder = place.path();
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path).map_err(|error| {
            Usage(format!(
                "{path}: {error}; is `kazma up` running there? Name its data folder by --data-dir"
            ))
        })
    };
    let services: Value = serde_json::from_str(&read("run/services.json")?)?;
    Ok(Api::new(text(&services, "api"), read("token")?.trim())?)
}

/// A text member of an answer; empty where there is none.
pub fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Writes a line on standard output.
fn say(line: &str) -> Result<ExitCode, BoxError> {
    writeln!(std::io::stdout().lock(), "{line}")?;
    Ok(ExitCode::SUCCESS)
}
