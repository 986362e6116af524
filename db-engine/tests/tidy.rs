//! The rules of the house that no other tool checks.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Modules from the outside in. A module may use itself and those after it.
const LAYERS: &[&str] = &[
    "main",
    "ctl",
    "server",
    "shard",
    "protocol",
    "cql",
    "store",
    "directory",
    "sstable",
    "commitlog",
    "memtable",
    "compaction",
    "schema",
    "mutation",
    "types",
    "trace",
    "io",
    "metrics",
    "budget",
    "config",
    "error",
];

/// The rooms of `cql` from the outside in, as [`LAYERS`].
const CQL_ROOMS: &[&str] = &["execute", "prepare", "parse", "error"];

/// The only files that may talk to the operating system behind the compiler's back.
const UNSAFE_ALLOWED: &[&str] = &["src/io/limits.rs", "src/server/socket.rs"];

const FILE_LINES_MAX: usize = 500;
const LINE_CHARS_MAX: usize = 100;

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("folder is readable");
    entries
        .map(|entry| entry.expect("entry is readable").path())
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

fn all_sources() -> Vec<PathBuf> {
    let folders = ["src", "tests", "benches", "fuzz/src", "fuzz/targets"].map(Path::new);
    folders.into_iter().filter(|folder| folder.is_dir()).flat_map(sources).collect()
}

fn text_of(path: &Path) -> String {
    fs::read_to_string(path).expect("file is text")
}

fn layer(name: &str) -> usize {
    LAYERS.iter().position(|layer| *layer == name).unwrap_or_else(|| panic!("no layer for {name}"))
}

