//! JSON lines on disk, of anything: what results are kept in, so that interrupted work goes on.
//!
//! Lines are appended and each at once: whatever ends the process, the file holds whole lines and
//! at most one torn one, which is cut off on the next start.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// An open file of `T`s.
#[derive(Debug)]
pub struct Lines<T> {
    path: PathBuf,
    file: File,
    /// Bytes of whole lines, and whether the last lacks its newline, until that is mended: a
    /// file that turns out to be another's stays as it is.
    torn: Option<(u64, bool)>,
    kept: PhantomData<fn(T)>,
}

/// Why a file of results cannot be used.
#[derive(Debug)]
pub enum LinesError {
    /// It cannot be opened, read or written.
    Io(PathBuf, io::Error),
    /// It holds something else: the number of the first such line and what is wrong with it.
    Foreign(PathBuf, String),
}

impl std::fmt::Display for LinesError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LinesError::Io(path, e) => write!(f, "{}: {e}", path.display()),
            LinesError::Foreign(path, e) => {
                write!(f, "{} holds something else than these results, {e}", path.display())
            }
        }
    }
}

impl std::error::Error for LinesError {}

impl<T: Serialize + DeserializeOwned> Lines<T> {
    /// Opens `path`. With `resume`, the file's whole lines are returned; without, they are gone.
    ///
    /// # Errors
    /// The file is out of reach or holds something else; it stays as it is then.
    pub fn open(path: &Path, resume: bool) -> Result<(Lines<T>, Vec<T>), LinesError> {
        let io = |e| LinesError::Io(path.to_owned(), e);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(!resume);
        let mut file = options.open(path).map_err(io)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        // An interruption may have torn the last line, even within a character.
        let items: Vec<T> = read(&String::from_utf8_lossy(&bytes))
            .map_err(|e| LinesError::Foreign(path.to_owned(), e))?;
        let whole: usize =
            bytes.split_inclusive(|b| *b == b'\n').take(items.len()).map(<[u8]>::len).sum();
        let torn = Some((whole as u64, whole > 0 && bytes[whole - 1] != b'\n'));
        Ok((Lines { path: path.to_owned(), file, torn, kept: PhantomData }, items))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Cuts off a torn line, and ends the last whole one. Done before the first item is written,
    /// and to be asked for where none may follow.
    ///
    /// # Errors
    /// Those of the file.
    pub fn mend(&mut self) -> io::Result<()> {
        let Some((whole, lacks_newline)) = self.torn.take() else { return Ok(()) };
        self.file.set_len(whole)?;
        self.file.seek(SeekFrom::End(0))?;
        if lacks_newline { self.file.write_all(b"\n") } else { Ok(()) }
    }

    /// Puts `items` in place of all that is in the file. Whatever ends the process meanwhile, the file
    /// holds the old ones or the new ones.
    ///
    /// # Errors
    /// Those of the file, which stays as it was then.
    pub fn replace<'a>(&mut self, items: impl Iterator<Item = &'a T>) -> io::Result<()>
    where
        T: 'a,
    {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".new");
        let new = PathBuf::from(name);
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(true).open(&new)?;
        let mut out = io::BufWriter::new(&mut file);
        for item in items {
            serde_json::to_writer(&mut out, item).map_err(io::Error::other)?;
            out.write_all(b"\n")?;
        }
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        (self.file, self.torn) = (file, None);
        Ok(())
    }

    /// Writes an item; it is in the file when this returns.
    ///
    /// # Errors
    /// Those of the file.
    pub fn append(&mut self, item: &T) -> io::Result<()> {
        let mut line = serde_json::to_vec(item).map_err(io::Error::other)?;
        line.push(b'\n');
        self.mend()?;
        self.file.write_all(&line)
    }
}

/// The items of a text. A last line cut short by an interruption is left out; `Err` names the line
/// that is none.
///
/// # Errors
/// The number of the first line that cannot be read and is not the last.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut items = Vec::with_capacity(lines.len());
    for (i, line) in lines.iter().enumerate() {
        match serde_json::from_str::<T>(line) {
            Ok(item) => items.push(item),
            Err(_) if i + 1 == lines.len() && !text.ends_with('\n') => {}
            Err(e) => return Err(format!("line {}: {e}", i + 1)),
        }
    }
    Ok(items)
}
