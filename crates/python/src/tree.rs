//! Goes through the syntax tree.

use std::collections::BTreeMap;

use ruff_python_ast::{
    Alias, Arguments, Expr, ExprAttribute, ExprCall, ExprContext, ExprName, ExprSubscript,
    ModModule, Operator, Pattern, PatternKeyword, Stmt, StmtFunctionDef, StmtMatch,
    name::Name,
    visitor::{Visitor, walk_alias, walk_expr, walk_pattern, walk_pattern_keyword, walk_stmt},
};
use ruff_text_size::{Ranged, TextRange, TextSize};

use super::{
    Finding, names, runs,
    scope::{self, Names, Table},
    text,
};

/// Texts of code in texts of code that are read.
const RUN_DEPTH: u32 = 3;

/// What is refused first, in the order of the code.
pub(crate) fn check(module: &ModModule) -> Option<Finding> {
    check_at(module, RUN_DEPTH)
}

fn check_at(module: &ModModule, depth: u32) -> Option<Finding> {
    let mut search = Search {
        own: scope::own(&module.body),
        names: Names::of(module),
        parameters: Vec::new(),
        functions: 0,
        depth,
        found: None,
    };
    search.visit_body(&module.body);
    search.found
}

struct Search {
    own: BTreeMap<Name, TextSize>,
    names: Names,
    /// What the functions around call their own, of the names of builtins.
    parameters: Vec<Name>,
    /// How many functions are around.
    functions: u32,
    /// How many texts of code may still be read in this one.
    depth: u32,
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

    /// A name as a text, where it gets at the thing of that name: `getattr(x, "…")`, `globals()["…"]`, also in a list or
    /// behind a star. The names of builtins only count where they can be looked up.
    fn name_in_text(&mut self, expression: &Expr, builtins: bool) {
        match expression {
            Expr::List(it) => return self.names_in_texts(&it.elts, builtins),
            Expr::Tuple(it) => return self.names_in_texts(&it.elts, builtins),
            Expr::Set(it) => return self.names_in_texts(&it.elts, builtins),
            Expr::Starred(it) => return self.name_in_text(&it.value, builtins),
            _ => {}
        }
        let parts = match expression {
            // `"a.b".split(".")`
            Expr::Call(call) => match call.func.as_ref() {
                Expr::Attribute(it) if it.attr.as_str() == "split" => {
                    self.names.texts.constant(&it.value)
                }
                _ => None,
            },
            _ => None,
        };
        let Some(text) = parts.or_else(|| self.names.texts.constant(expression)) else {
            return;
        };
        let found = |name: &str| names::is_attribute(name) || builtins && names::is_builtin(name);
        if found(&text) || text.split('.').any(names::is_attribute) {
            self.refuse_text(expression, &text);
        }
    }

    fn names_in_texts(&mut self, expressions: &[Expr], builtins: bool) {
        for expression in expressions {
            self.name_in_text(expression, builtins);
        }
    }

    fn refuse_text(&mut self, expression: &Expr, text: &str) {
        self.refuse(
            expression.range(),
            format!("`{text}` is refused, by its name in a text too"),
        );
    }

    fn refuse_filled_in(&mut self, expression: &Expr, name: &str) {
        self.refuse(
            expression.range(),
            format!("the attribute `{name}` is refused, in a text that is filled in too"),
        );
    }

    /// What a call is given to get at by name, to run, or to make code of.
    fn call(&mut self, call: &ExprCall) {
        let function = call.func.as_ref();
        let arguments = &call.arguments;
        if let Expr::Attribute(method) = function {
            self.method(call, method);
        }
        if let Some(path) = runs::raw_device(call, &self.names) {
            self.refuse(call.range(), format!("`{path}` is a raw device"));
        }
        if let Some(builtins) = self.looks_up(function) {
            self.names_in_texts(&arguments.args, builtins);
            self.module_in_text(arguments);
            if matches!(function, Expr::Name(name) if name.id.as_str() == "setattr") {
                self.replaced(arguments);
            }
        } else if arguments.args.iter().any(|it| self.names.is_lookup(it)) {
            // `reduce(getattr, ["…"], x)`
            self.names_in_texts(&arguments.args, true);
        }
        if let Some(keyword) = arguments.keywords.iter().find(|it| {
            it.arg
                .as_ref()
                .is_some_and(|arg| names::is_part_of_code(arg))
        }) {
            self.refuse(keyword.range, "making code of parts is refused".to_owned());
        }
        // `map(timeit.timeit, ["…"])`, `partial(timeit.timeit, "…")`
        let mut handed = arguments.args.iter();
        if handed.any(|it| {
            let whole = self.names.imported(it);
            whole.is_some_and(|whole| names::runs_text(&whole))
        }) {
            self.run_all(arguments);
        }
        let known = self
            .names
            .imported(function)
            .or_else(|| self.names.made(function));
        let made = || runs::type_of_code(call, &self.names).map(str::to_owned);
        let Some(whole) = known.or_else(made) else {
            return;
        };
        if names::makes_code(&whole) {
            self.refuse(
                call.range(),
                format!("`{whole}` is refused: it makes functions of parts"),
            );
        }
        if names::runs_text(&whole) {
            self.run_all(arguments);
        }
    }

