//! `tack top`.

use std::io::{self, IsTerminal};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tack_device::Clock;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::args::top::TopConfig;
use crate::exit::{ExitCode, Failure};
use crate::stop::Stop;
use crate::top::draw::draw;
use crate::top::scrape::scrape;
use crate::top::state::State;
use tack_net::HostPort;

/// Keys that wait to be looked at.
const MOST_KEYS: usize = 16;

/// Looks until the user has seen enough.
pub async fn run(config: TopConfig, stop: Stop) -> Result<ExitCode, Failure> {
    if !io::stdout().is_terminal() {
        let why = "top draws in a terminal; programs read the metrics themselves, by HTTP";
        return Err(Failure::usage(why));
    }
    let failed = |e: io::Error| Failure::new(ExitCode::Failed, format!("the terminal: {e}"));
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let looked = look(&config, &mut terminal, &stop).await;
    ratatui::restore();
    looked.map_err(failed)
}

async fn look(
    config: &TopConfig,
    terminal: &mut DefaultTerminal,
    stop: &Stop,
) -> io::Result<ExitCode> {
    let clock = Clock::start();
    let mut state = State::new(config.endpoints.iter().map(HostPort::to_string));
    let mut keys = keys();
    let mut ticks = interval(config.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        terminal.draw(|frame| draw(frame, &state))?;
        tokio::select! {
            key = keys.recv() => match key.as_ref().map(action) {
                None | Some(Action::Quit) => return Ok(ExitCode::Success),
                Some(Action::Pause) => state.paused = !state.paused,
                Some(Action::Select(by)) => state.select(by),
                Some(Action::Nothing) => {}
            },
            _ = ticks.tick(), if !state.paused => {
                for (endpoint, from) in state.endpoints.iter_mut().zip(&config.endpoints) {
                    let answer = scrape(from).await;
                    endpoint.answered(answer, clock.now());
                }
            }
            () = stop.asked() => return Ok(ExitCode::Interrupted),
        }
    }
}

/// What a key asks for.
enum Action {
    Quit,
    Pause,
    Select(isize),
    /// To be drawn anew at most, as after another size.
    Nothing,
}

fn action(event: &Event) -> Action {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else {
        return Action::Nothing;
    };
    match code {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Action::Quit,
        KeyCode::Char('q') | KeyCode::Esc => Action::Quit,
        KeyCode::Char('p' | ' ') => Action::Pause,
        KeyCode::Up | KeyCode::Left | KeyCode::Char('k') => Action::Select(-1),
        KeyCode::Down | KeyCode::Right | KeyCode::Tab | KeyCode::Char('j') => Action::Select(1),
        _ => Action::Nothing,
    }
}

/// What is typed, read where waiting for it holds nobody up.
fn keys() -> mpsc::Receiver<Event> {
    let (typed, keys) = mpsc::channel(MOST_KEYS);
    tokio::task::spawn_blocking(move || {
        while let Ok(event) = event::read() {
            if typed.blocking_send(event).is_err() {
                break;
            }
        }
    });
    keys
}