/// The modules that a text names behind `crate::`, alone or in braces.
fn used_modules(text: &str) -> Vec<String> {
    let mut used = Vec::new();
    for path in text.split("crate::").skip(1) {
        let Some(group) = path.strip_prefix('{') else {
            used.push(identifier(path));
            continue;
        };
        let (mut depth, mut expected) = (1, true);
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => expected = true,
                c if expected && c.is_alphanumeric() => {
                    used.push(identifier(&group[at..]));
                    expected = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    used
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[test]
fn grouped_imports_are_seen() {
    let used = used_modules("use crate::{error::{A, b}, io::C,\n    mutation};\ncrate::types::D");
    assert_eq!(used, ["error", "io", "mutation", "types"]);
}

#[test]
fn files_and_lines_are_short() {
    for path in all_sources() {
        let text = text_of(&path);
        let lines = text.lines().count();
        assert!(lines <= FILE_LINES_MAX, "{} has {lines} lines", path.display());
        for (number, line) in (1..).zip(text.lines()) {
            let chars = line.chars().count();
            assert!(chars <= LINE_CHARS_MAX, "{}:{number} has {chars} chars", path.display());
        }
    }
}

#[test]
fn modules_use_only_those_below_them() {
    for path in sources(Path::new("src")) {
        let relative = path.strip_prefix("src").expect("path is in src");
        let own = relative.iter().next().expect("path has a part").to_string_lossy();
        let own = own.trim_end_matches(".rs");
        if own == "lib" {
            continue;
        }
        for used in used_modules(&text_of(&path)) {
            assert!(layer(&used) >= layer(own), "{}: {own} may not use {used}", path.display());
        }
    }
}

/// The paths of a tree of imports (`a::{b, c::{d, e}}`), and what follows the tree.
fn imports(tree: &str) -> (Vec<String>, &str) {
    let (mut paths, mut rest) = (Vec::new(), tree.trim_start());
    let end = rest.find(|c: char| !c.is_alphanumeric() && !"_:*".contains(c));
    let (path, after) = rest.split_at(end.unwrap_or(rest.len()));
    rest = after;
    if let Some(mut group) = rest.strip_prefix('{') {
        while !group.trim_start().starts_with('}') {
            let (inner, after) = imports(group);
            assert!(after.len() < group.len(), "cannot read the imports {group:.60}");
            paths.extend(inner.into_iter().map(|inner| format!("{path}{inner}")));
            group = after.trim_start().trim_start_matches(',');
        }
        rest = group.trim_start().strip_prefix('}').unwrap_or_default();
    } else {
        paths.push(path.to_string());
    }
    (paths, rest)
}

/// The files of `cql` that each of them uses: `prepare::select`, or `prepare` for its `mod.rs`.
fn uses_within_cql() -> BTreeMap<String, Vec<String>> {
    let root = Path::new("src/cql");
    let files: BTreeMap<String, String> = sources(root)
        .into_iter()
        .filter(|path| path != &root.join("mod.rs") && !path.starts_with(root.join("tests")))
        .map(|path| {
            let name = path.strip_prefix(root).expect("path is in cql").with_extension("");
            let name = name.to_string_lossy().replace('/', "::");
            (name.trim_end_matches("::mod").to_string(), text_of(&path))
        })
        .collect();
    let mut graph = BTreeMap::new();
    for (file, text) in &files {
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        assert!(!code.contains("super::"), "cql/{file}: imports are written from crate:: on");
        let trees = code.split("\nuse ").skip(1).map(|tree| imports(tree).0);
        let inline = code.split("crate::cql::").skip(1);
        let inline = inline.map(|path| vec![format!("crate::cql::{}", imports(path).0[0])]);
        let mut used = Vec::new();
        for path in trees.chain(inline).flatten() {
            let Some(mut path) = path.strip_prefix("crate::cql::") else { continue };
            while !files.contains_key(path) {
                let parent = path.rfind("::").unwrap_or_else(|| panic!("cql/{file} uses {path}"));
                path = &path[..parent];
            }
            used.push(path.to_string());
        }
        if !file.contains("::") {
            let children = files.keys().filter(|name| name.starts_with(&format!("{file}::")));
            used.extend(children.cloned());
        }
        graph.insert(file.clone(), used);
    }
    graph
}

#[test]
fn trees_of_imports_are_taken_apart() {
    let (paths, rest) = imports("crate::{a::{self, b::C},\n    d,\n};\nuse x;");
    assert_eq!(paths, ["crate::a::self", "crate::a::b::C", "crate::d"]);
    assert_eq!(rest, ";\nuse x;");
}

#[test]
fn cql_parses_then_prepares_then_executes() {
    let room = |file: &str| {
        let name = file.split("::").next().unwrap_or_default();
        CQL_ROOMS.iter().position(|room| *room == name).unwrap_or_else(|| panic!("room {name}"))
    };
    let mut graph = uses_within_cql();
    assert!(graph.values().map(Vec::len).sum::<usize>() > graph.len(), "imports are seen");
    for (file, used) in &graph {
        for used in used {
            assert!(room(used) >= room(file), "cql/{file} may not use cql/{used}");
        }
    }
    // Files that use no other file left are taken away, until none is left: no circle is.
    while !graph.is_empty() {
        let left = graph.len();
        let free: Vec<String> = graph
            .iter()
            .filter(|(_, used)| used.is_empty())
            .map(|(file, _)| file.clone())
            .collect();
        graph.retain(|file, _| !free.contains(file));
        for used in graph.values_mut() {
            used.retain(|file| !free.contains(file));
        }
        assert!(graph.len() < left, "files of cql use each other in a circle: {:?}", graph.keys());
    }
}

/// The type that a line declares. Types of traits and within functions are indented: they are
/// named with the trait or seen in one function.
fn declared_type(line: &str) -> Option<String> {
    let line = line.strip_prefix("pub").map_or(line, |rest| {
        rest.strip_prefix('(').and_then(|rest| rest.split_once(") ")).map_or(rest, |(_, rest)| rest)
    });
    let (keyword, rest) = line.trim_start_matches(' ').split_once(' ')?;
    ["struct", "enum", "trait", "type"].contains(&keyword).then(|| identifier(rest))
}

#[test]
fn declarations_are_seen() {
    let lines = ["pub struct A<'a> {", "enum B {", "pub(super) type C = u8;", "fn d() {", "use e;"];
    let found: Vec<String> = lines.into_iter().filter_map(declared_type).collect();
    assert_eq!(found, ["A", "B", "C"]);
}

#[test]
fn a_name_means_one_type() {
    let mut names = BTreeMap::new();
    for path in sources(Path::new("src")) {
        for line in text_of(&path).lines().filter(|line| !line.starts_with(' ')) {
            let Some(name) = declared_type(line) else { continue };
            if let Some(other) = names.insert(name.clone(), path.clone()) {
                panic!("{name} is a type in {} and in {}", other.display(), path.display());
            }
        }
    }
    assert!(names.len() > 300, "declarations are seen");
}

#[test]
fn unsafe_code_stays_in_its_two_files() {
    let keyword = concat!("un", "safe");
    for path in all_sources() {
        if UNSAFE_ALLOWED.iter().any(|allowed| path == Path::new(allowed)) {
            continue;
        }
        for (number, line) in (1..).zip(text_of(&path).lines()) {
            let code = line.split("//").next().unwrap_or_default();
            let found =
                [" {", " fn", " impl"].iter().any(|end| code.contains(&format!("{keyword}{end}")));
            assert!(!found, "{}:{number} is {keyword}", path.display());
        }
    }
}

#[test]
fn nothing_is_left_to_do() {
    let marks =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!("), concat!("XX", "X")];
    for path in all_sources() {
        for (number, line) in (1..).zip(text_of(&path).lines()) {
            let mark = marks.iter().find(|mark| line.contains(*mark));
            assert!(mark.is_none(), "{}:{number} has {mark:?}", path.display());
        }
    }
}