    /// The arguments of what runs its texts, also in lists and behind stars.
    fn run_all(&mut self, arguments: &Arguments) {
        let given = arguments.keywords.iter().map(|it| &it.value);
        for argument in arguments.args.iter().chain(given) {
            let argument = match argument {
                Expr::Starred(it) => &it.value,
                argument => argument,
            };
            match argument {
                Expr::List(it) => it.elts.iter().for_each(|it| self.run(it)),
                Expr::Tuple(it) => it.elts.iter().for_each(|it| self.run(it)),
                Expr::Dict(it) => it.items.iter().for_each(|it| self.run(&it.value)),
                argument => self.run(argument),
            }
        }
    }

    /// What methods do to code and to tables of names.
    fn method(&mut self, call: &ExprCall, method: &ExprAttribute) {
        match method.attr.as_str() {
            "values" | "items" | "popitem" => {
                let whole = match self.names.table(&method.value) {
                    Some(Table::Global) => true,
                    Some(Table::Local) => self.functions == 0,
                    Some(Table::Other) => {
                        object_of(&method.value).is_some_and(|of| self.names.is_of_import(of))
                    }
                    None => false,
                };
                if whole {
                    self.refuse(
                        method.attr.range(),
                        format!(
                            "`{}` of a module's names is refused: the builtins are among them",
                            method.attr
                        ),
                    );
                }
            }
            "format" | "format_map" => {
                let text = self.names.texts.constant(&method.value);
                if let Some(name) = text.as_deref().and_then(names::formats_attribute) {
                    self.refuse_filled_in(&method.value, name);
                }
            }
            "replace" => {
                let code = matches!(method.value.as_ref(), Expr::Attribute(it) if it.attr.as_str() == "__code__");
                if code {
                    self.refuse(call.range(), "making code of parts is refused".to_owned());
                }
            }
            "__setattr__" => {
                let named =
                    |it: &&Expr| self.names.texts.constant(it).as_deref() == Some("__code__");
                if let Some(name) = call.arguments.args.iter().find(named) {
                    self.refuse_text(name, "__code__");
                }
            }
            _ => {}
        }
    }

    /// `setattr(f, "__code__", …)`.
    fn replaced(&mut self, arguments: &Arguments) {
        if let Some(name) = arguments.args.get(1)
            && self.names.texts.constant(name).as_deref() == Some("__code__")
        {
            self.refuse_text(name, "__code__");
        }
    }

    /// `getattr(gc, "get_objects")`, `vars(gc)["get_objects"]`.
    fn reached_by_text(&mut self, expression: &Expr) {
        if let Some(whole) = self.names.imported(expression)
            && names::is_reaching(&whole)
        {
            self.refuse_text(expression, &whole);
        }
    }

    /// `getattr(logging, "os")`, `getattr(print, "__self__")`.
    fn module_in_text(&mut self, arguments: &Arguments) {
        if let [of, name, ..] = arguments.args.as_ref()
            && let Some(text) = self.names.texts.constant(name)
            && (self.names.is_of_import(of) && names::is_reached(&text)
                || self.names.is_function(of) && text == "__self__")
        {
            self.refuse_text(name, &text);
        }
    }

    /// `logging.__dict__["os"]`, `vars(logging)["os"]`, `globals()["…"]`.
    fn subscript(&mut self, subscript: &ExprSubscript) {
        let table = self.names.table(&subscript.value).is_some();
        self.name_in_text(&subscript.slice, table);
        if table
            && object_of(&subscript.value).is_some_and(|of| self.names.is_of_import(of))
            && let Some(text) = self.names.texts.constant(&subscript.slice)
            && names::is_reached(&text)
        {
            self.refuse_text(&subscript.slice, &text);
        }
    }

