//! Where audit lines go: a file that is rotated, and an HTTP server (CONTRACT section 8).

use crate::support::{Gate, Gateway, Reply, Request, Setup, Upstream, eventually, http, pay, run};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// A token that must never show.
const TOKEN: &str = "audit-token-7f3a";

/// A server that takes everything.
async fn collector() -> Upstream {
    Upstream::with(|_, _| Reply::raw(http(200, &[], ""))).await
}

/// The gateway with this collector as its sink, and a token from its environment.
fn posting(upstream: &Upstream, collector: &Upstream) -> Setup {
    let sink = format!("\"http://{}/audit?source=test\"", collector.address());
    Setup::new(upstream)
        .set("audit", "sink", &sink)
        .set("audit", "token", "\"env:AUDIT_TOKEN\"")
        .env("AUDIT_TOKEN", TOKEN)
}

/// The objects of an NDJSON text.
fn lines(text: &str) -> Vec<Value> {
    assert!(text.is_empty() || text.ends_with('\n'), "whole lines: {text}");
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn tools(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    lines(&text).into_iter().map(|line| line["reason"].clone()).collect()
}

async fn dropped(gateway: &Gateway) -> u64 {
    gateway.metrics().await.sum("onceward_audit_dropped_total", &[])
}

#[tokio::test]
async fn a_rotated_file_is_opened_anew_on_sighup_and_no_line_is_lost() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).set("audit", "sink", "\"audit.jsonl\"");
    let mut gateway = setup.start().await;
    let (path, rotated) =
        (gateway.folder().join("audit.jsonl"), gateway.folder().join("audit.jsonl.1"));
    gateway.send(&Request::post(pay())).await;
    eventually("the first line", || async { (tools(&path).len() == 1).then_some(()) }).await;
    std::fs::rename(&path, &rotated).expect("renamed");
    // Until it is told, the gateway writes on into the file that was renamed.
    gateway.send(&Request::post(pay())).await;
    eventually("the second line", || async { (tools(&rotated).len() == 2).then_some(()) }).await;
    gateway.sighup();
    eventually("a new file", || async { path.exists().then_some(()) }).await;
    gateway.send(&Request::post(pay())).await;
    gateway.sigterm();
    assert_eq!(gateway.wait().await.code(), Some(0), "{}", gateway.stderr());
    assert_eq!((tools(&rotated).len(), tools(&path).len()), (2, 1));
}

#[tokio::test]
async fn lines_are_posted_in_batches_with_the_token_of_the_reference() {
    let (upstream, collector) = (Upstream::start().await, collector().await);
    let gateway = posting(&upstream, &collector).start().await;
    let mut seen = BTreeSet::new();
    for key in ["K1", "K2", "K3"] {
        gateway.call(key, pay()).await.assert_first();
    }
    for hit in 1.. {
        let batch = collector.hit(hit).await;
        assert_eq!(batch.line, "POST /audit?source=test HTTP/1.1");
        assert_eq!(batch.header("Content-Type"), Some("application/x-ndjson"));
        assert_eq!(batch.header("Authorization"), Some(&*format!("Bearer {TOKEN}")));
        for line in lines(&batch.text()) {
            assert_eq!(
                (&line["server"], &line["idempotency"]),
                (&"payments".into(), &"first".into())
            );
            seen.insert(line["idempotency_key_hash"].as_str().expect("a hash").to_owned());
        }
        if seen.len() == 3 {
            break;
        }
    }
    assert_eq!(dropped(&gateway).await, 0);
    assert_eq!(gateway.stdout(), "", "the sink alone gets the lines");
}

#[tokio::test]
async fn a_batch_is_sent_again_until_it_is_taken() {
    let (upstream, collector) = (Upstream::start().await, collector().await);
    let gateway = posting(&upstream, &collector).start().await;
    let busy = http(503, &[("Retry-After", "0")], TOKEN);
    collector.script(Reply::raw(busy));
    collector.script(Reply::raw(http(429, &[], "")));
    collector.script(Reply::silent().close());
    gateway.send(&Request::post(pay())).await;
    let first = collector.hit(1).await;
    for hit in 2..=4 {
        assert_eq!(collector.hit(hit).await.body, first.body, "attempt {hit}");
    }
    collector.answered(4).await;
    assert_eq!(dropped(&gateway).await, 0);
}

