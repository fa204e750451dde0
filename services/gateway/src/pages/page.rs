//! The frame around every page, and the pages that are not a thread.

use askama::Template;

use super::card::Card;

/// A place in the rail. What is not built is not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Cards that wait.
    Approvals,
    /// A new thread.
    Chat,
    /// All threads.
    Threads,
    /// A page that is none of these.
    Elsewhere,
}

impl Section {
    /// Whether this is the section called `name`.
    pub fn is(self, name: &str) -> bool {
        match self {
            Self::Approvals => name == "approvals",
            Self::Chat => name == "chat",
            Self::Threads => name == "threads",
            Self::Elsewhere => false,
        }
    }
}

/// How a band looks; its words say the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Good to know.
    Note,
    /// Something is missing or unusual.
    Warn,
    /// Something can be lost.
    Danger,
}

impl Tone {
    /// The class that colours it.
    pub fn key(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warn => "warn",
            Self::Danger => "danger",
        }
    }

    /// Its icon.
    pub fn icon(self) -> &'static str {
        match self {
            Self::Note => "info",
            Self::Warn | Self::Danger => "shield-alert",
        }
    }
}

/// A thin line on top of every page, for as long as it is true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Band {
    /// How it looks.
    pub tone: Tone,
    /// What is so.
    pub text: String,
    /// What to do about it. May be empty.
    pub fix: String,
}

impl Band {
    /// The scripted model answers.
    pub fn demo() -> Self {
        Self {
            tone: Tone::Note,
            text: "Demo model: scripted, not intelligent.".to_owned(),
            fix: "For a real one, set KAZMA_MODEL_BASE_URL.".to_owned(),
        }
    }

    /// Code cannot be isolated here, so it does not run.
    pub fn no_isolation(reason: &str, fix: &str) -> Self {
        Self {
            tone: Tone::Warn,
            text: format!("Code does not run here: {reason}"),
            fix: fix.to_owned(),
        }
    }

    /// This is a production deployment.
    pub fn production() -> Self {
        Self {
            tone: Tone::Note,
            text: "Production.".to_owned(),
            fix: String::new(),
        }
    }

    /// Nothing runs until somebody lifts the freeze.
    pub fn frozen(fix: &str) -> Self {
        Self {
            tone: Tone::Danger,
            text: "Frozen: nothing runs.".to_owned(),
            fix: fix.to_owned(),
        }
    }
}

/// What the frame of a page needs.
#[derive(Debug, Clone)]
pub struct Shell {
    /// The nonce of this answer's Content-Security-Policy.
    pub nonce: String,
    /// The session's CSRF token; on the sign-in page that of the visitor.
    pub csrf: String,
    /// A BCP 47 language tag.
    pub lang: String,
    /// `ltr` or `rtl`.
    pub dir: String,
    /// `auto`, `light` or `dark`.
    pub theme: String,
    /// The page's title, without the product's name.
    pub title: String,
    /// The path of this page, where small forms return to.
    pub path: String,
    /// The signed-in person's name; empty on the sign-in page.
    pub person: String,
    /// Their role, in a word.
    pub role: String,
    /// Which rail entry is current.
    pub section: Section,
    /// How many cards wait.
    pub pending: u64,
    /// What is always said.
    pub bands: Vec<Band>,
}

impl Shell {
    /// Whether somebody is signed in.
    pub fn signed_in(&self) -> bool {
        !self.person.is_empty()
    }

    /// A frame for a signed-in operator with two cards waiting.
    pub fn sample() -> Self {
        Self {
            nonce: "samplenonce".to_owned(),
            csrf: "samplecsrf".to_owned(),
            lang: "en".to_owned(),
            dir: "ltr".to_owned(),
            theme: "auto".to_owned(),
            title: "Sample".to_owned(),
            path: "/approvals".to_owned(),
            person: "Lea".to_owned(),
            role: "operator".to_owned(),
            section: Section::Elsewhere,
            pending: 2,
            bands: vec![Band::demo()],
        }
    }
}

/// `GET /login`.
#[derive(Debug, Clone, Template)]
#[template(path = "signin.html")]
pub struct SignInPage {
    /// The frame, with nobody signed in.
    pub shell: Shell,
    /// What went wrong last time, in a sentence. May be empty.
    pub error: String,
    /// Where to go afterwards: a path of ours. May be empty.
    pub return_to: String,
}

impl SignInPage {
    /// A first visit.
    pub fn sample() -> Self {
        Self {
            shell: Shell {
                title: "Sign in".to_owned(),
                person: String::new(),
                role: String::new(),
                pending: 0,
                ..Shell::sample()
            },
            error: String::new(),
            return_to: String::new(),
        }
    }
}

/// `GET /approvals`.
#[derive(Debug, Clone, Template)]
#[template(path = "approvals.html")]
pub struct ApprovalsPage {
    /// The frame.
    pub shell: Shell,
    /// Cards that wait, newest first.
    pub waiting: Vec<Card>,
    /// Cards that were settled lately, newest first.
    pub settled: Vec<Card>,
}

impl ApprovalsPage {
    /// Two cards that wait and one of each settled kind.
    pub fn sample() -> Self {
        use super::card::CardState;
        Self {
            shell: Shell {
                title: "Approvals".to_owned(),
                section: Section::Approvals,
                ..Shell::sample()
            },
            waiting: vec![Card::sample(), Card::sample_write()],
            settled: CardState::ALL
                .into_iter()
                .filter(|state| *state != CardState::Waiting)
                .map(Card::sample_in)
                .collect(),
        }
    }
}

/// `GET /gates/{id}`.
#[derive(Debug, Clone, Template)]
#[template(path = "gate.html")]
pub struct GatePage {
    /// The frame.
    pub shell: Shell,
    /// The card.
    pub card: Card,
}

impl GatePage {
    /// A page with the sample card.
    pub fn sample() -> Self {
        Self {
            shell: Shell {
                title: "Approval".to_owned(),
                section: Section::Approvals,
                ..Shell::sample()
            },
            card: Card::sample(),
        }
    }
}

/// Any answer of 400 and above to a page request.
#[derive(Debug, Clone, Template)]
#[template(path = "error.html")]
pub struct ErrorPage {
    /// The frame.
    pub shell: Shell,
    /// The HTTP status.
    pub status: u64,
    /// What happened, in a few words.
    pub problem: String,
    /// More about it. May be empty.
    pub detail: String,
    /// What was kept or is untouched. May be empty.
    pub kept: String,
    /// What to do now. May be empty.
    pub todo: String,
    /// The request's id, for the log. May be empty.
    pub request_id: String,
}

impl ErrorPage {
    /// A gate that is not there.
    pub fn sample() -> Self {
        Self {
            shell: Shell {
                title: "Not found".to_owned(),
                ..Shell::sample()
            },
            status: 404,
            problem: "This approval is not here".to_owned(),
            detail: "No gate has the id gate_0192.".to_owned(),
            kept: "Nothing was decided and nothing ran.".to_owned(),
            todo: "Look in the approvals for the ones that wait.".to_owned(),
            request_id: "req_01932f0c4a5e".to_owned(),
        }
    }
}
