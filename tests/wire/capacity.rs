//! Limits (CONTRACT sections 4 and 5, STORE sections 1 and 2).

use crate::support::{
    Conn, Gate, Gateway, Reply, Request, Response, Setup, TOKEN_B, Upstream, eventually,
    json_reply, pay, result_for, session,
};
use serde_json::json;

const SESSION: &str = "X-MCP-Agent-Session";

fn of_a(key: &str) -> Request {
    Request::keyed(key, pay())
}

fn of_b(key: &str) -> Request {
    of_a(key).bearer(TOKEN_B)
}

/// A gateway with these limits and the program's own for the rest.
async fn limited(upstream: &Upstream, limits: &[(&str, &str)]) -> Gateway {
    let mut setup = Setup::new(upstream).default_limits();
    for (name, value) in limits {
        setup = setup.set("limits", name, value);
    }
    setup.start().await
}

/// An upstream that holds every call until the gate opens.
async fn holding(gate: &Gate) -> Upstream {
    let gate = gate.clone();
    Upstream::with(move |hit, request| {
        let reply = json_reply(200, &result_for(&request.body, &format!("run {hit}")));
        Reply::silent().wait(&gate).send(reply)
    })
    .await
}

/// Begins calls one by one, each once the one before has reached the upstream.
async fn held(gateway: &Gateway, upstream: &Upstream, requests: &[Request]) -> Vec<Conn> {
    let mut connections = Vec::new();
    for request in requests {
        let hits = upstream.hits();
        connections.push(gateway.begin(request).await);
        upstream.hit(hits + 1).await;
    }
    connections
}

#[track_caller]
fn assert_no_room(response: &Response) {
    response.assert_refused(429, "idempotency_capacity");
    assert_eq!(response.header("Retry-After"), Some("1"));
    assert_eq!(response.json()["error"]["data"]["advice"], json!("retry_same_key"));
}

#[tokio::test]
async fn a_scope_has_room_for_four_calls_in_flight() {
    let gate = Gate::new();
    let upstream = holding(&gate).await;
    let gateway = limited(&upstream, &[]).await;
    let four = ["K1", "K2", "K3", "K4"].map(of_a);
    let connections = held(&gateway, &upstream, &four).await;
    assert_no_room(&gateway.send(&of_a("K5")).await);
    for request in &four {
        gateway.send(request).await.assert_refused(409, "idempotency_in_flight");
    }
    assert_eq!(upstream.hits(), 4);
    let mut other = held(&gateway, &upstream, &[of_b("K1")]).await;
    gate.open();
    for mut connection in connections {
        connection.response().await.expect("a reply").assert_first();
    }
    other.remove(0).response().await.expect("a reply").assert_first();
    gateway.send(&of_a("K5")).await.assert_first();
    assert_eq!(gateway.metrics().await.outcomes()["capacity"], 1);
}

#[tokio::test]
async fn a_principal_has_room_for_eight_calls_in_flight_over_its_sessions() {
    let gate = Gate::new();
    let upstream = holding(&gate).await;
    let setup = Setup::new(&upstream).default_limits().policy(|policy| {
        policy.with(|document| {
            document["sessions"] = json!([session("s1", "alice"), session("s2", "alice")]);
        })
    });
    let gateway = setup.start().await;
    let mut eight = Vec::new();
    for name in ["s1", "s2"] {
        eight.extend(["K1", "K2", "K3", "K4"].map(|key| of_a(key).header(SESSION, name)));
    }
    let _connections = held(&gateway, &upstream, &eight).await;
    assert_no_room(&gateway.send(&of_a("K1")).await);
    held(&gateway, &upstream, &[of_b("K1")]).await;
    assert_eq!(upstream.hits(), 9);
    gate.open();
}

#[tokio::test]
async fn of_many_calls_at_once_as_many_run_as_the_store_has_room_for() {
    let gate = Gate::new();
    let upstream = holding(&gate).await;
    let caps = [("in_flight", "3"), ("principal_in_flight", "3"), ("scope_in_flight", "3")];
    let gateway = limited(&upstream, &caps).await;
    let mut connections = Vec::new();
    for number in 0..20 {
        let key = format!("K{number}");
        let request = if number % 2 == 0 { of_a(&key) } else { of_b(&key) };
        connections.push(gateway.begin(&request).await);
    }
    upstream.hit(3).await;
    eventually("17 refusals", || async {
        (gateway.metrics().await.outcomes().get("capacity") == Some(&17)).then_some(())
    })
    .await;
    assert_eq!(upstream.hits(), 3);
    gate.open();
    let mut executed = 0;
    for mut connection in connections {
        let answer = connection.response().await.expect("an answer");
        match answer.status {
            200 => executed += 1,
            _ => assert_no_room(&answer),
        }
    }
    assert_eq!((executed, upstream.hits()), (3, 3));
    gateway.send(&of_a("later")).await.assert_first();
}

