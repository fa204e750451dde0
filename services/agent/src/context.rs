//! What the model is told: the conversation so far, as much of it as fits.

use std::collections::{HashMap, VecDeque};

use kazma_domain::{CallId, Entropy, Outcome, Tool, TurnId};
use kazma_fence::defuse;
use kazma_wire::model::{ChatMessage, ToolCall, ToolSpec};

use crate::{
    clients::{Entry, EntryKind},
    note::Told,
    words,
};

/// The conversation before this turn, by turns, and this turn's own message.
#[derive(Debug)]
pub(crate) struct Past {
    turns: VecDeque<Whole>,
    own: Option<String>,
    left_out: usize,
    of: TurnId,
    budget: usize,
}

/// What happened in one other turn.
#[derive(Debug)]
struct Whole {
    turn: TurnId,
    entries: Vec<Entry>,
    bytes: usize,
}

/// One step of this turn: what the model said, and what came of its calls.
#[derive(Debug)]
pub(crate) struct Exchange {
    said: ChatMessage,
    /// The model's id of each call, and what came of it.
    outcomes: Vec<(String, Told)>,
    /// The same as messages, once it is known how much room there is.
    answers: Vec<ChatMessage>,
}

impl Exchange {
    pub(crate) const fn new(said: ChatMessage, outcomes: Vec<(String, Told)>) -> Self {
        Self {
            said,
            outcomes,
            answers: Vec::new(),
        }
    }

    /// Writes the answers, once and for all: a fence that changed would void what a provider cached.
    pub(crate) fn answer(&mut self, room: usize, entropy: &dyn Entropy) {
        if self.answers.is_empty() {
            self.answers = self.messages(room, entropy);
        }
    }

    pub(crate) fn told(&self) -> impl Iterator<Item = &Told> {
        self.outcomes.iter().map(|(_, told)| told)
    }

    fn messages(&self, room: usize, entropy: &dyn Entropy) -> Vec<ChatMessage> {
        self.outcomes
            .iter()
            .map(|(id, told)| told.message(id, room, entropy))
            .collect()
    }
}

impl Past {
    /// Nothing yet, for the turn `of` and a conversation of at most `budget` bytes.
    pub(crate) const fn new(of: TurnId, budget: usize) -> Self {
        Self {
            turns: VecDeque::new(),
            own: None,
            left_out: 0,
            of,
            budget,
        }
    }

    /// Takes the next entry of the ledger. Turns that began after this one are not its past.
    pub(crate) fn take(&mut self, entry: Entry) {
        if entry.turn == self.of {
            if let EntryKind::Message { text } = entry.kind {
                self.own = Some(text);
            }
            return;
        }
        let bytes = size(&entry.kind);
        if let Some(whole) = self.turns.iter_mut().find(|whole| whole.turn == entry.turn) {
            whole.bytes += bytes;
            whole.entries.push(entry);
        } else if self.own.is_none() {
            self.turns.push_back(Whole {
                turn: entry.turn,
                entries: vec![entry],
                bytes,
            });
        }
        while self.turns.iter().map(|whole| whole.bytes).sum::<usize>() > self.budget {
            if self.turns.pop_front().is_none() {
                break;
            }
            self.left_out += 1;
        }
    }

    /// This turn's message.
    pub(crate) fn own(&self) -> Option<&str> {
        self.own.as_deref()
    }
}

fn size(kind: &EntryKind) -> usize {
    match kind {
        EntryKind::Message { text } | EntryKind::Reply { text } => text.len(),
        EntryKind::Result { output, .. } => output.text.len() + 200,
    }
}

/// The messages of the turns before this one, ready to be sent again and again.
#[derive(Debug)]
pub(crate) struct Conversation {
    turns: Vec<Vec<ChatMessage>>,
    own: ChatMessage,
    left_out: usize,
    waiting: Option<String>,
}

impl Conversation {
    /// Writes `past` as messages. `arguments` says what was called, `waiting` what other turns wait for.
    pub(crate) fn new(
        past: Past,
        arguments: &HashMap<CallId, String>,
        waiting: Option<String>,
        entropy: &dyn Entropy,
    ) -> Self {
        let room = room(past.budget);
        let turns = past
            .turns
            .into_iter()
            .map(|whole| {
                whole
                    .entries
                    .into_iter()
                    .flat_map(|entry| messages(entry.kind, arguments, room, entropy))
                    .collect()
            })
            .collect();
        let content = past.own.unwrap_or_default();
        Self {
            turns,
            own: ChatMessage::User { content },
            left_out: past.left_out,
            waiting,
        }
    }

