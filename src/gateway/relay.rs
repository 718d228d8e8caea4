//! Bodies on their way to a client: as they come, without buffering.

use std::time::Duration;

use actix_web::body::{BodyStream, BoxBody, MessageBody, SizedStream};
use actix_web::web::Bytes;
use futures_util::Stream;
use futures_util::stream;
use tokio::sync::mpsc;

use crate::patience::within;

/// How many pieces of a reply may wait for a slow client.
const PIECES_WAITING: usize = 16;

/// A body that broke off: the client's connection is aborted, never ended as if all had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the reply broke off")]
pub struct Broken;

enum Frame {
    Piece(Bytes),
    End,
}

/// The sending half of a relayed body.
pub struct Sender {
    frames: mpsc::Sender<Frame>,
    patience: Duration,
    gone: bool,
}

/// A body fed from another task. `length` is the length that the upstream declared, if any; a
/// client that takes nothing for `patience` counts as gone.
pub fn channel(length: Option<u64>, patience: Duration) -> (Sender, BoxBody) {
    let (frames, mut received) = mpsc::channel(PIECES_WAITING);
    let pieces = stream::poll_fn(move |context| {
        received.poll_recv(context).map(|frame| match frame {
            Some(Frame::Piece(bytes)) => Some(Ok(bytes)),
            Some(Frame::End) => None,
            None => Some(Err(Broken)),
        })
    });
    (Sender { frames, patience, gone: false }, body(length, pieces))
}

/// A body made of a stream of pieces.
pub fn body<S>(length: Option<u64>, pieces: S) -> BoxBody
where
    S: Stream<Item = Result<Bytes, Broken>> + 'static,
{
    match length {
        Some(length) => SizedStream::new(length, pieces).boxed(),
        None => BodyStream::new(pieces).boxed(),
    }
}

impl Sender {
    /// Hands on a piece. A client that has left, or takes nothing for too long, gets no more.
    pub async fn piece(&mut self, bytes: Bytes) {
        self.send(Frame::Piece(bytes)).await;
    }

    /// Ends the body cleanly. Without this the client's connection is aborted.
    pub async fn end(mut self) {
        self.send(Frame::End).await;
    }

    async fn send(&mut self, frame: Frame) {
        if !self.gone {
            let sent = within(self.patience, self.frames.send(frame)).await;
            self.gone = !matches!(sent, Ok(Ok(())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::body::{BodySize, to_bytes};

    const PATIENCE: Duration = Duration::from_secs(60);

    #[actix_web::test]
    async fn a_body_ends_only_where_it_was_ended() {
        let (mut sender, body) = channel(None, PATIENCE);
        sender.piece(Bytes::from_static(b"ab")).await;
        sender.piece(Bytes::from_static(b"c")).await;
        sender.end().await;
        assert_eq!(to_bytes(body).await.expect("whole"), "abc");

        let (mut sender, body) = channel(None, PATIENCE);
        sender.piece(Bytes::from_static(b"ab")).await;
        drop(sender);
        assert!(to_bytes(body).await.is_err());
    }

    #[actix_web::test]
    async fn a_declared_length_is_kept_and_a_client_that_left_stops_nothing() {
        let (mut sender, body) = channel(Some(3), PATIENCE);
        assert_eq!(body.size(), BodySize::Sized(3));
        drop(body);
        sender.piece(Bytes::from_static(b"abc")).await;
        assert!(sender.gone);
        sender.end().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_counts_as_gone() {
        let (mut sender, _body) = channel(None, Duration::from_secs(60));
        for _ in 0..PIECES_WAITING {
            sender.piece(Bytes::from_static(b"x")).await;
        }
        assert!(!sender.gone);
        sender.piece(Bytes::from_static(b"x")).await;
        assert!(sender.gone);
    }
}
