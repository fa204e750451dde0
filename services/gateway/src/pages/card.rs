//! The card: what a person reads before deciding, and what stays of it afterwards.

use askama::Template;

use super::{exact::Exact, text::span, visible::lookalike_hosts};

/// A point in time for a page. The browser shows it in the reader's own zone; without scripts the text stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moment {
    /// RFC 3339 with zone, for the `datetime` attribute.
    pub iso: String,
    /// What is read without scripts, such as `14:02 UTC`.
    pub text: String,
}

impl Moment {
    /// The moment `unix_ms` milliseconds after 1970, in UTC; empty where that is no date.
    pub fn from_unix_ms(unix_ms: i64) -> Self {
        let Ok(at) = jiff::Timestamp::from_millisecond(unix_ms) else {
            return Self::default();
        };
        let iso = at.to_string();
        let text = iso
            .get(11..16)
            .map(|clock| format!("{clock} UTC"))
            .unwrap_or_default();
        Self { iso, text }
    }

    /// Whether there is no such moment.
    pub fn is_empty(&self) -> bool {
        self.iso.is_empty()
    }
}

/// Where a card stands, in the words of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardState {
    /// A person is asked.
    Waiting,
    /// Approved; the executor has not begun.
    Approved,
    /// The executor acts.
    Running,
    /// It ran and ended well.
    Ran,
    /// It ran and failed.
    Failed,
    /// A person said no.
    Denied,
    /// Nobody answered in time.
    Expired,
    /// Withdrawn: its turn ended, another card took its place, or a restore made it void.
    Withdrawn,
    /// Refused after the approval: the plan changed, the policy grew stricter, the stack was frozen.
    Refused,
    /// The executor was lost on the way. It is never run again.
    Unknown,
}

impl CardState {
    /// Every state, in the order a card can take them.
    pub const ALL: [Self; 10] = [
        Self::Waiting,
        Self::Approved,
        Self::Running,
        Self::Ran,
        Self::Failed,
        Self::Denied,
        Self::Expired,
        Self::Withdrawn,
        Self::Refused,
        Self::Unknown,
    ];

    /// Its word on the card.
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Approved => "Approved, about to run",
            Self::Running => "Running",
            Self::Ran => "Ran",
            Self::Failed => "Ran and failed",
            Self::Denied => "Denied",
            Self::Expired => "Expired",
            Self::Withdrawn => "Withdrawn",
            Self::Refused => "Not run",
            Self::Unknown => "Outcome unknown",
        }
    }

    /// Its icon.
    pub fn icon(self) -> &'static str {
        match self {
            Self::Waiting => "circle-dashed",
            Self::Approved => "check",
            Self::Running => "loader",
            Self::Ran => "circle-check",
            Self::Failed => "circle-alert",
            Self::Denied => "ban",
            Self::Expired => "clock",
            Self::Withdrawn => "x",
            Self::Refused => "circle-x",
            Self::Unknown => "circle-help",
        }
    }

    /// The value of `data-state`, which style sheet and script use.
    pub fn key(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Approved => "approved",
            Self::Running => "running",
            Self::Ran => "ran",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Withdrawn => "withdrawn",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        }
    }
}

/// Whose words a part of the call is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The person's own words.
    You,
    /// A party the person already knows.
    Known,
    /// What a tool returned: a page, a file, a mail.
    Tool,
    /// Nowhere: the model's own.
    Nobody,
}

impl Source {
    /// The words before what came from there.
    pub fn words(self) -> &'static str {
        match self {
            Self::You => "from you",
            Self::Known => "from someone you know",
            Self::Tool => "from a tool",
            Self::Nobody => "from nobody",
        }
    }

    /// Its icon; colour alone never tells.
    pub fn icon(self) -> &'static str {
        match self {
            Self::You => "user",
            Self::Known => "contact",
            Self::Tool => "wrench",
            Self::Nobody => "circle-help",
        }
    }

    /// The class that gives it its colour.
    pub fn key(self) -> &'static str {
        match self {
            Self::You => "you",
            Self::Known => "known",
            Self::Tool => "tool",
            Self::Nobody => "nobody",
        }
    }
}

/// Where one part of the call came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// Whose it is.
    pub source: Source,
    /// The part, in words or quoted: `the code`, `“orders.csv”`.
    pub part: String,
    /// More, if there is more to say: `only in https://…`. May be empty.
    pub remark: String,
}

