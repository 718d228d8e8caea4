//! Documents of connectors, workspaces and capabilities, and gateways that serve them.

use crate::support::{Gateway, KEY, Policy, Request, Setup, Upstream, call, sha256_hex};
use serde_json::{Value, json};

/// The credential that the gateway shows the vendor, and the variable that holds it.
pub const SECRET: &str = "vendor-secret-7f3a";
const VARIABLE: &str = "VENDOR_SECRET";

/// The secret of an API key of workspace `ws_1` that stands for alice, and one for bob.
pub const KEY_1A: &str = "ws1-alice";
pub const KEY_1B: &str = "ws1-bob";
/// The same of workspace `ws_2`.
pub const KEY_2: &str = "ws2-carol";

/// A server of the gateway's own tools, in scope `session`.
pub fn native_server() -> Policy {
    Policy::new("").with(|document| {
        let server = document["server"].as_object_mut().expect("a table");
        server.remove("upstream");
        server.insert("connectors".to_owned(), json!(["shop"]));
        document["tools"] = json!([]);
    })
}

/// The same in scope `workspace`.
pub fn workspace_server() -> Policy {
    native_server().with(|document| {
        document["auth"] = json!({"mode": "api_key"});
        document["idempotency"] = json!({"scope": "workspace"});
        document["policy"]["default_decision"] = json!("allow");
        document["grants"] = json!([]);
    })
}

/// A connector whose tool `charge` writes and `look` reads.
pub fn connector(name: &str, base_url: &str) -> Policy {
    let charge = json!({
        "type": "object",
        "required": ["amount"],
        "properties": {"amount": {"type": "number"}, "note": {"type": "string"}},
    });
    Policy(json!({
        "schema_version": "v1",
        "kind": "connector",
        "name": name,
        "base_url": base_url,
        "auth": {"header": "X-Api-Key", "secret": format!("env:{VARIABLE}")},
        "tools": [
            {
                "name": format!("{name}.charge"),
                "description": "Charges somebody",
                "input_schema": charge,
                "request": {
                    "method": "POST", "path": "/v1/charges",
                    "body": {"json": {"amount": "{amount}", "note": "{note}"}},
                },
                "effect": {"side_effect": "write", "idempotency": {"header": KEY}},
            },
            {
                "name": format!("{name}.look"),
                "input_schema": {"type": "object", "properties": {"id": {"type": "string"}}},
                "request": {"method": "GET", "path": "/v1/charges/{id}"},
                "effect": {"side_effect": "read"},
            },
        ],
    }))
}

/// The connector with a change of its tool `charge`.
pub fn with_charge(connector: Policy, change: impl FnOnce(&mut Value)) -> Policy {
    connector.with(|document| change(&mut document["tools"][0]))
}

/// A workspace with one connection of the connector `shop`.
pub fn workspace(id: &str, keys: &[(&str, &str)]) -> Policy {
    let keys: Vec<Value> = keys
        .iter()
        .map(|(secret, human)| {
            json!({"id": secret, "sha256": sha256_hex(secret.as_bytes()), "human_id": human})
        })
        .collect();
    Policy(json!({
        "schema_version": "v1",
        "kind": "workspace",
        "id": id,
        "api_keys": keys,
        "connections": [{
            "id": "conn_9", "connector": "shop", "secret": format!("env:{VARIABLE}"),
            "facts": {"account": "acct_1"},
        }],
    }))
}

/// The workspaces that most tests have.
pub fn workspaces() -> [Policy; 2] {
    [
        workspace("ws_1", &[(KEY_1A, "alice"), (KEY_1B, "bob")]),
        workspace("ws_2", &[(KEY_2, "carol")]),
    ]
}

/// A gateway that serves these documents.
pub async fn serve(documents: impl IntoIterator<Item = Policy>) -> Gateway {
    setup(documents).start().await
}

/// The same, not started yet.
pub fn setup(documents: impl IntoIterator<Item = Policy>) -> Setup {
    Setup::policies(documents).env(VARIABLE, SECRET)
}

/// A native server in front of a vendor.
pub struct Shop {
    /// The vendor.
    pub vendor: Upstream,
    /// The gateway.
    pub gateway: Gateway,
}

impl Shop {
    /// In scope `session`, with a change of the tool `charge`.
    pub async fn start(change: impl FnOnce(&mut Value)) -> Self {
        let vendor = Upstream::start().await;
        let connector = with_charge(connector("shop", &base_of(&vendor)), change);
        let gateway = serve([native_server(), connector]).await;
        Self { vendor, gateway }
    }

    /// In scope `workspace`.
    pub async fn of_workspaces() -> Self {
        let vendor = Upstream::start().await;
        let [one, two] = workspaces();
        let documents = [workspace_server(), connector("shop", &base_of(&vendor)), one, two];
        Self { gateway: serve(documents).await, vendor }
    }
}

/// The vendor's base URL.
pub fn base_of(vendor: &Upstream) -> String {
    format!("http://{}", vendor.address())
}

/// A call of the shop's `charge`, its amount as JSON text.
pub fn charge(amount: &str) -> String {
    let body = call("shop.charge", json!({"amount": 0}));
    body.replace("\"amount\":0", &format!("\"amount\":{amount}"))
}

/// A request of the holder of a workspace's API key.
pub fn of(secret: &str, body: impl Into<Vec<u8>>) -> Request {
    Request::post(body).bearer(secret)
}
