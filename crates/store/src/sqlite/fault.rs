//! Failures in a transaction, and their conversion to errors for the caller.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Error, ErrorCode};

use crate::error::SessionStoreError;

/// Reason why a transaction ended without a commit.
#[derive(Debug)]
pub(super) enum TransactionFault {
    Store(SessionStoreError),
    Sqlite(Error),
}

impl TransactionFault {
    pub(super) fn damaged_database(path: &Path, what: &'static str) -> Self {
        Self::Store(SessionStoreError::Damaged {
            path: path.to_owned(),
            source: shared_error_from_text(what),
        })
    }

    /// Returns whether the cause is damaged data. Other data may then still be readable.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Store(error) => matches!(error, SessionStoreError::Damaged { .. }),
            Self::Sqlite(error) => is_damage_error(error),
        }
    }

    /// Converts the fault to the error for the database at a path.
    pub(super) fn into_store_error(self, path: &Path) -> SessionStoreError {
        let error = match self {
            Self::Store(error) => return error,
            Self::Sqlite(error) => error,
        };
        let (path, is_damage, code) =
            (path.to_owned(), is_damage_error(&error), error.sqlite_error_code());
        let source = Arc::new(error);
        match code {
            _ if is_damage => SessionStoreError::Damaged { path, source },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                SessionStoreError::Busy(path)
            }
            Some(ErrorCode::DiskFull) => SessionStoreError::Full { path, source },
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                SessionStoreError::Unusable { path, source }
            }
            _ => SessionStoreError::Failed { path, source },
        }
    }
}

impl From<Error> for TransactionFault {
    fn from(error: Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<SessionStoreError> for TransactionFault {
    fn from(error: SessionStoreError) -> Self {
        Self::Store(error)
    }
}

fn is_damage_error(error: &Error) -> bool {
    match error {
        Error::SqliteFailure(failure, _) => {
            // SQLite reports this error for an incomplete page, i.e. if the file was truncated.
            const SHORT_READ: i32 = rusqlite::ffi::SQLITE_IOERR_SHORT_READ;
            let codes = [ErrorCode::DatabaseCorrupt, ErrorCode::NotADatabase];
            codes.contains(&failure.code) || failure.extended_code == SHORT_READ
        }
        // A value has a type or range that the store never writes.
        Error::InvalidColumnType(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::FromSqlConversionFailure(..)
        | Error::Utf8Error(..) => true,
        _ => false,
    }
}

fn shared_error_from_text(what: &'static str) -> Arc<dyn std::error::Error + Send + Sync> {
    Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(what))
}
