//! Bearer tokens, and mode `api_key`: one whose SHA-256 the policy lists.

use actix_web::http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::AuthError;
use crate::policy::{ApiKey, ApiKeys};

const SCHEME: &[u8] = b"bearer";

/// The key that is the one token in the one `Authorization` line.
pub(super) fn verify<'k>(keys: &'k ApiKeys, headers: &HeaderMap) -> Result<&'k ApiKey, AuthError> {
    let token = presented(headers)?;
    find(keys, &Sha256::digest(token).into()).ok_or(AuthError::InvalidToken)
}

/// The one token in the one `Authorization` line.
pub(super) fn presented(headers: &HeaderMap) -> Result<&[u8], AuthError> {
    let mut lines = headers.get_all(AUTHORIZATION);
    let line = lines.next().ok_or(AuthError::MissingCredential)?;
    if lines.next().is_some() {
        return Err(AuthError::InvalidToken);
    }
    token(line).ok_or(AuthError::InvalidToken)
}

/// The token after the scheme `Bearer`, which is compared without case (RFC 9110, 11.1).
fn token(line: &HeaderValue) -> Option<&[u8]> {
    let (scheme, rest) = line.as_bytes().split_at_checked(SCHEME.len())?;
    if !scheme.eq_ignore_ascii_case(SCHEME) || rest.first() != Some(&b' ') {
        return None;
    }
    let token = rest.trim_ascii_start();
    (!token.is_empty() && token.iter().all(u8::is_ascii_graphic)).then_some(token)
}

/// Compares against every entry, whichever matches, so that the time taken tells nothing. By words
/// and not by bytes, because it is done for every request.
fn find<'k>(keys: &'k ApiKeys, presented: &[u8; 32]) -> Option<&'k ApiKey> {
    let presented = words(presented);
    let mut found = Choice::from(0);
    let mut at = 0u64;
    for (index, key) in (0u64..).zip(keys.iter()) {
        let equal = presented.as_slice().ct_eq(words(key.sha256()).as_slice());
        at.conditional_assign(&index, equal);
        found |= equal;
    }
    let index = usize::try_from(at).ok()?;
    bool::from(found).then(|| keys.iter().nth(index)).flatten()
}

fn words(digest: &[u8; 32]) -> [u64; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(digest.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}
