//! A module, parsed from its binary form.

use std::collections::HashMap;

use wasmparser::{
    ConstExpr, DataKind, ElementItems, ElementKind, ExternalKind, KnownCustom, Name, Operator, Parser,
    Payload, TypeRef,
};

use crate::error::ModuleError;
use crate::function::{Function, Signature};
use crate::marked::Marked;
use crate::translate::{Context, translate};

/// A module.
#[derive(Default)]
pub struct Module {
    /// Types of functions.
    pub types: Vec<Signature>,
    /// Type of each function, imported functions first.
    pub type_of: Vec<u32>,
    /// Names of the imports, which are all functions.
    pub imports: Vec<String>,
    /// Functions that the module defines.
    pub functions: Vec<Function>,
    /// Name of each function, as the compiler writes it.
    pub names: HashMap<u32, String>,
    /// Functions of the table, by index.
    pub table: Vec<Option<u32>>,
    /// Initial pages of its memory.
    pub pages: usize,
    /// Initial values of its globals.
    pub globals: Vec<Marked>,
    /// Initial bytes of its memory, with their addresses.
    pub data: Vec<(usize, Vec<u8>)>,
    /// Exported functions.
    pub exports: HashMap<String, u32>,
}

impl Module {
    /// Parses the shipped module, and takes the names of functions from a module that is equal
    /// except for custom sections.
    ///
    /// # Errors
    /// [`ModuleError`] if the module cannot be interpreted, or if the named module differs.
    pub fn read(shipped: &[u8], named: &[u8]) -> Result<Self, ModuleError> {
        if sections(shipped)? != sections(named)? {
            return Err(ModuleError::Differs("sections"));
        }
        let mut module = Self { names: names(named)?, ..Self::default() };
        let mut bodies = Vec::new();
        for payload in Parser::new(0).parse_all(shipped) {
            match payload? {
                Payload::TypeSection(types) => {
                    for function in types.into_iter_err_on_gc_types() {
                        let function = function?;
                        let (params, results) = (function.params().len(), function.results().len());
                        module.types.push(Signature { params: params as u32, results: results as u32 });
                    }
                }
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        let import = import?;
                        let TypeRef::Func(of) = import.ty else {
                            return Err(ModuleError::Unsupported("imports but of functions"));
                        };
                        module.imports.push(import.name.into());
                        module.type_of.push(of);
                    }
                }
                Payload::FunctionSection(types) => {
                    for of in types {
                        module.type_of.push(of?);
                    }
                }
                Payload::TableSection(tables) => {
                    for table in tables {
                        module.table = vec![None; table?.ty.initial as usize];
                    }
                }
                Payload::MemorySection(memories) => {
                    for memory in memories {
                        module.pages = memory?.initial as usize;
                    }
                }
                Payload::GlobalSection(globals) => {
                    for global in globals {
                        module.globals.push(Marked::public(constant(&global?.init_expr)?));
                    }
                }
                Payload::ExportSection(exports) => {
                    for export in exports {
                        let export = export?;
                        if export.kind == ExternalKind::Func {
                            module.exports.insert(export.name.into(), export.index);
                        }
                    }
                }
                Payload::StartSection { .. } => return Err(ModuleError::Unsupported("start functions")),
                Payload::ElementSection(elements) => {
                    for element in elements {
                        let element = element?;
                        let (ElementKind::Active { offset_expr, .. }, ElementItems::Functions(items)) =
                            (element.kind, element.items)
                        else {
                            return Err(ModuleError::Unsupported("elements but of functions"));
                        };
                        let start = constant(&offset_expr)? as usize;
                        for (place, function) in (start..).zip(items) {
                            module.table[place] = Some(function?);
                        }
                    }
                }
                Payload::DataSection(data) => {
                    for data in data {
                        let data = data?;
                        let DataKind::Active { offset_expr, .. } = data.kind else {
                            return Err(ModuleError::Unsupported("passive data"));
                        };
                        module.data.push((constant(&offset_expr)? as usize, data.data.to_vec()));
                    }
                }
                Payload::CodeSectionEntry(body) => bodies.push(body),
                _ => {}
            }
        }
        let context = Context { types: &module.types, functions: &module.type_of };
        let own = module.type_of.iter().skip(module.imports.len());
        let functions =
            own.zip(&bodies).map(|(&of, body)| translate(&context, module.types[of as usize], body));
        module.functions = functions.collect::<Result<_, _>>()?;
        Ok(module)
    }

    /// Returns the demangled name of a function, without the hash.
    pub fn name(&self, function: u32) -> String {
        match self.names.get(&function) {
            Some(name) => format!("{:#}", rustc_demangle::demangle(name)),
            None => format!("function {function}"),
        }
    }
}

/// Returns the sections that determine a module's behaviour, with their ids.
fn sections(bytes: &[u8]) -> Result<Vec<(u8, &[u8])>, ModuleError> {
    let mut found = Vec::new();
    for payload in Parser::new(0).parse_all(bytes) {
        if let Some((id, range)) = payload?.as_section().filter(|(id, _)| *id != 0) {
            found.push((id, &bytes[range.start as usize..range.end as usize]));
        }
    }
    Ok(found)
}

fn names(bytes: &[u8]) -> Result<HashMap<u32, String>, ModuleError> {
    let mut found = HashMap::new();
    for payload in Parser::new(0).parse_all(bytes) {
        let Payload::CustomSection(section) = payload? else { continue };
        let KnownCustom::Name(subsections) = section.as_known() else { continue };
        for subsection in subsections {
            if let Name::Function(functions) = subsection? {
                for naming in functions {
                    let naming = naming?;
                    found.insert(naming.index, naming.name.into());
                }
            }
        }
    }
    Ok(found)
}

/// Evaluates a constant expression.
fn constant(expression: &ConstExpr<'_>) -> Result<u64, ModuleError> {
    match expression.get_operators_reader().read()? {
        Operator::I32Const { value } => Ok(value as u32 as u64),
        Operator::I64Const { value } => Ok(value as u64),
        _ => Err(ModuleError::Unsupported("constants but integers")),
    }
}
