//! Which receipts are asked for.

use url::form_urlencoded;

use super::{Receipt, ReceiptId, ReceiptOutcome};

/// Which receipts are asked for; what is `None` is not asked about. Newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptQuery {
    /// Those of one workspace.
    pub workspace: Option<String>,
    /// Those of servers of this name.
    pub server: Option<String>,
    /// Of this tool.
    pub tool: Option<String>,
    /// Whose caller has this human, agent or team.
    pub principal: Option<String>,
    /// Of this governed session.
    pub session: Option<String>,
    /// Whose slot begins with these hex digits.
    pub key_hash: Option<String>,
    /// That came to this.
    pub outcome: Option<ReceiptOutcome>,
    /// Older than this one, which a page named as its last.
    pub after: Option<ReceiptId>,
    /// The most of one page, at most [`MAX_RECEIPT_PAGE`].
    pub limit: usize,
}

/// The most receipts of one page.
pub const MAX_RECEIPT_PAGE: usize = 200;

impl ReceiptQuery {
    /// Whether a receipt is asked for; `after` and `limit` aside.
    pub fn matches(&self, receipt: &Receipt) -> bool {
        let opening = &receipt.opening;
        let is = |asked: &Option<String>, found: Option<&str>| {
            asked.as_deref().is_none_or(|asked| found == Some(asked))
        };
        let parts = [&opening.human, &opening.agent, &opening.team];
        let named = |asked: &String| parts.iter().any(|part| part.as_deref() == Some(asked));
        is(&self.workspace, opening.workspace.as_deref())
            && is(&self.server, Some(&opening.server))
            && is(&self.tool, Some(&opening.tool))
            && self.principal.as_ref().is_none_or(named)
            && is(&self.session, opening.session.as_deref())
            && self.outcome.is_none_or(|outcome| receipt.outcome == outcome)
            && self
                .key_hash
                .as_deref()
                .is_none_or(|hash| opening.key_hash.to_string().starts_with(hash))
    }
}

/// Receipts of a page where none says how many.
const RECEIPT_PAGE: usize = 50;

/// The most characters of a value that is asked for.
const MAX_VALUE: usize = 1024;

/// What is wrong with a query; its sender's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// No parameter of this name.
    #[error(
        "`{0}` is no parameter: use workspace, server, tool, principal, session, key_hash, \
         outcome, after or limit"
    )]
    Unknown(String),
    /// A parameter that comes twice, or is longer than anything that it could name.
    #[error("`{0}` must come once, in at most {MAX_VALUE} characters")]
    Twice(&'static str),
    /// `key_hash`.
    #[error("`key_hash` must be 1 to 64 lower-case hex digits")]
    KeyHash,
    /// `outcome`.
    #[error("`outcome` must be in_flight, completed, not_replayable, unknown or released")]
    Outcome,
    /// `after`.
    #[error("`after` must be the id of a receipt, as a page's `next` has it")]
    After,
    /// `limit`.
    #[error("`limit` must be a number from 1 to {MAX_RECEIPT_PAGE}")]
    Limit,
}

impl Default for ReceiptQuery {
    /// The newest of all.
    fn default() -> Self {
        Self {
            workspace: None,
            server: None,
            tool: None,
            principal: None,
            session: None,
            key_hash: None,
            outcome: None,
            after: None,
            limit: RECEIPT_PAGE,
        }
    }
}

impl ReceiptQuery {
    /// Reads the query of a URL.
    ///
    /// # Errors
    ///
    /// The first parameter that is unknown, comes twice or has no such value.
    pub fn parse(query: &str) -> Result<Self, QueryError> {
        let mut asked = Self::default();
        let mut seen = Vec::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let name = asked.set(&name, &value)?;
            if seen.contains(&name) || value.len() > MAX_VALUE {
                return Err(QueryError::Twice(name));
            }
            seen.push(name);
        }
        Ok(asked)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<&'static str, QueryError> {
        let texts = [
            ("workspace", &mut self.workspace),
            ("server", &mut self.server),
            ("tool", &mut self.tool),
            ("principal", &mut self.principal),
            ("session", &mut self.session),
        ];
        for (known, field) in texts {
            if known == name {
                *field = Some(value.to_owned());
                return Ok(known);
            }
        }
        match name {
            "key_hash" => {
                let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
                let is_hash = (1..=64).contains(&value.len()) && value.bytes().all(digit);
                self.key_hash = Some(is_hash.then(|| value.to_owned()).ok_or(QueryError::KeyHash)?);
                Ok("key_hash")
            }
            "outcome" => {
                let found = ReceiptOutcome::ALL.into_iter().find(|one| one.as_str() == value);
                self.outcome = Some(found.ok_or(QueryError::Outcome)?);
                Ok("outcome")
            }
            "after" => {
                self.after = Some(ReceiptId::parse(value).ok_or(QueryError::After)?);
                Ok("after")
            }
            "limit" => {
                let limit =
                    value.parse().ok().filter(|limit| (1..=MAX_RECEIPT_PAGE).contains(limit));
                self.limit = limit.ok_or(QueryError::Limit)?;
                Ok("limit")
            }
            _ => Err(QueryError::Unknown(name.chars().take(64).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_or_refused() {
        let id = "rcpt_0123456789abcdef0123456789abcdef0123456789abcdef";
        let text = format!(
            "workspace=w%201&tool=pay&principal=ann&key_hash=0a&outcome=unknown&after={id}&limit=7"
        );
        let read = ReceiptQuery::parse(&text).expect("a query");
        assert_eq!((read.workspace.as_deref(), read.limit), (Some("w 1"), 7));
        assert_eq!(read.outcome, Some(ReceiptOutcome::Unknown));
        assert_eq!(read.after.as_ref().map(ReceiptId::to_string).as_deref(), Some(id));
        assert_eq!(ReceiptQuery::parse(""), Ok(ReceiptQuery::default()));
        for (text, error) in [
            ("tools=x", QueryError::Unknown("tools".into())),
            ("tool=a&tool=a", QueryError::Twice("tool")),
            ("key_hash=0A", QueryError::KeyHash),
            ("key_hash=", QueryError::KeyHash),
            ("outcome=done", QueryError::Outcome),
            ("after=rcpt_1", QueryError::After),
            ("limit=0", QueryError::Limit),
            ("limit=201", QueryError::Limit),
            ("limit=-1", QueryError::Limit),
        ] {
            assert_eq!(ReceiptQuery::parse(text), Err(error), "{text}");
        }
    }
}
