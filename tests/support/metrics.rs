//! The admin listener's Prometheus text, read as numbers.

use std::collections::BTreeMap;

/// One reading of `/metrics`.
pub struct Metrics {
    /// The text as it came.
    pub text: String,
}

impl Metrics {
    /// The sum of all samples of `name` whose labels hold every one of `labels`.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let matching = self.samples(name).into_iter().filter(|(held, _)| {
            labels.iter().all(|(label, value)| held.get(*label).is_some_and(|v| v == value))
        });
        matching.map(|(_, value)| value).sum()
    }

    /// The idempotency outcomes that have happened, with their counts.
    pub fn outcomes(&self) -> BTreeMap<String, u64> {
        let samples = self.samples("mcp_gateway_idempotency_total").into_iter();
        let counted = samples.filter(|(_, value)| *value > 0);
        counted.map(|(labels, value)| (labels["outcome"].clone(), value)).collect()
    }

    /// The samples of exactly this name.
    pub fn samples(&self, name: &str) -> Vec<(BTreeMap<String, String>, u64)> {
        self.text.lines().filter_map(|line| sample(line, name)).collect()
    }
}

fn sample(line: &str, name: &str) -> Option<(BTreeMap<String, String>, u64)> {
    let rest = line.strip_prefix(name)?;
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => rest.rsplit_once('}')?,
        None => ("", rest.strip_prefix(' ')?),
    };
    let labels = labels
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(label, value)| (label.trim().to_owned(), value.trim_matches('"').to_owned()))
        .collect();
    let value: f64 = value.trim().parse().ok()?;
    Some((labels, value as u64))
}