#[tokio::test]
async fn a_full_scope_gives_up_its_oldest_reply() {
    let upstream = Upstream::start().await;
    let gateway = limited(&upstream, &[("scope_entries", "2")]).await;
    let firsts = [gateway.send(&of_a("K1")).await, gateway.send(&of_a("K2")).await];
    let of_other = gateway.send(&of_b("K1")).await;
    // A replay does not make a record younger.
    gateway.send(&of_a("K1")).await.assert_replays(&firsts[0]);
    let third = gateway.send(&of_a("K3")).await;
    third.assert_first();
    gateway.send(&of_a("K2")).await.assert_replays(&firsts[1]);
    gateway.send(&of_a("K3")).await.assert_replays(&third);
    gateway.send(&of_b("K1")).await.assert_replays(&of_other);
    gateway.send(&of_a("K1")).await.assert_first();
    assert_eq!(upstream.hits(), 5);
}

#[tokio::test]
async fn a_full_store_gives_up_the_oldest_reply_of_all() {
    let upstream = Upstream::start().await;
    let caps = [("entries", "3"), ("principal_entries", "3"), ("scope_entries", "3")];
    let gateway = limited(&upstream, &caps).await;
    gateway.send(&of_a("K1")).await.assert_first();
    let kept = [
        (of_b("K1"), gateway.send(&of_b("K1")).await),
        (of_a("K2"), gateway.send(&of_a("K2")).await),
    ];
    gateway.send(&of_b("K2")).await.assert_first();
    for (request, first) in &kept {
        gateway.send(request).await.assert_replays(first);
    }
    gateway.send(&of_a("K1")).await.assert_first();
    assert_eq!(upstream.hits(), 5);
}

#[tokio::test]
async fn what_is_in_flight_is_never_given_up() {
    let gate = Gate::new();
    let upstream = holding(&gate).await;
    let caps = [("entries", "2"), ("principal_entries", "2"), ("scope_entries", "2")];
    let gateway = limited(&upstream, &caps).await;
    let mut connections = held(&gateway, &upstream, &[of_a("K1"), of_b("K1")]).await;
    assert_no_room(&gateway.send(&of_a("K2")).await);
    assert_no_room(&gateway.send(&of_b("K2")).await);
    gate.open();
    for connection in &mut connections {
        connection.response().await.expect("a reply").assert_first();
    }
    gateway.send(&of_a("K2")).await.assert_first();
    assert_eq!(upstream.hits(), 3);
}

#[tokio::test]
async fn tombstones_are_never_given_up_and_have_a_cap() {
    let upstream = Upstream::start().await;
    let gateway = limited(&upstream, &[("scope_tombstones", "2")]).await;
    let kept = gateway.send(&of_a("kept")).await;
    for key in ["T1", "T2"] {
        upstream.script(Reply::silent().close());
        gateway.send(&of_a(key)).await.assert_refused(502, "upstream_disconnected");
    }
    assert_no_room(&gateway.send(&of_a("K1")).await);
    for key in ["T1", "T2"] {
        gateway.send(&of_a(key)).await.assert_refused(409, "idempotency_outcome_unknown");
    }
    gateway.send(&of_a("kept")).await.assert_replays(&kept);
    gateway.send(&of_b("K1")).await.assert_first();
    assert_eq!(upstream.hits(), 4);
}

#[tokio::test]
async fn eight_tombstones_are_the_default_cap_of_a_scope() {
    let upstream = Upstream::start().await;
    let gateway =
        Setup::new(&upstream).default_limits().set("upstream", "circuit_failures", "1000");
    let gateway = gateway.start().await;
    for number in 0..8 {
        upstream.script(Reply::silent().close());
        let failed = gateway.send(&of_a(&format!("T{number}"))).await;
        failed.assert_refused(502, "upstream_disconnected");
    }
    assert_no_room(&gateway.send(&of_a("K1")).await);
    assert_eq!(upstream.hits(), 8);
}

