//! The ledger of charges: the ground truth of the demo.

use std::fmt;

use tokio::sync::watch;

/// The most charges that one ledger keeps; a charge beyond is declined.
pub const MAX_CHARGES: usize = 10_000;

/// What somebody is to be charged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Hundredths of the currency's unit.
    pub amount: u64,
    /// Three capital letters.
    pub currency: String,
    /// Who pays.
    pub customer: String,
}

/// One charge that really happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// Its place in the ledger, from 1.
    pub number: usize,
    /// What was charged.
    pub order: Order,
}

impl Order {
    /// The amount with its currency, such as `25.00 EUR`.
    pub fn money(&self) -> String {
        format!("{}.{:02} {}", self.amount / 100, self.amount % 100, self.currency)
    }
}

impl Charge {
    /// The charge's name, such as `ch_3`.
    pub fn name(&self) -> String {
        format!("ch_{}", self.number)
    }
}

impl fmt::Display for Order {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} to {}", self.money(), self.customer)
    }
}

/// Every charge so far, in order. Only ever grows.
#[derive(Debug, Default)]
pub struct Ledger(watch::Sender<Vec<Charge>>);

impl Ledger {
    /// Charges. `None` where the ledger is full (`MAX_CHARGES`): nothing was charged.
    pub fn charge(&self, order: Order) -> Option<Charge> {
        let mut made = None;
        self.0.send_if_modified(|charges| {
            if charges.len() < MAX_CHARGES {
                let charge = Charge { number: charges.len() + 1, order };
                charges.push(charge.clone());
                made = Some(charge);
            }
            made.is_some()
        });
        made
    }

    /// How many charges there are.
    pub fn count(&self) -> usize {
        self.0.borrow().len()
    }

    /// The charges after the first `skipped`.
    pub fn since(&self, skipped: usize) -> Vec<Charge> {
        self.0.borrow().iter().skip(skipped).cloned().collect()
    }

    /// Waits until there are at least `count` charges.
    pub async fn reaches(&self, count: usize) {
        let mut changes = self.0.subscribe();
        // An error would mean that the sender is gone; it is `self`.
        let _ = changes.wait_for(|charges| charges.len() >= count).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(amount: u64) -> Order {
        Order { amount, currency: "EUR".into(), customer: "ada".into() }
    }

    #[test]
    fn money_is_written_in_units_and_hundredths() {
        assert_eq!(order(2500).money(), "25.00 EUR");
        assert_eq!(order(5).money(), "0.05 EUR");
        assert_eq!(order(123_456).to_string(), "1234.56 EUR to ada");
    }

    #[test]
    fn a_full_ledger_declines_and_stays_as_it_is() {
        let ledger = Ledger::default();
        for _ in 0..MAX_CHARGES {
            assert!(ledger.charge(order(1)).is_some());
        }
        assert_eq!(ledger.charge(order(1)), None);
        assert_eq!(ledger.count(), MAX_CHARGES);
    }

    #[tokio::test]
    async fn a_waiter_wakes_at_the_charge_it_waits_for() {
        let ledger = Ledger::default();
        let waits = async {
            ledger.reaches(2).await;
            ledger.since(1)
        };
        let charges = async {
            let _ = (ledger.charge(order(1)), ledger.charge(order(2)));
        };
        let (seen, ()) = tokio::join!(waits, charges);
        assert_eq!(seen, [Charge { number: 2, order: order(2) }]);
    }
}
