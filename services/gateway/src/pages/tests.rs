//! Every page and part rendered with its sample, and with hostile text in every field.

use askama::Template;

use super::*;

/// A page and its HTML, for each template.
fn every_page(spoil: impl Fn(&str) -> String) -> Vec<(&'static str, String)> {
    let shell = |shell: Shell| spoiled_shell(shell, &spoil);
    let card = |card: Card| spoiled_card(card, &spoil);
    let cards = |cards: Vec<Card>| cards.into_iter().map(card).collect::<Vec<_>>();
    let part = spoiled_messages(&spoil);
    let approvals = ApprovalsPage::sample();
    let approvals = ApprovalsPage {
        shell: shell(approvals.shell),
        waiting: cards(approvals.waiting),
        settled: cards(approvals.settled),
    };
    let thread = ThreadPage::sample();
    let thread = ThreadPage {
        shell: shell(thread.shell),
        thread_id: spoil(&thread.thread_id),
        thread_title: spoil(&thread.thread_title),
        messages: part.messages.clone(),
        status: spoil(&thread.status),
        turn_id: spoil(&thread.turn_id),
        running: spoil("running"),
        side: cards(thread.side),
        can_write: true,
        idempotency_key: spoil(&thread.idempotency_key),
    };
    let row = ThreadsPage::sample().threads.remove(0);
    let row = ThreadRow {
        title: spoil(&row.title),
        last: spoil(&row.last),
        ..row
    };
    let chat = ChatPage::sample();
    let chat = ChatPage {
        shell: shell(chat.shell),
        text: spoil("text"),
        examples: vec![Example {
            text: spoil("text"),
            effect: spoil("effect"),
            icon: "ban".to_owned(),
        }],
        ..chat
    };
    let error = ErrorPage::sample();
    let error = ErrorPage {
        shell: shell(error.shell),
        problem: spoil(&error.problem),
        detail: spoil(&error.detail),
        kept: spoil(&error.kept),
        todo: spoil(&error.todo),
        request_id: spoil(&error.request_id),
        ..error
    };
    let sign_in = SignInPage {
        shell: shell(SignInPage::sample().shell),
        error: spoil("error"),
        return_to: spoil("/"),
    };
    let threads = ThreadsPage {
        shell: shell(Shell::sample()),
        threads: vec![row],
        older: spoil("/older"),
    };
    vec![
        ("sign in", sign_in.render().unwrap()),
        ("chat", chat.render().unwrap()),
        ("thread", thread.render().unwrap()),
        ("threads", threads.render().unwrap()),
        ("approvals", approvals.render().unwrap()),
        (
            "gate",
            GatePage {
                shell: shell(Shell::sample()),
                card: card(Card::sample_write()),
            }
            .render()
            .unwrap(),
        ),
        ("error", error.render().unwrap()),
        (
            "card part",
            CardPart {
                card: card(Card::sample()),
                ..CardPart::sample()
            }
            .render()
            .unwrap(),
        ),
        ("messages part", part.render().unwrap()),
    ]
}

fn spoiled_shell(shell: Shell, spoil: &impl Fn(&str) -> String) -> Shell {
    Shell {
        title: spoil(&shell.title),
        path: spoil(&shell.path),
        person: if shell.person.is_empty() {
            String::new()
        } else {
            spoil(&shell.person)
        },
        role: spoil(&shell.role),
        bands: vec![Band {
            tone: Tone::Warn,
            text: spoil("text"),
            fix: spoil("fix"),
        }],
        ..shell
    }
}

fn spoiled_messages(spoil: &impl Fn(&str) -> String) -> MessagesPart {
    let message = |message: Message| Message {
        id: spoil(&message.id),
        author: spoil(&message.author),
        text: spoil(&message.text),
        markup: message.markup.map(|_| Markup::from_reply(&spoil("reply"))),
        card: message.card.map(|card| spoiled_card(card, spoil)),
        ..message
    };
    let part = MessagesPart::sample();
    MessagesPart {
        messages: part.messages.into_iter().map(message).collect(),
        status: spoil(&part.status),
        ..part
    }
}

