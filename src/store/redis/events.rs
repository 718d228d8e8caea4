//! What a receipt is made of: lines, each the JSON of an event, in the order of what happened. The
//! scripts write those that they alone can tell (scripts/receipt.lua, scripts/settle.lua).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::receipt::{
    Attempt, AttemptEnd, Attempts, MAX_LISTED_ATTEMPTS, Opening, Receipt, ReceiptId, ReceiptOutcome,
};
use crate::store::{Asked, Notes};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Event {
    Opened(Box<Opening>),
    /// How many attempts there were that no line is left of.
    Earlier {
        attempts: u32,
    },
    Reserved {
        number: u32,
        at: Timestamp,
    },
    Ended {
        number: u32,
        #[serde(flatten)]
        end: AttemptEnd,
    },
    /// Given up before a connection was tried.
    Untried {
        number: u32,
    },
    Settled {
        outcome: ReceiptOutcome,
        at: Timestamp,
    },
}

impl Event {
    fn line(&self) -> String {
        // Texts and numbers: there is nothing in an event that JSON cannot say.
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }
}

/// The receipt that a begin opens where it is the first.
pub(super) struct Opened {
    pub(super) id: ReceiptId,
    pub(super) line: String,
    /// When its first attempt was reserved.
    pub(super) at: String,
}

impl Opened {
    /// `None` where no receipt is asked for. The id is made of 16 random bytes.
    pub(super) fn new(asked: &mut Asked<'_>, random: [u8; 16]) -> Option<Self> {
        let opening = asked.opening.take()?;
        let (id, at) = (ReceiptId::new(&asked.domain, random), opening.opened_at.to_string());
        Some(Self { id, line: Event::Opened(opening).line(), at })
    }
}

/// How attempts ended, as lines.
pub(super) fn ends(notes: &Notes) -> String {
    let lines = notes.ended.iter().map(|(number, end)| {
        let (number, end) = (*number, *end);
        Event::Ended { number, end }.line()
    });
    lines.collect()
}

/// The receipt that lines come to; `None` where they do not begin with its opening. What is told
/// twice is told once, and what a newer build wrote beside is not for this one.
pub(super) fn read(id: ReceiptId, lines: &[u8]) -> Option<Receipt> {
    let events = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut events = events.filter_map(|line| serde_json::from_slice(line).ok());
    let Some(Event::Opened(opening)) = events.next() else { return None };
    let (attempts, outcome) = (Attempts::new(), ReceiptOutcome::InFlight);
    let opening = *opening;
    let mut receipt =
        Receipt { id, opening, attempt_count: 0, attempts, outcome, settled_at: None };
    events.for_each(|event| apply(&mut receipt, event));
    let listed = receipt.attempts.len();
    let count = u32::try_from(listed).unwrap_or(u32::MAX);
    receipt.attempt_count = receipt.attempt_count.saturating_add(count);
    receipt.attempts.drain(..listed.saturating_sub(MAX_LISTED_ATTEMPTS));
    Some(receipt)
}

