//! `onceward demo`: an MCP payments server, the gateway, and a client that times out and retries
//! (CONTRACT section 10).
//!
//! Everything that touches the gateway goes over HTTP, so the story shows what any client would
//! see. [`world`] starts it all, [`story`] plays the [`scenes`], [`timeline`] prints.

pub mod client;
pub mod folder;
pub mod keep_running;
pub mod outcome;
pub mod payments;
pub mod scenes;
pub mod stage;
pub mod story;
pub mod timeline;
pub mod world;

use std::future::Future;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use actix_web::rt::System;

use self::timeline::Timeline;
use self::world::{Ports, World, WorldError};
use super::DemoArguments;
use super::signals::Signals;

/// Why the demo could not be shown to its end.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error(transparent)]
    World(#[from] WorldError),
    #[error("cannot write to the standard output: {0}")]
    Output(io::Error),
    #[error("cannot listen for signals: {0}")]
    Signal(io::Error),
}

/// Plays the demo on the standard output; success only if every outcome was the promised one.
pub fn run(arguments: &DemoArguments) -> ExitCode {
    let mut out = anstream::stdout();
    let shown = System::new().block_on(async {
        if arguments.keep_running {
            let mut signals = Signals::catch().map_err(DemoError::Signal)?;
            leave_running(&mut out, Ports::Fixed, signals.first()).await
        } else {
            once(&mut out).await
        }
    });
    match shown {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("onceward: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Plays the story, and ends with what to try next.
async fn once(out: &mut dyn Write) -> Result<bool, DemoError> {
    let world = World::start(Ports::Free).await?;
    let mut timeline = Timeline::new(out, Instant::now());
    let kept = story::play(world.gateway.mcp, &world.payments, &mut timeline).await;
    what_next(&mut timeline);
    world.stop().await;
    timeline.finish().map_err(DemoError::Output)?;
    Ok(kept)
}

/// Plays the story, and leaves everything up until `end`.
async fn leave_running(
    out: &mut dyn Write,
    ports: Ports,
    end: impl Future<Output = ()>,
) -> Result<bool, DemoError> {
    let world = World::start(ports).await?;
    let mut timeline = Timeline::new(out, Instant::now());
    let kept = story::play(world.gateway.mcp, &world.payments, &mut timeline).await;
    let place = keep_running::Place {
        mcp: world.gateway.mcp,
        admin: world.gateway.admin,
        payments: world.payments.address(),
        config: world.folder.config(),
        audit: world.folder.audit(),
    };
    keep_running::print(&place, &mut timeline);
    timeline.flush();
    end.await;
    world.stop().await;
    timeline.paragraph("stopped");
    timeline.finish().map_err(DemoError::Output)?;
    Ok(kept)
}

fn what_next(timeline: &mut Timeline<'_>) {
    timeline.heading("What to try next");
    for (command, what) in [
        ("onceward demo --keep-running", "the same, left running, with curl lines to paste"),
        (
            "onceward serve --upstream URL",
            "in front of an MCP server of your own; send your client to http://127.0.0.1:8080/mcp \
             and give its calls an Idempotency-Key",
        ),
        (
            "onceward check --config onceward.toml",
            "validates a configuration: several servers, identities, grants, limits",
        ),
        (
            "onceward --help",
            "what is promised and what is not, with records in memory and with Redis",
        ),
    ] {
        timeline.entry(command, what);
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::path::Path;

    use super::timeline::WIDTH;
    use super::world::MCP_PORT;
    use super::*;

    /// What was shown, no line of it too wide.
    fn text(shown: Vec<u8>) -> String {
        let text = String::from_utf8(shown).expect("text");
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        text
    }

    /// The value of the line that starts with `name`.
    fn entry<'t>(text: &'t str, name: &str) -> &'t str {
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).expect(name);
        line.split_whitespace().last().expect("a value")
    }

    #[actix_web::test]
    async fn the_gateway_keeps_every_promise_of_the_story() {
        let mut shown = Vec::new();
        let kept = once(&mut anstream::StripStream::new(&mut shown)).await.expect("it plays");
        let text = text(shown);
        assert!(kept, "{text}");
        assert!(text.contains("8 scenes, 8 as promised"), "{text}");
        let (_, next) = text.split_once("What to try next").expect("an end");
        assert!(next.contains("onceward demo --keep-running"), "{next}");
    }

    #[actix_web::test]
    async fn left_running_it_says_where_and_in_the_end_nothing_is_left() {
        let mut shown = Vec::new();
        let mut out = anstream::StripStream::new(&mut shown);
        let kept = leave_running(&mut out, Ports::Free, ready(())).await.expect("it plays");
        let text = text(shown);
        assert!(kept, "{text}");
        let config = Path::new(entry(&text, "configuration"));
        assert!(config.is_absolute() && !config.exists(), "{}", config.display());
        for server in ["gateway", "admin", "payments, with"] {
            let url = entry(&text, server).strip_prefix("http://").expect("a URL");
            let address = url.split('/').next().expect("an address");
            let address: SocketAddr = address.parse().expect("an address");
            assert!(TcpStream::connect(address).is_err(), "{server} still listens on {address}");
        }
    }

    #[actix_web::test]
    async fn a_taken_port_is_named_with_what_to_do() {
        // Where it is another program that has the port, the test is none the worse.
        let _taken = TcpListener::bind(("127.0.0.1", MCP_PORT));
        let Err(error) = World::start(Ports::Fixed).await else { panic!("the port is taken") };
        let message = error.to_string();
        assert!(message.contains("127.0.0.1:8080"), "{message}");
        assert!(message.contains("--keep-running"), "{message}");
    }
}
