//! The program and its files (CONTRACT sections 9 and 10).

use crate::support::{
    Finished, Gateway, KEY, Policy, Request, Setup, Upstream, eventually, key_hash, pay, run,
    sha256_hex,
};
use serde_json::{Value, json};
use std::path::Path;

const FREE_PORTS: [(&str, &str); 2] =
    [("ONCEWARD_LISTEN__MCP", "127.0.0.1:0"), ("ONCEWARD_LISTEN__ADMIN", "127.0.0.1:0")];

/// A change of a policy document.
type Change = fn(&mut Value);

async fn check(config: &Path) -> Finished {
    run(&["check".as_ref(), "--config".as_ref(), config.as_os_str()]).await
}

async fn check_setup(setup: Setup) -> Finished {
    check(&setup.write()).await
}

/// Both streams of a run that must have failed.
#[track_caller]
fn complaint(finished: &Finished) -> String {
    assert_eq!(finished.status.code(), Some(1), "{} {}", finished.stdout, finished.stderr);
    format!("{}{}", finished.stdout, finished.stderr)
}

fn default_policy() -> Policy {
    Policy::new("http://127.0.0.1:9/mcp")
}

#[tokio::test]
async fn help_says_what_there_is() {
    let help = run(&["--help"]).await;
    assert!(help.status.success());
    for word in ["serve", "check", "init", "health", "demo"] {
        assert!(help.stdout.contains(word), "{word} in {}", help.stdout);
    }
    for command in ["serve", "check", "init", "health", "demo"] {
        let help = run(&[command, "--help"]).await;
        assert!(help.status.success() && help.stdout.contains("Usage"), "{}", help.stdout);
    }
    let unknown = run(&["no-such-command"]).await;
    assert!(!unknown.status.success() && !unknown.stderr.is_empty());
}

#[tokio::test]
async fn init_writes_what_check_accepts_and_serve_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = folder.path().join("gateway");
    let arguments = ["init".as_ref(), gateway.as_os_str()];
    let init = || run(&arguments);
    let made = init().await;
    assert_eq!(made.status.code(), Some(0), "{}", made.stderr);
    let config = gateway.join("onceward.toml");
    let checked = check(&config).await;
    assert_eq!(checked.status.code(), Some(0), "{}", checked.stderr);
    assert!(!checked.stdout.contains("warning"), "{}", checked.stdout);
    let key = made.stdout.lines().map(str::trim).find(|line| line.starts_with("onceward_"));
    let key = key.expect("the API key is shown");
    assert!(!checked.stdout.contains(key) && !checked.stdout.contains(&sha256_hex(key.as_bytes())));
    let arguments = ["serve".as_ref(), "--config".as_ref(), config.as_os_str()];
    let served = Gateway::start_with(&arguments, &FREE_PORTS).await;
    assert_eq!(served.admin("/readyz").await.status, 200);
    let call = Request::post(pay()).to("/billing");
    served.send(&call.clone().bearer("another")).await.assert_refused(401, "invalid_token");
    assert_ne!(served.send(&call.bearer(key)).await.status, 401, "the key is one");
    let said = complaint(&init().await);
    assert!(said.contains("exists already"), "{said}");
}

#[tokio::test]
async fn an_upstream_alone_is_enough_to_serve() {
    let upstream = Upstream::start().await;
    let arguments = ["serve".to_owned(), "--upstream".to_owned(), upstream.url()];
    let gateway = Gateway::start_with(&arguments, &FREE_PORTS).await;
    let request = Request::keyed("K1", pay()).bearer("for-upstream");
    let first = gateway.send(&request).await;
    first.assert_first();
    assert_eq!(upstream.last().header("Authorization"), Some("Bearer for-upstream"));
    assert_eq!(upstream.last().lines(KEY), Vec::<&str>::new());
    gateway.send(&request).await.assert_replays(&first);
    gateway.send(&Request::post(pay()).without("Authorization")).await.assert_first();
    assert_eq!(upstream.hits(), 2);
}

