//! The picture.
//!
//! ```text
//! endpoints     one line each: rates, ACKs, round trip, queue
//! curves        sent, received
//! packets       by kind, both ways | round trip, buffers, what senders wait for
//! keys
//! ```

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table, Wrap};

use super::state::{DIRECTIONS, Endpoint, KINDS, Reading, State};
use crate::units::{bytes_text, scaled_bits};

/// The least rows of the curves, frame included, where there is room.
const LEAST_CURVE: u16 = 5;
/// What each endpoint has a figure of, and how wide.
const COLUMNS: [(&str, u16); 7] = [
    ("conns", 5),
    ("sent", 12),
    ("received", 12),
    ("ACKs/s out", 10),
    ("in", 6),
    ("RTT", 7),
    ("queue", 7),
];
/// What gives way to the endpoints' names, in this order: the rates never do.
const GIVE_WAY: [usize; 5] = [6, 5, 4, 3, 0];
/// Room for a name: `127.0.0.1:9826`.
const NAME: u16 = 14;

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, state: &State) {
    let height = frame.area().height;
    let list = u16::try_from(state.endpoints.len()).unwrap_or(8).min(8) + 3;
    // In a low terminal figures and keys are worth more than a picture.
    let list = list.min(height.saturating_sub(1));
    let least_curve = LEAST_CURVE.min(height.saturating_sub(list + 1));
    // As tall as all kinds of packets are, where there is room; the curves have what is left.
    let details = KINDS.len() as u16 + 3;
    let left = height.saturating_sub(list + 1 + least_curve);
    let parts = [
        Constraint::Length(list),
        Constraint::Min(least_curve),
        Constraint::Length(details.min(left)),
        Constraint::Length(1),
    ];
    let [top, curves, details, keys] = Layout::vertical(parts).areas(frame.area());
    endpoints(frame, top, state);
    let endpoint = &state.endpoints[state.selected];
    let halves = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]);
    let [sent, received] = halves.areas(curves);
    for (direction, area) in [sent, received].into_iter().enumerate() {
        curve(frame, area, endpoint, direction);
    }
    let [left, right] = halves.areas(details);
    packets(frame, left, endpoint.reading());
    measures(frame, right, endpoint);
    let paused = if state.paused { "   paused" } else { "" };
    let help = format!(" q quit   p pause   arrows another endpoint{paused}");
    frame.render_widget(Paragraph::new(help).style(dim()), keys);
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn endpoints(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let columns = shown(area.width);
    let style = |index| match index == state.selected && state.endpoints.len() > 1 {
        true => Style::new().add_modifier(Modifier::REVERSED),
        false => Style::new(),
    };
    let rows = state.endpoints.iter().enumerate().map(|(index, endpoint)| {
        let mut cells = vec![endpoint.name.clone()];
        if let Some(reading) = endpoint.reading() {
            let mut figures = summary(reading);
            cells.extend(columns.iter().map(|&column| std::mem::take(&mut figures[column])));
        }
        Row::new(cells).style(style(index))
    });
    let figures = columns.iter().map(|&column| Constraint::Length(COLUMNS[column].1));
    let widths = [Constraint::Fill(1)].into_iter().chain(figures);
    let head = ["endpoint"].into_iter().chain(columns.iter().map(|&column| COLUMNS[column].0));
    let block = Block::bordered().title(" tack top ");
    let inner = block.inner(area);
    let table = Table::new(rows, widths).header(Row::new(head).style(dim())).block(block);
    frame.render_widget(table, area);
    // Why there are no figures takes the room of all of them.
    let figures = width_of(&columns).min(inner.width);
    let first = inner.y.saturating_add(1);
    for ((index, endpoint), y) in state.endpoints.iter().enumerate().zip(first..inner.bottom()) {
        if let Some(why) = why_not(endpoint) {
            let x = inner.right() - figures + 1;
            let room = Rect::new(x, y, figures.saturating_sub(1), 1).intersection(inner);
            frame.render_widget(Paragraph::new(why).style(style(index)), room);
        }
    }
}

/// Which columns there is room for.
fn shown(width: u16) -> Vec<usize> {
    let mut columns: Vec<usize> = (0..COLUMNS.len()).collect();
    for least in GIVE_WAY {
        if width_of(&columns) + NAME + 2 <= width {
            break;
        }
        columns.retain(|&column| column != least);
    }
    columns
}

/// Of columns, each with what sets it apart.
fn width_of(columns: &[usize]) -> u16 {
    columns.iter().map(|&column| COLUMNS[column].1 + 1).sum()
}

/// Why there are no figures.
fn why_not(endpoint: &Endpoint) -> Option<&str> {
    match endpoint.reading() {
        Some(_) => None,
        None => Some(endpoint.trouble.as_deref().unwrap_or("waiting for two answers")),
    }
}

