//! Servers of the gateway's own tools: connectors, workspaces and capabilities (EFFECTS sections 1
//! and 4).

use std::path::Path;
use std::sync::Arc;

use super::LOOPBACK;
use crate::policy::*;

/// Documents by file name, without `schema_version: v1`.
type Files<'f> = &'f [(&'f str, &'f str)];

const STRIPE: (&str, &str) = (
    "stripe.yaml",
    "kind: connector
name: stripe
base_url: https://api.stripe.example/v1
auth: { secret: 'file:token' }
tools:
  - name: charge
    description: Charges a card
    input_schema:
      type: object
      required: [amount]
      properties: { amount: { type: integer }, note: { type: string } }
    request:
      method: POST
      path: /charges
      body: { form: { amount: '{amount}', description: '{note}' } }
    effect: { side_effect: write, environment: production, idempotency: { header: Idempotency-Key } }
  - name: look_up
    input_schema: { type: object, required: [id], properties: { id: { type: string } } }
    request: { method: GET, path: '/charges/{id}' }
    effect: { side_effect: read }
",
);

const ADYEN: (&str, &str) = (
    "adyen.yaml",
    "kind: connector
name: adyen
base_url: https://adyen.example
auth: { header: X-Api-Key, secret: 'file:token' }
tools:
  - name: pay
    input_schema: { type: object, properties: { value: { type: integer } } }
    request: { method: POST, path: /payments, body: { json: { value: '{value}' } } }
    effect: { side_effect: write, idempotency: { body_pointer: /reference } }
",
);

const SESSION: (&str, &str) = (
    "server.yaml",
    "server: { name: pay, uid: u-1, connectors: [stripe] }\nauth: { mode: static, human_id: h }\n",
);

const SHARED: (&str, &str) = (
    "server.yaml",
    "server: { name: pay, uid: u-1, connectors: [stripe, adyen] }
auth: { mode: api_key }
idempotency: { scope: workspace }
",
);

const CAPABILITY: (&str, &str) = (
    "charge.yaml",
    "kind: capability
name: cap.charge
description: Charges somebody
input_schema: { type: object, required: [cents], properties: { cents: { type: integer } } }
routes:
  - { connector: stripe, tool: charge, arguments: { amount: '{cents}' } }
  - { connector: adyen, tool: pay, arguments: { value: '{cents}' } }
",
);

fn workspace(more: &str) -> String {
    format!(
        "kind: workspace
id: acme
api_keys: [{{ id: k, sha256: {}, human_id: ann }}]
{more}",
        "ab".repeat(32)
    )
}

const ONE: &str = "connections:
  - { id: main, connector: stripe, secret: 'file:acme', facts: { account: acct_1 } }
";
const TWO: &str = "connections:
  - { id: main, connector: stripe, secret: 'file:acme' }
  - { id: side, connector: stripe, secret: 'file:acme' }
";
const BOTH: &str = "connections:
  - { id: main, connector: stripe, secret: 'file:acme' }
  - { id: eu, connector: adyen, secret: 'file:acme' }
";

fn load(files: Files<'_>) -> Result<PolicySet, PolicyErrors> {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [("token", "s3cr3t"), ("acme", "acm3")] {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    for (name, text) in files {
        let text = format!("schema_version: v1\n{text}");
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    PolicySet::load(folder.path(), LOOPBACK)
}

fn native(files: Files<'_>) -> Arc<Native> {
    let set = load(files).unwrap_or_else(|errors| panic!("{errors}"));
    let server = set.servers().next().expect("a server").clone();
    Arc::clone(server.target.native().expect("its own tools"))
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.0.keys().map(String::as_str).collect()
}

#[track_caller]
fn assert_refused(files: Files<'_>, expected: &[&str]) {
    let message = match load(files) {
        Ok(_) => panic!("should be refused: {files:?}"),
        Err(errors) => errors.to_string(),
    };
    for part in expected {
        assert!(message.contains(part), "`{message}` should name `{part}`");
    }
    assert!(!message.contains("s3cr3t") && !message.contains("acm3"), "{message}");
    assert_eq!(message.lines().count(), 1, "one mistake, one line: {message}");
}

