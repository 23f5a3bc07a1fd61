//! Result lines, for programs; and tables, for people.

use std::{cell::RefCell, fs::File, io::Write};

use serde_json::{Value, json};

use crate::{peer::Outcome, run::Contestant};

/// Where result lines go: the file that `CUPOOL_BENCH_RECORD` names, if any.
pub(crate) struct Report(Option<RefCell<File>>);

impl Report {
    pub(crate) fn from_environment() -> Outcome<Self> {
        let Some(path) = std::env::var_os("CUPOOL_BENCH_RECORD").filter(|path| !path.is_empty()) else {
            return Ok(Self(None));
        };
        Ok(Self(Some(RefCell::new(File::options().create(true).append(true).open(path)?))))
    }

    pub(crate) fn line(&self, line: &Value) -> Outcome<()> {
        if let Some(file) = &self.0 {
            writeln!(file.borrow_mut(), "{line}")?;
        }
        Ok(())
    }

    pub(crate) fn version(&self, who: &str, version: &str) -> Outcome<()> {
        println!("{who} {version}");
        self.line(&json!({"bench": "machine", "parameters": {"versions": {who: version}}}))
    }

    /// What each contestant took, in the order of the contestants; the first is this crate's.
    pub(crate) fn times(
        &self,
        bench: &str,
        parameters: &Value,
        contestants: &[&Contestant],
        all: &[Vec<f64>],
    ) -> Outcome<()> {
        let Some(ours) = all.first() else { return Ok(()) };
        println!("\n{bench} {parameters}, {} rounds", ours.len());
        for (contestant, values) in contestants.iter().zip(all) {
            let Contestant { who, setting, .. } = contestant;
            let (value, low, high) = (quantile(values, 0.5), quantile(values, 0.25), quantile(values, 0.75));
            let mut line = json!({
                "bench": bench, "who": who, "setting": setting, "parameters": parameters, "unit": "ns",
                "value": value, "low": low, "high": high, "source": "benches/peers",
            });
            let mut said = String::new();
            if who != "cupool" {
                let ratios: Vec<f64> = values.iter().zip(ours).map(|(theirs, ours)| theirs / ours).collect();
                let ratio = quantile(&ratios, 0.5);
                line["against"] = "cupool".into();
                line["ratio"] = ratio.into();
                line["ratios"] = json!({"as it comes": ratio});
                said = format!("  cupool takes {:.4} of it", 1.0 / ratio);
            }
            println!("    {:<38} {value:>12.1} ns  [{low:.1} {high:.1}]{said}", format!("{who}, {setting}"));
            self.line(&line)?;
        }
        Ok(())
    }
}

/// The value below which that share of the values lies.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1) as f64;
    values.get((last * share).round() as usize).copied().unwrap_or(f64::NAN)
}
