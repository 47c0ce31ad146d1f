//! What was done, as a table or JSON.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use katydid_core::quant::Format;
use katydid_core::quant::mix::Choice;
use katydid_linux::vm_hwm;
use serde_json::json;

use super::Job;
use super::convert::Loss;
use crate::units::Bytes;

/// One tensor.
pub(super) struct Row {
    name: String,
    dims: Vec<u64>,
    from: Format,
    to: Format,
    /// What the mix wanted, where the rows did not fit it.
    wanted: Option<Format>,
    read: u64,
    written: u64,
    loss: Loss,
    pub(super) importance: bool,
}

impl Row {
    pub(super) fn new(job: &Job<'_>, loss: Loss, importance: bool) -> Self {
        let t = job.tensor;
        let dims = t.dims[..t.n_dims as usize].to_vec();
        let blocks = dims.iter().product::<u64>() / job.to.block_len() as u64;
        Self {
            name: t.name.to_owned(),
            dims,
            from: t.format,
            to: job.to,
            wanted: if let Choice::Fallback { wanted, .. } = job.choice { Some(wanted) } else { None },
            read: t.size,
            written: blocks * job.to.block_bytes() as u64,
            loss,
            importance,
        }
    }

    pub(super) fn quantised(&self) -> bool {
        self.to != self.from && self.to.block_len() > 1
    }

    fn weights(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Root mean square of the error.
    fn rmse(&self) -> f64 {
        (self.loss.error / self.weights() as f64).sqrt()
    }
}

/// All of it.
pub(super) struct Summary {
    pub(super) rows: Vec<Row>,
    pub(super) read: u64,
    pub(super) written: u64,
    pub(super) time: Duration,
    pub(super) dry: bool,
}

impl Summary {
    pub(super) fn print(&self, verbose: bool, as_json: bool) -> Result<()> {
        let mut out = std::io::stdout().lock();
        if as_json {
            writeln!(out, "{:#}", self.json())?;
            return Ok(out.flush()?);
        }
        if verbose {
            for r in &self.rows {
                let back = r.wanted.map_or(String::new(), |w| format!("  (for {})", w.name()));
                let (from, to) = (r.from.name(), r.to.name());
                let sizes = format!("{:>9} {:>9}", Bytes(r.read), Bytes(r.written));
                writeln!(out, "{:<36} {from:>6} {to:>6} {sizes} {}{back}", r.name, self.error(r.loss))?;
            }
            writeln!(out)?;
        }
        writeln!(out, "format  tensors    weights       read    written  error")?;
        for format in Format::ALL {
            self.print_format(format, &mut out)?;
        }
        let fallbacks = self.rows.iter().filter(|r| r.wanted.is_some()).count();
        if fallbacks > 0 {
            writeln!(out, "{fallbacks} tensors took another format, as their rows are not whole blocks")?;
        }
        self.print_total(&mut out)?;
        Ok(out.flush()?)
    }

    fn print_format(&self, format: Format, out: &mut impl Write) -> Result<()> {
        let rows = || self.rows.iter().filter(|r| r.to == format);
        if rows().next().is_none() {
            return Ok(());
        }
        let sum = |f: fn(&Row) -> u64| rows().map(f).sum::<u64>();
        let loss = rows().fold(Loss::default(), |l, r| Loss {
            error: l.error + r.loss.error,
            power: l.power + r.loss.power,
        });
        writeln!(
            out,
            "{:<6} {:>8} {:>8.1} M {:>10} {:>10}  {}",
            format.name(),
            rows().count(),
            sum(Row::weights) as f64 / 1e6,
            Bytes(sum(|r| r.read)),
            Bytes(sum(|r| r.written)),
            self.error(loss)
        )?;
        Ok(())
    }

    fn print_total(&self, out: &mut impl Write) -> Result<()> {
        let weights: u64 = self.rows.iter().map(Row::weights).sum();
        let bits = 8.0 * self.written as f64 / weights.max(1) as f64;
        write!(out, "{} to {}, {bits:.2} bits a weight", Bytes(self.read), Bytes(self.written))?;
        if self.dry {
            writeln!(out, "; nothing was written")?;
            return Ok(());
        }
        let seconds = self.time.as_secs_f64();
        write!(out, "; {seconds:.1} s, {:.0} MB/s read", self.read as f64 / seconds / 1e6)?;
        match vm_hwm() {
            Some(peak) => writeln!(out, ", at most {} of memory", Bytes(peak))?,
            None => writeln!(out)?,
        }
        Ok(())
    }

    /// The error beside the weights, both as root mean squares.
    fn error(&self, loss: Loss) -> String {
        match loss {
            _ if self.dry => "-".to_owned(),
            Loss { power, .. } if power <= 0.0 => "-".to_owned(),
            Loss { error, power } => format!("{:.3}%", 100.0 * (error / power).sqrt()),
        }
    }

    fn json(&self) -> serde_json::Value {
        let row = |r: &Row| {
            let mut row = json!({"name": r.name, "dims": r.dims, "from": r.from.name(), "to": r.to.name(),
                                 "read": r.read, "written": r.written, "importance": r.importance});
            if let Some(wanted) = r.wanted {
                row["wanted"] = wanted.name().into();
            }
            if !self.dry {
                row["rmse"] = r.rmse().into();
                row["rms"] = (r.loss.power / r.weights() as f64).sqrt().into();
            }
            row
        };
        json!({"tensors": self.rows.iter().map(row).collect::<Vec<_>>(), "read": self.read, "written": self.written,
               "seconds": self.time.as_secs_f64(), "peak_memory": vm_hwm(), "dry_run": self.dry})
    }
}
