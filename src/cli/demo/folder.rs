//! The demo's folder: its gateway's configuration, policy and audit lines.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::payments;
use super::scenes::{DEFAULT_PATH, RECORDED_PATH, SCOPE_IN_FLIGHT, VENDOR_PATH};

/// How many names are tried for the folder before the demo gives up.
const ATTEMPTS: u32 = 16;
/// The folder of policy documents in it.
const POLICY: &str = "policy";
/// The file of audit lines in it.
const AUDIT: &str = "audit.jsonl";

/// A folder of its own in the system's temporary one; it goes when this is dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes the folder, and writes the configuration and the policy of a gateway that listens on
    /// `mcp` and `admin`, in front of the payments server at `upstream`.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn create(upstream: SocketAddr, mcp: SocketAddr, admin: SocketAddr) -> io::Result<Self> {
        let folder = Self(fresh(&std::env::temp_dir())?);
        fs::write(folder.config(), config(mcp, admin))?;
        let policy = folder.0.join(POLICY);
        fs::create_dir(&policy)?;
        for (name, path, streams) in [
            ("payments", DEFAULT_PATH, "tombstone"),
            ("payments-recorded", RECORDED_PATH, "record"),
        ] {
            let file = policy.join(name).with_extension("yaml");
            fs::write(file, document(name, path, streams, upstream))?;
        }
        fs::write(policy.join("vendor.yaml"), connector(upstream))?;
        fs::write(policy.join("payments-vendor.yaml"), vendor_server())?;
        Ok(folder)
    }

    /// The gateway's configuration file.
    pub fn config(&self) -> PathBuf {
        self.0.join("onceward.toml")
    }

    /// The file of audit lines.
    pub fn audit(&self) -> PathBuf {
        self.0.join(AUDIT)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, folder = %self.0.display(), "the demo's folder stays behind");
        }
    }
}

/// Makes a folder that was not there before: one that was may be somebody else's.
fn fresh(parent: &Path) -> io::Result<PathBuf> {
    let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
    for attempt in 0..ATTEMPTS {
        let folder = parent.join(format!("onceward-demo-{}-{attempt}", std::process::id()));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            Err(error) => return Err(error),
        }
    }
    Err(taken)
}

/// Every default, save what keeps the demo to itself and its capacity quick to show.
fn config(mcp: SocketAddr, admin: SocketAddr) -> String {
    format!(
        "\
[listen]
mcp = \"{mcp}\"
admin = \"{admin}\"
[policy]
path = \"{POLICY}\"
[limits]
scope_in_flight = {SCOPE_IN_FLIGHT}
[audit]
sink = \"{AUDIT}\"
"
    )
}

fn document(name: &str, path: &str, streams: &str, upstream: SocketAddr) -> String {
    format!(
        "\
schema_version: v1
server:
  name: {name}
  namespace: demo
  uid: demo-{name}
  path: {path}
  upstream: http://{upstream}{}
auth:
  mode: static
  human_id: you
  agent_id: onceward-demo
policy:
  default_decision: allow
idempotency:
  streams: {streams}
",
        payments::PATH
    )
}

/// The payments server's plain API as a vendor, with one tool.
fn connector(vendor: SocketAddr) -> String {
    format!(
        "\
schema_version: v1
kind: connector
name: payments-api
base_url: http://{vendor}
tools:
  - name: charge
    description: Charges a customer, once for each key.
    input_schema:
      type: object
      required: [amount, currency, customer]
      properties:
        amount: {{ type: integer, description: in hundredths of the currency's unit }}
        currency: {{ type: string }}
        customer: {{ type: string }}
        simulate: {{ type: string }}
    request:
      method: POST
      path: {}
      body:
        json:
          amount: '{{amount}}'
          currency: '{{currency}}'
          customer: '{{customer}}'
          simulate: '{{simulate}}'
    effect:
      side_effect: write
      idempotency: {{ header: Idempotency-Key }}
      on_unknown: redispatch
",
        payments::VENDOR_PATH
    )
}

/// The server that serves the vendor's tool.
fn vendor_server() -> String {
    format!(
        "\
schema_version: v1
server:
  name: payments-vendor
  namespace: demo
  uid: demo-payments-vendor
  path: {VENDOR_PATH}
  connectors: [payments-api]
auth:
  mode: static
  human_id: you
  agent_id: onceward-demo
policy:
  default_decision: allow
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AuditTarget, Config, PolicySource};
    use crate::policy::{PolicySet, Streams};

    fn local(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn the_files_are_what_check_accepts_and_go_with_their_owner() {
        let folder = Folder::create(local(9000), local(8080), local(8081)).expect("a folder");
        let config = Config::load(&folder.config(), []).expect("a valid configuration");
        assert_eq!((config.listen.mcp, config.listen.admin), (local(8080), local(8081)));
        assert_eq!(config.limits.scope_in_flight, SCOPE_IN_FLIGHT);
        assert_eq!(config.audit, AuditTarget::File(folder.audit()));
        let PolicySource::Watched { path, .. } = &config.policy else {
            panic!("the policy should be watched: {:?}", config.policy)
        };
        let policy = PolicySet::load(path, config.load_context()).expect("a valid policy");
        for (path, streams) in
            [(DEFAULT_PATH, Streams::Tombstone), (RECORDED_PATH, Streams::Record)]
        {
            let server = policy.server(path).expect(path);
            assert_eq!(
                server.target.mcp().expect("an MCP server").to_string(),
                "http://127.0.0.1:9000/mcp"
            );
            assert_eq!(server.idempotency.streams, streams);
        }
        let place = folder.0.clone();
        drop(folder);
        assert!(!place.exists());
    }

    #[test]
    fn two_demos_have_two_folders() {
        let parent = tempfile::tempdir().expect("a folder");
        let first = fresh(parent.path()).expect("a folder");
        let second = fresh(parent.path()).expect("another");
        assert_ne!(first, second);
    }
}