fn summary(reading: &Reading) -> [String; 7] {
    let [sent, received] = reading.bits_per_second;
    [
        format!("{:.0}", reading.connections.iter().sum::<f64>()),
        rate(sent),
        rate(received),
        count(reading.acks_per_second(0)),
        count(reading.acks_per_second(1)),
        time(reading.rtt_seconds[0]),
        time(reading.queue_seconds()),
    ]
}

fn curve(frame: &mut Frame<'_>, area: Rect, endpoint: &Endpoint, direction: usize) {
    let past = endpoint.history(direction);
    let now = endpoint.reading().map_or("-".to_owned(), |now| rate(now.bits_per_second[direction]));
    let most = past.iter().max().map_or("-".to_owned(), |&bits| rate(bits as f64));
    let title = format!(" {} {now} ", DIRECTIONS[direction]);
    let block = Block::bordered().title(title).title_bottom(format!(" most {most} "));
    let columns = usize::from(block.inner(area).width);
    let latest = &past[past.len().saturating_sub(columns)..];
    let color = if direction == 0 { Color::Green } else { Color::Cyan };
    let line = Sparkline::default().data(latest).style(Style::new().fg(color)).block(block);
    frame.render_widget(line, area);
}

fn packets(frame: &mut Frame<'_>, area: Rect, reading: Option<&Reading>) {
    let of = |direction: usize, kind: &str| {
        let kinds = reading.map(|reading| &reading.packets_per_second[direction]);
        kinds.and_then(|kinds| kinds.get(kind).copied())
    };
    let seen = KINDS.into_iter().filter(|kind| (0..2).any(|d| of(d, kind).is_some()));
    let rows = seen.map(|kind| {
        let cell = |direction| Cell::from(of(direction, kind).map_or("-".to_owned(), count));
        Row::new([Cell::from(kind.replace('_', " ")), cell(0), cell(1)])
    });
    let widths = [Constraint::Fill(1), Constraint::Length(10), Constraint::Length(10)];
    let table = Table::new(rows, widths)
        .header(Row::new(["kind", "sent/s", "received/s"]).style(dim()))
        .block(Block::bordered().title(" packets "));
    frame.render_widget(table, area);
}

/// Lines that are whole in a terminal of 80 columns, of which half of the inside is 38.
fn measures(frame: &mut Frame<'_>, area: Rect, endpoint: &Endpoint) {
    let block = Block::bordered().title(" round trip, buffers, limits ");
    let Some(reading) = endpoint.reading() else {
        let why = Paragraph::new(why_not(endpoint).unwrap_or_default());
        frame.render_widget(why.wrap(Wrap { trim: true }).block(block), area);
        return;
    };
    let [rtt, rtt_min] = reading.rtt_seconds.map(time);
    let [in_flight, unacknowledged, unread, memory] =
        reading.bytes.map(|bytes| bytes_text(bytes as u64));
    let [application, peer, congestion] =
        reading.limited.map(|share| format!("{:.0} %", 100.0 * share));
    let [blocked, refused, again] = reading.trouble_per_second.map(count);
    let [tack, plain] = reading.connections;
    let lines = [
        format!("connections  {tack:.0} TACK, {plain:.0} plain"),
        format!("round trip   {rtt}, least {rtt_min}"),
        format!("queue        {}", time(reading.queue_seconds())),
        format!("in flight    {in_flight}"),
        format!("not ACKed    {unacknowledged}"),
        format!("not read     {unread}"),
        format!("buffers      {memory}"),
        format!("waits for    application {application}"),
        format!("             peer {peer}, window {congestion}"),
        format!("sent again   {again}/s"),
        format!("socket full  {blocked}/s, refused {refused}/s"),
    ];
    let lines: Vec<Line<'_>> = lines.into_iter().map(Line::from).collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn rate(bits_per_second: f64) -> String {
    format!("{}/s", scaled_bits(bits_per_second))
}

fn count(per_second: f64) -> String {
    if per_second < 10.0 { format!("{per_second:.1}") } else { format!("{per_second:.0}") }
}

