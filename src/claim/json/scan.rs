//! The one pass over a text: grammar, limits and the tape. Open containers are a list, not calls,
//! so no input can exhaust the stack.

use smallvec::SmallVec;

use super::tape::{Node, Tag};
use super::text::{BadEscape, Named, decode_escape, end_of_plain_run};
use super::{JsonError, MAX_DEPTH};

/// Up to this many members, comparing each pair of names is cheaper than sorting them.
const PAIRWISE_MEMBERS: usize = 16;

/// Bytes of source that one node is expected to take. Denser texts make the tape grow.
const BYTES_PER_NODE: usize = 8;

/// Reads one value. The source must not be longer than [`super::MAX_BYTES`], so that every offset
/// and every tape index fits 32 bits.
pub(super) fn scan(source: &str) -> Result<Vec<Node>, JsonError> {
    let mut scanner = Scanner {
        source,
        bytes: source.as_bytes(),
        at: 0,
        tape: Vec::with_capacity(source.len() / BYTES_PER_NODE + 1),
        open: SmallVec::new(),
        names: Vec::new(),
    };
    scanner.document()?;
    Ok(scanner.tape)
}

struct Scanner<'a> {
    source: &'a str,
    bytes: &'a [u8],
    at: usize,
    tape: Vec<Node>,
    /// Tape indexes of the containers that are not closed yet, the innermost last.
    open: SmallVec<[u32; 32]>,
    /// Scratch: the names of the object that is being closed, and where they stand.
    names: Vec<Named<'a, usize>>,
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), JsonError> {
        self.skip_space();
        if self.at == self.bytes.len() {
            return Err(JsonError::Empty(self.at));
        }
        loop {
            let complete = self.begin_value()?;
            if complete && !self.has_another_value()? {
                break;
            }
        }
        self.skip_space();
        if self.at < self.bytes.len() {
            return Err(JsonError::TrailingData(self.at));
        }
        Ok(())
    }

    /// Reads a scalar or an empty container whole (true), or opens a container and stops where
    /// its first value begins (false).
    fn begin_value(&mut self) -> Result<bool, JsonError> {
        match self.peek()? {
            b'"' => self.string()?,
            b'{' => return self.open(Tag::Object),
            b'[' => return self.open(Tag::Array),
            b'-' | b'0'..=b'9' => self.number()?,
            b't' => self.literal("true", Tag::Bool)?,
            b'f' => self.literal("false", Tag::Bool)?,
            b'n' => self.literal("null", Tag::Null)?,
            _ => return Err(JsonError::Unexpected(self.at)),
        }
        Ok(true)
    }

    /// After a complete value: closes what ends here; true if another value follows, false if the
    /// root is complete.
    fn has_another_value(&mut self) -> Result<bool, JsonError> {
        while let Some(&container) = self.open.last() {
            let container = container as usize;
            let is_object = self.tape[container].tag == Tag::Object;
            self.skip_space();
            match (self.peek()?, is_object) {
                (b',', true) => {
                    self.at += 1;
                    self.skip_space();
                    self.member_name()?;
                    return Ok(true);
                }
                (b',', false) => {
                    self.at += 1;
                    self.skip_space();
                    return Ok(true);
                }
                (b'}', true) | (b']', false) => self.close(container)?,
                _ => return Err(JsonError::Unexpected(self.at)),
            }
        }
        Ok(false)
    }

    fn open(&mut self, tag: Tag) -> Result<bool, JsonError> {
        if self.open.len() == MAX_DEPTH {
            return Err(JsonError::TooDeep(self.at));
        }
        let index = self.tape.len();
        self.open.push(narrow(index));
        self.push(self.at, self.at + 1, tag);
        self.at += 1;
        self.skip_space();
        let closing = if tag == Tag::Object { b'}' } else { b']' };
        if self.peek()? == closing {
            self.close(index)?;
            return Ok(true);
        }
        if tag == Tag::Object {
            self.member_name()?;
        }
        Ok(false)
    }

    fn close(&mut self, container: usize) -> Result<(), JsonError> {
        self.at += 1;
        let next = narrow(self.tape.len());
        let node = &mut self.tape[container];
        node.end = narrow(self.at);
        node.next = next;
        let is_object = node.tag == Tag::Object;
        self.open.pop();
        if is_object { self.check_names(container) } else { Ok(()) }
    }

    /// Reads a name, the colon and the space around it.
    fn member_name(&mut self) -> Result<(), JsonError> {
        if self.peek()? != b'"' {
            return Err(JsonError::Unexpected(self.at));
        }
        self.string()?;
        self.skip_space();
        if self.peek()? != b':' {
            return Err(JsonError::Unexpected(self.at));
        }
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    fn string(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        let mut tag = Tag::Plain;
        self.at += 1;
        loop {
            self.at = end_of_plain_run(self.bytes, self.at);
            match self.peek()? {
                b'"' => break,
                b'\\' => {
                    tag = Tag::Escaped;
                    self.escape()?;
                }
                _ => return Err(JsonError::ControlCharacter(self.at)),
            }
        }
        self.at += 1;
        self.push(start, self.at, tag);
        Ok(())
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        match decode_escape(&self.bytes[self.at + 1..]) {
            Ok((_, length)) => self.at += 1 + length,
            Err(BadEscape::Malformed) => return Err(JsonError::Escape(self.at)),
            Err(BadEscape::LoneSurrogate) => return Err(JsonError::LoneSurrogate(self.at)),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        self.take(|byte| byte == b'-');
        let leading_zero = self.bytes.get(self.at) == Some(&b'0');
        let whole = self.digits();
        let mut valid = whole == 1 || whole > 1 && !leading_zero;
        if self.take(|byte| byte == b'.') {
            valid &= self.digits() > 0;
        }
        if self.take(|byte| matches!(byte, b'e' | b'E')) {
            self.take(|byte| matches!(byte, b'+' | b'-'));
            valid &= self.digits() > 0;
        }
        if !valid {
            return Err(JsonError::Number(start));
        }
        self.push(start, self.at, Tag::Number);
        Ok(())
    }

    /// Steps over decimal digits; returns how many.
    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.take(|byte| byte.is_ascii_digit()) {}
        self.at - start
    }

    fn take(&mut self, wanted: impl Fn(u8) -> bool) -> bool {
        let found = self.bytes.get(self.at).is_some_and(|byte| wanted(*byte));
        self.at += usize::from(found);
        found
    }

    fn literal(&mut self, word: &str, tag: Tag) -> Result<(), JsonError> {
        let start = self.at;
        if !self.bytes[start..].starts_with(word.as_bytes()) {
            return Err(JsonError::Unexpected(start));
        }
        self.at += word.len();
        self.push(start, self.at, tag);
        Ok(())
    }

    fn peek(&self) -> Result<u8, JsonError> {
        self.bytes.get(self.at).copied().ok_or(JsonError::Truncated(self.at))
    }

    fn skip_space(&mut self) {
        while self.take(|byte| matches!(byte, b' ' | b'\n' | b'\t' | b'\r')) {}
    }

    fn push(&mut self, start: usize, end: usize, tag: Tag) {
        let next = narrow(self.tape.len() + 1);
        self.tape.push(Node { start: narrow(start), end: narrow(end), next, tag });
    }

    /// Refuses an object, just closed, that holds one name twice. The error is at the first name
    /// that repeats an earlier one.
    fn check_names(&mut self, object: usize) -> Result<(), JsonError> {
        self.names.clear();
        let mut index = object + 1;
        while let Some(name) = self.tape.get(index) {
            self.names.push(Named::new(name.text(self.source).unescape(), name.start as usize));
            index = self.tape[index + 1].next as usize;
        }
        let repeated = if self.names.len() <= PAIRWISE_MEMBERS {
            repeated_pairwise(&self.names)
        } else {
            repeated_sorted(&mut self.names)
        };
        repeated.map_or(Ok(()), |at| Err(JsonError::DuplicateName(at)))
    }
}

fn repeated_pairwise(names: &[Named<'_, usize>]) -> Option<usize> {
    names.iter().enumerate().find_map(|(count, name)| {
        names[..count].iter().any(|earlier| earlier.same_name(name)).then_some(name.item)
    })
}

fn repeated_sorted(names: &mut [Named<'_, usize>]) -> Option<usize> {
    names.sort_unstable_by(|a, b| a.order(b).then(a.item.cmp(&b.item)));
    let pairs = names.array_windows::<2>();
    pairs.filter(|[a, b]| a.same_name(b)).map(|[_, b]| b.item).min()
}

/// Cannot lose bits: a document is at most [`super::MAX_BYTES`] long, and a tape has no more
/// nodes than its document has bytes.
#[expect(clippy::cast_possible_truncation, reason = "bounded by MAX_BYTES")]
const fn narrow(offset: usize) -> u32 {
    offset as u32
}
