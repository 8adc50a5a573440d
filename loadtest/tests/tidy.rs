//! House rules that no compiler checks: module docs, file size, import direction, words that must not stay, examples
//! that parse, release numbers that agree.
//!
//! A rule that a file must break is a reason to change the rule here, in the same commit, with the reason beside it.
//!
//! Does not: format, lint or compile.

#![expect(
    clippy::expect_used,
    clippy::string_slice,
    reason = "a house rule that cannot be checked fails the test"
)]

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a source file without its tests.
const MAX_LINES: usize = 500;
/// Folders with Rust sources of ours.
const SOURCES: [&str; 8] = [
    "src",
    "config",
    "shards",
    "loadtest/src",
    "loadtest/tests",
    "loadtest/apiserver",
    "benches",
    "examples",
];
/// The scheduler's modules, from those that know nothing to those that know all; a module imports from its own line and
/// the lines above it.
const ORDER: [&[&str]; 15] = [
    &["ids", "resources", "clock", "sync", "invariants", "telemetry"],
    &["client"],
    &["ledger"],
    &["topology"],
    &["cluster"],
    &["framework"],
    &["preemption"],
    &["plugins"],
    &["queue"],
    &["cycle"],
    &["extender"],
    &["binding"],
    &["server"],
    &["scheduler"],
    &["command"],
];
/// Modules outside of the order: test builders, and the outermost ones, which wire everything.
const OUTSIDE: [&str; 3] = ["testing", "main", "lib"];

struct Source {
    /// Relative to the workspace.
    path: PathBuf,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate stands in the workspace")
        .to_owned()
}