fn apply(receipt: &mut Receipt, event: Event) {
    let place =
        |receipt: &Receipt, number| receipt.attempts.iter().position(|a| a.number == number);
    match event {
        Event::Opened(_) => {}
        Event::Earlier { attempts } => receipt.attempt_count = attempts,
        Event::Reserved { number, at: reserved_at } => {
            if place(receipt, number).is_none() {
                receipt.attempts.push(Attempt { number, reserved_at, end: None });
            }
            // Settled before, it was taken again.
            (receipt.outcome, receipt.settled_at) = (ReceiptOutcome::InFlight, None);
        }
        Event::Ended { number, end } => {
            if let Some(place) = place(receipt, number) {
                receipt.attempts[place].end = Some(end);
            }
        }
        Event::Untried { number } => receipt.attempts.retain(|attempt| attempt.number != number),
        Event::Settled { outcome, at } => {
            (receipt.outcome, receipt.settled_at) = (outcome, Some(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::Domain;
    use crate::store::receipt::AttemptResult;

    const OPENED: &str = r#"{"opened":{"key_hash":"abababababababababababababababababababababababababababababababab","request_hash":"cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd","server":"s","tool":"t","opened_at":"2026-01-02T03:04:05Z"}}"#;

    fn id() -> ReceiptId {
        ReceiptId::new(&Domain::Server("uid-1"), [7; 16])
    }

    fn fold(lines: &[&str]) -> Receipt {
        read(id(), [&[OPENED], lines].concat().join("\n").as_bytes()).expect("a receipt")
    }

    /// As the scripts write them.
    fn reserved(number: u32) -> String {
        format!(r#"{{"reserved":{{"number":{number},"at":"2026-01-02T03:04:06Z"}}}}"#)
    }

    const UNKNOWN: &str = r#"{"settled":{"outcome":"unknown","at":"2026-01-02T03:04:07Z"}}"#;

    #[test]
    fn lines_come_to_a_receipt() {
        let (one, two) = (reserved(1), reserved(2));
        let mut notes = Notes { attempt: 1, ended: Default::default(), untried: false };
        let end = AttemptEnd::after(AttemptResult::Replied(503), Duration::from_millis(40));
        notes.ended.push((1, end));
        let ended = ends(&notes);
        let receipt = fold(&[&one, ended.trim_end(), &two, UNKNOWN]);
        assert_eq!(receipt.attempt_count, 2);
        let numbers: Vec<_> = receipt.attempts.iter().map(|a| (a.number, a.end)).collect();
        assert_eq!(numbers, [(1, Some(end)), (2, None)]);
        assert_eq!(receipt.outcome, ReceiptOutcome::Unknown);
        let at: Timestamp = "2026-01-02T03:04:07Z".parse().expect("a time");
        assert_eq!(receipt.settled_at, Some(at));
    }

    #[test]
    fn what_is_taken_back_does_not_count_and_what_is_taken_again_is_in_flight() {
        let (one, two) = (reserved(1), reserved(2));
        let untried = r#"{"untried":{"number":2}}"#;
        let receipt = fold(&[&one, UNKNOWN, &two, untried, untried]);
        assert_eq!((receipt.attempt_count, receipt.attempts[0].number), (1, 1));
        assert_eq!((receipt.outcome, receipt.settled_at), (ReceiptOutcome::InFlight, None));
    }

    #[test]
    fn what_is_told_twice_is_told_once_and_the_unheard_of_is_passed_over() {
        let one = reserved(1);
        let receipt = fold(&[&one, &one, r#"{"reviewed":{"by":"ann"}}"#, UNKNOWN, UNKNOWN]);
        assert_eq!(receipt.attempt_count, 1);
        assert_eq!(read(id(), one.as_bytes()), None, "nobody opened it");
        assert_eq!(read(id(), b""), None);
    }

    #[test]
    fn attempts_that_are_not_listed_count() {
        let earlier = r#"{"earlier":{"attempts":7}}"#;
        let lines: Vec<_> = (8..8 + 105).map(reserved).collect();
        let mut all = vec![earlier];
        all.extend(lines.iter().map(String::as_str));
        let receipt = fold(&all);
        assert_eq!((receipt.attempt_count, receipt.attempts.len()), (112, 100));
        assert_eq!((receipt.attempts[0].number, receipt.attempts[99].number), (13, 112));
    }

    #[test]
    fn an_opening_is_one_line_whatever_its_texts_hold() {
        let mut opening = fold(&[]).opening;
        opening.tool = "two\nlines".into();
        let begin = super::super::keys::tests::begin();
        let mut asked = Asked { opening: Some(Box::new(opening.clone())), ..Asked::at("u", begin) };
        let opened = Opened::new(&mut asked, [7; 16]).expect("it is asked for");
        assert_eq!(opened.line.matches('\n').count(), 1);
        assert_eq!(opened.at, "2026-01-02T03:04:05Z");
        let id = opened.id.clone();
        assert!(id.is_of(&Domain::Server("u")));
        assert_eq!(read(id, opened.line.as_bytes()).expect("a receipt").opening, opening);
    }
}