/// A row of the details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    /// Its name in plain words.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Whether the value is an id, digest or path, set in monospace and left to right.
    pub code: bool,
}

/// Everything a card shows.
#[derive(Debug, Clone)]
pub struct Card {
    /// The gate's id.
    pub gate_id: String,
    /// The thread it belongs to.
    pub thread_id: String,
    /// The call's id, by which live output finds the card. May be empty.
    pub call_id: String,
    /// The thread's title, shown where the card stands outside its thread. May be empty.
    pub thread_title: String,
    /// Where on the page the card is drawn: empty in the flow of a page, `side` in the side panel. The fragment route
    /// takes it as `?place=`, so that both copies of a card keep ids of their own.
    pub place: String,
    /// Where it stands.
    pub state: CardState,
    /// One sentence in plain words: what would happen.
    pub headline: String,
    /// The tool's name.
    pub tool: String,
    /// The tier as the chip shows it: `container · runc`.
    pub tier: String,
    /// The tier's one-line limit: `shares your kernel`.
    pub tier_limit: String,
    /// The digest of the whole card. What the form sends back; a decision on another card is refused by it.
    pub args_digest: String,
    /// Seconds left to decide, at rendering.
    pub seconds_left: u64,
    /// Seconds there were in all; 0 where there is no deadline.
    pub seconds_total: u64,
    /// How many equal calls share this card; 1 for one.
    pub times: u64,
    /// How many people can answer it. With more than one, a denial alone does not settle it.
    pub voters: u32,
    /// The exact thing, whole.
    pub exact: Vec<Exact>,
    /// Where each part came from.
    pub provenance: Vec<Provenance>,
    /// Remarks that must be read before deciding, such as limits this machine cannot set. May be empty.
    pub warnings: Vec<String>,
    /// Why a person is asked: `code always asks.`
    pub why: String,
    /// Plan digest, image, limits, rule, ids.
    pub details: Vec<Detail>,
    /// Whether the reader's role may decide.
    pub can_decide: bool,
    /// Where the form returns to without scripts: a path of ours.
    pub return_to: String,
    /// Who decided: `you`, or a name. Empty while nobody has.
    pub decided_by: String,
    /// On which surface: `the web`, `Telegram`. Empty while nobody has.
    pub surface: String,
    /// When it was decided, or when it ended otherwise.
    pub decided_at: Moment,
    /// The reason given with a denial. May be empty.
    pub reason: String,
    /// What came of it, after the dash: `ran 0.04 s, exit 0`, `memory limit`. May be empty.
    pub outcome: String,
    /// What the call has put out so far, or put out in all. May be empty.
    pub output: String,
    /// What the reader wanted when somebody else had already decided: `approval`, `denial`, else empty.
    pub late: String,
}

impl Card {
    /// Whether a person can still decide.
    pub fn waiting(&self) -> bool {
        self.state == CardState::Waiting
    }

    /// Whether output can still arrive.
    pub fn live(&self) -> bool {
        matches!(self.state, CardState::Approved | CardState::Running)
    }

    /// The time left, as `4:32`.
    pub fn time_left(&self) -> String {
        span(self.seconds_left)
    }

    /// Whether the time is nearly up.
    pub fn soon(&self) -> bool {
        self.seconds_left < 60
    }

    /// The element's id on the page.
    pub fn element_id(&self) -> String {
        if self.place.is_empty() {
            format!("gate-{}", self.gate_id)
        } else {
            format!("{}-{}", self.place, self.gate_id)
        }
    }

    /// How the settled line begins, before the time.
    pub fn settled_words(&self) -> String {
        let by = if self.decided_by.is_empty() {
            String::new()
        } else {
            format!(" by {}", self.decided_by)
        };
        let on = if self.surface.is_empty() {
            String::new()
        } else {
            format!(" on {}", self.surface)
        };
        let verb = match self.state {
            CardState::Waiting => "Waiting",
            CardState::Denied => "Denied",
            CardState::Expired => return "Expired: nobody answered in time".to_owned(),
            CardState::Withdrawn => return "Withdrawn before anybody decided".to_owned(),
            CardState::Approved
            | CardState::Running
            | CardState::Ran
            | CardState::Failed
            | CardState::Refused
            | CardState::Unknown => "Approved",
        };
        format!("{verb}{by}{on}")
    }

