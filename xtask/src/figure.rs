//! A figure: what was measured, held against its target, as one line of JSON.

use serde_json::{Value, json};

use crate::process::{Outcome, Stop};
use crate::ui::Ui;

/// What was measured.
pub(crate) struct Figure {
    pub(crate) id: &'static str,
    /// None when nothing could be measured, which does not pass.
    pub(crate) value: Option<f64>,
    /// The largest value that passes; without one, every value does.
    pub(crate) target: Option<f64>,
    pub(crate) n: u64,
    pub(crate) seed: Option<u64>,
    pub(crate) secs: f64,
    /// What else there is to tell, as an object.
    pub(crate) more: Value,
}

impl Figure {
    /// Prints the line, and fails if the figure does not pass.
    pub(crate) fn tell(self, ui: &mut Ui<'_>) -> Outcome {
        let Self { id, value, target, n, seed, secs, more } = self;
        let pass = value.is_some_and(|value| target.is_none_or(|target| value <= target));
        let mut line = json!({
            "id": id, "pass": pass, "value": value.map(rounded), "target": target, "n": n,
            "seed": seed, "secs": rounded(secs),
        });
        if let (Some(line), Value::Object(more)) = (line.as_object_mut(), more) {
            line.extend(more);
        }
        ui.line(line);
        if pass { Ok(()) } else { Err(Stop::Failed(format!("{id} is not within its target"))) }
    }
}

/// A figure with as many digits as anyone reads.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_told_whether_it_passes_or_not() {
        for (value, target, passes) in [
            (Some(1.0), Some(1.0), true),
            (Some(1.5), Some(1.0), false),
            (Some(9.0), None, true),
            (None, None, false),
        ] {
            let more = json!({ "note": 1 });
            let figure = Figure { id: "x", value, target, n: 2, seed: Some(3), secs: 0.0, more };
            let mut out = Vec::new();
            let outcome = figure.tell(&mut Ui::new(&mut out));
            let line: Value = serde_json::from_slice(&out).unwrap();
            assert_eq!((outcome.is_ok(), &line["pass"]), (passes, &json!(passes)));
            assert_eq!(
                (&line["value"], &line["note"], &line["seed"]),
                (&json!(value), &json!(1), &json!(3))
            );
        }
    }
}
