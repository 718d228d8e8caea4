//! Refreshes, against an issuer on a socket; the time is the test's.

use super::super::testing::{FakeIssuer, Signer, trust};
use super::*;
use crate::policy::Algorithm;

fn issuer_of(fake: &FakeIssuer, now: Instant) -> Arc<Issuer> {
    Issuer::new(fake.url(), Fetcher::new(trust()), now)
}

fn has_key(issuer: &Issuer, id: &str) -> bool {
    let known = issuer.known();
    known.as_ref().is_some_and(|known| known.keys.find(Some(id), Algorithm::Es256).is_some())
}

/// A moment at which another refresh may begin, whatever has ended so far.
fn later() -> Instant {
    Instant::now() + MIN_BETWEEN
}

#[tokio::test]
async fn many_who_miss_a_key_make_one_refresh() {
    let fake = FakeIssuer::start(&[&Signer::new("a")]).await;
    let now = Instant::now();
    let issuer = issuer_of(&fake, now);
    assert!(issuer.known().is_none());
    let waiting = (0..50).map(|_| issuer.refreshed(now));
    let outcomes = futures_util::future::join_all(waiting).await;
    assert!(outcomes.iter().all(Result::is_ok));
    assert!(has_key(&issuer, "a"));
    assert_eq!(fake.asked("/jwks"), 1);
}

#[tokio::test]
async fn a_flood_of_unknown_keys_asks_once_a_period() {
    let fake = FakeIssuer::start(&[&Signer::new("a")]).await;
    let issuer = issuer_of(&fake, Instant::now());
    for period in 1..=3 {
        let before = Instant::now();
        assert_eq!(issuer.refreshed(later()).await, Ok(()));
        assert_eq!(fake.asked("/jwks"), period);
        for _ in 0..100 {
            assert_eq!(issuer.refreshed(before).await, Ok(()));
        }
        assert_eq!(fake.asked("/jwks"), period);
    }
}

#[tokio::test]
async fn an_issuer_that_is_down_lets_known_keys_go_on() {
    let (a, b) = (Signer::new("a"), Signer::new("b"));
    let fake = FakeIssuer::start(&[&a]).await;
    let issuer = issuer_of(&fake, Instant::now());
    fake.down(true);
    let before = Instant::now();
    assert_eq!(issuer.refreshed(before).await, Err(Unanswered));
    assert!(issuer.known().is_none());
    let asked = fake.asked("/.well-known/oauth-authorization-server");
    assert_eq!(issuer.refreshed(before).await, Err(Unanswered), "too early to ask again");
    assert_eq!(fake.asked("/.well-known/oauth-authorization-server"), asked);

    fake.down(false);
    assert_eq!(issuer.refreshed(later()).await, Ok(()));
    fake.down(true);
    assert_eq!(issuer.refreshed(later()).await, Err(Unanswered));
    assert!(has_key(&issuer, "a"), "what was known stays");

    fake.down(false);
    fake.publish(&[&b]);
    assert_eq!(issuer.refreshed(later()).await, Ok(()));
    assert!(has_key(&issuer, "b") && !has_key(&issuer, "a"), "what was withdrawn is gone");
}

#[tokio::test]
async fn old_keys_are_refreshed_though_nobody_misses_one() {
    let fake = FakeIssuer::start(&[&Signer::new("a")]).await;
    let issuer = issuer_of(&fake, Instant::now());
    issuer.keep_fresh(Instant::now() + 2 * MAX_AGE);
    assert_eq!(fake.asked("/jwks"), 0, "nobody has needed a key yet");
    issuer.refreshed(Instant::now()).await.expect("keys");
    let mut ended = issuer.ended.subscribe();
    fake.publish(&[&Signer::new("b")]);
    issuer.keep_fresh(Instant::now() + MAX_AGE / 2);
    assert!(has_key(&issuer, "a"));
    issuer.keep_fresh(Instant::now() + MAX_AGE);
    issuer.keep_fresh(Instant::now() + MAX_AGE);
    ended.changed().await.expect("a refresh");
    assert!(has_key(&issuer, "b"));
    assert_eq!(fake.asked("/jwks"), 2);
}

/// An issuer whose every answer begins with this.
async fn answering(reply: String) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let reply = reply.replace("SELF", &url);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(reply.as_bytes()).await;
        }
    });
    url
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_too_much_is_not_read() {
    let elsewhere = FakeIssuer::start(&[&Signer::new("a")]).await;
    let metadata = "{\"issuer\":\"SELF\",\"jwks_uri\":\"SELF/k\",\"keys\":[]";
    let sized = |text: &str, padding: usize| {
        format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{text}{}}}", " ".repeat(padding))
    };
    let path = "/.well-known/oauth-authorization-server";
    for (what, reply, outcome) in [
        ("metadata and keys in one", sized(metadata, 0), Ok(())),
        ("too much", sized(metadata, super::super::fetch::MAX_ANSWER_BYTES), Err(Unanswered)),
        (
            "elsewhere",
            format!(
                "HTTP/1.1 302 Found\r\nLocation: {}{path}\r\nContent-Length: 0\r\n\r\n",
                elsewhere.url()
            ),
            Err(Unanswered),
        ),
    ] {
        let url = answering(reply).await;
        let issuer = Issuer::new(url, Fetcher::new(trust()), Instant::now());
        assert_eq!(issuer.refreshed(Instant::now()).await, outcome, "{what}");
    }
    assert_eq!(elsewhere.asked(path), 0);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_than_the_bound() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("an address"));
    let now = Instant::now();
    let issuer = Issuer::new(url, Fetcher::new(trust()), now);
    let began = tokio::time::Instant::now();
    assert_eq!(issuer.refreshed(now).await, Err(Unanswered));
    assert!(began.elapsed() <= MAX_WAIT + Duration::from_millis(1), "{:?}", began.elapsed());
}
