//! The time line: how the demo looks. At most [`WIDTH`] columns; styles are written always and
//! stripped by the stream where the terminal has none.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Color, Style};

/// The most columns of a line.
pub const WIDTH: usize = 100;

/// The columns of the time before a step.
const MARGIN: usize = 10;
/// The columns between the time and a step's text: who, and an arrow.
const LABEL: usize = 15;
/// The column at which a step's text begins.
const TEXT_AT: usize = MARGIN + LABEL;
/// The columns of the count before the charges.
const COUNT: usize = 11;
/// The columns of a step's text, before its aside.
const TEXT_WIDTH: usize = 39;

const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = coloured(AnsiColor::Green);
const BAD: Style = coloured(AnsiColor::Red);
const CAREFUL: Style = coloured(AnsiColor::Yellow);

const fn coloured(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(Color::Ansi(color)))
}

/// Who does something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// The client.
    Client,
    /// The payments server.
    Payments,
}

/// What kind of thing is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// A request leaves the client.
    Sends,
    /// A reply comes, and the call was executed or replayed.
    Gets,
    /// A reply comes, and it is a refusal.
    Refused,
    /// The client goes away.
    HangsUp,
    /// Money moves.
    Charges,
}

impl Actor {
    fn look(self) -> (&'static str, Style) {
        match self {
            Self::Client => ("client", coloured(AnsiColor::Cyan)),
            Self::Payments => ("payments", coloured(AnsiColor::Magenta)),
        }
    }
}

impl Act {
    fn look(self) -> (&'static str, Style) {
        match self {
            Self::Sends => ("──▶", PLAIN),
            Self::Gets => ("◀──", GOOD),
            Self::Refused => ("◀──", CAREFUL),
            Self::HangsUp => (" ✗ ", BAD),
            Self::Charges => (" ● ", coloured(AnsiColor::Magenta)),
        }
    }
}

/// How a line of the summary or a verdict looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was as promised.
    Kept,
    /// It was not.
    Broken,
}

/// How the ledger stands after a scene.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// As promised: nobody paid twice.
    Single,
    /// As promised: somebody paid twice.
    Doubled,
    /// Not as promised.
    Wrong,
}

impl Verdict {
    fn look(self) -> (&'static str, &'static str, Style) {
        match self {
            Self::Kept => ("✔", "as promised", GOOD),
            Self::Broken => ("✘", "broken", BAD),
        }
    }
}

/// Writes the demo. The first error of the output is kept for [`Timeline::finish`]; what would
/// follow it is not written.
pub struct Timeline<'w> {
    out: &'w mut dyn Write,
    started: Instant,
    failed: Option<io::Error>,
}

impl<'w> Timeline<'w> {
    /// A time line that counts from `started`.
    pub fn new(out: &'w mut dyn Write, started: Instant) -> Self {
        Self { out, started, failed: None }
    }

    /// Brings what was written so far before the reader's eyes.
    pub fn flush(&mut self) {
        if self.failed.is_none()
            && let Err(error) = self.out.flush()
        {
            self.failed = Some(error);
        }
    }

    /// Ends it.
    ///
    /// # Errors
    ///
    /// The first error that the output gave.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush();
        self.failed.map_or(Ok(()), Err)
    }

    /// An empty line.
    pub fn blank(&mut self) {
        self.write("");
    }

    /// The first line of the demo.
    pub fn title(&mut self, name: &str, what: &str) {
        self.write(&format!("{BOLD}{name}{BOLD:#}  {what}"));
    }

    /// A rule with the heading of what follows.
    pub fn heading(&mut self, text: &str) {
        let rule = "━".repeat(WIDTH.saturating_sub(text.chars().count() + 4));
        self.blank();
        self.write(&format!("{DIM}━━{DIM:#} {BOLD}{text}{BOLD:#} {DIM}{rule}{DIM:#}"));
    }

    /// A paragraph, wrapped.
    pub fn paragraph(&mut self, text: &str) {
        for line in wrapped(text.split(' '), " ", WIDTH - 3) {
            self.write(&format!("   {line}"));
        }
    }

    /// A line as it is, for what is to be copied.
    pub fn verbatim(&mut self, text: &str) {
        self.write(text);
    }

    /// A name and what it is, in two columns.
    pub fn entry(&mut self, name: &str, what: &str) {
        let mut name = format!("{name:<40}");
        for line in wrapped(what.split(' '), " ", WIDTH - 44) {
            self.write(&format!("   {BOLD}{name}{BOLD:#} {line}"));
            name = " ".repeat(40);
        }
    }

    /// One step: who does what, with an aside to its right where there is one.
    pub fn step(&mut self, actor: Actor, act: Act, text: &str, aside: &str) {
        let line = step_line(self.started.elapsed(), actor, act, text, aside);
        self.write(&line);
    }

    /// The sentence under a step.
    pub fn note(&mut self, text: &str) {
        for line in wrapped(text.split(' '), " ", WIDTH - TEXT_AT) {
            self.write(&format!("{:TEXT_AT$}{DIM}{line}{DIM:#}", ""));
        }
    }

    /// The ledger of charges, and how it stands.
    pub fn ledger(&mut self, charges: &[String], standing: Standing) {
        let count = match charges.len() {
            0 => "no charge".to_owned(),
            1 => "1 charge".to_owned(),
            several => format!("{several} charges"),
        };
        let style = match standing {
            Standing::Single => GOOD,
            Standing::Doubled => CAREFUL,
            Standing::Wrong => BAD,
        };
        let style = style.bold();
        let mut label = format!("{:MARGIN$}{BOLD}{:<LABEL$}{BOLD:#}", "", "ledger");
        let mut count = format!("{count:<COUNT$}");
        let names = charges.iter().map(String::as_str);
        for line in wrapped(names, " · ", WIDTH - TEXT_AT - COUNT) {
            self.write(&format!("{label}{style}{count}{style:#}{line}"));
            label = " ".repeat(TEXT_AT);
            count = " ".repeat(COUNT);
        }
    }

    /// How a scene ended.
    pub fn verdict(&mut self, verdict: Verdict, text: &str) {
        let (mark, label, style) = verdict.look();
        let mut head =
            format!("{:MARGIN$}{style}{:<LABEL$}{style:#}", "", format!("{mark} {label}"));
        for line in wrapped(text.split(' '), " ", WIDTH - TEXT_AT) {
            self.write(&format!("{head}{line}"));
            head = " ".repeat(TEXT_AT);
        }
    }

    /// A row of the summary.
    pub fn row(&mut self, verdict: Verdict, title: &str, promise: &str) {
        let (mark, _, style) = verdict.look();
        self.write(&format!("   {style}{mark}{style:#} {title:<42} {promise}"));
    }

    /// The last line of the summary.
    pub fn total(&mut self, verdict: Verdict, text: &str) {
        let style = verdict.look().2.bold();
        self.blank();
        self.write(&format!("   {style}{text}{style:#}"));
    }

    fn write(&mut self, line: &str) {
        if self.failed.is_none()
            && let Err(error) = writeln!(self.out, "{line}")
        {
            self.failed = Some(error);
        }
    }
}

