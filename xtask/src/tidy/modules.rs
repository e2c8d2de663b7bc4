//! The modules of each crate, and which names which.

use super::rooms::{Paths, is_test};
use super::source::Tree;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::Visit;

/// A module as the names that lead to it from the root of its crate.
pub type Module = Vec<String>;

/// A name that leads to another one leads on; more steps than this are a mistake of ours.
const STEPS_MAX: usize = 16;

/// The modules of one crate that production code names from production code.
pub struct Crate {
    /// The folder of its sources.
    pub folder: PathBuf,
    /// From which module to which, and a place: file and line.
    pub arrows: BTreeMap<(Module, Module), (PathBuf, usize)>,
}

/// All crates of the tree whose sources are known.
pub fn crates(tree: &Tree) -> Vec<Crate> {
    let folders: BTreeSet<PathBuf> = tree
        .files
        .iter()
        .filter(|file| file.path.file_name().is_some_and(|name| name == "lib.rs" || name == "main.rs"))
        .filter_map(|file| file.path.parent().filter(|folder| folder.ends_with("src")))
        .map(Path::to_owned)
        .collect();
    folders.into_iter().map(|folder| of_crate(tree, folder)).collect()
}

/// What a file says of its module.
struct Source {
    path: PathBuf,
    /// Names that this module takes from elsewhere, with what they stand for.
    taken: BTreeMap<String, Module>,
    /// Every path that its production code names.
    named: Vec<(Module, usize)>,
}

fn of_crate(tree: &Tree, folder: PathBuf) -> Crate {
    let mut modules: BTreeMap<Module, Source> = BTreeMap::new();
    for (file, syntax) in tree.rust().filter(|(file, _)| file.path.starts_with(&folder) && !is_test(file)) {
        let Some(module) = module_of(&folder, &file.path) else { continue };
        let mut paths = Paths::default();
        paths.visit_file(syntax);
        let split = |path: &str| path.split("::").map(str::to_owned).collect();
        let named = paths.found.iter().map(|(path, line)| (split(path), *line)).collect();
        let mut taken = BTreeMap::new();
        for item in &syntax.items {
            if let syn::Item::Use(item) = item {
                take(&item.tree, &mut Vec::new(), &mut taken);
            }
        }
        modules.insert(module, Source { path: file.path.clone(), taken, named });
    }
    let mut arrows = BTreeMap::new();
    for (module, source) in &modules {
        for (path, line) in &source.named {
            let Some(target) = resolve(&modules, module, path) else { continue };
            if target != *module {
                arrows.entry((module.clone(), target)).or_insert_with(|| (source.path.clone(), *line));
            }
        }
    }
    Crate { folder, arrows }
}

/// `src/a/b.rs` is `a::b`, as is `src/a/b/mod.rs`.
fn module_of(folder: &Path, file: &Path) -> Option<Module> {
    let inside = file.strip_prefix(folder).ok()?;
    let mut names: Module =
        inside.with_extension("").iter().map(|name| name.to_string_lossy().into_owned()).collect();
    let top = names.len() == 1 && matches!(names[0].as_str(), "lib" | "main");
    if top || names.last().is_some_and(|name| name == "mod") {
        names.pop();
    }
    Some(names)
}

fn take(tree: &syn::UseTree, before: &mut Vec<String>, taken: &mut BTreeMap<String, Module>) {
    let mut keep = |before: &[String], name: &syn::Ident, alias: &syn::Ident| {
        let mut path = before.to_vec();
        if name != "self" {
            path.push(name.to_string());
        }
        let known_as = if alias == "self" { path.last().cloned() } else { Some(alias.to_string()) };
        taken.insert(known_as.unwrap_or_default(), path);
    };
    match tree {
        syn::UseTree::Path(path) => {
            before.push(path.ident.to_string());
            take(&path.tree, before, taken);
            before.pop();
        }
        syn::UseTree::Name(name) => keep(before, &name.ident, &name.ident),
        syn::UseTree::Rename(name) => keep(before, &name.ident, &name.rename),
        syn::UseTree::Glob(_) => {}
        syn::UseTree::Group(group) => group.items.iter().for_each(|item| take(item, before, taken)),
    }
}

/// The module in which what `path` names from `module` is defined, where that is in this crate.
fn resolve(modules: &BTreeMap<Module, Source>, module: &[String], path: &[String]) -> Option<Module> {
    let mut path = path.to_vec();
    let mut from = module.to_vec();
    for _ in 0..STEPS_MAX {
        let absolute = absolute(modules, &from, &path)?;
        let depth = (0..=absolute.len()).rev().find(|depth| modules.contains_key(&absolute[..*depth]))?;
        let (place, rest) = absolute.split_at(depth);
        let on = rest.first().and_then(|name| modules[place].taken.get(name));
        match on {
            // What the module takes under this name is defined elsewhere.
            Some(target) if place != from || rest.len() < path.len() => {
                let mut next = target.clone();
                next.extend(rest[1..].iter().cloned());
                (from, path) = (place.to_vec(), next);
            }
            _ => return Some(place.to_vec()),
        }
    }
    None
}

/// The path from the root of the crate; none where it leads out of it or names what is local.
fn absolute(modules: &BTreeMap<Module, Source>, from: &[String], path: &[String]) -> Option<Module> {
    let (first, rest) = path.split_first()?;
    let mut base = match first.as_str() {
        "crate" => Vec::new(),
        "self" => from.to_vec(),
        "super" => from[..from.len().checked_sub(1)?].to_vec(),
        name => {
            let child: Module = from.iter().cloned().chain([name.to_owned()]).collect();
            if !modules.contains_key(&child) {
                return None;
            }
            child
        }
    };
    let mut rest = rest.iter().peekable();
    while rest.next_if(|name| *name == "super").is_some() {
        base.pop()?;
    }
    base.extend(rest.cloned());
    Some(base)
}
