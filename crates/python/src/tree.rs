//! Goes through the syntax tree.

use std::collections::BTreeMap;

use ruff_python_ast::{
    Alias, Expr, ExprContext, ExprName, ModModule, Stmt,
    name::Name,
    visitor::{Visitor, walk_alias, walk_expr, walk_stmt},
};
use ruff_text_size::{Ranged, TextRange, TextSize};

use super::{Finding, names};

/// What is refused first, in the order of the code.
pub(crate) fn check(module: &ModModule) -> Option<Finding> {
    let mut search = Search {
        own: own(&module.body),
        found: None,
    };
    search.visit_body(&module.body);
    search.found
}

/// Names that the code itself gives to functions, classes and imports, and from where on: after `from re import compile`
/// that name is not the builtin. Only at the top of the module: what stands in a block may never be run.
fn own(module: &[Stmt]) -> BTreeMap<Name, TextSize> {
    let mut names = BTreeMap::new();
    for statement in module {
        let from = statement.end();
        match statement {
            // Its own body may call it; defaults and annotations come before it is there.
            Stmt::FunctionDef(it) => {
                let body = it.body.first().map_or(from, Ranged::start);
                names.entry(it.name.id.clone()).or_insert(body);
            }
            Stmt::ClassDef(it) => {
                names.entry(it.name.id.clone()).or_insert(from);
            }
            Stmt::ImportFrom(it) => {
                for alias in &it.names {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name);
                    names.entry(name.id.clone()).or_insert(from);
                }
            }
            _ => {}
        }
    }
    names
}

struct Search {
    own: BTreeMap<Name, TextSize>,
    found: Option<Finding>,
}

impl Search {
    fn refuse(&mut self, range: TextRange, reason: String) {
        if self.found.is_none() {
            self.found = Some(Finding {
                at: range.start(),
                reason,
            });
        }
    }

    /// Whether a name means the builtin where it stands. Taking an own one away brings the builtin back.
    fn is_the_builtin(&self, name: &ExprName) -> bool {
        match name.ctx {
            ExprContext::Load => self
                .own
                .get(&name.id)
                .is_none_or(|from| name.start() < *from),
            ExprContext::Del => true,
            ExprContext::Store | ExprContext::Invalid => false,
        }
    }

    fn module(&mut self, range: TextRange, module: &str) {
        let root = module.split('.').next().unwrap_or(module);
        if names::is_module(root) {
            self.refuse(
                range,
                format!("the module `{root}` is refused: it reaches files, processes, the network or the interpreter"),
            );
        }
    }

    fn text(&mut self, range: TextRange, text: &str) {
        if names::is_store(text) {
            self.refuse(range, format!("`{text}` is a store of Kazma"));
        }
    }

    /// A name as a text, where it gets at the thing of that name: `getattr(x, "…")`, `globals()["…"]`.
    fn name_in_text(&mut self, expression: &Expr) {
        if let Expr::StringLiteral(literal) = expression {
            let text = literal.value.to_str();
            if names::is_attribute(text) || names::is_builtin(text) {
                self.refuse(
                    literal.range(),
                    format!("`{text}` is refused, by its name in a text too"),
                );
            }
        }
    }
}

/// Functions that look a name up.
fn looks_up(function: &Expr) -> bool {
    match function {
        Expr::Name(name) => matches!(
            name.id.as_str(),
            "getattr" | "hasattr" | "setattr" | "delattr"
        ),
        Expr::Attribute(attribute) => matches!(
            attribute.attr.as_str(),
            "get" | "pop" | "__getitem__" | "__getattribute__" | "attrgetter" | "methodcaller"
        ),
        _ => false,
    }
}

/// Functions whose answer is a table of names.
fn names_of(value: &Expr) -> bool {
    match value {
        Expr::Call(call) => matches!(
            call.func.as_ref(),
            Expr::Name(name) if matches!(name.id.as_str(), "globals" | "locals" | "vars")
        ),
        Expr::Attribute(attribute) => attribute.attr.as_str() == "__dict__",
        _ => false,
    }
}

impl<'a> Visitor<'a> for Search {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        if self.found.is_some() {
            return;
        }
        match statement {
            Stmt::Import(it) => {
                for alias in &it.names {
                    self.module(alias.range(), alias.name.as_str());
                }
            }
            Stmt::ImportFrom(it) if it.level == 0 => {
                if let Some(module) = &it.module {
                    self.module(it.range(), module.as_str());
                }
            }
            _ => {}
        }
        walk_stmt(self, statement);
    }

    fn visit_alias(&mut self, alias: &'a Alias) {
        // `from x import os`, where a harmless module is asked for one of its own imports.
        if names::is_attribute(alias.name.as_str())
            || matches!(
                alias.name.as_str(),
                "os" | "sys" | "subprocess" | "builtins"
            )
        {
            self.refuse(
                alias.range(),
                format!("`{}` is refused, from any module", alias.name),
            );
        }
        walk_alias(self, alias);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        if self.found.is_some() {
            return;
        }
        match expression {
            Expr::Name(name)
                if names::is_builtin(name.id.as_str()) && self.is_the_builtin(name) =>
            {
                self.refuse(
                    name.range(),
                    format!(
                        "`{}` is refused: it runs text as code or stops for a person",
                        name.id
                    ),
                );
            }
            Expr::Attribute(attribute) if names::is_attribute(attribute.attr.as_str()) => {
                self.refuse(
                    attribute.attr.range(),
                    format!(
                        "the attribute `{}` is refused: it leads to the interpreter's own objects",
                        attribute.attr
                    ),
                );
            }
            Expr::Call(call) if looks_up(&call.func) => {
                for argument in &call.arguments.args {
                    self.name_in_text(argument);
                }
            }
            Expr::Subscript(subscript) if names_of(&subscript.value) => {
                self.name_in_text(&subscript.slice);
            }
            _ => {}
        }
        if let Expr::StringLiteral(literal) = expression {
            self.text(literal.range(), literal.value.to_str());
        }
        walk_expr(self, expression);
    }
}
