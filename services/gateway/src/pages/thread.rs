//! Threads: the first page, the conversation, and the list.

use askama::Template;

use super::{
    card::{Card, CardState, Moment},
    markdown::Markup,
    page::{Section, Shell},
};

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// A signed-in person.
    Person,
    /// The agent.
    Agent,
    /// A tool's result.
    Tool,
    /// The page itself, in a sentence.
    Notice,
    /// A card.
    Gate,
}

/// One entry of a thread.
#[derive(Debug, Clone)]
pub struct Message {
    /// Its id; unique in the thread.
    pub id: String,
    /// Who speaks.
    pub speaker: Speaker,
    /// The person's name or the tool's.
    pub author: String,
    /// When.
    pub at: Moment,
    /// Its text; empty for a card and for a reply, whose text is `markup`.
    pub text: String,
    /// The agent's reply.
    pub markup: Option<Markup>,
    /// The card.
    pub card: Option<Card>,
}

impl Message {
    /// What a person wrote.
    pub fn person(id: &str, author: &str, at: Moment, text: &str) -> Self {
        Self::plain(id, Speaker::Person, author, at, text)
    }

    /// What the agent answered, in Markdown.
    pub fn agent(id: &str, at: Moment, reply: &str) -> Self {
        Self {
            markup: Some(Markup::from_reply(reply)),
            ..Self::plain(id, Speaker::Agent, "Agent", at, "")
        }
    }

    /// What a tool returned.
    pub fn tool(id: &str, tool: &str, at: Moment, text: &str) -> Self {
        Self::plain(id, Speaker::Tool, tool, at, text)
    }

    /// A sentence of the page's own: a turn that failed, was stopped, was denied.
    pub fn notice(id: &str, at: Moment, text: &str) -> Self {
        Self::plain(id, Speaker::Notice, "", at, text)
    }

    /// A card where it was asked.
    pub fn gate(card: Card) -> Self {
        Self {
            card: Some(card),
            ..Self::plain("", Speaker::Gate, "", Moment::default(), "")
        }
    }

    fn plain(id: &str, speaker: Speaker, author: &str, at: Moment, text: &str) -> Self {
        Self {
            id: id.to_owned(),
            speaker,
            author: author.to_owned(),
            at,
            text: text.to_owned(),
            markup: None,
            card: None,
        }
    }

    /// The class that lays it out.
    pub fn key(&self) -> &'static str {
        match self.speaker {
            Speaker::Person => "person",
            Speaker::Agent => "agent",
            Speaker::Tool => "tool",
            Speaker::Notice => "notice",
            Speaker::Gate => "gate",
        }
    }

    /// Whether it is a tool's result.
    pub fn is_tool(&self) -> bool {
        self.speaker == Speaker::Tool
    }

    /// Whether a result is long enough to be folded.
    pub fn is_long(&self) -> bool {
        self.text.lines().count() > 12 || self.text.len() > 1200
    }
}

/// A prompt to begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// The prompt, word for word.
    pub text: String,
    /// What will happen, in a few words: `runs at once`, `asks you first`, `is refused`.
    pub effect: String,
    /// Its icon.
    pub icon: String,
}

impl Example {
    /// A read, a gated call and a refused one, for the demo model.
    pub fn demo() -> Vec<Self> {
        let example = |text: &str, effect: &str, icon: &str| Self {
            text: text.to_owned(),
            effect: effect.to_owned(),
            icon: icon.to_owned(),
        };
        vec![
            example("read README.md", "reads at once", "file-pen"),
            example(
                "run python: print(sum(range(10)))",
                "asks you first",
                "shield-check",
            ),
            example("write .git/hooks/post-commit: echo hi", "is refused", "ban"),
        ]
    }
}

/// `GET /chat`: a new thread; on a fresh install the first page anybody sees.
#[derive(Debug, Clone, Template)]
#[template(path = "chat.html")]
pub struct ChatPage {
    /// The frame.
    pub shell: Shell,
    /// Whether the reader's role may write.
    pub can_write: bool,
    /// Text to begin with, from `?text=`. May be empty.
    pub text: String,
    /// Prompts to try.
    pub examples: Vec<Example>,
    /// Sent along, so that a message sent twice is written once.
    pub idempotency_key: String,
}

impl ChatPage {
    /// The first page of a fresh install.
    pub fn sample() -> Self {
        Self {
            shell: Shell {
                title: "Chat".to_owned(),
                section: Section::Chat,
                pending: 0,
                path: "/chat".to_owned(),
                ..Shell::sample()
            },
            can_write: true,
            text: String::new(),
            examples: Example::demo(),
            idempotency_key: "01932f0c4a7b".to_owned(),
        }
    }
}

/// `GET /threads/{id}`.
#[derive(Debug, Clone, Template)]
#[template(path = "thread.html")]
pub struct ThreadPage {
    /// The frame.
    pub shell: Shell,
    /// The thread's id.
    pub thread_id: String,
    /// Its title.
    pub thread_title: String,
    /// Messages and cards in their order.
    pub messages: Vec<Message>,
    /// What goes on, in a sentence: `The agent is working.` Empty while nothing does.
    pub status: String,
    /// The running turn, whose text streams in. May be empty.
    pub turn_id: String,
    /// What has streamed in so far, where the server knows it. May be empty.
    pub running: String,
    /// This thread's waiting cards again, for the side panel; `place` is `side`.
    pub side: Vec<Card>,
    /// Whether the reader's role may write.
    pub can_write: bool,
    /// Sent along, so that a message sent twice is written once.
    pub idempotency_key: String,
}

