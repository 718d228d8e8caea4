//! Lines to an HTTP server, in batches.

use crate::observe::feed::{Consumer, State};
use crate::observe::post::Poster;

/// The media type of a posted batch: one JSON object a line, each with its line feed.
pub const CONTENT_TYPE: &str = "application/x-ndjson";

/// Sends batches. A batch that was not taken is lost whole; one whose answer was lost is sent again,
/// so a server may see it twice.
pub(super) struct Batches {
    poster: Poster,
}

impl Batches {
    pub(super) fn new(poster: Poster) -> Self {
        Self { poster }
    }
}

impl Consumer<Vec<u8>> for Batches {
    fn weight(line: &Vec<u8>) -> usize {
        line.len()
    }

    fn consume(&mut self, batch: &mut Vec<Vec<u8>>, state: &State) {
        let lines = batch.len() as u64;
        let body = batch.concat();
        batch.clear();
        if let Err(error) = self.poster.post(body.into(), CONTENT_TYPE, state) {
            state.lost(lines, &error);
        }
    }
}