#[test]
fn a_server_serves_the_tools_of_its_connectors() {
    let native = native(&[STRIPE, SESSION]);
    assert_eq!(native.connectors(), ["stripe"]);
    let catalog = native.catalog(None).expect("one for all");
    assert_eq!(names(catalog), ["charge", "look_up"]);
    assert_eq!(native.catalog(Some("acme")), None);
    let charge = &catalog.0["charge"];
    assert_eq!(charge.description.as_deref(), Some("Charges a card"));
    assert_eq!((charge.connection.as_deref(), charge.capability), (None, false));
    assert_eq!(charge.tool.side_effect, Some(SideEffect::Write));
    let effect = charge.tool.effect.as_ref().expect("it has a spec");
    assert_eq!(effect.binding.describe(), "header idempotency-key");
    assert_eq!(effect.environment.as_deref(), Some("production"));
    let credential = charge.credential.as_ref().expect("it shows one");
    assert_eq!(credential.header, "authorization");
    assert_eq!(credential.value, "Bearer s3cr3t");
    assert!(credential.value.is_sensitive());
    let shown = format!("{charge:?} {credential:?}");
    assert!(!shown.contains("s3cr3t"), "{shown}");
}

#[test]
fn a_route_is_the_canonical_json_of_its_targets_facts_and_no_secret() {
    let native = native(&[STRIPE, SESSION]);
    let charge = &native.catalog(None).expect("one for all").0["charge"];
    let route = r#"{"base_url":"https://api.stripe.example/v1","connector":"stripe","method":"POST","path":"/charges","tool":"charge"}"#;
    assert_eq!(charge.route, route);
    let expected = crate::claim::dispatch_hash(route.as_bytes(), "header idempotency-key");
    assert_eq!(charge.dispatch, expected);

    let native = self::native(&[STRIPE, ADYEN, SHARED, ("acme.yaml", &workspace(ONE))]);
    let charge = &native.catalog(Some("acme")).expect("its own").0["charge"];
    let route = r#"{"base_url":"https://api.stripe.example/v1","connection":"main","connector":"stripe","facts":{"account":"acct_1"},"method":"POST","path":"/charges","tool":"charge"}"#;
    assert_eq!(charge.route, route);
}

#[test]
fn a_workspace_calls_its_own_accounts_with_its_own_keys() {
    let files = [STRIPE, ADYEN, SHARED, ("acme.yaml", &*workspace(ONE))];
    let set = load(&files).expect("valid");
    let server = set.servers().next().expect("a server");
    let Auth::ApiKey(keys) = &server.auth else { panic!("api keys") };
    let workspaces: Vec<_> = keys.iter().map(|key| key.workspace.as_deref()).collect();
    assert_eq!(workspaces, [Some("acme")]);
    let native = server.target.native().expect("its own tools");
    assert_eq!(native.catalog(None), None);
    assert_eq!(native.catalog(Some("other")), None);
    let catalog = native.catalog(Some("acme")).expect("its own");
    assert_eq!(names(catalog), ["charge", "look_up"]);
    let charge = &catalog.0["charge"];
    assert_eq!(charge.connection.as_deref(), Some("main"));
    let credential = charge.credential.as_ref().expect("it shows one");
    assert_eq!(credential.value, "Bearer acm3");
}

#[test]
fn two_accounts_at_one_vendor_are_told_apart_by_the_tools_names() {
    let files = [STRIPE, ADYEN, SHARED, ("acme.yaml", &*workspace(TWO))];
    let native = native(&files);
    let catalog = native.catalog(Some("acme")).expect("its own");
    assert_eq!(names(catalog), ["main.charge", "main.look_up", "side.charge", "side.look_up"]);
    let [main, side] = ["main.charge", "side.charge"].map(|name| &catalog.0[name]);
    assert_eq!((main.vendor_tool.as_str(), side.vendor_tool.as_str()), ("charge", "charge"));
    assert_ne!(main.dispatch, side.dispatch);
}

#[test]
fn a_capability_leads_where_the_workspaces_pin_says() {
    let leads = |more: &str| {
        let files = [STRIPE, ADYEN, SHARED, CAPABILITY, ("acme.yaml", &*workspace(more))];
        let native = native(&files);
        let catalog = native.catalog(Some("acme")).expect("its own");
        let capability = catalog.0.get("cap.charge").cloned();
        capability.map(|one| {
            assert!(one.capability && one.arguments.is_some());
            assert_eq!(one.description.as_deref(), Some("Charges somebody"));
            assert!(one.schema.lists("cents") && !one.schema.lists("amount"));
            (one.connection.clone().expect("resolved"), one.vendor_tool.clone())
        })
    };
    let to = |connection: &str, tool: &str| Some((connection.to_owned(), tool.to_owned()));
    assert_eq!(leads(""), None, "no account can serve it");
    assert_eq!(leads(ONE), to("main", "charge"), "the only one");
    assert_eq!(leads(&format!("{BOTH}pins: {{ cap.charge: adyen }}\n")), to("eu", "pay"));
    assert_eq!(leads(&format!("{BOTH}pins: {{ cap.charge: stripe }}\n")), to("main", "charge"));
    let pin = "pins: { cap.charge: { connector: stripe, connection: side } }\n";
    assert_eq!(leads(&format!("{TWO}{pin}")), to("side", "charge"));
}