    /// How the settled line ends, after the dash. May be empty.
    pub fn settled_outcome(&self) -> String {
        match self.state {
            CardState::Unknown if self.outcome.is_empty() => {
                "outcome unknown: it is never run again".to_owned()
            }
            CardState::Unknown => {
                format!("outcome unknown: it is never run again. {}", self.outcome)
            }
            CardState::Approved if self.outcome.is_empty() => "about to run".to_owned(),
            CardState::Running if self.outcome.is_empty() => "running".to_owned(),
            CardState::Refused if self.outcome.is_empty() => "not run".to_owned(),
            _ => self.outcome.clone(),
        }
    }

    /// The sentence for somebody who came second. Empty for everybody else.
    pub fn late_words(&self) -> String {
        if self.late.is_empty() {
            return String::new();
        }
        let first = if self.decided_by.is_empty() {
            "This was settled before".to_owned()
        } else {
            format!("{} was first", capital(&self.decided_by))
        };
        format!("{first}. Your {} changed nothing.", self.late)
    }

    /// Host names on the card that are drawn like others.
    pub fn lookalikes(&self) -> Vec<String> {
        let mut hosts = Vec::new();
        for line in self.exact.iter().flat_map(|block| &block.lines) {
            for host in lookalike_hosts(&line.text) {
                if !hosts.contains(&host) && hosts.len() < 8 {
                    hosts.push(host);
                }
            }
        }
        hosts
    }

    /// A card for three lines of Python.
    pub fn sample() -> Self {
        Self {
            gate_id: "gate_01932f0c4a7b7d20b1c2".to_owned(),
            thread_id: "thread_01932f0c49e07a11a0b1".to_owned(),
            call_id: "call_01932f0c4a5e7c00b0a1".to_owned(),
            thread_title: "Count the orders of November".to_owned(),
            place: String::new(),
            state: CardState::Waiting,
            headline: "Run 3 lines of Python. No network, workspace read-only.".to_owned(),
            tool: "python_exec".to_owned(),
            tier: "native · bubblewrap".to_owned(),
            tier_limit: "shares your kernel".to_owned(),
            args_digest: "sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"
                .to_owned(),
            seconds_left: 272,
            seconds_total: 300,
            times: 1,
            voters: 1,
            exact: vec![Exact::code(
                "code",
                "import csv\nrows = list(csv.reader(open('orders.csv')))\nprint(len(rows))\n",
            )],
            provenance: vec![
                Provenance {
                    source: Source::You,
                    part: "“orders.csv”".to_owned(),
                    remark: String::new(),
                },
                Provenance {
                    source: Source::Nobody,
                    part: "the code".to_owned(),
                    remark: "the model wrote it".to_owned(),
                },
            ],
            warnings: Vec::new(),
            why: "code always asks".to_owned(),
            details: vec![
                Detail {
                    name: "Tool".to_owned(),
                    value: "python_exec".to_owned(),
                    code: true,
                },
                Detail {
                    name: "Runtime".to_owned(),
                    value: "Python 3.11, bubblewrap 0.8".to_owned(),
                    code: false,
                },
                Detail {
                    name: "Limits".to_owned(),
                    value: "512 MiB, 1 CPU, 64 processes, 60 s, no network".to_owned(),
                    code: false,
                },
                Detail {
                    name: "Rule".to_owned(),
                    value: "floor: always ask for code".to_owned(),
                    code: false,
                },
                Detail {
                    name: "Plan".to_owned(),
                    value: "sha256:9a1f0c5e2b7d4d33a6f1".to_owned(),
                    code: true,
                },
                Detail {
                    name: "Gate".to_owned(),
                    value: "gate_01932f0c4a7b7d20b1c2".to_owned(),
                    code: true,
                },
            ],
            can_decide: true,
            return_to: "/approvals".to_owned(),
            decided_by: String::new(),
            surface: String::new(),
            decided_at: Moment::default(),
            reason: String::new(),
            outcome: String::new(),
            output: String::new(),
            late: String::new(),
        }
    }

