//! The triple that names a caller.

use std::sync::Arc;

/// The most bytes of one part of a principal.
pub const MAX_SUBJECT_BYTES: usize = 256;

/// Who calls: human, agent, team. Any part may be absent, not all (CONTRACT section 2); made by
/// [`Principal::new`] alone, so an empty triple cannot exist. Every exchange holds the principal of
/// its credential, so cloning shares.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal(Arc<Parts>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct Parts {
    human: Option<Arc<str>>,
    agent: Option<Arc<str>>,
    team: Option<Arc<str>>,
}

/// Why three texts name nobody the gateway could serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PrincipalError {
    /// All three parts are absent or empty.
    #[error("at least one of `human_id`, `agent_id` and `team_id` must be set")]
    Nobody,
    /// A part cannot be sent as a header value, which verified parts are.
    #[error("`{0}` must be at most {MAX_SUBJECT_BYTES} visible ASCII characters")]
    Unreadable(&'static str),
}

impl Principal {
    /// A principal of the parts that are not empty: an empty text is an absent part.
    ///
    /// # Errors
    ///
    /// All parts absent; a part longer than [`MAX_SUBJECT_BYTES`] or with a byte outside
    /// 0x21–0x7E.
    pub fn new(
        human: Option<&str>,
        agent: Option<&str>,
        team: Option<&str>,
    ) -> Result<Self, PrincipalError> {
        let parts = Parts {
            human: part("human_id", human)?,
            agent: part("agent_id", agent)?,
            team: part("team_id", team)?,
        };
        if parts.human.is_none() && parts.agent.is_none() && parts.team.is_none() {
            return Err(PrincipalError::Nobody);
        }
        Ok(Self(Arc::new(parts)))
    }

    /// Human, agent and team, to keep for longer than the principal.
    pub fn shared(&self) -> [Option<Arc<str>>; 3] {
        [self.0.human.clone(), self.0.agent.clone(), self.0.team.clone()]
    }

    /// The human, if one is named.
    pub fn human(&self) -> Option<&str> {
        self.0.human.as_deref()
    }

    /// The agent, if one is named.
    pub fn agent(&self) -> Option<&str> {
        self.0.agent.as_deref()
    }

    /// The team, if one is named.
    pub fn team(&self) -> Option<&str> {
        self.0.team.as_deref()
    }
}

fn part(name: &'static str, text: Option<&str>) -> Result<Option<Arc<str>>, PrincipalError> {
    match text {
        None | Some("") => Ok(None),
        Some(text) if is_subject(text.as_bytes()) => Ok(Some(text.into())),
        Some(_) => Err(PrincipalError::Unreadable(name)),
    }
}

/// Whether these bytes can be one part of a principal.
pub(super) fn is_subject(bytes: &[u8]) -> bool {
    bytes.len() <= MAX_SUBJECT_BYTES && bytes.iter().all(u8::is_ascii_graphic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_part_is_absent_and_an_empty_triple_is_nobody() {
        let someone = Principal::new(Some(""), Some("agent-1"), None).expect("one part");
        assert_eq!(
            (someone.human(), someone.agent(), someone.team()),
            (None, Some("agent-1"), None)
        );
        for (human, agent, team) in [(None, None, None), (Some(""), Some(""), Some(""))] {
            assert_eq!(Principal::new(human, agent, team), Err(PrincipalError::Nobody));
        }
    }

    #[test]
    fn parts_are_visible_ascii_within_the_bound() {
        let longest = "a".repeat(MAX_SUBJECT_BYTES);
        assert!(Principal::new(Some(&longest), None, None).is_ok());
        for bad in [&format!("{longest}a"), "two words", "tab\t", "jos\u{e9}", "line\n", "\u{7f}"] {
            assert_eq!(
                Principal::new(None, Some(bad), None),
                Err(PrincipalError::Unreadable("agent_id"))
            );
        }
    }
}