#[tokio::test]
async fn a_batch_that_is_refused_for_good_is_counted_and_not_sent_again() {
    let (upstream, collector) = (Upstream::start().await, collector().await);
    let gateway = posting(&upstream, &collector).start().await;
    let elsewhere = format!("http://{}/elsewhere", collector.address());
    for refusal in
        [http(400, &[], TOKEN), http(401, &[], ""), http(307, &[("Location", &elsewhere)], "")]
    {
        let before = dropped(&gateway).await;
        let hits = collector.hits();
        collector.script(Reply::raw(refusal));
        gateway.send(&Request::post(pay())).await;
        eventually("the line to be counted", || async {
            (dropped(&gateway).await == before + 1).then_some(())
        })
        .await;
        assert_eq!(collector.hits(), hits + 1);
    }
    // The sink recovers by itself.
    gateway.send(&Request::post(pay())).await;
    assert_eq!(lines(&collector.hit(4).await.text()).len(), 1);
    assert!(!gateway.stderr().contains(TOKEN), "{}", gateway.stderr());
    assert!(!gateway.status().await.to_string().contains("source=test"), "a query may be secret");
}

#[tokio::test]
async fn a_sink_that_stands_still_delays_no_request_and_no_shutdown_for_long() {
    let (upstream, collector) = (Upstream::start().await, collector().await);
    let mut gateway = posting(&upstream, &collector).start().await;
    let gate = Gate::new();
    for _ in 0..4 {
        collector.script(Reply::silent().wait(&gate));
    }
    gateway.send(&Request::post(pay())).await;
    collector.hit(1).await;
    for number in 0..50 {
        gateway.call(&format!("K{number}"), pay()).await;
    }
    gateway.sigterm();
    assert_eq!(gateway.wait().await.code(), Some(0), "{}", gateway.stderr());
    assert!(gateway.stderr().contains("the audit trail is incomplete"), "{}", gateway.stderr());
}

#[tokio::test]
async fn what_is_queued_is_posted_before_the_end() {
    let (upstream, collector) = (Upstream::start().await, collector().await);
    let mut gateway = posting(&upstream, &collector).start().await;
    for _ in 0..20 {
        gateway.send(&Request::post(pay())).await;
    }
    gateway.sigterm();
    assert_eq!(gateway.wait().await.code(), Some(0), "{}", gateway.stderr());
    let posted = (1..=collector.hits()).map(|hit| collector.hit(hit));
    let mut taken = 0;
    for batch in posted {
        taken += lines(&batch.await.text()).len();
    }
    assert_eq!(taken, 20);
    assert!(!gateway.stderr().contains("incomplete"), "{}", gateway.stderr());
}

#[tokio::test]
async fn a_token_is_a_reference_and_check_shows_no_secret() {
    let (upstream, collector) = (Upstream::start().await, collector().await);
    let check = |setup: Setup| async move {
        let config = setup.write();
        run(&["check".as_ref(), "--config".as_ref(), config.as_os_str()]).await
    };
    let literal = check(posting(&upstream, &collector).set("audit", "token", "\"s3cr3t\"")).await;
    assert_eq!(literal.status.code(), Some(1));
    assert!(literal.stderr.contains("`audit.token` must be `env:NAME` or `file:PATH`"));
    assert!(!literal.stderr.contains("s3cr3t"), "{}", literal.stderr);

    let setup = posting(&upstream, &collector).set("audit", "token", "\"file:token\"");
    let folder = setup.write().parent().expect("a folder").to_owned();
    std::fs::write(folder.join("token"), "s3cr3t\n").expect("a file");
    let good = check(setup).await;
    assert_eq!(good.status.code(), Some(0), "{}", good.stderr);
    let shown = good.stdout + &good.stderr;
    assert!(shown.contains("/audit?…, with the token of file:"), "{shown}");
    assert!(!shown.contains("s3cr3t") && !shown.contains("source=test"), "{shown}");

    let in_url = format!("\"http://user:s3cr3t@{}/\"", collector.address());
    let in_url = check(posting(&upstream, &collector).set("audit", "sink", &in_url)).await;
    assert_eq!(in_url.status.code(), Some(1));
    assert!(!in_url.stderr.contains("s3cr3t"), "{}", in_url.stderr);
}
