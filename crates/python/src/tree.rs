//! Goes through the syntax tree.

use std::collections::BTreeSet;

use ruff_python_ast::{
    Alias, Expr, ExprContext, ModModule, Stmt,
    name::Name,
    visitor::{Visitor, walk_alias, walk_expr, walk_stmt},
};
use ruff_text_size::{Ranged as _, TextRange};

use super::{Finding, names};

/// What is refused first, in the order of the code.
pub(crate) fn check(module: &ModModule) -> Option<Finding> {
    let mut own = Own::default();
    own.visit_body(&module.body);
    let mut search = Search {
        own: own.names,
        found: None,
    };
    search.visit_body(&module.body);
    search.found
}

/// Names that the code gives to functions, classes and imports of its own: `from re import compile` is not the builtin.
#[derive(Default)]
struct Own {
    names: BTreeSet<Name>,
}

impl<'a> Visitor<'a> for Own {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(it) => {
                self.names.insert(it.name.id.clone());
            }
            Stmt::ClassDef(it) => {
                self.names.insert(it.name.id.clone());
            }
            Stmt::ImportFrom(it) => {
                for alias in &it.names {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name);
                    self.names.insert(name.id.clone());
                }
            }
            _ => {}
        }
        walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, _: &'a Expr) {
        // No expression defines a function, class or import.
    }
}

struct Search {
    own: BTreeSet<Name>,
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
                if name.ctx == ExprContext::Load
                    && names::is_builtin(name.id.as_str())
                    && !self.own.contains(&name.id) =>
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
