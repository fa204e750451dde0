//! Texts that parts of the standard library run, look up or open.

use ruff_python_ast::{Expr, ExprCall, ExprDict};

use super::{names, scope::Names};

/// The code of the examples in a text, as doctest runs them.
pub(crate) fn examples(text: &str) -> Option<String> {
    let mut code = String::new();
    for line in text.lines() {
        let line = line.trim_start();
        let Some(line) = line
            .strip_prefix(">>>")
            .or_else(|| line.strip_prefix("..."))
        else {
            continue;
        };
        code.push_str(line.strip_prefix(' ').unwrap_or(line));
        code.push('\n');
    }
    (!code.is_empty()).then_some(code)
}

/// What a table of settings has logging look up by its name, where that is in a module that is refused. The standard
/// streams are everyday handlers.
pub(crate) fn factory(table: &ExprDict, names: &Names) -> Option<String> {
    table.items.iter().find_map(|item| {
        let text = names.texts.constant(&item.value)?;
        let key = item.key.as_ref().and_then(|key| names.texts.constant(key));
        let name = match text.strip_prefix("ext://") {
            Some("sys.stdout" | "sys.stderr") => return None,
            Some(name) => name,
            None if matches!(key.as_deref(), Some("()" | "class" | "factory")) => &text,
            None => return None,
        };
        let root = name.split('.').next().unwrap_or_default();
        let refused = names::is_module(root) || names::is_builtin(name);
        let reached = name.split('.').any(names::is_reached);
        (refused || reached || name == "logging.config.listen").then(|| name.to_owned())
    })
}

/// The raw disk, or the machine's memory, that a call opens to write.
pub(crate) fn raw_device(call: &ExprCall, names: &Names) -> Option<String> {
    if !matches!(call.func.as_ref(), Expr::Name(name) if name.id.as_str() == "open") {
        return None;
    }
    let arguments = &call.arguments;
    let path = names
        .texts
        .constant(arguments.find_argument_value("file", 0)?)?;
    let mode = names
        .texts
        .constant(arguments.find_argument_value("mode", 1)?)?;
    let device = path.strip_prefix("/dev/")?;
    let raw = [
        "sd", "hd", "vd", "xvd", "nvme", "mmcblk", "dm-", "md", "loop", "disk/", "mapper/", "mem",
        "kmem", "port",
    ];
    let writes = mode.contains(['w', 'a', 'x', '+']);
    (writes && raw.iter().any(|kind| device.starts_with(kind))).then_some(path)
}

/// The type that a call makes an object of, where that is a function or its code: `type(lambda: 0)(…)`, and whatever type
/// is asked of an object and given code.
pub(crate) fn type_of_code(call: &ExprCall, names: &Names) -> Option<&'static str> {
    let asked = match call.func.as_ref() {
        Expr::Call(it) => {
            matches!(it.func.as_ref(), Expr::Name(name) if name.id.as_str() == "type")
        }
        Expr::Attribute(it) => it.attr.as_str() == "__class__",
        _ => false,
    };
    let code = matches!(call.arguments.args.first(), Some(Expr::Attribute(it)) if it.attr.as_str() == "__code__");
    names
        .type_of_code(&call.func)
        .or_else(|| (asked && code).then_some("types.FunctionType"))
}
