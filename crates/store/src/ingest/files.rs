//! Files that together make one table: a list of files, the matches of a pattern, or the files of a
//! folder.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use percent_encoding::percent_decode_str;

use super::list::{ListRows, Partition, TableFile};
use super::names::{PATTERNS, WILDCARDS, is_found, is_left_out};
use super::objects::{self, Object};
use super::open::{Place, keep};
use super::{Format, FormatHints, RowSource, Selection, is_standard_input};
use crate::error::IoContext;
use crate::{Location, StoreError};

/// Value by which Hive represents a null in the name of a partition's folder.
const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// Files of one format that make one table, in the order of its rows.
#[derive(Clone, Debug)]
pub struct Files {
    name: PathBuf,
    format: Format,
    files: Arc<[TableFile]>,
}

impl Files {
    /// Creates a table of the single file, pipe or standard input (`-`) at `path`. The names of its
    /// folders give no columns.
    pub fn one(path: impl Into<PathBuf>, format: Format) -> Self {
        let path = path.into();
        let name = name_of(&path);
        let (place, partitions) = (Place::Path(path), Vec::new());
        let file = TableFile { place, name: name.clone(), bytes: 0, partitions };
        Self { name, format, files: [file].into() }
    }

    /// Finds the files of `inputs`, in their order. An input is a file, a pipe, a folder, or `-`
    /// for standard input, which must be the only input. If no file has the input's name, the input
    /// may be a pattern with `*`, `?`, `[...]` and `**`. The files of a folder or a pattern are in
    /// the byte order of their paths, including files in subfolders. Hidden files, and names that
    /// begin with `_` and are not partitions, are left out unless the pattern names them. Folders
    /// called `column=value` give columns.
    ///
    /// With the feature `object-store` an input may be an address: `https://` for one file,
    /// `s3://bucket/` and `gs://bucket/` with a key, a pattern, or a prefix that ends in `/` for a
    /// folder. Credentials come from the environment.
    ///
    /// # Errors
    /// [`StoreError::BadOption`] for standard input together with other inputs,
    /// [`StoreError::Malformed`] if no file is found, or files have several formats,
    /// [`StoreError::Io`]; those of [`Format::choose`].
    pub fn find(inputs: &[PathBuf], hints: &FormatHints<'_>) -> Result<Self, StoreError> {
        if inputs.len() > 1 && inputs.iter().any(|input| is_standard_input(input)) {
            let detail = "standard input (-) is a table of its own; name no other --input beside it";
            return Err(StoreError::BadOption(detail.into()));
        }
        let mut files = Vec::new();
        for input in inputs {
            files.extend(files_of(input)?);
        }
        let [first, others @ ..] = &files[..] else {
            return Err(StoreError::BadOption("name a file, a folder or a pattern with --input".into()));
        };
        let format = Format::choose(hints.clone(), first.path())?;
        for file in others {
            if Format::choose(hints.clone(), file.path())? != format {
                let detail = format!(
                    "its extension names another format than that of {}; leave it out, or give --format if all have one",
                    first.name.display()
                );
                return Err(StoreError::malformed(Location::File(file.name.clone()), detail));
            }
        }
        let name = match (inputs, others) {
            ([_], []) => first.name.clone(),
            // An address of several files contains no secrets.
            ([input], _) => input.clone(),
            _ => format!("{} and {} more inputs", first.name.display(), inputs.len() - 1).into(),
        };
        Ok(Self { name, format, files: files.into() })
    }

    /// Returns the name in messages.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Returns the format of all files.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// Opens the rows of all files; the files themselves are opened one after another. If a format
    /// needs random access, an input that is not a plain file is copied into the system's folder
    /// for temporary files.
    ///
    /// # Errors
    /// [`StoreError::BadOption`] if the columns do not suit the format,
    /// [`StoreError::NoSuchColumn`] with a list of the columns, [`StoreError::Malformed`] for a
    /// file of another format, [`StoreError::Io`].
    pub fn open(&self, selection: &Selection) -> Result<Box<dyn RowSource>, StoreError> {
        self.open_in(&std::env::temp_dir(), selection)
    }

    /// Opens the rows as [`Files::open`] does, with copies in the folder `scratch`.
    ///
    /// # Errors
    /// Those of [`Files::open`].
    pub(crate) fn open_in(
        &self,
        scratch: &Path,
        selection: &Selection,
    ) -> Result<Box<dyn RowSource>, StoreError> {
        match &*self.files {
            [file] if file.partitions.is_empty() => file.open(&self.format, selection, scratch),
            files => {
                if let Some(other) = files.iter().find(|file| !file.has_partitions_of(&files[0])) {
                    let detail = format!(
                        "its folders give other columns than those of {}; name folders alike, such as year=2024",
                        files[0].name.display()
                    );
                    return Err(StoreError::malformed(Location::File(other.name.clone()), detail));
                }
                Ok(Box::new(ListRows::open(
                    Arc::clone(&self.files),
                    self.format.clone(),
                    selection,
                    scratch,
                )?))
            }
        }
    }

    /// Returns true if a file can be read only once: standard input or a pipe.
    pub(crate) fn read_once(&self) -> bool {
        self.files.iter().any(TableFile::reads_once)
    }

    /// Returns the files, with copies in `folder` of files that can be read only once. The copies
    /// are needed because refused rows are read again.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub(crate) fn kept_in(&self, folder: &Path) -> Result<Self, StoreError> {
        let keep = |(i, file): (usize, &TableFile)| match file.reads_once() {
            false => Ok(file.clone()),
            true => {
                let copy = folder.join(format!("input-{i}"));
                let bytes = keep(&file.place, &file.name, &copy)?;
                Ok(TableFile { place: Place::Path(copy), bytes, ..file.clone() })
            }
        };
        let files = self.files.iter().enumerate().map(keep).collect::<Result<_, StoreError>>()?;
        Ok(Self { files, ..self.clone() })
    }
}