#[tokio::test]
async fn an_upstream_alone_has_a_uid_of_its_url() {
    let upstream = Upstream::start().await;
    let arguments = ["serve".to_owned(), "--upstream".to_owned(), upstream.url()];
    let gateway = Gateway::start_with(&arguments, &FREE_PORTS).await;
    gateway.call("K1", pay()).await.assert_first();
    let line = gateway.audit(1).await;
    let named = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
    let uid = format!("local-{}", &sha256_hex(upstream.url().as_bytes())[..16]);
    let subject = [named("human"), named("agent"), named("team")];
    let hash = key_hash([&subject[0], &subject[1], &subject[2], "", &uid, "K1", ""]);
    assert_eq!(line["idempotency_key_hash"], json!(hash), "{line}");
    assert_ne!(subject.concat(), "", "an empty triple is never a scope");
}

#[tokio::test]
async fn an_upstream_alone_is_served_on_loopback_only() {
    let environment = [("ONCEWARD_LISTEN__MCP", "0.0.0.0:0"), FREE_PORTS[1]];
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_onceward"));
    command.args(["serve", "--upstream", "http://127.0.0.1:9/mcp"]).envs(environment);
    let finished = crate::support::within("a refusal", command.kill_on_drop(true).output()).await;
    let finished = finished.expect("the program");
    assert!(!finished.status.success());
    let said = String::from_utf8_lossy(&finished.stderr).to_lowercase();
    assert!(said.contains("loopback"), "{said}");
}

#[tokio::test]
async fn a_good_configuration_is_described() {
    let finished = check_setup(Setup::policies([default_policy()])).await;
    assert_eq!(finished.status.code(), Some(0), "{}", finished.stderr);
    for shown in ["payments", "/mcp", "127.0.0.1"] {
        assert!(finished.stdout.contains(shown), "{shown} in {}", finished.stdout);
    }
    let secret = sha256_hex(b"token-of-A");
    assert!(!finished.stdout.contains(&secret), "{}", finished.stdout);
}

#[tokio::test]
async fn an_unknown_key_is_an_error_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("onceward.toml");
    let text = "[listen]\nmcp = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nsurprise = 1\n\n[policy]\npath = \"p.json\"\n";
    std::fs::write(&config, text).expect("write");
    let said = complaint(&check(&config).await);
    assert!(said.contains("surprise") && said.contains('4'), "{said}");
    let missing = complaint(&check(&folder.path().join("absent.toml")).await);
    assert!(missing.contains("absent.toml"), "{missing}");
}

#[tokio::test]
async fn values_that_cannot_be_are_refused() {
    let cases = [
        ("limits", "ttl", "\"soon\""),
        ("limits", "entries", "0"),
        ("limits", "entries", "-1"),
        ("limits", "scope_entries", "65"),
        ("limits", "principal_entries", "257"),
        ("limits", "scope_in_flight", "9"),
        ("limits", "principal_in_flight", "33"),
        ("limits", "tombstone_ttl", "\"1s\""),
        ("listen", "mcp", "\"not an address\""),
        ("listen", "admin", "\"0.0.0.0:0\""),
        ("store", "url", "\"redis://h\""),
        ("store", "kind", "\"paper\""),
        ("admin", "token_sha256", "\"abc\""),
    ];
    for (table, key, value) in cases {
        let setup = Setup::policies([default_policy()]).default_limits().set(table, key, value);
        let said = complaint(&check_setup(setup).await);
        let named = key.split('_').next().expect("a word");
        assert!(said.contains(named), "{table}.{key} = {value}: {said}");
    }
}

