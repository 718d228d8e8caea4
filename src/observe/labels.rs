//! The closed sets of label values. A label whose values are an enum cannot grow without bound.

macro_rules! label_values {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$value_doc])* $variant,)+
        }

        impl $name {
            /// How many values there are.
            pub const COUNT: usize = [$($text),+].len();

            /// Every value, in the order of declaration: `ALL[v as usize]` is `v`.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$variant),+];

            /// The value as it stands in a label or an audit line.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }
    };
}

label_values! {
    /// What a keyed call came to: the metric outcomes of CONTRACT section 4 and no others.
    IdempotencyOutcome {
        /// The slot was free; the call was executed.
        First = "first",
        /// The stored reply was repeated.
        Replay = "replay",
        /// The key holds another request.
        Conflict = "conflict",
        /// The same request is still running.
        InFlight = "in_flight",
        /// Nobody can say whether the tool ran.
        UnknownOutcome = "unknown_outcome",
        /// The tool ran, but its reply was not kept.
        NotReplayable = "not_replayable",
        /// No room.
        Capacity = "capacity",
        /// An `idempotency_*` refusal with status 400 or 503 (CONTRACT section 11).
        Rejected = "rejected",
    }
}

label_values! {
    /// How one attempt on an upstream ended.
    AttemptResult {
        /// The upstream answered, with whatever status, and its reply was read to its end.
        Replied = "replied",
        /// Proven that no byte of the request was sent.
        Unsent = "unsent",
        /// A byte may have been sent, and no reply came in time.
        Timeout = "timeout",
        /// A byte may have been sent, and the connection ended before the reply did.
        Disconnected = "disconnected",
    }
}

label_values! {
    /// The class of an HTTP status.
    StatusClass {
        /// 200 to 299.
        Success = "2xx",
        /// 300 to 399.
        Redirection = "3xx",
        /// 400 to 499.
        ClientError = "4xx",
        /// 500 to 599.
        ServerError = "5xx",
        /// Anything else: no final status of HTTP.
        Other = "other",
    }
}

impl StatusClass {
    /// The class of a status.
    pub const fn of(status: u16) -> Self {
        match status {
            200..=299 => Self::Success,
            300..=399 => Self::Redirection,
            400..=499 => Self::ClientError,
            500..=599 => Self::ServerError,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcomes_are_the_contracts_and_no_others() {
        let names: Vec<_> = IdempotencyOutcome::ALL.iter().map(|o| o.as_str()).collect();
        assert_eq!(
            names,
            [
                "first",
                "replay",
                "conflict",
                "in_flight",
                "unknown_outcome",
                "not_replayable",
                "capacity",
                "rejected"
            ]
        );
    }

    #[test]
    fn the_position_of_a_value_is_its_discriminant() {
        for (position, outcome) in IdempotencyOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, position);
        }
        for (position, result) in AttemptResult::ALL.into_iter().enumerate() {
            assert_eq!(result as usize, position);
        }
        for (position, class) in StatusClass::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, position);
        }
    }

    #[test]
    fn a_status_falls_into_its_class_at_both_edges() {
        let cases = [
            (200, "2xx"),
            (299, "2xx"),
            (300, "3xx"),
            (399, "3xx"),
            (400, "4xx"),
            (499, "4xx"),
            (500, "5xx"),
            (599, "5xx"),
            (0, "other"),
            (101, "other"),
            (199, "other"),
            (600, "other"),
            (u16::MAX, "other"),
        ];
        for (status, class) in cases {
            assert_eq!(StatusClass::of(status).as_str(), class, "{status}");
        }
    }
}