#[tokio::test]
async fn a_call_in_flight_reserves_its_tombstone() {
    let gate = Gate::new();
    let upstream = holding(&gate).await;
    let gateway = limited(&upstream, &[("scope_tombstones", "1")]).await;
    let mut connections = held(&gateway, &upstream, &[of_a("K1")]).await;
    assert_no_room(&gateway.send(&of_a("K2")).await);
    gate.open();
    connections.remove(0).response().await.expect("a reply").assert_first();
    gateway.send(&of_a("K2")).await.assert_first();
}

#[tokio::test]
async fn a_released_key_leaves_nothing_behind() {
    let upstream = Upstream::start().await;
    let caps = [("scope_in_flight", "1"), ("scope_entries", "1"), ("scope_tombstones", "1")];
    let gateway = limited(&upstream, &caps).await;
    for number in 0..5 {
        upstream.script(Reply::raw(json_reply(400, "{}")));
        assert_eq!(gateway.send(&of_a(&format!("K{number}"))).await.status, 400);
    }
    gateway.send(&of_a("K9")).await.assert_first();
}

#[tokio::test]
async fn replays_and_refusals_by_a_standing_record_need_no_room() {
    let gate = Gate::new();
    let upstream = Upstream::start().await;
    let caps = [("in_flight", "1"), ("principal_in_flight", "1"), ("scope_in_flight", "1")];
    let gateway = limited(&upstream, &caps).await;
    let first = gateway.send(&of_a("done")).await;
    upstream.script(Reply::silent().wait(&gate));
    let _connections = held(&gateway, &upstream, &[of_a("held")]).await;
    assert_no_room(&gateway.send(&of_a("new")).await);
    gateway.send(&of_a("done")).await.assert_replays(&first);
    gateway.send(&of_a("held")).await.assert_refused(409, "idempotency_in_flight");
    assert_no_room(&gateway.send(&of_b("new")).await);
    gateway.send(&Request::post(pay())).await.assert_first();
    gate.open();
}

/// Repeats a call until it runs again, which it does once its record has expired.
async fn until_it_runs_again(gateway: &Gateway, request: &Request) {
    eventually("the record to expire", || async {
        let answer = gateway.send(request).await;
        (answer.status == 200 && !answer.replayed()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_record_ends_with_its_time() {
    let upstream = Upstream::start().await;
    let ttl = [("ttl", "\"300ms\""), ("tombstone_ttl", "\"300ms\"")];
    let gateway = limited(&upstream, &ttl).await;
    gateway.send(&of_a("K1")).await.assert_first();
    until_it_runs_again(&gateway, &of_a("K1")).await;
    upstream.script(Reply::silent().close());
    gateway.send(&of_a("T1")).await.assert_refused(502, "upstream_disconnected");
    until_it_runs_again(&gateway, &of_a("T1")).await;
    assert_eq!(upstream.hits(), 4);
}

#[tokio::test]
async fn expired_records_take_no_room() {
    let upstream = Upstream::start().await;
    let caps = [("ttl", "\"300ms\""), ("tombstone_ttl", "\"300ms\""), ("scope_tombstones", "1")];
    let gateway = limited(&upstream, &caps).await;
    upstream.script(Reply::silent().close());
    gateway.send(&of_a("T1")).await.assert_refused(502, "upstream_disconnected");
    until_it_runs_again(&gateway, &of_a("K1")).await;
}

#[tokio::test]
async fn a_tombstone_may_outlive_the_replies() {
    let upstream = Upstream::start().await;
    let ttl = [("ttl", "\"200ms\""), ("tombstone_ttl", "\"1h\"")];
    let gateway = limited(&upstream, &ttl).await;
    upstream.script(Reply::silent().close());
    gateway.send(&of_a("T1")).await.assert_refused(502, "upstream_disconnected");
    gateway.send(&of_a("K1")).await.assert_first();
    until_it_runs_again(&gateway, &of_a("K1")).await;
    gateway.send(&of_a("T1")).await.assert_refused(409, "idempotency_outcome_unknown");
}

#[tokio::test]
async fn a_call_in_flight_never_expires() {
    let gate = Gate::new();
    let upstream = Upstream::start().await;
    let ttl = [("ttl", "\"200ms\""), ("tombstone_ttl", "\"200ms\"")];
    let gateway = limited(&upstream, &ttl).await;
    upstream.script(Reply::silent().wait(&gate).send(json_reply(200, "{}")));
    let _connections = held(&gateway, &upstream, &[of_a("held")]).await;
    gateway.send(&of_a("K1")).await.assert_first();
    until_it_runs_again(&gateway, &of_a("K1")).await;
    gateway.send(&of_a("held")).await.assert_refused(409, "idempotency_in_flight");
    assert_eq!(upstream.hits(), 3);
    gate.open();
}
