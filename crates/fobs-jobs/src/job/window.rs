//! The part of each day in which a job may run.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// Seconds of a day.
const DAY_S: u32 = 24 * 3600;

/// From one local time of day to another; past midnight where the end is the earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Window {
    /// First second of the day that is within.
    begin_s: u32,
    /// First second of the day that is not.
    end_s: u32,
}

impl PartialSchema for Window {
    fn schema() -> RefOr<Schema> {
        let about = "A part of each day, as in 20:00-06:00";
        ObjectBuilder::new().schema_type(Type::String).description(Some(about)).into()
    }
}

impl ToSchema for Window {}

impl Window {
    /// Parses `20:00-06:00`.
    ///
    /// # Errors
    /// A sentence with the form.
    pub fn parse(text: &str) -> Result<Window, String> {
        let unreadable = || format!("{text:?} is no part of a day: write it like 20:00-06:00");
        let (begin, end) = text.split_once('-').ok_or_else(unreadable)?;
        let (begin_s, end_s) = (second(begin).ok_or_else(unreadable)?, second(end).ok_or_else(unreadable)?);
        if begin_s % DAY_S == end_s % DAY_S {
            return Err(format!("{text:?} is the whole day or none of it: leave it out, or give two times"));
        }
        Ok(Window { begin_s: begin_s % DAY_S, end_s })
    }

    /// Whether a second of the day is within.
    pub fn is_open(&self, day_second: u32) -> bool {
        if self.begin_s < self.end_s {
            (self.begin_s..self.end_s).contains(&day_second)
        } else {
            day_second >= self.begin_s || day_second < self.end_s
        }
    }

    /// Seconds until it opens or closes next, whichever comes first: at least 1.
    pub fn next_change_s(&self, day_second: u32) -> u32 {
        let until = |second: u32| match (second % DAY_S + DAY_S - day_second % DAY_S) % DAY_S {
            0 => DAY_S,
            seconds => seconds,
        };
        until(self.begin_s).min(until(self.end_s))
    }
}

fn second(text: &str) -> Option<u32> {
    let (hour, minute) = text.trim().split_once(':')?;
    let digits = |text: &str| (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(hour) || !digits(minute) {
        return None;
    }
    let (hour, minute): (u32, u32) = (hour.parse().ok()?, minute.parse().ok()?);
    let second = hour * 3600 + minute * 60;
    (minute < 60 && second <= DAY_S).then_some(second)
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |second: u32| format!("{:02}:{:02}", second / 3600, second / 60 % 60);
        write!(f, "{}-{}", time(self.begin_s), time(self.end_s))
    }
}

impl TryFrom<String> for Window {
    type Error = String;

    fn try_from(text: String) -> Result<Window, String> {
        Window::parse(&text)
    }
}

impl From<Window> for String {
    fn from(window: Window) -> String {
        window.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u32 = 3600;

    #[test]
    fn a_window_may_reach_past_midnight() {
        let night = Window::parse("20:00-06:00").expect("a window");
        for (hour, open) in
            [(19, false), (20, true), (23, true), (0, true), (5, true), (6, false), (12, false)]
        {
            assert_eq!(night.is_open(hour * HOUR), open, "{hour}");
        }
        let day = Window::parse("8:30-24:00").expect("a window");
        assert!(day.is_open(DAY_S - 1) && !day.is_open(0) && !day.is_open(8 * HOUR));
        assert_eq!(night.to_string(), "20:00-06:00");
    }

    #[test]
    fn between_two_changes_nothing_changes() {
        for text in ["20:00-06:00", "08:30-24:00", "00:00-00:01", "23:59-00:00"] {
            let window = Window::parse(text).expect("a window");
            for now in (0..DAY_S).step_by(30) {
                let (left, open) = (window.next_change_s(now), window.is_open(now));
                assert_ne!(window.is_open((now + left) % DAY_S), open, "{text} at {now}");
                assert_eq!(window.is_open((now + left - 1) % DAY_S), open, "{text} at {now}");
            }
        }
    }

    #[test]
    fn what_is_no_window_is_refused() {
        for text in
            ["", "20:00", "20-06", "25:00-06:00", "20:60-06:00", "+1:00-2:00", "06:00-06:00", "00:00-24:00"]
        {
            Window::parse(text).expect_err(text);
        }
    }
}
