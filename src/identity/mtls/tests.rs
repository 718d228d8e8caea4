//! What only a clock can show; the rest is seen over the wire.

use actix_web::http::header::HeaderMap;
use rcgen::{CertificateParams, KeyPair, SanType, date_time_ymd};

use super::*;
use crate::identity::{AuthError, Identity, authenticate};
use crate::policy::{LoadContext, PolicySet, SessionsFile};

const POLICY: &str = "schema_version: v1
server: { name: s, namespace: n, upstream: 'http://h' }
auth: { mode: mtls, trust_domain: example.org }
sessions: [{ name: s-1, human_id: ann, expires_at: '2027-06-01T00:00:00Z' }, { name: s-2 }]
";

/// The seconds of a year of 365 days, but the last one.
const LAST_SECOND: u64 = 365 * 24 * 60 * 60 - 1;

fn peer(uri: &str) -> Peer {
    peer_until(uri, 2027)
}

/// A certificate that is valid until the first second of a year.
fn peer_until(uri: &str, year: i32) -> Peer {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.subject_alt_names.push(SanType::URI(uri.try_into().expect("a URI")));
    let last = if year == 9999 { LAST_SECOND } else { 0 };
    params.not_after = date_time_ymd(year, 1, 1) + std::time::Duration::from_secs(last);
    let key = KeyPair::generate().expect("a key");
    Peer::of(params.self_signed(&key).expect("a certificate").der())
}

fn at(peer: &Peer, now: &str) -> Result<String, AuthError> {
    let context = LoadContext { loopback: true, client_ca: true };
    let set = PolicySet::from_text("p.yaml", POLICY, context).expect("valid");
    let policy = set.servers().next().expect("one").clone();
    let (headers, sessions) = (HeaderMap::new(), SessionsFile::default());
    let now = now.parse().expect("a time");
    let shown = Credentials { headers: &headers, peer: Some(peer), sessions: &sessions, now };
    authenticate(&policy, &shown).map(|identity| {
        let Identity::Verified(caller) = identity else { panic!("not verified: {identity:?}") };
        format!(
            "{} in {}",
            caller.principal().human().unwrap_or("?"),
            caller.session().unwrap_or("?")
        )
    })
}

#[test]
fn a_certificate_that_ends_while_its_connection_stands_is_refused() {
    let peer = peer("spiffe://example.org/ns/n/session/s-1");
    assert_eq!(at(&peer, "2026-12-31T23:59:59Z").as_deref(), Ok("ann in s-1"));
    assert_eq!(at(&peer, "2027-01-01T00:00:00Z").as_deref(), Ok("ann in s-1"));
    let error = at(&peer, "2027-01-01T00:00:01Z").expect_err("ended");
    assert_eq!(error, MtlsError::Expired.into());
    assert_eq!(error.reason(), "client_certificate_expired");
}

#[test]
fn a_certificate_without_an_end_has_none() {
    let peer = peer_until("spiffe://example.org/ns/n/session/s-1", 9999);
    assert_eq!(at(&peer, "2027-01-02T00:00:00Z").as_deref(), Ok("ann in s-1"));
}

#[test]
fn a_session_that_ends_ends_its_certificate_at_that_moment() {
    let mut peer = peer("spiffe://example.org/ns/n/session/s-1");
    peer.not_after = Timestamp::MAX;
    assert_eq!(at(&peer, "2027-05-31T23:59:59.999Z").as_deref(), Ok("ann in s-1"));
    let error = at(&peer, "2027-06-01T00:00:00Z").expect_err("ended");
    assert_eq!(error, MtlsError::Session(Reason::SessionExpired).into());
}

#[test]
fn a_binding_of_nobody_and_bytes_that_are_no_certificate_stand_for_nobody() {
    let nobodys = peer("spiffe://example.org/ns/n/session/s-2");
    let now = "2026-12-01T00:00:00Z";
    let error = at(&nobodys, now).expect_err("nobody");
    assert_eq!(error, MtlsError::Session(Reason::SessionNotFound).into());
    for bytes in [&b""[..], b"\x30\x82", &[0; 64]] {
        assert_eq!(at(&Peer::of(bytes), now), Err(MtlsError::Expired.into()));
    }
}
