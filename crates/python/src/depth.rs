//! How deep code is nested, told from its tokens before there is a tree.

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{Mode, lexer::lex};
use ruff_text_size::TextSize;

use super::Finding;

/// Brackets in brackets, as many as `CPython` reads.
const BRACKETS: usize = 200;
/// Blocks in blocks, as many as `CPython` reads.
const BLOCKS: usize = 100;
/// Tokens of one logical line that can each make the tree one deeper. A table of numbers has few: commas do not count.
const LINKS: usize = 20_000;

pub(crate) fn check(code: &str) -> Option<Finding> {
    let mut lexer = lex(code, Mode::Module);
    let (mut brackets, mut blocks, mut links) = (0_usize, 0_usize, 0_usize);
    loop {
        let kind = lexer.next_token();
        match kind {
            TokenKind::EndOfFile => return None,
            TokenKind::Lpar
            | TokenKind::Lsqb
            | TokenKind::Lbrace
            | TokenKind::FStringStart
            | TokenKind::TStringStart => brackets += 1,
            TokenKind::Rpar
            | TokenKind::Rsqb
            | TokenKind::Rbrace
            | TokenKind::FStringEnd
            | TokenKind::TStringEnd => brackets = brackets.saturating_sub(1),
            TokenKind::Indent => blocks += 1,
            TokenKind::Dedent => blocks = blocks.saturating_sub(1),
            TokenKind::Newline => links = 0,
            _ => {}
        }
        let flat = matches!(
            kind,
            TokenKind::Name
                | TokenKind::Int
                | TokenKind::Float
                | TokenKind::Complex
                | TokenKind::String
                | TokenKind::FStringMiddle
                | TokenKind::TStringMiddle
                | TokenKind::Comment
                | TokenKind::NonLogicalNewline
                | TokenKind::Comma
                | TokenKind::True
                | TokenKind::False
                | TokenKind::None
                | TokenKind::Rpar
                | TokenKind::Rsqb
                | TokenKind::Rbrace
        );
        links += usize::from(!flat);
        if brackets > BRACKETS || blocks > BLOCKS || links > LINKS {
            // The lexer does not say where it is.
            return Some(Finding {
                at: TextSize::new(0),
                reason: "somewhere it is nested too deeply to be read".to_owned(),
            });
        }
    }
}