fn spoiled_card(card: Card, spoil: &impl Fn(&str) -> String) -> Card {
    let line = |line: Line| Line {
        text: spoil(&line.text),
        ..line
    };
    let block = |block: Exact| Exact {
        label: spoil(&block.label),
        lines: block.lines.into_iter().map(line).collect(),
        ..block
    };
    Card {
        gate_id: spoil(&card.gate_id),
        thread_id: spoil(&card.thread_id),
        call_id: spoil(&card.call_id),
        thread_title: spoil(&card.thread_title),
        headline: spoil(&card.headline),
        tool: spoil(&card.tool),
        tier: spoil(&card.tier),
        tier_limit: spoil(&card.tier_limit),
        args_digest: spoil(&card.args_digest),
        exact: card
            .exact
            .into_iter()
            .map(block)
            .chain([Exact::field(&spoil("name"), &spoil("value"))])
            .collect(),
        provenance: vec![Provenance {
            source: Source::Tool,
            part: spoil("part"),
            remark: spoil("remark"),
        }],
        warnings: vec![spoil("warning")],
        why: spoil(&card.why),
        details: vec![
            Detail {
                name: spoil("name"),
                value: spoil("value"),
                code: true,
            },
            Detail {
                name: spoil("name"),
                value: spoil("value"),
                code: false,
            },
        ],
        return_to: spoil(&card.return_to),
        decided_by: spoil("Lea"),
        surface: spoil("the web"),
        reason: spoil("reason"),
        outcome: spoil("outcome"),
        output: spoil("output"),
        late: "approval".to_owned(),
        ..card
    }
}

/// A page with a word in place of each drawing.
fn without_icons(html: &str) -> String {
    let mut parts = html.split("<svg");
    let first = parts.next().unwrap_or_default().to_owned();
    parts
        .filter_map(|part| part.split_once("</svg>"))
        .fold(first, |all, (_, rest)| all + "[icon]" + rest)
}

/// The tags of a page, each with its attributes.
fn tags(html: &str) -> Vec<&str> {
    html.split('<')
        .skip(1)
        .filter_map(|rest| rest.split_once('>'))
        .map(|(tag, _)| tag)
        .collect()
}

#[test]
fn hostile_text_adds_no_element_and_no_attribute() {
    let hostile = "</code></textarea><script>alert(1)</script><img src=x onerror=alert(1)>\" onfocus=alert(1) hx-get=/logout autofocus x=\"' {{7*7}} ";
    let plain: String = hostile
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { 'x' })
        .collect();
    let calm = every_page(|text| format!("{text}{plain}"));
    let spoiled = every_page(|text| format!("{text}{hostile}"));
    let names = |html: &str| {
        tags(html)
            .into_iter()
            .filter(|tag| !tag.starts_with("br"))
            .map(|tag| tag.split('"').step_by(2).collect::<Vec<_>>().join(""))
            .collect::<Vec<_>>()
    };
    for ((page, calm), (_, spoiled)) in calm.iter().zip(&spoiled) {
        // Replies are Markdown and lay the two texts out differently; their own tests cover them.
        if !matches!(*page, "thread" | "messages part") {
            assert_eq!(names(calm), names(spoiled), "{page}");
        }
        assert!(
            !spoiled.contains("<script>") && !spoiled.contains("<img"),
            "{page}"
        );
        assert!(
            spoiled.contains("alert(1)"),
            "{page} shows nothing of it, so this test tests nothing"
        );
    }
}

#[test]
fn no_text_of_a_card_or_message_hides_a_character() {
    let pages = every_page(|text| format!("{text}\u{202E}"));
    for (page, html) in pages.iter().filter(|(page, _)| page.ends_with("part")) {
        let texts: Vec<&str> = html
            .split('>')
            .filter_map(|piece| piece.split('<').next())
            .filter(|text| !text.trim().is_empty())
            .collect();
        assert!(
            texts.iter().filter(|text| **text == "U+202E").count() > 10,
            "{page}"
        );
        for text in texts {
            assert!(!text.contains('\u{202E}'), "{page}: {text:?}");
        }
    }
}

