//! Goes through the syntax tree.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::{
    Alias, Expr, ExprAttribute, ExprContext, ExprName, ModModule, Pattern, PatternKeyword, Stmt,
    StmtFunctionDef, StmtMatch,
    name::Name,
    visitor::{Visitor, walk_alias, walk_expr, walk_pattern, walk_pattern_keyword, walk_stmt},
};
use ruff_text_size::{Ranged, TextRange, TextSize};

use super::{Finding, names, text};

/// What is refused first, in the order of the code.
pub(crate) fn check(module: &ModModule) -> Option<Finding> {
    let mut imported = Imported::default();
    imported.visit_body(&module.body);
    let mut search = Search {
        own: own(&module.body),
        imported: imported.0,
        parameters: Vec::new(),
        found: None,
    };
    search.visit_body(&module.body);
    search.found
}

/// Names that the code itself gives to functions, classes, imports and values, and from where on: after `from re import
/// compile` that name is not the builtin. Only at the top of the module: what stands in a block may never be run.
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
            Stmt::Assign(it) => {
                for target in &it.targets {
                    if let Expr::Name(name) = target {
                        names.entry(name.id.clone()).or_insert(from);
                    }
                }
            }
            _ => {}
        }
    }
    names
}

/// Names by which the code has modules, or what may be one, wherever it imports them.
#[derive(Default)]
struct Imported(BTreeSet<Name>);

impl<'a> Visitor<'a> for Imported {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        let aliases = match statement {
            Stmt::Import(it) => &it.names,
            Stmt::ImportFrom(it) => &it.names,
            _ => return walk_stmt(self, statement),
        };
        for alias in aliases {
            let whole = alias.asname.as_ref().unwrap_or(&alias.name);
            let name = whole.as_str().split('.').next().unwrap_or_default();
            self.0.insert(Name::new(name));
        }
    }

    fn visit_expr(&mut self, _: &'a Expr) {}
}

struct Search {
    own: BTreeMap<Name, TextSize>,
    imported: BTreeSet<Name>,
    /// Parameters of the functions around, by names of builtins.
    parameters: Vec<Name>,
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
            ExprContext::Load => {
                !self.parameters.contains(&name.id)
                    && self
                        .own
                        .get(&name.id)
                        .is_none_or(|from| name.start() < *from)
            }
            ExprContext::Del => true,
            ExprContext::Store | ExprContext::Invalid => false,
        }
    }

    fn module(&mut self, range: TextRange, module: &str) {
        let mut parts = module.split('.');
        let root = parts.next().filter(|root| names::is_module(root));
        if let Some(part) = root.or_else(|| parts.find(|part| names::is_reached(part))) {
            self.refuse(
                range,
                format!("the module `{part}` is refused: it reaches files, processes, the network or the interpreter"),
            );
        }
    }

    fn text(&mut self, range: TextRange, text: &str) {
        if names::is_store(text) {
            self.refuse(range, format!("`{text}` is a store of Kazma"));
        }
    }

    /// A name as a text, where it gets at the thing of that name: `getattr(x, "…")`, `globals()["…"]`. The names of builtins
    /// only count where they can be looked up.
    fn name_in_text(&mut self, expression: &Expr, builtins: bool) {
        let Some(text) = text::constant(expression) else {
            return;
        };
        let found = |name: &str| names::is_attribute(name) || builtins && names::is_builtin(name);
        if found(&text) || text.split('.').any(names::is_attribute) {
            self.refuse(
                expression.range(),
                format!("`{text}` is refused, by its name in a text too"),
            );
        }
    }

    /// Stores, and attributes that a text would show when it is filled in.
    fn texts(&mut self, expression: &Expr) {
        match expression {
            Expr::StringLiteral(_) | Expr::BinOp(_) => {
                let Some(text) = text::constant(expression) else {
                    return;
                };
                self.text(expression.range(), &text);
                if let Some(name) = names::formats_attribute(&text) {
                    self.refuse(
                        expression.range(),
                        format!(
                            "the attribute `{name}` is refused, in a text that is filled in too"
                        ),
                    );
                }
            }
            Expr::FString(_) => {
                if let Some((text, _)) = text::ending(expression) {
                    self.text(expression.range(), &text);
                }
            }
            Expr::BytesLiteral(_) => {
                if let Some(text) = text::of_bytes(expression) {
                    self.text(expression.range(), &text);
                }
            }
            _ => {}
        }
    }

    /// Why an attribute is refused.
    fn attribute(&self, attribute: &ExprAttribute) -> Option<&'static str> {
        let name = attribute.attr.as_str();
        if names::is_attribute(name) {
            return Some("it leads to the interpreter's own objects");
        }
        let builtin =
            |base: &Expr| matches!(base, Expr::Name(it) if names::is_function(it.id.as_str()));
        if name == "__self__" && builtin(&attribute.value) {
            return Some("it is the module of builtins");
        }
        if names::is_reached(name)
            && root(&attribute.value).is_some_and(|it| self.imported.contains(it))
        {
            return Some("it is a module that is refused, by way of another one");
        }
        None
    }

    /// A function's parameters are its own names in its body, whatever builtin they are called after.
    fn function(&mut self, function: &StmtFunctionDef) {
        for decorator in &function.decorator_list {
            self.visit_decorator(decorator);
        }
        if let Some(parameters) = &function.type_params {
            self.visit_type_params(parameters);
        }
        self.visit_parameters(&function.parameters);
        if let Some(returns) = &function.returns {
            self.visit_annotation(returns);
        }
        let before = self.parameters.len();
        let own = function.parameters.iter().map(|it| it.name().id.clone());
        self.parameters
            .extend(own.filter(|name| names::is_builtin(name.as_str())));
        self.visit_body(&function.body);
        self.parameters.truncate(before);
    }

    /// Names that are taken out of a table of names by a pattern.
    fn matched(&mut self, statement: &StmtMatch) {
        if !names_of(&statement.subject) {
            return;
        }
        for case in &statement.cases {
            if let Pattern::MatchMapping(mapping) = &case.pattern {
                for key in &mapping.keys {
                    self.name_in_text(key, true);
                }
            }
        }
    }
}

