//! What the names of a snippet stand for, as far as it can be told without running it.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::{
    Alias, Expr, ExprContext, ModModule, Operator, Stmt, StmtFunctionDef,
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
    /// Other names of builtin functions: `x` after `x = print`; also of what holds one: `x` after `x = [print]`.
    functions: BTreeSet<Name>,
    /// What names were made by: `p` and `cProfile.Profile` after `p = cProfile.Profile()`.
    made: BTreeMap<Name, String>,
    /// Names of tables of names, and of the functions that give them: `x` after `x = globals()`.
    tables: BTreeMap<Name, Table>,
    /// The functions that the code defines, also as methods.
    defined: BTreeSet<Name>,
    /// Whatever else names are bound to, as far as it is asked for.
    bound: BTreeSet<Name>,
    /// Modules that are imported, whole: `logging.config`.
    modules: BTreeSet<String>,
    /// Whether all names of some module are imported.
    pub(crate) star: bool,
    /// Names that stand for a text.
    pub(crate) texts: Texts,
}

/// Whose names a table of names has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// The module's own, with the builtins in it.
    Global,
    /// Those of where it stands.
    Local,
    /// Another object's.
    Other,
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
    pub(crate) fn imported(&self, expression: &Expr) -> Option<String> {
        self.imported_by(expression, DOTS)
    }

    /// The same, in so many steps: attributes, names in texts that get at them, and what is taken out of a list.
    fn imported_by(&self, expression: &Expr, steps: usize) -> Option<String> {
        let step = || steps.checked_sub(1);
        let of = |of: &Expr, name: &str| {
            let whole = self.imported_by(of, step()?)?;
            Some(format!("{whole}.{name}"))
        };
        match expression {
            Expr::Name(name) => self.imported.get(&name.id).cloned(),
            Expr::Attribute(it) => of(&it.value, it.attr.as_str()),
            Expr::Call(call) => match (call.func.as_ref(), call.arguments.args.as_ref()) {
                (Expr::Name(name), [module, text, ..]) if name.id.as_str() == "getattr" => {
                    of(module, &self.texts.constant(text)?)
                }
                (Expr::Lambda(it), []) => self.imported_by(&it.body, step()?),
                _ => None,
            },
            Expr::Subscript(it) => match it.value.as_ref() {
                Expr::List(held) => self.one_imported(&held.elts, step()?),
                Expr::Tuple(held) => self.one_imported(&held.elts, step()?),
                Expr::Attribute(table) if table.attr.as_str() == "__dict__" => {
                    of(&table.value, &self.texts.constant(&it.slice)?)
                }
                Expr::Call(call) => match (call.func.as_ref(), call.arguments.args.as_ref()) {
                    (Expr::Name(name), [module]) if name.id.as_str() == "vars" => {
                        of(module, &self.texts.constant(&it.slice)?)
                    }
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }

    fn one_imported(&self, items: &[Expr], steps: usize) -> Option<String> {
        match items {
            [one] => self.imported_by(one, steps),
            _ => None,
        }
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

    /// The same for what an imported class was called to make: `cProfile.Profile().run`.
    pub(crate) fn made(&self, expression: &Expr) -> Option<String> {
        let Expr::Attribute(it) = expression else {
            return None;
        };
        let whole = match it.value.as_ref() {
            Expr::Name(name) => self.made.get(&name.id).cloned(),
            Expr::Call(call) => self.imported(&call.func),
            _ => None,
        };
        whole.map(|whole| format!("{whole}.{}", it.attr))
    }

    /// Whether a module is imported, or one beneath it.
    pub(crate) fn has_module(&self, module: &str) -> bool {
        let beneath = format!("{module}.");
        let mut next = self.modules.range(beneath.clone()..);
        self.modules.contains(module) || next.next().is_some_and(|it| it.starts_with(&beneath))
    }

    /// Whether the code itself defines a function or method of this name.
    pub(crate) fn defines(&self, name: &str) -> bool {
        self.defined.contains(&Name::new(name))
    }

    /// Whether the code itself binds a name, in whatever way.
    pub(crate) fn binds(&self, name: &Name) -> bool {
        self.bound.contains(name) || self.defined.contains(name) || self.imported.contains_key(name)
    }

    /// The type that the call of an expression gives, where that makes functions or code: `type(lambda: 0)`.
    pub(crate) fn type_of_code(&self, expression: &Expr) -> Option<&'static str> {
        let of = match expression {
            Expr::Call(call) => match (call.func.as_ref(), call.arguments.args.as_ref()) {
                (Expr::Name(name), [of]) if name.id.as_str() == "type" => of,
                _ => return None,
            },
            Expr::Attribute(it) if it.attr.as_str() == "__class__" => &it.value,
            _ => return None,
        };
        match of {
            Expr::Lambda(_) => Some("types.FunctionType"),
            Expr::Name(name)
                if self.defined.contains(&name.id) && !self.bound.contains(&name.id) =>
            {
                Some("types.FunctionType")
            }
            Expr::Attribute(it) if it.attr.as_str() == "__code__" => Some("types.CodeType"),
            _ => None,
        }
    }

    /// Whether an expression is a function of the module of builtins, or an attribute of one.
    pub(crate) fn is_function(&self, expression: &Expr) -> bool {
        match expression {
            Expr::Attribute(it) => self.is_function(&it.value),
            Expr::Name(name) => {
                names::is_function(name.id.as_str()) || self.functions.contains(&name.id)
            }
            Expr::Named(it) => self.is_function(&it.value),
            Expr::If(it) => self.is_function(&it.body) || self.is_function(&it.orelse),
            Expr::BoolOp(it) => it.values.iter().any(|it| self.is_function(it)),
            Expr::Subscript(it) => match it.value.as_ref() {
                Expr::Name(name) => self.functions.contains(&name.id),
                held => self.holds_function(held),
            },
            Expr::Call(call) => {
                matches!(call.func.as_ref(), Expr::Lambda(it) if self.is_function(&it.body))
            }
            _ => false,
        }
    }

    /// `[print]`, `{1: print}`.
    fn holds_function(&self, expression: &Expr) -> bool {
        let mut items: Box<dyn Iterator<Item = &Expr>> = match expression {
            Expr::List(it) => Box::new(it.elts.iter()),
            Expr::Tuple(it) => Box::new(it.elts.iter()),
            Expr::Set(it) => Box::new(it.elts.iter()),
            Expr::Dict(it) => Box::new(it.items.iter().map(|it| &it.value)),
            _ => return false,
        };
        items.any(|it| self.is_function(it))
    }

    /// The table of names that an expression is, or holds all of.
    pub(crate) fn table(&self, value: &Expr) -> Option<Table> {
        match value {
            Expr::Call(call) => match call.func.as_ref() {
                Expr::Name(name) => match name.id.as_str() {
                    "globals" => Some(Table::Global),
                    "locals" => Some(Table::Local),
                    "vars" if call.arguments.is_empty() => Some(Table::Local),
                    "vars" => Some(Table::Other),
                    "dict" | "list" | "sorted" | "iter" => self.table(call.arguments.args.first()?),
                    _ => self.tables.get(&name.id).copied(),
                },
                Expr::Attribute(it) if it.attr.as_str() == "copy" => self.table(&it.value),
                _ => None,
            },
            Expr::Attribute(it) => (it.attr.as_str() == "__dict__").then_some(Table::Other),
            Expr::Named(it) => self.table(&it.value),
            Expr::Name(name) => self.tables.get(&name.id).copied(),
            Expr::Dict(it) => {
                let mut spread = it.items.iter().filter(|it| it.key.is_none());
                spread.find_map(|it| self.table(&it.value))
            }
            Expr::BinOp(it) if it.op == Operator::BitOr => {
                self.table(&it.left).or_else(|| self.table(&it.right))
            }
            _ => None,
        }
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
        self.modules
            .insert(from.map_or_else(|| whole.to_owned(), |_| target.clone()));
        if whole == "*" {
            self.star = true;
            let module = from.unwrap_or_default();
            for known in names::of_module(module) {
                let whole = format!("{module}.{known}");
                self.imported.entry(Name::new(known)).or_insert(whole);
            }
            return;
        }
        self.imported.insert(name, target);
    }

    /// What is bound to what: name by name where both sides say so.
    fn bind(&mut self, target: &Expr, value: Option<&Expr>) {
        let items = |of: &'_ Expr| match of {
            Expr::List(it) => Some(it.elts.clone()),
            Expr::Tuple(it) => Some(it.elts.clone()),
            _ => None,
        };
        if let Some(targets) = items(target) {
            let values = value
                .and_then(items)
                .filter(|values| {
                    values.len() == targets.len() && !targets.iter().any(Expr::is_starred_expr)
                })
                .unwrap_or_default();
            for (index, target) in targets.iter().enumerate() {
                self.bind(target, values.get(index));
            }
            return;
        }
        match target {
            Expr::Starred(it) => self.bind(&it.value, None),
            Expr::Name(name) => self.name(&name.id, value),
            _ => {}
        }
    }

    fn name(&mut self, name: &Name, value: Option<&Expr>) {
        self.texts.give(name, value);
        self.bound.insert(name.clone());
        if let Some(value) = value {
            self.stands_for(name, value);
        }
    }

    /// Another name of what is known.
    fn stands_for(&mut self, name: &Name, value: &Expr) {
        if let Some(module) = self.imported(value).filter(|it| it.len() < 100) {
            self.imported.entry(name.clone()).or_insert(module);
        }
        if let Some(makes) = self.type_of_code(value) {
            self.imported.insert(name.clone(), makes.to_owned());
        }
        if let Expr::Call(call) = value
            && let Some(whole) = self.imported(&call.func)
        {
            self.made.insert(name.clone(), whole);
        }
        let opens = match value {
            Expr::Name(it) => match it.id.as_str() {
                "globals" => Some(Table::Global),
                "locals" | "vars" => Some(Table::Local),
                _ => None,
            },
            _ => None,
        };
        if let Some(table) = opens.or_else(|| self.table(value).filter(|it| *it != Table::Other)) {
            self.tables.insert(name.clone(), table);
        }
        let function = !matches!(value, Expr::Attribute(_)) && self.is_function(value);
        if function || self.holds_function(value) {
            self.functions.insert(name.clone());
        }
        let partly = match value {
            Expr::Call(call) => call.arguments.args.first(),
            _ => None,
        };
        if self.is_lookup(value) || partly.is_some_and(|it| self.is_lookup(it)) {
            self.lookups.insert(name.clone());
        }
    }
}

impl<'a> Visitor<'a> for Names {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Import(it) => it.names.iter().for_each(|alias| self.import(alias, None)),
            Stmt::ImportFrom(it) => {
                let module = it.module.as_ref().map_or("", |module| module.as_str());
                self.modules.insert(module.to_owned());
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
            Stmt::AugAssign(it) => match it.target.as_ref() {
                Expr::Name(name) if it.op == Operator::Add => self.texts.add(&name.id, &it.value),
                target => self.bind(target, None),
            },
            Stmt::For(it) => match it.iter.as_ref() {
                Expr::List(over) => over
                    .elts
                    .iter()
                    .for_each(|one| self.bind(&it.target, Some(one))),
                Expr::Tuple(over) => over
                    .elts
                    .iter()
                    .for_each(|one| self.bind(&it.target, Some(one))),
                _ => self.bind(&it.target, None),
            },
            Stmt::ClassDef(it) => {
                self.bound.insert(it.name.id.clone());
            }
            Stmt::FunctionDef(it) => {
                self.defined.insert(it.name.id.clone());
                for parameter in &it.parameters {
                    let name = &parameter.name().id;
                    self.texts.give(name, None);
                    self.bound.insert(name.clone());
                    if let Some(default) = parameter.default() {
                        self.stands_for(name, default);
                    }
                }
            }
            _ => {}
        }
        walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Named(it) => self.bind(&it.target, Some(&it.value)),
            Expr::Name(it) if it.ctx == ExprContext::Store => {
                self.bound.insert(it.id.clone());
            }
            _ => {}
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
