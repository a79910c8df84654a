//! Finds which files of a crate import which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use syn::visit::Visit;

/// A path of modules from the root of the crate.
type Module = Vec<String>;

/// A name that a file uses.
struct Import {
    path: Vec<String>,
    /// Whether it is re-exported.
    is_handed_on: bool,
}

/// The imports of one file.
#[derive(Default)]
struct Imports(Vec<Import>);

impl Imports {
    fn of(source: &str) -> Self {
        let mut imports = Self::default();
        imports.visit_file(&syn::parse_file(source).unwrap());
        imports
    }

    fn take_apart(&mut self, before: &[String], tree: &syn::UseTree, is_handed_on: bool) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        let path = match tree {
            syn::UseTree::Path(path) => {
                return self.take_apart(&with(&path.ident), &path.tree, is_handed_on);
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.take_apart(before, tree, is_handed_on);
                }
                return;
            }
            syn::UseTree::Name(name) => with(&name.ident),
            syn::UseTree::Rename(name) => with(&name.ident),
            syn::UseTree::Glob(_) => [before, &["*".to_owned()]].concat(),
        };
        self.0.push(Import { path, is_handed_on });
    }
}

impl<'a> Visit<'a> for Imports {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        let is_test = item
            .attrs
            .iter()
            .any(|attribute| attribute.path().is_ident("cfg"));
        if !is_test {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        let is_handed_on = !matches!(item.vis, syn::Visibility::Inherited);
        self.take_apart(&[], &item.tree, is_handed_on);
    }

    /// The scope of an item, as in `pub(in crate::instance)`, imports nothing.
    fn visit_visibility(&mut self, _: &'a syn::Visibility) {}

    fn visit_path(&mut self, path: &'a syn::Path) {
        let words: Vec<_> = path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect();
        if matches!(words[0].as_str(), "crate" | "self" | "super") && words.len() > 1 {
            self.0.push(Import {
                path: words,
                is_handed_on: false,
            });
        }
        syn::visit::visit_path(self, path);
    }
}

/// The folders of the crate that a source file uses.
pub fn modules(source: &str) -> BTreeSet<String> {
    let imports = Imports::of(source).0.into_iter();
    let ours = imports.filter(|import| import.path[0] == "crate");
    ours.filter_map(|import| import.path.get(1).cloned())
        .collect()
}

/// The files of a crate, by their module.
pub struct Crate {
    files: BTreeMap<Module, (PathBuf, Imports)>,
}

impl Crate {
    /// Takes paths below the folder of the root file, and the text of each file.
    pub fn of(files: impl IntoIterator<Item = (PathBuf, String)>) -> Self {
        let files = files.into_iter().map(|(path, source)| {
            let mut module: Module = path
                .with_extension("")
                .components()
                .map(|part| part.as_os_str().to_string_lossy().into_owned())
                .collect();
            module.pop_if(|last| matches!(last.as_str(), "mod" | "lib"));
            (module, (path, Imports::of(&source)))
        });
        Self {
            files: files.collect(),
        }
    }

    /// One cycle of files that import each other, with the first file repeated at the end; none if there is no cycle.
    pub fn circle(&self) -> Option<Vec<String>> {
        let mut done = BTreeSet::new();
        let mut way = Vec::new();
        self.files
            .keys()
            .find_map(|module| self.follow(module, &mut way, &mut done))
    }

    fn follow(
        &self,
        module: &Module,
        way: &mut Vec<Module>,
        done: &mut BTreeSet<Module>,
    ) -> Option<Vec<String>> {
        if let Some(begin) = way.iter().position(|former| former == module) {
            let circle = way[begin..].iter().chain([module]);
            return Some(
                circle
                    .map(|module| self.files[module].0.display().to_string())
                    .collect(),
            );
        }
        if done.contains(module) {
            return None;
        }
        way.push(module.clone());
        let imported = self.imported(module);
        let circle = imported
            .iter()
            .find_map(|next| self.follow(next, way, done));
        way.pop();
        done.insert(module.clone());
        circle
    }

    /// The files that this one needs. Re-exports of files below it do not count.
    fn imported(&self, module: &Module) -> BTreeSet<Module> {
        let imports = self.files[module].1.0.iter();
        let needed = imports.filter_map(|import| {
            let home = self.home(&self.absolute(module, &import.path)?);
            (!import.is_handed_on || !home.starts_with(module)).then_some(home)
        });
        needed.filter(|home| home != module).collect()
    }

    /// The same path from the root of the crate; none if it belongs to another crate.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Module> {
        let supers = path.iter().take_while(|word| *word == "super").count();
        match path[0].as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([module, &path[1..]].concat()),
            "super" => Some(
                [
                    &module[..module.len().checked_sub(supers)?],
                    &path[supers..],
                ]
                .concat(),
            ),
            _ => {
                let inside = [module, path].concat();
                self.files
                    .contains_key(&inside[..=module.len()])
                    .then_some(inside)
            }
        }
    }

    /// The file that defines a name, even if another file re-exports it.
    fn home(&self, path: &[String]) -> Module {
        let own = (0..=path.len())
            .rev()
            .find(|length| self.files.contains_key(&path[..*length]));
        let module = path[..own.unwrap_or(0)].to_vec();
        let Some(name) = path.get(module.len()) else {
            return module;
        };
        let Some((_, imports)) = self.files.get(&module) else {
            return module;
        };
        let handed_on = imports.0.iter().find_map(|import| {
            let last = import.path.last()?;
            let is_it = import.is_handed_on && (last == name || last == "*");
            let mut path = self.absolute(&module, &import.path).filter(|_| is_it)?;
            if path.pop_if(|last| last == "*").is_some() {
                path.push(name.clone());
            }
            Some(path)
        });
        match handed_on {
            Some(path) if path[..path.len() - 1] != module[..] => self.home(&path),
            _ => module,
        }
    }
}