/// Whether a function looks a name up, and whether among builtins too.
fn looks_up(function: &Expr) -> Option<bool> {
    let (name, builtins) = match function {
        Expr::Name(name) => (name.id.as_str(), true),
        Expr::Attribute(attribute) => (attribute.attr.as_str(), names_of(&attribute.value)),
        _ => return None,
    };
    let found = match function {
        Expr::Name(_) => matches!(
            name,
            "getattr" | "hasattr" | "setattr" | "delattr" | "attrgetter" | "methodcaller"
        ),
        _ => matches!(
            name,
            "get" | "pop" | "__getitem__" | "__getattribute__" | "attrgetter" | "methodcaller"
        ),
    };
    found.then_some(builtins)
}

/// Functions whose answer is a table of names.
fn names_of(value: &Expr) -> bool {
    match value {
        Expr::Call(call) => matches!(
            call.func.as_ref(),
            Expr::Name(name) if matches!(name.id.as_str(), "globals" | "locals" | "vars")
        ),
        Expr::Attribute(attribute) => attribute.attr.as_str() == "__dict__",
        Expr::Named(named) => names_of(&named.value),
        _ => false,
    }
}

/// The name that a chain of attributes begins with.
fn root(mut value: &Expr) -> Option<&Name> {
    loop {
        match value {
            Expr::Name(name) => return Some(&name.id),
            Expr::Attribute(attribute) => value = &attribute.value,
            _ => return None,
        }
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
            Stmt::FunctionDef(it) => return self.function(it),
            Stmt::Match(it) => self.matched(it),
            Stmt::Global(it) => {
                if let Some(name) = it
                    .names
                    .iter()
                    .find(|name| names::is_builtin(name.as_str()))
                {
                    self.refuse(
                        it.range(),
                        format!("`{name}` is refused: it runs text as code or stops for a person"),
                    );
                }
            }
            _ => {}
        }
        walk_stmt(self, statement);
    }

    fn visit_alias(&mut self, alias: &'a Alias) {
        // `from x import os`, where a harmless module is asked for one of its own imports.
        if names::is_attribute(alias.name.as_str()) || names::is_reached(alias.name.as_str()) {
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
            Expr::Attribute(attribute) => {
                if let Some(why) = self.attribute(attribute) {
                    self.refuse(
                        attribute.attr.range(),
                        format!("the attribute `{}` is refused: {why}", attribute.attr),
                    );
                }
            }
            Expr::Call(call) => {
                if let Some(builtins) = looks_up(&call.func) {
                    for argument in &call.arguments.args {
                        self.name_in_text(argument, builtins);
                    }
                }
            }
            Expr::Subscript(subscript) => {
                self.name_in_text(&subscript.slice, names_of(&subscript.value));
            }
            _ => {}
        }
        self.texts(expression);
        walk_expr(self, expression);
    }

    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        if let Pattern::MatchMapping(mapping) = pattern {
            for key in &mapping.keys {
                self.name_in_text(key, false);
            }
        }
        walk_pattern(self, pattern);
    }

    fn visit_pattern_keyword(&mut self, keyword: &'a PatternKeyword) {
        if names::is_attribute(keyword.attr.as_str()) {
            self.refuse(
                keyword.attr.range(),
                format!(
                    "the attribute `{}` is refused: it leads to the interpreter's own objects",
                    keyword.attr
                ),
            );
        }
        walk_pattern_keyword(self, keyword);
    }
}
