//! Refusals of requests for receipts.

use super::{Advice, Allow, Refusal};

impl Refusal {
    /// Receipts are written by the gateway alone.
    pub fn receipts_are_read() -> Self {
        Self::new(
            405,
            "method_not_allowed",
            Advice::FixRequest,
            "Receipts can only be read; use GET.",
        )
        .allow(Allow::Reading)
    }

    /// A query that asks for nothing that there is.
    pub fn invalid_receipts_query(problem: &str) -> Self {
        Self::new(
            400,
            "invalid_query",
            Advice::FixRequest,
            format!("The query cannot be understood: {problem}."),
        )
    }

    /// No such receipt, or none of this workspace's.
    pub fn unknown_receipt() -> Self {
        Self::new(
            404,
            "unknown_receipt",
            Advice::FixRequest,
            "This workspace has no such receipt; receipts are kept for a limited time.",
        )
    }

    /// The store does not answer.
    pub fn receipts_unavailable() -> Self {
        Self::new(
            503,
            "receipts_unavailable",
            Advice::RetrySameKey,
            "The store does not answer; ask again.",
        )
        .retry_after(1)
    }
}