#[tokio::test]
async fn what_this_build_does_not_do_is_refused_and_named() {
    let cases: [(&str, Change); 6] = [
        ("oauth", |d| d["auth"] = json!({"mode": "oauth", "issuer_url": "https://i.example"})),
        ("approval", |d| d["tools"][0]["approval"] = json!("required")),
        ("effect", |d| d["tools"][0]["effect"] = json!({"on_unknown": "redispatch"})),
        ("scope", |d| d["idempotency"]["scope"] = json!("workspace")),
        ("broker", |d| d["server"]["broker"] = json!({"url": "https://b.example"})),
        ("token_header", |d| d["auth"]["token_header"] = json!("X-Token")),
    ];
    for (name, change) in cases {
        let said = complaint(&check_setup(Setup::policies([default_policy().with(change)])).await);
        assert!(said.contains(name), "{name}: {said}");
    }
}

#[tokio::test]
async fn mistakes_in_a_policy_are_named_with_their_place() {
    let cases: [(&str, Change); 9] = [
        ("surprise", |d| d["server"]["surprise"] = json!(1)),
        ("side_effect", |d| d["tools"][0]["side_effect"] = json!("harmless")),
        ("schema_version", |d| d["schema_version"] = json!("v2")),
        ("upstream", |d| d["server"]["upstream"] = json!("ftp://x")),
        ("path", |d| d["server"]["path"] = json!("mcp")),
        ("sha256", |d| d["auth"]["api_keys"][0]["sha256"] = json!("plain-text")),
        ("key_pointers", |d| d["idempotency"]["key_pointers"] = json!(["no-slash"])),
        ("max_trust", |d| d["grants"][0]["max_trust"] = json!("total")),
        ("api_keys", |d| d["auth"]["api_keys"][0]["human_id"] = json!(7)),
    ];
    for (name, change) in cases {
        let said = complaint(&check_setup(Setup::policies([default_policy().with(change)])).await);
        assert!(said.contains(name), "{name}: {said}");
        assert!(said.contains("0.json"), "{name}: {said}");
    }
    let twice =
        complaint(&check_setup(Setup::policies([default_policy(), default_policy()])).await);
    assert!(twice.contains("path"), "{twice}");
}

#[tokio::test]
async fn a_document_of_the_platform_loads_unchanged() {
    let policy = default_policy().with(|document| {
        document["revision"] = json!("r1");
        document["generated_at"] = json!("2026-01-01T00:00:00Z");
        document["policy"]["enforce_on"] = json!("call_tool");
        document["server"]["team_id"] = json!("team");
        document["server"]["cluster"] = json!("c1");
        document["session"] = json!({
            "required": true, "store": "kubernetes", "header_name": "X-MCP-Agent-Session",
            "max_lifetime": "24h", "idle_timeout": "1h",
        });
        document["tools"][0]["description"] = json!("pays");
        document["tools"][0]["labels"] = json!({"a": "b"});
        document["tools"][0]["risk_level"] = json!("high");
        document["grants"][0]["policy_version"] = json!("1");
        document["sessions"] = json!([{
            "name": "s1", "namespace": "test", "human_id": "alice", "agent_id": "agent-a",
            "consented_trust": "medium", "revoked": false, "policy_version": "1",
            "expires_at": "2999-01-01T00:00:00Z",
        }]);
    });
    let finished = check_setup(Setup::policies([policy])).await;
    assert_eq!(finished.status.code(), Some(0), "{}", finished.stderr);
}

const YAML: &str = r#"schema_version: v1
server:
  name: payments
  namespace: test
  uid: uid-payments
  upstream: UPSTREAM
auth:
  mode: static
  human_id: alice
policy:
  mode: allow-list
  default_decision: deny
tools:
  - name: pay
    side_effect: write
grants:
  - name: everything
    human_id: alice
    max_trust: high
    allowed_side_effects: [read, write]
"#;

#[tokio::test]
async fn a_policy_may_be_one_yaml_file_and_its_default_path_is_mcp() {
    let upstream = Upstream::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let policy = folder.path().join("policy.yaml");
    std::fs::write(&policy, YAML.replace("UPSTREAM", &upstream.url())).expect("write");
    let setup = Setup::new(&upstream).set("policy", "path", &format!("{policy:?}"));
    let gateway = setup.start().await;
    let request = Request::keyed("K1", pay()).without("Authorization");
    let first = gateway.send(&request).await;
    first.assert_first();
    gateway.send(&request).await.assert_replays(&first);
}