    /// A text that is run as code. What is no Python would not run.
    fn run(&mut self, expression: &Expr) {
        if let Some(code) = self.names.texts.constant(expression) {
            self.run_text(expression, &code);
        }
    }

    fn run_text(&mut self, expression: &Expr, code: &str) {
        let Some(depth) = self.depth.checked_sub(1) else {
            self.refuse(
                expression.range(),
                "a text of code in a text of code".to_owned(),
            );
            return;
        };
        let found = crate::depth::check(code).or_else(|| {
            let parsed = ruff_python_parser::parse_module(code).ok()?;
            check_at(parsed.syntax(), depth)
        });
        if let Some(found) = found {
            self.refuse(
                expression.range(),
                format!("in a text that is run: {}", found.reason),
            );
        }
    }

    /// Whether a function looks a name up, and whether among builtins too.
    fn looks_up(&self, function: &Expr) -> Option<bool> {
        if self.names.is_lookup(function) {
            let among = match function {
                Expr::Attribute(attribute) => self.names.table(&attribute.value).is_some(),
                _ => true,
            };
            return Some(among);
        }
        match function {
            Expr::Attribute(attribute)
                if matches!(
                    attribute.attr.as_str(),
                    "get" | "pop" | "setdefault" | "__getitem__"
                ) =>
            {
                Some(self.names.table(&attribute.value).is_some())
            }
            _ => None,
        }
    }

    /// Stores, and attributes that a text would show when it is filled in.
    fn texts(&mut self, expression: &Expr) {
        match expression {
            Expr::StringLiteral(_) | Expr::BinOp(_) | Expr::Call(_) | Expr::Subscript(_) => {
                if let Expr::Call(call) = expression {
                    for piece in self.names.texts.split(call).unwrap_or_default() {
                        self.name_of_attribute(expression, &piece);
                    }
                }
                let Some(text) = self.names.texts.constant(expression) else {
                    return;
                };
                self.text(expression.range(), &text);
                self.name_of_attribute(expression, &text);
                if self.names.has_module("doctest")
                    && let Some(code) = runs::examples(&text)
                {
                    self.run_text(expression, &code);
                }
                if let Some(name) = names::formats_attribute(&text) {
                    self.refuse_filled_in(expression, name);
                }
            }
            Expr::FString(_) => {
                let whole = self.names.texts.constant(expression);
                if let Some(text) = &whole {
                    self.name_of_attribute(expression, text);
                }
                if let Some(text) = whole.or_else(|| text::ending(expression)) {
                    self.text(expression.range(), &text);
                }
            }
            Expr::BytesLiteral(_) => {
                if let Some(text) = text::of_bytes(expression) {
                    self.text(expression.range(), &text);
                    self.name_of_attribute(expression, &text);
                }
            }
            Expr::Dict(it) if self.names.has_module("logging.config") => {
                if let Some(name) = runs::factory(it, &self.names) {
                    self.refuse(
                        expression.range(),
                        format!("`{name}` is refused: logging would look it up and call it"),
                    );
                }
            }
            _ => {}
        }
    }

    /// A text that is the name of an attribute that is refused, wherever it goes from here.
    fn name_of_attribute(&mut self, expression: &Expr, text: &str) {
        if text.split('.').any(names::is_attribute) {
            self.refuse_text(expression, text);
        }
    }

