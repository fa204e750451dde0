//! What the names of a snippet stand for, as far as it can be told without running it.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::{
    Alias, Expr, ExprContext, ModModule, Stmt, StmtFunctionDef,
    name::Name,
    visitor::{Visitor, walk_expr, walk_stmt},
};
use ruff_text_size::{Ranged, TextSize};

use super::{names, text::Texts};

/// Parts of a dotted name that is known whole.
const DOTS: usize = 4;

/// What was found out about the names of a whole module, wherever they are bound.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Names that are imported, and other names that they are given, with what they come from: `t` and `timeit`, `Timer`
    /// and `timeit.Timer`.
    imported: BTreeMap<Name, String>,
    /// Other names of functions that look names up: `x` after `x = getattr`.
    lookups: BTreeSet<Name>,
    /// Other names of builtin functions: `x` after `x = print`.
    functions: BTreeSet<Name>,
    /// Names that stand for a text.
    pub(crate) texts: Texts,
}

impl Names {
    pub(crate) fn of(module: &ModModule) -> Self {
        let mut names = Self::default();
        names.visit_body(&module.body);
        names
    }

    /// Whether an expression is an imported name, or an attribute of one, however deep.
    pub(crate) fn is_of_import(&self, mut expression: &Expr) -> bool {
        loop {
            match expression {
                Expr::Name(name) => return self.imported.contains_key(&name.id),
                Expr::Attribute(it) => expression = &it.value,
                _ => return false,
            }
        }
    }

    /// The dotted name of what an expression is, if it begins with an imported one and is short.
    pub(crate) fn imported(&self, mut expression: &Expr) -> Option<String> {
        let mut attributes = Vec::new();
        while let Expr::Attribute(it) = expression {
            attributes.push(it.attr.as_str());
            if attributes.len() > DOTS {
                return None;
            }
            expression = &it.value;
        }
        let Expr::Name(name) = expression else {
            return None;
        };
        let mut whole = self.imported.get(&name.id)?.clone();
        for attribute in attributes.iter().rev() {
            whole.push('.');
            whole.push_str(attribute);
        }
        Some(whole)
    }

    /// Whether an expression is a function that gets at something by its name.
    pub(crate) fn is_lookup(&self, expression: &Expr) -> bool {
        match expression {
            Expr::Name(name) => {
                names::is_lookup(name.id.as_str()) || self.lookups.contains(&name.id)
            }
            Expr::Attribute(it) => names::is_lookup_method(it.attr.as_str()),
            _ => false,
        }
    }

    /// Whether an expression is a function of the module of builtins, or an attribute of one.
    pub(crate) fn is_function(&self, mut expression: &Expr) -> bool {
        while let Expr::Attribute(it) = expression {
            expression = &it.value;
        }
        matches!(
            expression,
            Expr::Name(name) if names::is_function(name.id.as_str()) || self.functions.contains(&name.id)
        )
    }

    fn import(&mut self, alias: &Alias, from: Option<&str>) {
        let whole = alias.name.as_str();
        let target = match (from, &alias.asname) {
            (Some(module), _) => format!("{module}.{whole}"),
            (None, Some(_)) => whole.to_owned(),
            // `import a.b` binds `a`.
            (None, None) => whole.split('.').next().unwrap_or_default().to_owned(),
        };
        let name = match &alias.asname {
            Some(name) => name.id.clone(),
            None if from.is_some() => alias.name.id.clone(),
            None => Name::new(&target),
        };
        if from.is_some() && names::is_lookup_method(whole) {
            self.lookups.insert(name.clone());
        }
        self.imported.insert(name, target);
    }

    fn bind(&mut self, target: &Expr, value: Option<&Expr>) {
        let Expr::Name(name) = target else {
            return;
        };
        self.texts.give(&name.id, value);
        let Some(value) = value else {
            return;
        };
        if let Some(module) = self.imported(value).filter(|it| it.len() < 100) {
            self.imported.entry(name.id.clone()).or_insert(module);
        }
        if matches!(value, Expr::Name(_)) && self.is_function(value) {
            self.functions.insert(name.id.clone());
        }
        let partly = match value {
            Expr::Call(call) => call.arguments.args.first(),
            _ => None,
        };
        if self.is_lookup(value) || partly.is_some_and(|it| self.is_lookup(it)) {
            self.lookups.insert(name.id.clone());
        }
    }
}

impl<'a> Visitor<'a> for Names {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Import(it) => it.names.iter().for_each(|alias| self.import(alias, None)),
            Stmt::ImportFrom(it) => {
                let module = it.module.as_ref().map_or("", |module| module.as_str());
                for alias in &it.names {
                    self.import(alias, Some(module));
                }
            }
            Stmt::Assign(it) => {
                for target in &it.targets {
                    self.bind(target, Some(&it.value));
                }
            }
            Stmt::AnnAssign(it) => self.bind(&it.target, it.value.as_deref()),
            Stmt::AugAssign(it) => self.bind(&it.target, None),
            Stmt::For(it) => self.bind(&it.target, None),
            Stmt::FunctionDef(it) => {
                for parameter in &it.parameters {
                    self.texts.give(&parameter.name().id, None);
                }
            }
            _ => {}
        }
        walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Named(it) = expression {
            self.bind(&it.target, Some(&it.value));
        }
        walk_expr(self, expression);
    }
}

/// Names that the code itself gives to functions, classes, imports and values, and from where on: after `from re import
/// compile` that name is not the builtin. Only at the top of the module: what stands in a block may never be run.
pub(crate) fn own(module: &[Stmt]) -> BTreeMap<Name, TextSize> {
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

/// Names of builtins that are a function's own throughout its body: its parameters and what it binds. Python decides that
/// for the whole function, wherever in it a name is bound.
pub(crate) fn local(function: &StmtFunctionDef) -> Vec<Name> {
    let mut bound = Bound::default();
    bound.visit_body(&function.body);
    let parameters = function.parameters.iter().map(|it| it.name().id.clone());
    parameters
        .chain(bound.names)
        .filter(|name| names::is_builtin(name.as_str()) && !bound.elsewhere.contains(name))
        .collect()
}

/// What the statements of one function bind, without those of functions in it.
#[derive(Default)]
struct Bound {
    names: Vec<Name>,
    /// Names that are said to be another scope's.
    elsewhere: BTreeSet<Name>,
}

impl<'a> Visitor<'a> for Bound {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(it) => self.names.push(it.name.id.clone()),
            Stmt::ClassDef(it) => self.names.push(it.name.id.clone()),
            Stmt::ImportFrom(it) => {
                let own = it.names.iter();
                self.names
                    .extend(own.map(|it| it.asname.as_ref().unwrap_or(&it.name).id.clone()));
            }
            Stmt::Global(it) => self
                .elsewhere
                .extend(it.names.iter().map(|it| it.id.clone())),
            Stmt::Nonlocal(it) => self
                .elsewhere
                .extend(it.names.iter().map(|it| it.id.clone())),
            _ => walk_stmt(self, statement),
        }
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Name(name) if name.ctx == ExprContext::Store => {
                self.names.push(name.id.clone());
            }
            // Other scopes.
            Expr::Lambda(_)
            | Expr::ListComp(_)
            | Expr::SetComp(_)
            | Expr::DictComp(_)
            | Expr::Generator(_) => {}
            _ => walk_expr(self, expression),
        }
    }
}