impl ThreadPage {
    /// A conversation with a settled and a waiting card.
    pub fn sample() -> Self {
        let part = MessagesPart::sample();
        Self {
            shell: Shell {
                title: "Count the orders of November".to_owned(),
                section: Section::Threads,
                path: "/threads/thread_01932f0c49e07a11a0b1".to_owned(),
                ..Shell::sample()
            },
            thread_id: part.thread_id,
            thread_title: "Count the orders of November".to_owned(),
            messages: part.messages,
            status: part.status,
            turn_id: "turn_01932f0c49e0".to_owned(),
            running: String::new(),
            side: vec![Card {
                place: "side".to_owned(),
                thread_title: String::new(),
                return_to: "/threads/thread_01932f0c49e07a11a0b1".to_owned(),
                ..Card::sample()
            }],
            can_write: true,
            idempotency_key: "01932f0c4a7b".to_owned(),
        }
    }
}

/// The messages alone: the answer to `GET /ui/threads/{id}/messages` and to a message sent by htmx.
#[derive(Debug, Clone, Template)]
#[template(path = "parts/messages.html")]
pub struct MessagesPart {
    /// The nonce of this very answer's Content-Security-Policy.
    pub nonce: String,
    /// The session's CSRF token.
    pub csrf: String,
    /// The thread's id.
    pub thread_id: String,
    /// Messages and cards in their order.
    pub messages: Vec<Message>,
    /// What goes on, in a sentence. Empty while nothing does.
    pub status: String,
}

impl MessagesPart {
    /// A short conversation.
    pub fn sample() -> Self {
        let at = |minute: i64| Moment::from_unix_ms(1_795_960_800_000 + minute * 60_000);
        let ran = Card {
            headline: "Run 1 line of Python. No network, workspace read-only.".to_owned(),
            ..Card::sample_in(CardState::Ran)
        };
        Self {
            nonce: "samplenonce".to_owned(),
            csrf: "samplecsrf".to_owned(),
            thread_id: "thread_01932f0c49e07a11a0b1".to_owned(),
            messages: vec![
                Message::person(
                    "m1",
                    "Lea",
                    at(0),
                    "How many orders are in orders.csv? Skip the ones that were cancelled.",
                ),
                Message::agent("m2", at(0), "I will look at the first lines, then count."),
                Message::tool(
                    "m3",
                    "file_read",
                    at(1),
                    "id;customer;total;state\n1001;Petra;19.90;paid\n1002;Omar;7.00;cancelled\n",
                ),
                Message::gate(ran),
                Message::tool("m4", "python_exec", at(2), "45\n"),
                Message::agent(
                    "m5",
                    at(2),
                    "The file has **45 rows**. One check is left: `state` may hold *cancelled* in two spellings.\n\n- `cancelled`\n- `canceled`\n\nSee [the format](https://example.org/orders-format) for both.",
                ),
                Message::gate(Card {
                    thread_title: String::new(),
                    return_to: "/threads/thread_01932f0c49e07a11a0b1".to_owned(),
                    ..Card::sample()
                }),
            ],
            status: "Waiting for your decision.".to_owned(),
        }
    }
}

/// A row of the list of threads.
#[derive(Debug, Clone)]
pub struct ThreadRow {
    /// The thread's id.
    pub thread_id: String,
    /// Its title.
    pub title: String,
    /// The last thing said. May be empty.
    pub last: String,
    /// When.
    pub at: Moment,
    /// How many of its cards wait.
    pub pending: u64,
    /// Whether a turn runs.
    pub running: bool,
}

/// `GET /threads`.
#[derive(Debug, Clone, Template)]
#[template(path = "threads.html")]
pub struct ThreadsPage {
    /// The frame.
    pub shell: Shell,
    /// Threads, newest first.
    pub threads: Vec<ThreadRow>,
    /// The path of the page of older ones. May be empty.
    pub older: String,
}

impl ThreadsPage {
    /// Three threads.
    pub fn sample() -> Self {
        let row = |title: &str, last: &str, minute: i64, pending: u64| ThreadRow {
            thread_id: format!("thread_01932f0c49e0{minute}"),
            title: title.to_owned(),
            last: last.to_owned(),
            at: Moment::from_unix_ms(1_795_960_800_000 - minute * 3_600_000),
            pending,
            running: minute == 1,
        };
        Self {
            shell: Shell {
                title: "Threads".to_owned(),
                section: Section::Threads,
                path: "/threads".to_owned(),
                ..Shell::sample()
            },
            threads: vec![
                row(
                    "Count the orders of November",
                    "The file has 45 rows.",
                    0,
                    1,
                ),
                row("Tidy the notes", "The agent is working.", 1, 0),
                row("ملخص الاجتماع", "تم حفظ الملخص في الملف.", 30, 0),
            ],
            older: String::new(),
        }
    }
}
