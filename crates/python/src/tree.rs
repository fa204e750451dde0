//! Goes through the syntax tree.

use std::collections::BTreeMap;

use ruff_python_ast::{
    Alias, Arguments, Expr, ExprAttribute, ExprCall, ExprContext, ExprName, ExprSubscript,
    ModModule, Pattern, PatternKeyword, Stmt, StmtFunctionDef, StmtMatch,
    name::Name,
    visitor::{Visitor, walk_alias, walk_expr, walk_pattern, walk_pattern_keyword, walk_stmt},
};
use ruff_text_size::{Ranged, TextRange, TextSize};

use super::{
    Finding, names,
    scope::{self, Names},
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

    /// What a call is given to get at by name, to run, or to make code of.
    fn call(&mut self, call: &ExprCall) {
        let function = call.func.as_ref();
        let arguments = &call.arguments;
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
        let Some(whole) = self.names.imported(function) else {
            return;
        };
        if names::makes_code(&whole) {
            self.refuse(
                call.range(),
                format!("`{whole}` is refused: it makes functions of parts"),
            );
        }
        if names::runs_text(&whole) {
            let given = arguments.keywords.iter().map(|it| &it.value);
            for argument in arguments.args.iter().chain(given) {
                self.run(argument);
            }
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
        let table = names_of(&subscript.value);
        self.name_in_text(&subscript.slice, table);
        let of = match subscript.value.as_ref() {
            Expr::Attribute(it) => Some(it.value.as_ref()),
            Expr::Call(call) => call.arguments.args.first(),
            _ => None,
        };
        if table
            && of.is_some_and(|of| self.names.is_of_import(of))
            && let Some(text) = self.names.texts.constant(&subscript.slice)
            && names::is_reached(&text)
        {
            self.refuse_text(&subscript.slice, &text);
        }
    }

    /// A text that is run as code. What is no Python would not run.
    fn run(&mut self, expression: &Expr) {
        let Some(code) = self.names.texts.constant(expression) else {
            return;
        };
        let Some(depth) = self.depth.checked_sub(1) else {
            self.refuse(
                expression.range(),
                "a text of code in a text of code".to_owned(),
            );
            return;
        };
        let found = crate::depth::check(&code).or_else(|| {
            let parsed = ruff_python_parser::parse_module(&code).ok()?;
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
                Expr::Attribute(attribute) => names_of(&attribute.value),
                _ => true,
            };
            return Some(among);
        }
        match function {
            Expr::Attribute(attribute)
                if matches!(attribute.attr.as_str(), "get" | "pop" | "__getitem__") =>
            {
                Some(names_of(&attribute.value))
            }
            _ => None,
        }
    }

    /// Stores, and attributes that a text would show when it is filled in.
    fn texts(&mut self, expression: &Expr) {
        match expression {
            Expr::StringLiteral(_) | Expr::BinOp(_) | Expr::Call(_) => {
                let Some(text) = self.names.texts.constant(expression) else {
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
                let whole = self.names.texts.constant(expression);
                if let Some(text) = whole.or_else(|| text::ending(expression)) {
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
        // Its text is run by whoever asks for the types.
        self.run(annotation);
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
                if let Some(why) = self.attribute(expression, attribute) {
                    self.refuse(
                        attribute.attr.range(),
                        format!("the attribute `{}` is refused: {why}", attribute.attr),
                    );
                }
            }
            Expr::Call(call) => self.call(call),
            Expr::Subscript(subscript) => self.subscript(subscript),
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
