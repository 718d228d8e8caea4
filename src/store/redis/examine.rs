//! A look at a server before anything depends on it.

use super::pool::{Failure, Pool};
use super::script::Operation;
use super::server::ServerInfo;
use super::settings::RedisSettings;
use crate::store::StoreError;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examination {
    /// What the server tells of itself; `None` where this user may not ask.
    pub server: Option<ServerInfo>,
    /// Scripts that it took.
    pub scripts: usize,
}

/// Connects as a store does, and has the server take every script. No record is touched.
///
/// # Errors
///
/// Why no claim could be made.
pub async fn examine(settings: &RedisSettings) -> Result<Examination, StoreError> {
    let pool = Pool::new(settings);
    let server = pool.probe(&None).await?;
    let mut link = pool.link(&None).await.map_err(Failure::error)?;
    for operation in Operation::ALL {
        link.load(operation).await?;
    }
    Ok(Examination { server, scripts: Operation::ALL.len() })
}
