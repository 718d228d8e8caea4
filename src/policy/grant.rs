//! Grants: who may call which tools, found by the caller.

use hashbrown::HashMap;

use super::document::{self, Text};
use super::words::{RuleDecision, SideEffect, Trust};
use crate::identity::Principal;

/// The callers that a grant or a session names. Each part that is set must equal the caller's;
/// one that sets none names nobody, because a forgotten field must not widen a right.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subjects {
    human: Option<String>,
    agent: Option<String>,
    team: Option<String>,
}

impl Subjects {
    /// An empty text is an absent part.
    pub(super) fn new(human: Text, agent: Text, team: Text) -> Self {
        let set = |text: Text| text.filter(|text| !text.is_empty());
        Self { human: set(human), agent: set(agent), team: set(team) }
    }

    /// Whether they name this caller.
    pub fn name(&self, caller: &Principal) -> bool {
        let agree = |named: &Option<String>, actual: Option<&str>| {
            named.is_none() || named.as_deref() == actual
        };
        !self.name_nobody()
            && agree(&self.human, caller.human())
            && agree(&self.agent, caller.agent())
            && agree(&self.team, caller.team())
    }

    /// The caller that consists of exactly these parts; `None` where there is none, or one that no
    /// principal can have.
    pub(super) fn principal(&self) -> Option<Principal> {
        Principal::new(self.human.as_deref(), self.agent.as_deref(), self.team.as_deref()).ok()
    }

    /// Whether no part is set.
    pub(super) fn name_nobody(&self) -> bool {
        self.human.is_none() && self.agent.is_none() && self.team.is_none()
    }
}

/// One grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Its name, for the audit.
    pub name: String,
    /// Whom it names.
    pub subjects: Subjects,
    /// The most trust it gives.
    pub max_trust: Trust,
    allowed: Vec<SideEffect>,
    rules: HashMap<String, ToolRule>,
}

/// What a grant says of one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ToolRule {
    /// Whether the tool is granted.
    pub decision: RuleDecision,
    /// The trust that this rule asks for, beside the tool's own.
    pub required_trust: Trust,
}

impl Grant {
    /// What it says of a tool; `None` if it does not cover it. Without rules it covers every tool.
    pub fn rule(&self, tool: &str) -> Option<ToolRule> {
        if self.rules.is_empty() {
            return Some(ToolRule::default());
        }
        self.rules.get(tool).copied()
    }

    /// Whether it allows tools of this side effect.
    pub fn allows(&self, side_effect: SideEffect) -> bool {
        self.allowed.contains(&side_effect)
    }
}

/// The grants of a server that are not disabled, each filed under the first subject that it names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grants {
    humans: HashMap<String, Vec<Grant>>,
    agents: HashMap<String, Vec<Grant>>,
    teams: HashMap<String, Vec<Grant>>,
    disabled: usize,
    nobodys: usize,
}

impl Grants {
    /// On failure, the field and the problem.
    pub(super) fn build(listed: Vec<document::Grant>) -> Result<Self, (String, String)> {
        let mut grants = Self::default();
        let mut names = std::collections::HashSet::new();
        for (index, grant) in listed.into_iter().enumerate() {
            let wrong = |field: &str, problem: &str| {
                (format!("grants[{index}].{field}"), problem.to_owned())
            };
            if grant.name.is_empty() {
                return Err(wrong("name", "must not be empty"));
            }
            if !names.insert((grant.namespace.clone().unwrap_or_default(), grant.name.clone())) {
                return Err(wrong("name", "is already used by an earlier grant of this namespace"));
            }
            let rules = rules(grant.tool_rules.unwrap_or_default())
                .map_err(|(at, problem)| wrong(&format!("tool_rules[{at}].name"), problem))?;
            let enabled = !grant.disabled.unwrap_or_default();
            let grant = Grant {
                name: grant.name,
                subjects: Subjects::new(grant.human_id, grant.agent_id, grant.team_id),
                max_trust: grant.max_trust.unwrap_or_default(),
                allowed: grant.allowed_side_effects,
                rules,
            };
            if enabled { grants.file(grant) } else { grants.disabled += 1 }
        }
        Ok(grants)
    }

    fn file(&mut self, grant: Grant) {
        let Subjects { human, agent, team } = &grant.subjects;
        let list = match (human, agent, team) {
            (Some(human), _, _) => self.humans.entry(human.clone()),
            (None, Some(agent), _) => self.agents.entry(agent.clone()),
            (None, None, Some(team)) => self.teams.entry(team.clone()),
            (None, None, None) => {
                self.nobodys += 1;
                return;
            }
        };
        list.or_default().push(grant);
    }

    /// Those that name the caller: first those that name the human, then those that name the agent
    /// but no human, then those that name the team alone, each in the document's order.
    pub fn matching<'g>(
        &'g self,
        caller: &'g Principal,
    ) -> impl Iterator<Item = &'g Grant> + Clone {
        let filed = |index: &'g HashMap<String, Vec<Grant>>, subject: Option<&str>| {
            subject.and_then(|subject| index.get(subject)).map(Vec::as_slice).unwrap_or_default()
        };
        filed(&self.humans, caller.human())
            .iter()
            .chain(filed(&self.agents, caller.agent()))
            .chain(filed(&self.teams, caller.team()))
            .filter(|grant| grant.subjects.name(caller))
    }

    /// How many can match anybody.
    pub fn len(&self) -> usize {
        let count =
            |index: &HashMap<String, Vec<Grant>>| index.values().map(Vec::len).sum::<usize>();
        count(&self.humans) + count(&self.agents) + count(&self.teams)
    }

    /// Whether none can match anybody.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many are disabled.
    pub fn disabled(&self) -> usize {
        self.disabled
    }

    /// How many name no subject, and so nobody.
    pub fn nobodys(&self) -> usize {
        self.nobodys
    }
}

fn rules(
    listed: Vec<document::ToolRule>,
) -> Result<HashMap<String, ToolRule>, (usize, &'static str)> {
    let mut rules = HashMap::with_capacity(listed.len());
    for (index, rule) in listed.into_iter().enumerate() {
        if rule.name.is_empty() {
            return Err((index, "must not be empty"));
        }
        let meaning = ToolRule {
            decision: rule.decision.unwrap_or_default(),
            required_trust: rule.required_trust.unwrap_or_default(),
        };
        if rules.insert(rule.name, meaning).is_some() {
            return Err((index, "is already used by an earlier rule of this grant"));
        }
    }
    Ok(rules)
}