#[tokio::test]
async fn a_static_principal_is_refused_on_an_open_listener() {
    let policy = default_policy()
        .with(|document| document["auth"] = json!({"mode": "static", "human_id": "alice"}));
    let setup = Setup::policies([policy]).set("listen", "mcp", "\"0.0.0.0:0\"");
    let said = complaint(&check_setup(setup).await);
    assert!(said.contains("loopback"), "{said}");
}

#[tokio::test]
async fn the_environment_wins_over_the_file() {
    let upstream = Upstream::start().await;
    let config = Setup::new(&upstream).set("listen", "mcp", "\"127.0.0.1:1\"");
    let path = config.write();
    let arguments = ["serve".as_ref(), "--config".as_ref(), path.as_os_str()];
    let environment = [FREE_PORTS[0], ("ONCEWARD_LIMITS__REQUEST_BYTES", "1024")];
    let gateway = Gateway::start_with(&arguments, &environment).await;
    assert_eq!(gateway.send(&Request::post(vec![b' '; 1025])).await.status, 413);
    gateway.send(&Request::post(pay())).await.assert_first();
}

#[tokio::test]
async fn audit_lines_can_go_to_a_file() {
    let upstream = Upstream::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("audit.jsonl");
    let setup = Setup::new(&upstream).set("audit", "sink", &format!("{file:?}"));
    let gateway = setup.start().await;
    gateway.call("K1", pay()).await.assert_first();
    let line = crate::support::eventually("an audit line", || async {
        let text = std::fs::read_to_string(&file).ok()?;
        serde_json::from_str::<Value>(text.lines().next()?).ok()
    })
    .await;
    assert_eq!(line["idempotency"], json!("first"));
    assert_eq!(gateway.stdout(), "");
}

#[tokio::test]
async fn health_is_the_admin_listeners_word() {
    let upstream = Upstream::start().await;
    let broken = |policy: Policy| policy.with(|document| document["schema_version"] = json!("v0"));
    let mut gateway = Setup::new(&upstream).policy(broken).start().await;
    let admin = gateway.admin.to_string();
    let alive = run(&["health", "--admin", &admin]).await;
    assert_eq!(alive.status.code(), Some(0), "{}", alive.stderr);
    let ready = run(&["health", "--ready", "--admin", &admin]).await;
    assert!(complaint(&ready).contains("policy_unavailable"), "{}", ready.stderr);
    gateway.rewrite_policy(0, &Policy::new(&upstream.url()).0.to_string());
    eventually("readiness", || async {
        run(&["health", "--ready", "--admin", &admin]).await.status.success().then_some(())
    })
    .await;
    // As a container asks: by the configuration.
    let asked = Setup::new(&upstream).set("listen", "admin", &format!("{admin:?}"));
    let config = asked.write();
    let by_config = run(&["health".as_ref(), "--config".as_ref(), config.as_os_str()]).await;
    assert_eq!(by_config.status.code(), Some(0), "{}", by_config.stderr);
    gateway.sigterm();
    gateway.wait().await;
    let gone = run(&["health", "--admin", &admin]).await;
    assert!(complaint(&gone).contains("does not answer"), "{}", gone.stderr);
}

#[tokio::test]
async fn local_use_ends_with_its_terminal() {
    let upstream = Upstream::start().await;
    let mut gateway =
        Gateway::start_with(&["serve", "--upstream", &upstream.url()], &FREE_PORTS).await;
    gateway.sighup();
    assert_eq!(gateway.wait().await.code(), Some(0), "{}", gateway.stderr());
}

#[tokio::test]
async fn malformed_requests_do_not_fill_the_log() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let before = gateway.stderr();
    for _ in 0..3 {
        let mut connection = gateway.connect().await;
        connection.send("NO HTTP AT ALL\r\n\r\n").await;
        connection.until_closed().await;
    }
    gateway.send(&Request::post(pay())).await.assert_first();
    assert_eq!(gateway.stderr(), before);
}