fn step_line(elapsed: Duration, actor: Actor, act: Act, text: &str, aside: &str) -> String {
    let (name, colour) = actor.look();
    let (mark, mark_style) = act.look();
    let elapsed_ms = elapsed.as_millis();
    let text = if aside.is_empty() { text.to_owned() } else { format!("{text:<TEXT_WIDTH$}") };
    let aside = if aside.is_empty() { String::new() } else { format!(" {DIM}{aside}{DIM:#}") };
    format!(
        "{DIM}{elapsed_ms:>6} ms{DIM:#} {colour}{name:<9}{colour:#} {mark_style}{mark}{mark_style:#}  \
         {text}{aside}"
    )
}

/// Joins words by `gap` into lines of at most `width` characters; a longer word stands alone. At
/// least one line.
fn wrapped<'t>(words: impl Iterator<Item = &'t str>, gap: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words {
        let length = gap.chars().count() + word.chars().count();
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + length <= width => {
                line.push_str(gap);
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a terminal without styles shows.
    fn plain(draw: impl FnOnce(&mut Timeline<'_>)) -> String {
        let mut out = Vec::new();
        let mut stripped = anstream::StripStream::new(&mut out);
        let mut timeline = Timeline::new(&mut stripped, Instant::now());
        draw(&mut timeline);
        timeline.finish().expect("a vector takes everything");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_step_has_a_time_an_actor_an_arrow_a_text_and_an_aside() {
        let line =
            step_line(Duration::from_millis(12), Actor::Client, Act::Sends, "hello", "no key");
        let plain = anstream::adapter::strip_str(&line).to_string();
        let gap = " ".repeat(34);
        assert_eq!(plain, format!("    12 ms client    ──▶  hello{gap} no key"));
    }

    #[test]
    fn no_line_is_wider_than_the_time_line() {
        let words = "several words ".repeat(30);
        let charges = vec!["ch_10 25.00 EUR to somebody".to_owned(); 9];
        let shown = plain(|timeline| {
            timeline.heading("A heading");
            timeline.paragraph(&words);
            timeline.entry("onceward serve --upstream URL", &words);
            timeline.note(&words);
            timeline.ledger(&charges, Standing::Single);
            timeline.verdict(Verdict::Broken, &words);
        });
        for line in shown.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        assert_eq!(shown.matches("several").count(), 4 * 30, "nothing is lost in wrapping");
    }

    #[test]
    fn the_ledger_breaks_between_charges_only() {
        let charges = ["ch_1 25.00 EUR to ada".to_owned(), "ch_2 25.00 EUR to ada".to_owned()];
        let shown = plain(|timeline| timeline.ledger(&charges, Standing::Doubled));
        let gap = " ".repeat(10);
        assert_eq!(
            shown,
            format!(
                "{gap}ledger         2 charges  ch_1 25.00 EUR to ada · ch_2 25.00 EUR to ada\n"
            )
        );
    }

    #[test]
    fn an_output_that_fails_is_reported_at_the_end() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut closed = Closed;
        let mut timeline = Timeline::new(&mut closed, Instant::now());
        timeline.paragraph("nobody reads this");
        let error = timeline.finish().expect_err("the pipe is closed");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
