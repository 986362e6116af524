//! What can go wrong with the data on disk.

use std::{fmt, io, path::PathBuf};

/// An error of the storage engine.
///
/// There are as many variants as there are different things for a caller to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused to read, write or sync a file. The process stops: after a
    /// failed sync the kernel may have dropped the very pages that we believe are written.
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },

    /// A file does not hold what was written to it. Never retried: the bytes will not get better.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in the file, in bytes from its beginning.
        offset: u64,
        /// What is wrong there, as a phrase: "checksum is 1f, expected 2e".
        what: String,
    },

    /// The data directory cannot be used by this process now. Says why and what to do about it.
    Unusable {
        /// The file that tells so.
        path: PathBuf,
        /// Why it cannot be used, and the remedy, as a sentence.
        what: String,
    },
}

/// The result of an operation on storage.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An [`Error::Io`] about this file.
    pub fn io(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Error::Io { path: path.into(), source }
    }

    /// An [`Error::Corrupt`] at this byte of this file.
    pub fn corrupt(path: impl Into<PathBuf>, offset: u64, what: impl Into<String>) -> Self {
        Error::Corrupt { path: path.into(), offset, what: what.into() }
    }

    /// Whether the disk is full (or the quota used up): worth trying again once there is space.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        match self {
            Error::Io { source, .. } => is_no_space(source),
            _ => false,
        }
    }
}

/// Whether the operating system says that the disk is full, the quota used up, or the file as
/// large as files of this process may be.
#[must_use]
pub fn is_no_space(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Whether this process, or the machine, has as many open files as it may have.
#[must_use]
pub fn is_no_descriptor(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Whether what failed is worth trying again later, although nothing is wrong with the device:
/// there is no space, or no descriptor.
#[must_use]
pub fn is_passing(error: &io::Error) -> bool {
    is_no_space(error) || is_no_descriptor(error)
}

/// What to do about an error that is not the device's fault.
fn remedy(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::FileTooLarge {
        ". This process may not make a file that large: raise its limit (ulimit -f)"
    } else if is_no_space(error) {
        ". Make room on the disk"
    } else if is_no_descriptor(error) {
        ". Raise the limit of open files (ulimit -n)"
    } else {
        ""
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { path, source } => {
                write!(f, "{}: {source}{}", path.display(), remedy(source))
            }
            Error::Corrupt { path, offset, what } => {
                write!(f, "{}: corrupt at byte {offset}: {what}", path.display())
            }
            Error::Unusable { path, what } => write!(f, "{}: {what}", path.display()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::Corrupt { .. } | Error::Unusable { .. } => None,
        }
    }
}