/// All files with one of these ends below a folder of the workspace, in order.
fn files(folder: &str, ends: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    open.push(path);
                }
            } else if ends.iter().any(|end| name.ends_with(end)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

fn sources() -> Vec<Source> {
    let mut paths: Vec<PathBuf> = SOURCES.iter().flat_map(|folder| files(folder, &[".rs"])).collect();
    paths.sort();
    paths.dedup();
    let read = |path: PathBuf| Source {
        text: fs::read_to_string(&path).expect("a source file is UTF-8"),
        path: path.strip_prefix(root()).expect("it is in the workspace").to_owned(),
    };
    paths.into_iter().map(read).collect()
}

impl Source {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn is_test(&self) -> bool {
        self.path
            .components()
            .any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
    }

    /// Whether it is the tests of the file that its folder is named after; their subject stands there.
    fn is_unit_test(&self) -> bool {
        self.path.ends_with("tests.rs") || self.path.parent().is_some_and(|parent| parent.ends_with("tests"))
    }

    /// A module doc comes first, or after inner attributes.
    fn has_module_doc(&self) -> bool {
        let first = self
            .text
            .lines()
            .find(|line| !line.is_empty() && !line.starts_with("#!["));
        first.is_some_and(|line| line.starts_with("//!"))
    }

    /// The text before the tests at the file's end.
    fn code(&self) -> &str {
        let cut = self
            .text
            .find("\n#[cfg(test)]\nmod tests")
            .or_else(|| self.text.find("\n#[cfg(all(test"));
        cut.map_or(self.text.as_str(), |at| &self.text[..at])
    }

    /// Whether a folder of the same name with more than its tests stands beside it: then it is the folder's face.
    fn is_face(&self) -> bool {
        let inside = fs::read_dir(root().join(self.path.with_extension("")))
            .into_iter()
            .flatten()
            .flatten();
        inside.into_iter().any(|entry| entry.file_name() != "tests.rs")
    }
}

/// Fails with all violations at once.
fn report(rule: &str, violations: &[String]) {
    assert!(violations.is_empty(), "{rule}:\n  {}", violations.join("\n  "));
}

#[test]
fn every_file_says_what_it_is() {
    let silent = sources()
        .into_iter()
        .filter(|source| !source.is_unit_test() && !source.has_module_doc());
    report(
        "files without a module doc",
        &silent.map(|source| source.name()).collect::<Vec<_>>(),
    );
}

#[test]
fn every_folders_face_says_what_it_does_not() {
    let faces = sources()
        .into_iter()
        .filter(|source| source.is_face() && !source.is_test());
    let silent = faces.filter(|source| !source.text.contains("//! Does not:"));
    report(
        "faces of folders without a line `//! Does not:`",
        &silent.map(|source| source.name()).collect::<Vec<_>>(),
    );
}

#[test]
fn files_are_short() {
    let sources = sources();
    let long = sources
        .iter()
        .filter(|source| !source.is_test() && source.code().lines().count() > MAX_LINES);
    let long: Vec<String> = long
        .map(|source| format!("{}: {}", source.name(), source.code().lines().count()))
        .collect();
    report("files of more than 500 lines without tests", &long);
}

#[test]
fn folders_have_faces_and_no_mod_rs() {
    let named = sources().into_iter().filter(|source| source.path.ends_with("mod.rs"));
    report(
        "files named mod.rs",
        &named.map(|source| source.name()).collect::<Vec<_>>(),
    );
}

#[test]
fn modules_import_from_those_before_them() {
    let rank = |module: &str| ORDER.iter().position(|line| line.contains(&module));
    let mut wrong = Vec::new();
    for source in sources()
        .into_iter()
        .filter(|source| source.path.starts_with("src") && !source.is_test())
    {
        let inner = source.path.strip_prefix("src").expect("filtered");
        let module = inner
            .components()
            .next()
            .expect("a file has a name")
            .as_os_str()
            .to_string_lossy()
            .into_owned();
        let module = module.trim_end_matches(".rs").to_owned();
        // Modules that the order does not name wire the others together and may import all.
        let Some(own) = rank(&module) else { continue };
        for (index, line) in source.code().lines().enumerate() {
            if line.trim_start().starts_with("//") {
                continue;
            }
            for other in imported(line) {
                let allowed = rank(&other).is_some_and(|rank| rank <= own) || other == module;
                let known = rank(&other).is_some() || is_module(&other);
                if known && !allowed {
                    wrong.push(format!("{}:{} imports {other}", source.name(), index + 1));
                }
            }
        }
    }
    report("imports against the order of modules", &wrong);
}

/// The top-level modules that a line names as `crate::NAME`.
fn imported(line: &str) -> Vec<String> {
    let ends = |character: char| !(character.is_ascii_alphanumeric() || character == '_');
    let names = line
        .split("crate::")
        .skip(1)
        .map(|rest| rest.split(ends).next().unwrap_or_default().to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

/// Whether the scheduler has a top-level module of this name that others must not import.
fn is_module(name: &str) -> bool {
    let file = root().join("src").join(format!("{name}.rs"));
    file.is_file() && !OUTSIDE.contains(&name)
}

#[test]
fn nothing_is_left_undone_or_switched_off() {
    // Written in two pieces so that this file does not find itself.
    let words = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("X", "XX:"),
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("dbg", "!("),
        concat!("#[ign", "ore"),
        concat!("should", "_panic"),
        concat!("std::sync::", "Mutex"),
        concat!("std::sync::", "RwLock"),
    ];
    let mut found = Vec::new();
    for source in sources() {
        for (index, line) in source.text.lines().enumerate() {
            for word in words.iter().filter(|word| line.contains(**word)) {
                found.push(format!("{}:{}: {word}", source.name(), index + 1));
            }
        }
    }
    report("words that must not stay", &found);
}

#[test]
fn no_file_is_unreachable() {
    let sources = sources();
    let mut lost = Vec::new();
    for source in &sources {
        let stem = source
            .path
            .file_stem()
            .expect("a file has a name")
            .to_string_lossy()
            .into_owned();
        let parent = source.path.parent().expect("a file is in a folder");
        let is_root = ["lib", "main", "build"].contains(&stem.as_str())
            || ["tests", "benches", "examples", "bin"]
                .iter()
                .any(|folder| parent.ends_with(folder));
        if is_root {
            continue;
        }
        let face = parent.with_extension("rs");
        let owners = [face, parent.join("lib.rs"), parent.join("main.rs")];
        let declared = |text: &str| text.contains(&format!("mod {stem};"));
        if !sources
            .iter()
            .any(|other| owners.contains(&other.path) && declared(&other.text))
        {
            lost.push(source.name());
        }
    }
    report("files that no module declares", &lost);
}

#[test]
fn configuration_examples_parse() {
    let examples = files("config/examples", &[".yaml", ".yml"]);
    for path in examples {
        let text = fs::read_to_string(&path).expect("an example is UTF-8");
        let documents: Vec<serde_json::Value> =
            serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(!documents.is_empty(), "{} is empty", path.display());
        for document in documents {
            assert!(
                document["kind"].is_string(),
                "{}: a document without kind",
                path.display()
            );
        }
    }
}

#[test]
fn dependencies_are_declared_once() {
    let mut wrong = Vec::new();
    for path in files("", &["Cargo.toml"]) {
        let text = fs::read_to_string(&path).expect("a manifest is UTF-8");
        let mut section = String::new();
        for line in text.lines() {
            if line.starts_with('[') {
                section = line.to_owned();
            }
            let versioned =
                line.contains("version = \"") || line.split_once(" = ").is_some_and(|(_, v)| v.starts_with('"'));
            if section.contains("dependencies]") && !section.starts_with("[workspace") && versioned {
                wrong.push(format!("{}: {line}", path.display()));
            }
        }
    }
    report("dependencies with a version outside of the workspace's list", &wrong);
}