    /// The whole conversation within `budget` bytes: this turn comes first, then as many whole turns
    /// before it as fit, the newest first.
    pub(crate) fn messages(
        &self,
        exchanges: &[Exchange],
        budget: usize,
        entropy: &dyn Entropy,
    ) -> Vec<ChatMessage> {
        let mut left = budget
            .saturating_sub(words::SYSTEM.len() + 400)
            .saturating_sub(weight(&self.own));
        let this_turn = fit(exchanges, &mut left, entropy);
        let mut kept = Vec::new();
        for turn in self.turns.iter().rev() {
            let bytes: usize = turn.iter().map(weight).sum();
            let Some(after) = left.checked_sub(bytes) else {
                break;
            };
            left = after;
            kept.push(turn);
        }
        let left_out = self.left_out + self.turns.len() - kept.len();
        let mut system = words::SYSTEM.to_owned();
        if left_out > 0 {
            let part = format!(
                "\nThe oldest part of this conversation is left out, {left_out} of its turns: it does not fit."
            );
            system.push_str(&part);
        }
        if let Some(waiting) = &self.waiting {
            system.push('\n');
            system.push_str(waiting);
        }
        let mut all = vec![ChatMessage::System { content: system }];
        all.extend(kept.into_iter().rev().flatten().cloned());
        all.push(self.own.clone());
        all.extend(this_turn);
        all
    }
}

/// Bytes of one call's output that a conversation of `budget` bytes has room for.
pub(crate) const fn room(budget: usize) -> usize {
    budget / 4
}

/// This turn's steps. Where they do not fit, the oldest outputs are left out; the calls and how they
/// ended stay.
fn fit(exchanges: &[Exchange], left: &mut usize, entropy: &dyn Entropy) -> Vec<ChatMessage> {
    let mut whole: Vec<Vec<ChatMessage>> = Vec::new();
    for exchange in exchanges.iter().rev() {
        let head = weight(&exchange.said);
        let bytes = head + exchange.answers.iter().map(weight).sum::<usize>();
        let mut step = vec![exchange.said.clone()];
        if bytes <= *left {
            *left -= bytes;
            step.extend(exchange.answers.iter().cloned());
        } else {
            step.extend(exchange.messages(0, entropy));
            *left = left.saturating_sub(step.iter().map(weight).sum());
        }
        whole.push(step);
    }
    whole.into_iter().rev().flatten().collect()
}

/// Bytes of a message, its wrapping included.
fn weight(message: &ChatMessage) -> usize {
    32 + match message {
        ChatMessage::System { content } | ChatMessage::User { content } => content.len(),
        ChatMessage::Tool {
            tool_call_id,
            content,
        } => tool_call_id.len() + content.len(),
        ChatMessage::Assistant {
            content,
            tool_calls,
        } => {
            content.len()
                + tool_calls
                    .iter()
                    .map(|call| 64 + call.id.len() + call.name.len() + call.arguments.len())
                    .sum::<usize>()
        }
    }
}

fn messages(
    kind: EntryKind,
    arguments: &HashMap<CallId, String>,
    room: usize,
    entropy: &dyn Entropy,
) -> Vec<ChatMessage> {
    match kind {
        EntryKind::Message { text } => vec![ChatMessage::User { content: text }],
        // An earlier answer may repeat what a tool returned.
        EntryKind::Reply { text } => {
            vec![ChatMessage::Assistant {
                content: defuse(&text),
                tool_calls: Vec::new(),
            }]
        }
        EntryKind::Result {
            call,
            tool,
            summary,
            ok,
            output,
        } => {
            let id = call.to_string();
            let known = arguments.get(&call).map_or("{}", String::as_str);
            let told = Told::ran(&tool, &Outcome { ok, summary }, output);
            let called = ToolCall {
                id: id.clone(),
                name: tool,
                arguments: known.to_owned(),
            };
            vec![
                ChatMessage::Assistant {
                    content: String::new(),
                    tool_calls: vec![called],
                },
                told.message(&id, room, entropy),
            ]
        }
    }
}

/// The tools that the model may name.
pub(crate) fn tools() -> Vec<ToolSpec> {
    Tool::all()
        .iter()
        .filter_map(Tool::schema)
        .map(|schema| ToolSpec {
            name: schema.name.to_owned(),
            description: schema.description.to_owned(),
            parameters: schema.parameters,
        })
        .collect()
}