    /// Why a bare name is refused.
    fn name(&self, expression: &Expr, name: &ExprName) -> Option<&'static str> {
        let word = name.id.as_str();
        if names::is_builtin(word) && self.is_the_builtin(name) {
            return Some("it runs text as code or stops for a person");
        }
        // What follows is about names that may have come by `import *`.
        if !self.names.star || name.ctx != ExprContext::Load {
            return None;
        }
        if names::is_reached(word) && !self.names.binds(&name.id) {
            return Some("it may come with all names of another module");
        }
        let whole = self.names.imported(expression)?;
        names::is_reaching(&whole)
            .then_some("it reaches the network, or the interpreter's own objects")
    }

    /// Why an attribute is refused.
    fn attribute(&self, expression: &Expr, attribute: &ExprAttribute) -> Option<&'static str> {
        let name = attribute.attr.as_str();
        if name == "__code__" && attribute.ctx == ExprContext::Store {
            return Some("a function's code is not replaced");
        }
        if names::is_attribute(name) {
            return Some("it leads to the interpreter's own objects");
        }
        if name == "__self__" && self.names.is_function(&attribute.value) {
            return Some("it is the module of builtins");
        }
        if names::is_reached(name) && self.names.is_of_import(&attribute.value) {
            return Some("it is a module that is refused, by way of another one");
        }
        if names::is_loop_method(name)
            && self.names.has_module("asyncio")
            && !self.names.defines(name)
        {
            return Some("it reaches the network");
        }
        let whole = self.names.imported(expression)?;
        names::is_reaching(&whole)
            .then_some("it reaches the network, or the interpreter's own objects")
    }

    /// A function's parameters, and what it binds, are its own names in its body, whatever builtin they are called after.
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
        self.parameters.extend(scope::local(function));
        self.functions += 1;
        self.visit_body(&function.body);
        self.functions -= 1;
        self.parameters.truncate(before);
    }

    /// Names that are taken out of a table of names by a pattern.
    fn matched(&mut self, statement: &StmtMatch) {
        let Some(table) = self.names.table(&statement.subject) else {
            return;
        };
        for case in &statement.cases {
            let Pattern::MatchMapping(mapping) = &case.pattern else {
                continue;
            };
            for key in &mapping.keys {
                self.name_in_text(key, true);
            }
            let whole = table == Table::Global || table == Table::Local && self.functions == 0;
            if mapping.rest.is_some() && whole {
                self.refuse(
                    mapping.range,
                    "all of a module's names are refused: the builtins are among them".to_owned(),
                );
            }
        }
    }

    /// Texts in an annotation: whoever asks for the types runs them.
    fn annotated(&mut self, annotation: &Expr) {
        match annotation {
            Expr::Subscript(it) => {
                let name = match it.value.as_ref() {
                    Expr::Name(name) => name.id.as_str(),
                    Expr::Attribute(it) => it.attr.as_str(),
                    _ => "",
                };
                match it.slice.as_ref() {
                    _ if name == "Literal" => {}
                    Expr::Tuple(parts) if name == "Annotated" => {
                        parts.elts.iter().take(1).for_each(|it| self.annotated(it));
                    }
                    part => self.annotated(part),
                }
            }
            Expr::Tuple(it) => it.elts.iter().for_each(|it| self.annotated(it)),
            Expr::List(it) => it.elts.iter().for_each(|it| self.annotated(it)),
            Expr::BinOp(it) if it.op == Operator::BitOr => {
                self.annotated(&it.left);
                self.annotated(&it.right);
            }
            text => self.run(text),
        }
    }
}

/// Whose names `vars(x)` and `x.__dict__` are.
fn object_of(table: &Expr) -> Option<&Expr> {
    match table {
        Expr::Attribute(it) => Some(&it.value),
        Expr::Call(call) => call.arguments.args.first(),
        _ => None,
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
                    for alias in &it.names {
                        if names::is_reaching(&format!("{module}.{}", alias.name)) {
                            self.refuse(
                                alias.range(),
                                format!("`{module}.{}` is refused: it reaches the network, or the interpreter's own objects", alias.name),
                            );
                        }
                    }
                }
            }
            Stmt::FunctionDef(it) => return self.function(it),
            // What a pattern of the class takes from its subject.
            Stmt::Assign(it)
                if it.targets.iter().any(
                    |target| matches!(target, Expr::Name(name) if name.id == "__match_args__"),
                ) =>
            {
                self.name_in_text(&it.value, false);
            }
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

    fn visit_annotation(&mut self, annotation: &'a Expr) {
        self.annotated(annotation);
        self.visit_expr(annotation);
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
            Expr::Name(name) => {
                if let Some(why) = self.name(expression, name) {
                    self.refuse(name.range(), format!("`{}` is refused: {why}", name.id));
                }
            }
            Expr::Attribute(attribute) => {
                if let Some(why) = self.attribute(expression, attribute) {
                    self.refuse(
                        attribute.attr.range(),
                        format!("the attribute `{}` is refused: {why}", attribute.attr),
                    );
                }
            }
            Expr::Call(call) => {
                self.reached_by_text(expression);
                self.call(call);
            }
            Expr::Subscript(subscript) => {
                self.reached_by_text(expression);
                self.subscript(subscript);
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
