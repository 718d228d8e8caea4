//! The story: every scene in order, and what came of them.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::client::{Call, Client, ClientError, PROTOCOL, request};
use super::payments::Payments;
use super::scenes::{DEFAULT_PATH, Scene};
use super::stage::{Stage, within};
use super::timeline::{Timeline, Verdict};

/// Plays every scene against the gateway at `gateway`, whose upstream is `payments`. Whether every
/// outcome was the promised one; what was seen is on the time line.
pub async fn play(gateway: SocketAddr, payments: &Payments, timeline: &mut Timeline<'_>) -> bool {
    let client = Client::new(gateway);
    opening(gateway, payments, client, timeline).await;
    let mut verdicts = Vec::with_capacity(Scene::ALL.len());
    for (number, scene) in (1..).zip(Scene::ALL) {
        timeline.heading(&format!("{number}  {}", scene.title()));
        timeline.paragraph(scene.premise());
        timeline.blank();
        let mut stage = Stage::new(payments, client, timeline);
        let played = scene.play(&mut stage).await;
        let settled = stage.settle_up(scene.charges());
        let verdict = match played.and(settled) {
            Ok(()) => {
                timeline.verdict(Verdict::Kept, scene.promise());
                Verdict::Kept
            }
            Err(departure) => {
                timeline.verdict(Verdict::Broken, &departure.to_string());
                Verdict::Broken
            }
        };
        verdicts.push((scene, verdict));
    }
    summary(&verdicts, timeline)
}

/// Says who is there. A server that does not answer is no reason to stop: the scenes say more.
async fn opening(
    gateway: SocketAddr,
    payments: &Payments,
    client: Client,
    timeline: &mut Timeline<'_>,
) {
    timeline.title(
        "Onceward demo",
        "a payments server, the gateway in front of it, a client that times out and retries",
    );
    timeline.blank();
    let upstream = payments.address();
    timeline.paragraph(&format!(
        "client ──▶ gateway {gateway} ──▶ payments {upstream}    all of it real HTTP"
    ));
    match within("a greeting", greet(client)).await {
        Ok(server) => timeline.paragraph(&format!(
            "MCP {PROTOCOL}, server {server}. The ledger is what the payments server really charged."
        )),
        Err(departure) => timeline.paragraph(&format!("The gateway does not answer: {departure}")),
    }
}

/// Greets as MCP clients do. The server's name and its tools.
async fn greet(client: Client) -> Result<String, ClientError> {
    let info = json!({ "name": "onceward-demo", "version": env!("CARGO_PKG_VERSION") });
    let hello = json!({ "protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": info });
    let call = |message| Call { path: DEFAULT_PATH, key: None, message };
    let server = client.send(&call(request(1, "initialize", hello))).await?.result();
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    client.send(&call(ready)).await?;
    let tools = client.send(&call(request(2, "tools/list", json!({})))).await?.result();
    let name = server.as_ref().and_then(|server| server.pointer("/serverInfo/name"));
    let tools: Vec<&str> = tools
        .iter()
        .filter_map(|tools| tools.get("tools")?.as_array())
        .flatten()
        .filter_map(|tool| tool.get("name")?.as_str())
        .collect();
    let name = name.and_then(Value::as_str).unwrap_or("without a name");
    Ok(format!("“{name}” with the tools {}", tools.join(", ")))
}

fn summary(verdicts: &[(Scene, Verdict)], timeline: &mut Timeline<'_>) -> bool {
    timeline.heading("What was promised, and what came");
    for (number, (scene, verdict)) in (1..).zip(verdicts) {
        timeline.row(*verdict, &format!("{number}  {}", scene.title()), scene.promise());
    }
    let kept = verdicts.iter().filter(|(_, verdict)| *verdict == Verdict::Kept).count();
    let all = verdicts.len();
    let total = if kept == all { Verdict::Kept } else { Verdict::Broken };
    timeline.total(total, &format!("{all} scenes, {kept} as promised"));
    kept == all
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::cli::demo::timeline::WIDTH;

    /// The story must notice what is not kept, or its exit code would mean nothing: here nobody
    /// stands before the payments server.
    #[actix_web::test]
    async fn without_a_gateway_only_the_scene_without_a_key_ends_as_promised() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let payments = Payments::start(any).expect("a free port");
        let mut shown = Vec::new();
        let mut stripped = anstream::StripStream::new(&mut shown);
        let mut timeline = Timeline::new(&mut stripped, Instant::now());
        let kept = play(payments.address(), &payments, &mut timeline).await;
        timeline.finish().expect("a vector takes everything");
        payments.stop().await;
        let shown = String::from_utf8(shown).expect("text");
        assert!(!kept);
        assert!(shown.contains("8 scenes, 1 as promised"), "{shown}");
        let (_, summary) = shown.split_once("What was promised").expect("a summary");
        for (number, mark) in (1..).zip(['✔', '✘', '✘', '✘', '✘', '✘', '✘']) {
            assert!(summary.contains(&format!("{mark} {number}  ")), "{summary}");
        }
        for line in shown.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }
}