#[test]
fn a_capability_is_called_with_its_own_arguments() {
    let files = [STRIPE, ADYEN, SHARED, CAPABILITY, ("acme.yaml", &*workspace(ONE))];
    let native = native(&files);
    let capability = &native.catalog(Some("acme")).expect("its own").0["cap.charge"];
    let document = crate::claim::Document::parse(br#"{"cents":7}"#).expect("JSON");
    let map = capability.arguments.as_ref().expect("a map");
    let mapped = map.render(Some(document.root())).expect("they fit");
    assert_eq!(mapped.as_str(), r#"{"amount":7}"#);
}

#[test]
fn pins_that_lead_nowhere_or_are_missing_are_refused() {
    let refused: [(&str, &[&str]); 7] = [
        (BOTH, &["acme.yaml", "pins", "`cap.charge`", "`eu`", "`main`"]),
        (TWO, &["pins", "`cap.charge`", "`main`", "`side`"]),
        ("pins: { cap.refund: stripe }\n", &["pins.cap.refund", "names no capability"]),
        ("pins: { cap.charge: paypal }\n", &["pins.cap.charge", "no route"]),
        ("pins: { cap.charge: stripe }\n", &["pins.cap.charge", "no connection"]),
        (
            &format!("{TWO}pins: {{ cap.charge: stripe }}\n"),
            &["pins.cap.charge", "must name one of the connections"],
        ),
        (
            &format!("{BOTH}pins: {{ cap.charge: {{ connector: stripe, connection: eu }} }}\n"),
            &["pins.cap.charge", "names a connection"],
        ),
    ];
    for (more, expected) in refused {
        let files = [STRIPE, ADYEN, SHARED, CAPABILITY, ("acme.yaml", &*workspace(more))];
        assert_refused(&files, expected);
    }
}

#[test]
fn a_server_asks_for_trust_and_declares_nothing_of_its_connectors_tools() {
    let server = |tools: &str| format!("{}tools: {tools}\n", SESSION.1);
    let text = server("[{ name: charge, required_trust: high }]");
    let native = native(&[STRIPE, ("server.yaml", &text)]);
    let catalog = native.catalog(None).expect("one for all");
    assert_eq!(catalog.0["charge"].tool.required_trust, Trust::High);
    assert_eq!(catalog.0["look_up"].tool.required_trust, Trust::Low);
    for (tools, expected) in [
        ("[{ name: refund }]", ["tools", "`refund` is no tool"]),
        ("[{ name: charge, side_effect: read }]", ["tools[0].side_effect", "connector's"]),
        ("[{ name: charge, effect: {} }]", ["tools[0].effect", "connector's"]),
        ("[{ name: charge }, { name: charge }]", ["tools[1].name", "already used"]),
    ] {
        assert_refused(&[STRIPE, ("server.yaml", &server(tools))], &expected);
    }
}

#[test]
fn another_name_is_no_way_around_the_trust_that_a_tool_needs() {
    let text = format!("{}tools: [{{ name: charge, required_trust: high }}]\n", SHARED.1);
    for connections in [ONE, TWO] {
        let pin = "pins: { cap.charge: { connector: stripe, connection: main } }\n";
        let acme = workspace(&format!("{connections}{pin}"));
        let files = [STRIPE, ADYEN, ("server.yaml", &*text), CAPABILITY, ("acme.yaml", &*acme)];
        let native = native(&files);
        let catalog = native.catalog(Some("acme")).expect("its own");
        for (name, callable) in &catalog.0 {
            let high = callable.vendor_tool == "charge";
            assert_eq!(callable.tool.required_trust == Trust::High, high, "{name}");
        }
    }
}

#[test]
fn a_server_goes_to_one_place() {
    let server = |fields: &str, more: &str| {
        format!("server: {{ name: pay, {fields} }}\nauth: {{ mode: static, human_id: h }}\n{more}")
    };
    let refused: [(&str, &str, &[&str]); 7] = [
        ("path: /mcp", "", &["server.upstream", "is missing", "server.connectors"]),
        ("upstream: 'http://h', connectors: [stripe]", "", &["server.connectors", "is too much"]),
        ("connectors: []", "", &["server.connectors", "1 to 64"]),
        ("connectors: [paypal]", "", &["server.connectors[0]", "names no connector"]),
        ("connectors: [stripe, stripe]", "", &["server.connectors[1]", "twice"]),
        ("connectors: [stripe], broker: true, retries_off: none_exist", "", &["server.broker"]),
        (
            "connectors: [stripe]",
            "session: { upstream_token: 'file:token' }\n",
            &["session.upstream_token", "no effect"],
        ),
    ];
    for (fields, more, expected) in refused {
        assert_refused(&[STRIPE, ("server.yaml", &server(fields, more))], expected);
    }
    assert_refused(&[STRIPE], &["holds no server"]);
}

#[test]
fn names_that_two_would_have_are_refused() {
    let twin = STRIPE.1.replace("name: stripe", "name: twin");
    let server = SESSION.1.replace("[stripe]", "[stripe, twin]");
    let files = [STRIPE, ("twin.yaml", &*twin), ("server.yaml", &*server)];
    let message = load(&files).expect_err("two tools of each name").to_string();
    assert!(message.contains("`stripe` and `twin` both have a tool `charge`"), "{message}");

    assert_refused(
        &[STRIPE, ("two.yaml", STRIPE.1), SESSION],
        &["two.yaml: name: `stripe` is already used by", "stripe.yaml"],
    );
    let acme = workspace(ONE);
    assert_refused(
        &[STRIPE, ADYEN, SHARED, ("a.yaml", &acme), ("b.yaml", &acme)],
        &["b.yaml: id: `acme` is already used by"],
    );
    let other = acme.replace("id: acme", "id: other");
    assert_refused(
        &[STRIPE, ADYEN, SHARED, ("a.yaml", &acme), ("b.yaml", &other)],
        &["b.yaml: api_keys[0].sha256", "another workspace"],
    );
}

#[test]
fn a_connectors_mistake_is_told_with_its_place() {
    let replaced: [(&str, &str, &[&str]); 21] = [
        ("name: stripe", "name: a.b", &["stripe.yaml: name", "letters, digits"]),
        ("https://api.stripe.example/v1", "api.stripe.example", &["base_url", "absolute URL"]),
        ("example/v1", "example/v1?a=b", &["base_url", "no query"]),
        ("file:token", "s3cr3t", &["auth.secret", "never the secret itself"]),
        ("file:token", "file:none", &["auth.secret", "cannot be read"]),
        ("secret: '", "header: Host, secret: '", &["auth.header", "is taken"]),
        ("secret: '", "scheme: 'a b', secret: '", &["auth.scheme"]),
        ("name: charge", "name: cap.charge", &["tools[0].name", "capabilities"]),
        ("name: charge", "name: 'a b'", &["tools[0].name"]),
        ("name: look_up", "name: charge", &["tools[1].name", "already used"]),
        ("type: object\n", "type: array\n", &["tools[0].input_schema", "type: object"]),
        ("{ type: integer }", "{ type: int }", &["tools[0].input_schema", "no JSON Schema"]),
        ("'{amount}'", "'{sum}'", &["tools[0].request.body.form.amount", "`{sum}` names no"]),
        ("method: POST", "method: post", &["tools[0].request.method", "`POST`"]),
        ("'/charges/{id}'", "'/charges?id={id}'", &["tools[1].request.path"]),
        ("body: { form", "body: { json: 1, form", &["tools[0].request.body", "one of"]),
        (
            "path: /charges\n",
            "path: /charges\n      headers: { Authorization: x }\n",
            &["tools[0].request.headers.authorization", "is taken"],
        ),
        (
            "path: /charges\n",
            "path: /charges\n      headers: { Idempotency-Key: x }\n",
            &["tools[0].effect.idempotency.header", "is taken"],
        ),
        (
            "{ header: Idempotency-Key }",
            "{ body_pointer: /key }",
            &["tools[0].effect.idempotency.body_pointer", "request.body.json"],
        ),
        ("{ side_effect: read }", "{}", &["tools[1].effect.side_effect", "must say"]),
        ("side_effect: read }", "side_effect: read, retry: 1 }", &["tools[1].effect", "retry"]),
    ];
    for (from, to, expected) in replaced {
        assert!(STRIPE.1.contains(from), "{from}");
        let text = STRIPE.1.replacen(from, to, 1);
        assert_refused(&[("stripe.yaml", &text), SESSION], expected);
    }
    let bare = STRIPE.1.replace("auth: { secret: 'file:token' }", "auth: {}");
    assert_refused(
        &[("stripe.yaml", &bare), SESSION],
        &["server.yaml: server.connectors", "`stripe` has no `auth.secret`"],
    );
}

#[test]
fn a_workspaces_mistake_is_told_with_its_place() {
    let replaced: [(&str, &str, &[&str]); 8] = [
        ("id: acme", "id: 'a{b'", &["acme.yaml: id", "letters, digits"]),
        ("id: main", "id: unresolved", &["connections[0].id", "meaning of its own"]),
        ("id: main", "id: cap", &["connections[0].id", "meaning of its own"]),
        ("id: side", "id: main", &["connections[1].id", "already used"]),
        ("connector: stripe", "connector: paypal", &["connections[0].connector", "names no"]),
        (", secret: 'file:acme'", "", &["connections[0].secret", "is required"]),
        ("file:acme", "acm3", &["connections[0].secret", "never the secret itself"]),
        ("human_id: ann", "human_id: ''", &["api_keys[0]"]),
    ];
    for (from, to, expected) in replaced {
        let text = workspace(TWO);
        assert!(text.contains(from), "{from}");
        let text = text.replacen(from, to, 1);
        assert_refused(&[STRIPE, ADYEN, SHARED, ("acme.yaml", &text)], expected);
    }
}

#[test]
fn a_capabilitys_mistake_is_told_with_its_place() {
    let replaced: [(&str, &str, &[&str]); 8] = [
        ("name: cap.charge", "name: charge", &["charge.yaml: name", "`cap.`"]),
        ("name: cap.charge", "name: cap.", &["name", "`cap.`"]),
        ("connector: adyen", "connector: paypal", &["routes[1].connector", "names no connector"]),
        ("tool: pay", "tool: refund", &["routes[1].tool", "no tool of this connector"]),
        ("amount: '{cents}'", "sum: '{cents}'", &["routes[0].arguments", "`sum`"]),
        ("amount: '{cents}'", "amount: '{sum}'", &["routes[0].arguments.amount", "`{sum}`"]),
        ("type: object, required", "type: string, required", &["input_schema", "type: object"]),
        (
            "connector: adyen, tool: pay, arguments: { value",
            "connector: stripe, tool: charge, arguments: { amount",
            &["routes[1].connector", "has a route already"],
        ),
    ];
    for (from, to, expected) in replaced {
        assert!(CAPABILITY.1.contains(from), "{from}");
        let text = CAPABILITY.1.replacen(from, to, 1);
        let acme = workspace(ONE);
        let files = [STRIPE, ADYEN, SHARED, ("charge.yaml", &*text), ("acme.yaml", &*acme)];
        assert_refused(&files, expected);
    }
}

#[test]
fn a_document_of_no_known_kind_is_refused() {
    assert_refused(
        &[("x.yaml", "kind: grant\n"), STRIPE, SESSION],
        &["x.yaml: kind", "`connector`, `capability` or `workspace`"],
    );
}

#[test]
fn pins_and_addresses_move_no_slot_and_a_keys_workspace_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let text = format!("schema_version: v1\n{text}");
        std::fs::write(folder.path().join(name), text).expect("written");
    };
    std::fs::write(folder.path().join("token"), "s3cr3t").expect("written");
    std::fs::write(folder.path().join("acme"), "acm3").expect("written");
    for (name, text) in [STRIPE, ADYEN, SHARED, CAPABILITY] {
        write(name, text);
    }
    let pinned = |to: &str| workspace(&format!("{BOTH}pins: {{ cap.charge: {to} }}\n"));
    write("acme.yaml", &pinned("stripe"));
    let watch = PolicyWatch::new(Path::new(folder.path()).to_owned(), LOOPBACK);
    assert_eq!(watch.poll(), Polled::Loaded, "{:?}", watch.last_error());
    write("acme.yaml", &pinned("adyen"));
    assert_eq!(watch.poll(), Polled::Loaded, "{:?}", watch.last_error());
    write("stripe.yaml", &STRIPE.1.replace("example/v1", "example/v2"));
    assert_eq!(watch.poll(), Polled::Loaded, "{:?}", watch.last_error());
    let before = pinned("adyen");
    let renamed = before.replace("id: main", "id: other");
    assert_ne!(renamed, before);
    write("acme.yaml", &renamed);
    assert_eq!(watch.poll(), Polled::Failed, "the tool's name now means another account");
    let error = watch.last_error().expect("refused");
    assert!(error.contains("connection"), "{error}");
    write("acme.yaml", &pinned("adyen").replace("id: acme", "id: other"));
    assert_eq!(watch.poll(), Polled::Failed, "the key now selects another workspace");
    let error = watch.last_error().expect("refused");
    assert!(error.contains("API key"), "{error}");
}