impl TableFile {
    /// Creates the entry of the file at `path`, with its length and the partitions that its path
    /// names.
    fn find(path: PathBuf) -> Result<Self, StoreError> {
        let (name, bytes) = (name_of(&path), fs::metadata(&path).map_or(0, |found| found.len()));
        let partitions = partitions(&path, &name)?;
        Ok(Self { place: Place::Path(path), name, bytes, partitions })
    }

    fn of_object(object: Object) -> Result<Self, StoreError> {
        let (name, bytes) = (object.name(), object.bytes());
        let partitions = partitions(object.key().as_ref(), &name)?;
        Ok(Self { place: Place::Object(object), name, bytes, partitions })
    }

    /// Returns the path whose extension may name the format.
    fn path(&self) -> &Path {
        match &self.place {
            Place::Path(path) => path,
            Place::Object(object) => object.key().as_ref(),
        }
    }

    fn reads_once(&self) -> bool {
        let Place::Path(path) = &self.place else { return false };
        let is_pipe = || fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
        is_standard_input(path) || is_pipe()
    }
}

fn name_of(path: &Path) -> PathBuf {
    if is_standard_input(path) { "standard input".into() } else { path.into() }
}

/// Returns the files of an input, at least one.
fn files_of(input: &Path) -> Result<Vec<TableFile>, StoreError> {
    match input.to_str().filter(|input| input.contains("://")) {
        Some(address) => objects::find(address)?.into_iter().map(TableFile::of_object).collect(),
        None => paths_of(input)?.into_iter().map(TableFile::find).collect(),
    }
}

/// Returns the paths of the files of an input, at least one.
fn paths_of(input: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let malformed = |detail: String| StoreError::malformed(Location::File(input.into()), detail);
    let roots = match input.to_str() {
        Some(text) if text.contains(WILDCARDS) && !input.exists() => {
            // A final `**` finds only folders; with `/*` appended, the pattern also finds files.
            let text = if text.ends_with("**") { format!("{text}/*") } else { text.into() };
            let found = glob::glob_with(&text, PATTERNS)
                .map_err(|error| malformed(format!("the pattern cannot be read: {}", error.msg)))?;
            let found = found
                .map(|path| path.map_err(|error| (error.path().to_path_buf(), error.into())))
                .collect::<Result<Vec<_>, _>>();
            let mut found =
                found.map_err(|(path, source)| StoreError::Io { path, action: "read", source })?;
            found.retain(|path| is_found(input, path));
            found
        }
        _ if input.is_dir() => vec![input.into()],
        _ => return Ok(vec![input.into()]),
    };
    let mut paths = Vec::new();
    for root in roots {
        walk(root, &mut Vec::new(), &mut paths)?;
    }
    // A pattern such as `**` finds a folder and also its files, so a path may occur twice.
    paths.sort_unstable_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
    paths.dedup();
    match paths.is_empty() {
        false => Ok(paths),
        true if input.is_dir() => Err(malformed(
            "the folder has no files, but for hidden ones and those whose names begin with _".into(),
        )),
        true => Err(malformed("no file matches this pattern".into())),
    }
}

/// Adds a file, or all files in a folder and its subfolders. `above` lists the parent folders of
/// `path`.
fn walk(path: PathBuf, above: &mut Vec<PathBuf>, paths: &mut Vec<PathBuf>) -> Result<(), StoreError> {
    if !path.is_dir() {
        paths.push(path);
        return Ok(());
    }
    let folder = path.canonicalize().at("read", &path)?;
    if above.contains(&folder) {
        let detail = "the folder lies in itself, by a link; remove the link";
        return Err(StoreError::malformed(Location::File(path), detail));
    }
    above.push(folder);
    for entry in fs::read_dir(&path).at("read", &path)? {
        let entry = entry.at("read", &path)?;
        if !is_left_out(&entry.file_name().to_string_lossy()) {
            walk(entry.path(), above, paths)?;
        }
    }
    above.pop();
    Ok(())
}

/// Returns the columns that the folder names in `path` give; messages call the path `name`.
///
/// # Errors
/// [`StoreError::Malformed`] if a folder's name is not valid text, or if two folders give the same
/// column.
fn partitions(path: &Path, name: &Path) -> Result<Vec<Partition>, StoreError> {
    let malformed = |detail: String| StoreError::malformed(Location::File(name.into()), detail);
    let mut partitions: Vec<Partition> = Vec::new();
    for component in path.parent().into_iter().flat_map(Path::components) {
        let Component::Normal(folder) = component else { continue };
        let folder = folder.to_string_lossy();
        let Some((column, value)) = folder.split_once('=').filter(|(column, _)| !column.is_empty()) else {
            continue;
        };
        let [column, value] = [column, value].map(|text| percent_decode_str(text).decode_utf8());
        let (Ok(column), Ok(value)) = (column, value) else {
            return Err(malformed(format!("its folder {folder:?} is no text in UTF-8; name it otherwise")));
        };
        if partitions.iter().any(|partition| partition.column == column) {
            return Err(malformed(format!("two of its folders give the column {column:?}; rename one")));
        }
        let value = (value != NULL_PARTITION).then(|| value.into_owned());
        partitions.push(Partition { column: column.into_owned(), value });
    }
    Ok(partitions)
}