fn time(seconds: f64) -> String {
    match seconds {
        0.0 => "-".to_owned(),
        s if s < 1e-3 => format!("{:.0} us", 1e6 * s),
        s if s < 0.1 => format!("{:.1} ms", 1e3 * s),
        s => format!("{:.0} ms", 1e3 * s),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use tack_units::Instant;

    use super::*;
    use crate::top::scrape::{Sample, ScrapeError};

    /// What is drawn, line by line.
    fn drawn(state: &State, columns: u16, rows: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..columns).map(|x| buffer[(x, y)].symbol().to_owned()).collect();
        (0..rows).map(row).collect()
    }

    fn busy() -> State {
        let mut state = State::new(["here:1".to_owned(), "there:2".to_owned()]);
        for second in 1..=3_u64 {
            let text = format!(
                "tack_bytes_total{{direction=\"sent\"}} {}\n\
                 tack_packets_total{{direction=\"sent\",kind=\"data\"}} {}\n\
                 tack_packets_total{{direction=\"received\",kind=\"tack\"}} {}\n\
                 tack_packets_total{{direction=\"received\",kind=\"loss_iack\"}} {}\n\
                 tack_connections{{mode=\"tack\"}} 2\ntack_rtt_seconds_max 0.0843\n\
                 tack_rtt_min_seconds_max 0.08\ntack_in_flight_bytes 1048576\n\
                 tack_limited_seconds{{by=\"congestion\"}} {second}\n",
                second * 12_500_000,
                second * 9_000,
                second * 50,
                second * 2,
            );
            let at = Instant::ZERO + Duration::from_secs(second);
            state.endpoints[0].answered(Ok(Sample::read(&text)), at);
        }
        let nobody = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        state.endpoints[1].answered(Err(ScrapeError::Io(nobody)), Instant::ZERO);
        state
    }

    #[test]
    fn rates_acks_by_kind_round_trip_queue_and_limits_are_shown() {
        let lines = drawn(&busy(), 110, 24);
        let line = |part: &str| {
            let found = lines.iter().find(|line| line.contains(part));
            found.unwrap_or_else(|| panic!("no {part}:\n{}", lines.join("\n")))
        };
        let row = line("here:1");
        for part in ["100 Mbits/s", "0.00 bits/s", " 52 ", "84.3 ms", "4.3 ms"] {
            assert!(row.contains(part), "{part}: {row}");
        }
        assert!(line("there:2").contains("no answer"));
        assert!(line("loss iack").contains(" 2.0"));
        assert!(line("data").contains("9000"));
        assert!(line("in flight").contains("1.00 MBytes"));
        assert!(line("peer 0 %").contains("window 50 %"));
        assert!(line(" sent 100 Mbits/s ─").contains(" received 0.00 bits/s ─"));
        assert!(line(" most 100 Mbits/s ─").contains(" most 0.00 bits/s ─"));
        assert!(lines.iter().any(|line| line.contains('█')), "a curve");
    }

    #[test]
    fn eighty_columns_and_twenty_four_rows_have_names_reasons_and_whole_lines() {
        let mut state = busy();
        state.endpoints[0].name = "127.0.0.1:9826".to_owned();
        let screen = drawn(&state, 80, 24).join("\n");
        for part in [
            "127.0.0.1:9826 ",
            "there:2 ",
            "no answer: connection refused",
            " sent 100 Mbits/s ─",
            " received 0.00 bits/s ─",
            " most 100 Mbits/s ─",
            "round trip   84.3 ms, least 80.0 ms",
            "queue        4.3 ms",
            "peer 0 %, window 50 %",
            "socket full  0.0/s, refused 0.0/s",
            "loss iack",
        ] {
            assert!(screen.contains(part), "no {part}:\n{screen}");
        }
    }

    #[test]
    fn who_is_gone_has_no_rate_and_says_why_and_a_tall_terminal_gives_its_rows_to_the_curves() {
        let mut state = busy();
        let tall = drawn(&state, 120, 40);
        assert!(tall.iter().filter(|line| line.contains('█')).count() > 10, "{}", tall.join("\n"));
        let nobody = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        state.endpoints[0]
            .answered(Err(ScrapeError::Io(nobody)), Instant::ZERO + Duration::from_secs(4));
        let screen = drawn(&state, 80, 24).join("\n");
        assert!(screen.contains(" sent - ─") && screen.contains(" most 100 Mbits/s ─"), "{screen}");
        assert_eq!(screen.matches("no answer: connection refused").count(), 3, "{screen}");
    }

    #[test]
    fn in_a_small_terminal_who_and_how_fast_and_the_keys_come_before_curves() {
        let screen = drawn(&busy(), 44, 8).join("\n");
        for part in ["here:1", "there:2", "100 Mbits/s", "0.00 bits/s", "q quit"] {
            assert!(screen.contains(part), "no {part}:\n{screen}");
        }
        assert!(shown(60).len() < shown(80).len() && shown(80).len() < shown(90).len());
    }

    #[test]
    fn no_terminal_is_too_small() {
        let mut state = busy();
        state.select(1);
        state.paused = true;
        for (columns, rows) in [(1, 1), (3, 2), (20, 5), (200, 3), (5, 60)] {
            drawn(&state, columns, rows);
        }
        assert!(drawn(&state, 80, 30)[29].contains("paused"));
    }
}
