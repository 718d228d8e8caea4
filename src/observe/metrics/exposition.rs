//! From names and numbers to the model that the `prometheus` encoder writes.

use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};

/// One series of a family.
pub(super) struct Sample(Metric);

impl Sample {
    /// A series of a counter. Prometheus numbers are doubles: exact up to 2^53.
    pub(super) fn count(labels: &[(&str, &str)], value: u64) -> Self {
        let mut counter = Counter::default();
        counter.set_value(value as f64);
        let mut metric = labelled(labels);
        metric.set_counter(counter);
        Self(metric)
    }

    /// A series of a gauge.
    pub(super) fn level(labels: &[(&str, &str)], value: u32) -> Self {
        let mut gauge = Gauge::default();
        gauge.set_value(f64::from(value));
        let mut metric = labelled(labels);
        metric.set_gauge(gauge);
        Self(metric)
    }

    /// A series of a histogram, from upper bounds with cumulative counts.
    pub(super) fn histogram(
        labels: &[(&str, &str)],
        buckets: &[(f64, u64)],
        total: u64,
        sum: f64,
    ) -> Self {
        let buckets = buckets.iter().map(|(bound, cumulative)| {
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(*bound);
            bucket.set_cumulative_count(*cumulative);
            bucket
        });
        let mut histogram = Histogram::default();
        histogram.set_bucket(buckets.collect());
        histogram.set_sample_count(total);
        histogram.set_sample_sum(sum);
        let mut metric = labelled(labels);
        metric.set_histogram(histogram);
        Self(metric)
    }
}

/// A family of counters.
pub(super) fn counter(
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = Sample>,
) -> MetricFamily {
    family(name, help, MetricType::COUNTER, samples)
}

/// A family of gauges.
pub(super) fn gauge(
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = Sample>,
) -> MetricFamily {
    family(name, help, MetricType::GAUGE, samples)
}

/// A family of histograms.
pub(super) fn histogram(
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = Sample>,
) -> MetricFamily {
    family(name, help, MetricType::HISTOGRAM, samples)
}

fn family(
    name: &str,
    help: &str,
    kind: MetricType,
    samples: impl IntoIterator<Item = Sample>,
) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(samples.into_iter().map(|sample| sample.0).collect());
    family
}

fn labelled(labels: &[(&str, &str)]) -> Metric {
    let pairs = labels.iter().map(|(name, value)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    });
    Metric::from_label(pairs.collect())
}