#[test]
fn the_policy_is_kept_by_construction() {
    for (page, html) in every_page(str::to_owned) {
        for tag in tags(&html) {
            assert!(!tag.contains(" style="), "{page}: {tag}");
            assert!(
                !tag.split_whitespace()
                    .any(|word| word.starts_with("on") && word.contains('=')),
                "{page}: {tag}"
            );
            if tag.starts_with("script") {
                assert!(
                    tag.contains("nonce=\"samplenonce\"") && tag.contains("src=\"/assets/"),
                    "{page}: {tag}"
                );
            }
            if tag.contains("hx-post") {
                assert!(tag.contains("hx-nonce=\"samplenonce\""), "{page}: {tag}");
                assert!(tag.contains("method=\"post\" action=\"/"), "{page}: {tag}");
            }
            assert!(
                !tag.contains("src=\"\"") && !tag.contains("href=\"\""),
                "{page}: {tag}"
            );
            assert!(
                !tag.contains("autofocus") && !tag.contains("accesskey"),
                "{page}: {tag}"
            );
        }
        for form in html.split("<form").skip(1) {
            assert!(
                form.split("</form>")
                    .next()
                    .unwrap()
                    .contains("name=\"csrf\""),
                "{page}: {form}"
            );
        }
        let ids: Vec<&str> = html
            .split(" id=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        let unique: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(ids.len(), unique.len(), "{page}: {ids:?}");
    }
}

#[test]
fn each_form_of_a_card_sends_the_digest_that_was_shown() {
    let part = CardPart::sample();
    let html = part.render().unwrap();
    let forms: Vec<&str> = html.split("<form").skip(1).collect();
    assert_eq!(forms.len(), 5);
    // The first asks for more time and decides nothing.
    assert!(forms[0].contains("/extend\"") && !forms[0].contains("decision"));
    for form in &forms[1..] {
        assert!(
            form.contains(&format!(
                "name=\"args_digest\" value=\"{}\"",
                part.card.args_digest
            )),
            "{form}"
        );
        assert!(
            form.contains(&format!("action=\"/gates/{}/decision\"", part.card.gate_id)),
            "{form}"
        );
    }
    let deny = html.find("value=\"deny\"").unwrap();
    let approve = html.find("value=\"approve\"").unwrap();
    assert!(deny < approve, "deny comes first in tab order");
    assert!(!html.contains(" disabled"), "without scripts Approve works");
}

#[test]
fn only_a_waiting_card_of_somebody_who_may_decide_has_forms() {
    for state in CardState::ALL {
        for can_decide in [true, false] {
            let card = Card {
                can_decide,
                ..Card::sample_in(state)
            };
            let html = CardPart {
                card,
                ..CardPart::sample()
            }
            .render()
            .unwrap();
            assert_eq!(
                html.contains("<form"),
                can_decide && state == CardState::Waiting,
                "{state:?}"
            );
            assert!(html.contains(&format!("data-state=\"{}\"", state.key())));
        }
    }
}

#[test]
fn the_whole_code_is_on_the_card_and_again_on_the_settled_line() {
    let code: String = (0..5000).fold(String::new(), |code, n| code + &format!("line {n}\n"));
    for state in [CardState::Waiting, CardState::Ran] {
        let card = Card {
            exact: vec![Exact::code("code", &code)],
            ..Card::sample_in(state)
        };
        let html = CardPart {
            card,
            ..CardPart::sample()
        }
        .render()
        .unwrap();
        let drawn: Vec<&str> = html
            .split("<code>")
            .skip(1)
            .filter_map(|rest| rest.split("</code>").next())
            .filter(|line| line.starts_with("line "))
            .collect();
        assert_eq!(drawn, code.lines().collect::<Vec<_>>());
    }
}

#[test]
fn the_sample_card_reads_like_this() {
    let part = CardPart {
        card: Card::sample_write(),
        ..CardPart::sample()
    };
    insta::assert_snapshot!(without_icons(&part.render().unwrap()));
}

#[test]
fn a_late_decision_reads_like_this() {
    let card = Card {
        late: "approval".to_owned(),
        decided_by: "Petra".to_owned(),
        surface: "Telegram".to_owned(),
        ..Card::sample_in(CardState::Denied)
    };
    let part = CardPart {
        card,
        ..CardPart::sample()
    };
    insta::assert_snapshot!(without_icons(&part.render().unwrap()));
}
