//! Records from files: JSON Lines, plain or gzip, alone or in folders.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use flate2::read::MultiGzDecoder;

/// The longest record that is read, in bytes.
const LONGEST: u64 = 64 << 20;

/// All files meant by `paths`: folders stand for their `*.jsonl` and `*.jsonl.gz`, in the order of their names.
pub(super) fn collect(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        let meta = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        if !meta.is_dir() {
            files.push(path.clone());
            continue;
        }
        let before = files.len();
        let entries = fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
        for entry in entries {
            let file = entry.with_context(|| format!("cannot read {}", path.display()))?.path();
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.ends_with(".jsonl") || name.ends_with(".jsonl.gz") {
                files.push(file);
            }
        }
        if let Some(found) = files.get_mut(before..) {
            found.sort();
        }
        if files.len() == before {
            bail!("{} holds no *.jsonl or *.jsonl.gz", path.display());
        }
    }
    Ok(files)
}

/// Calls `visit` with every line that is not blank; an error names the file and the line.
pub(super) fn each_line(path: &Path, mut visit: impl FnMut(&str) -> Result<()>) -> Result<()> {
    let mut lines = open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut line = String::new();
    for number in 1_usize.. {
        line.clear();
        let at = || format!("{}, line {number}", path.display());
        let read = lines.by_ref().take(LONGEST).read_line(&mut line).with_context(at)?;
        if read == 0 {
            return Ok(());
        }
        if u64::try_from(read).unwrap_or(u64::MAX) == LONGEST {
            bail!("{}: longer than {LONGEST} bytes", at());
        }
        if !line.trim().is_empty() {
            visit(&line).with_context(at)?;
        }
    }
    Ok(())
}

/// Opens a file; whether it is compressed is seen from its first bytes.
fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    let mut reader = BufReader::new(File::open(path)?);
    let is_gzip = reader.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    Ok(if is_gzip {
        Box::new(BufReader::new(MultiGzDecoder::new(reader)))
    } else {
        Box::new(reader)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn folders_plain_files_and_gzip_are_read_alike() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("b.jsonl");
        fs::write(&plain, "three\n\nfour").unwrap();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(b"one\ntwo\n").unwrap();
        fs::write(folder.path().join("a.jsonl.gz"), gzip.finish().unwrap()).unwrap();
        fs::write(folder.path().join("README.md"), "not a record").unwrap();
        let mut seen = Vec::new();
        for file in collect(&[folder.path().to_owned(), plain.clone()]).unwrap() {
            each_line(&file, |line| {
                seen.push(line.trim().to_owned());
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(seen, ["one", "two", "three", "four", "three", "four"]);
        let error = each_line(&plain, |_| bail!("wrong")).unwrap_err();
        assert!(format!("{error:#}").ends_with("b.jsonl, line 1: wrong"), "{error:#}");
        assert!(collect(&[folder.path().join("none")]).is_err());
    }
}