    /// A card for a change to a file.
    pub fn sample_write() -> Self {
        Self {
            gate_id: "gate_01932f0c4a7b7d20b1c3".to_owned(),
            call_id: "call_01932f0c4a5e7c00b0a2".to_owned(),
            headline: "Change 2 lines of notes/today.md in the workspace.".to_owned(),
            tool: "file_write".to_owned(),
            tier: "workspace".to_owned(),
            tier_limit: "one file; what it held before is not kept".to_owned(),
            args_digest: "sha256:77aa18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef00"
                .to_owned(),
            seconds_left: 84_000,
            seconds_total: 86_400,
            exact: vec![Exact::diff(
                "notes/today.md",
                "@@ -1,4 +1,5 @@\n # Today\n-- call Petra\n+- call Petra at 15:00\n+- send her the Novem\u{200B}ber figures\n - water the plants\n \n",
            )],
            provenance: vec![
                Provenance {
                    source: Source::You,
                    part: "“call Petra at 15:00”".to_owned(),
                    remark: String::new(),
                },
                Provenance {
                    source: Source::Tool,
                    part: "“send her the November figures”".to_owned(),
                    remark: "only in inbox/2026-11-29.eml, not in anything you wrote".to_owned(),
                },
            ],
            warnings: vec!["The text holds a character that does not show itself.".to_owned()],
            why: "writing into the workspace asks".to_owned(),
            details: vec![
                Detail {
                    name: "Tool".to_owned(),
                    value: "file_write".to_owned(),
                    code: true,
                },
                Detail {
                    name: "Gate".to_owned(),
                    value: "gate_01932f0c4a7b7d20b1c3".to_owned(),
                    code: true,
                },
            ],
            ..Self::sample()
        }
    }

    /// The sample as it looks in `state`.
    pub fn sample_in(state: CardState) -> Self {
        let decided = !matches!(
            state,
            CardState::Waiting | CardState::Expired | CardState::Withdrawn
        );
        let text = |words: &str, yes: bool| if yes { words.to_owned() } else { String::new() };
        Self {
            gate_id: format!("gate_01932f0c4a7b7d20{}", state.key()),
            state,
            decided_by: text("you", decided),
            surface: text("the web", decided),
            decided_at: if state == CardState::Waiting {
                Moment::default()
            } else {
                Moment::from_unix_ms(1_795_960_920_000)
            },
            reason: text("wrong file", state == CardState::Denied),
            outcome: match state {
                CardState::Ran => "ran 0.04 s, exit 0".to_owned(),
                CardState::Failed => "ran 60 s, stopped at the time limit".to_owned(),
                CardState::Refused => {
                    "not run: the file changed after the card was shown".to_owned()
                }
                _ => String::new(),
            },
            output: text("45\n", matches!(state, CardState::Ran | CardState::Running)),
            ..Self::sample()
        }
    }
}

fn capital(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}

/// One card by itself: the answer to `GET /ui/gates/{id}` and to a decision sent by htmx.
#[derive(Debug, Clone, Template)]
#[template(path = "parts/card.html")]
pub struct CardPart {
    /// The nonce of this very answer's Content-Security-Policy.
    pub nonce: String,
    /// The session's CSRF token.
    pub csrf: String,
    /// The card.
    pub card: Card,
}

impl CardPart {
    /// The sample card by itself.
    pub fn sample() -> Self {
        Self {
            nonce: "samplenonce".to_owned(),
            csrf: "samplecsrf".to_owned(),
            card: Card::sample(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settled_lines_read_as_sentences() {
        let lines: Vec<String> = CardState::ALL
            .into_iter()
            .map(Card::sample_in)
            .map(|card| format!("{} | {}", card.settled_words(), card.settled_outcome()))
            .collect();
        assert_eq!(
            lines,
            [
                "Waiting | ",
                "Approved by you on the web | about to run",
                "Approved by you on the web | running",
                "Approved by you on the web | ran 0.04 s, exit 0",
                "Approved by you on the web | ran 60 s, stopped at the time limit",
                "Denied by you on the web | ",
                "Expired: nobody answered in time | ",
                "Withdrawn before anybody decided | ",
                "Approved by you on the web | not run: the file changed after the card was shown",
                "Approved by you on the web | outcome unknown: it is never run again",
            ]
        );
    }

    #[test]
    fn who_was_first_is_said() {
        let card = Card {
            late: "approval".to_owned(),
            decided_by: "Lea".to_owned(),
            ..Card::sample_in(CardState::Denied)
        };
        assert_eq!(
            card.late_words(),
            "Lea was first. Your approval changed nothing."
        );
    }

    #[test]
    fn a_moment_reads_as_a_clock() {
        assert_eq!(Moment::from_unix_ms(1_795_960_920_000).text, "14:02 UTC");
    }
}
