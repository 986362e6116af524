//! Answers as text.

use crate::server::accounts::{
    CompactAccount, FlushAccount, KeptSnapshot, RestoreAccount, SnapshotAccount, SstableAccount,
    Status, TableAccount, VerifyAccount,
};
use std::fmt::Write;

/// How the engine is.
pub(super) fn status(of: Status) -> String {
    let mut lines = vec![
        ("version", of.version),
        ("up for", duration(of.uptime_s)),
        ("CQL", of.cql),
        ("metrics", format!("http://{}/metrics", of.http)),
        ("shards", of.shards.to_string()),
        ("log", format!("{} in {} segments", bytes(of.log_bytes), of.log_segments)),
        ("tables", of.tables.to_string()),
        ("sstables", format!("{} ({})", of.sstables, bytes(of.sstable_bytes))),
        (
            "compaction",
            format!(
                "{} running, {} to be written, {} failed",
                of.compactions_running,
                bytes(of.compaction_backlog_bytes),
                of.compactions_failed
            ),
        ),
        ("disk", format!("{} free", bytes(of.disk_free_bytes))),
    ];
    if of.is_disk_full {
        lines.push(("", "full: writes are refused until there is room".to_owned()));
    }
    let mut out = String::new();
    for (name, value) in lines {
        let _ = writeln!(out, "{name:<12}{value}");
    }
    let rows = of
        .memory
        .iter()
        .map(|share| vec![share.name.clone(), bytes(share.taken_bytes), bytes(share.most_bytes)]);
    let _ = write!(out, "\n{}", table(&["memory", "taken", "of"], rows));
    out
}

/// What there is of tables.
pub(super) fn tables(of: &[TableAccount]) -> String {
    let heads = [
        "table",
        "sstables",
        "on disk",
        "rows",
        "tombstones",
        "in memory",
        "reads",
        "writes",
        "flushed",
        "compacted",
    ];
    let rows = of.iter().map(|one| {
        vec![
            one.table.clone(),
            one.sstables.to_string(),
            bytes(one.sstable_bytes),
            one.rows_estimated.to_string(),
            one.tombstone_share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0)),
            bytes(one.memtable_bytes),
            one.reads.to_string(),
            one.writes.to_string(),
            bytes(one.flush_bytes),
            bytes(one.compaction_bytes),
        ]
    });
    table(&heads, rows)
}

/// The sstables of tables.
pub(super) fn sstables(of: &[SstableAccount]) -> String {
    let heads = ["sstable", "table", "size", "rows", "window", "oldest", "newest", "tokens"];
    let rows = of.iter().map(|one| {
        vec![
            one.file.clone(),
            one.table.clone(),
            bytes(one.bytes),
            one.rows.to_string(),
            one.window_start_us.map_or("-".to_owned(), date_time),
            date_time(one.timestamp_min_us),
            date_time(one.timestamp_max_us),
            format!("{}..{}", one.token_first, one.token_last),
        ]
    });
    table(&heads, rows)
}

pub(super) fn flushed(of: &FlushAccount) -> String {
    format!("flushed {} tables: all that is in memory is in sstables, too\n", of.tables)
}

pub(super) fn compacted(of: &CompactAccount) -> String {
    let mut out = format!(
        "compacted {} tables: {} sstables ({}) became {} ({})\n",
        of.tables,
        of.sstables_before,
        bytes(of.bytes_before),
        of.sstables_after,
        bytes(of.bytes_after),
    );
    if of.left_alone > 0 {
        let _ = writeln!(
            out,
            "{} sstables stay as they are: they cannot be read (see the log of the engine), or \
             hold rows of several shards, which are split first",
            of.left_alone
        );
    }
    if of.apart > 0 {
        let _ = writeln!(
            out,
            "windows of {} tables were compacted one by one, for want of memory or disk: what was \
             deleted in a later window than it was written in may still be in a file",
            of.apart
        );
    }
    out
}

pub(super) fn taken(of: &SnapshotAccount) -> String {
    format!(
        "{}: {} sstables ({}) of {} tables\n",
        of.directory,
        of.sstables,
        bytes(of.bytes),
        of.tables
    )
}

pub(super) fn snapshots(of: &[KeptSnapshot]) -> String {
    let rows = of.iter().map(|one| {
        let taken = i64::try_from(one.taken_s).unwrap_or(0).saturating_mul(1_000_000);
        vec![
            one.name.clone(),
            date_time(taken),
            one.sstables.to_string(),
            bytes(one.bytes),
            one.problem.clone().unwrap_or_default(),
        ]
    });
    table(&["snapshot", "taken", "sstables", "size", "problem"], rows)
}

pub(super) fn restored(of: &RestoreAccount) -> String {
    format!(
        "{dir}: {} sstables ({}). Start an engine with --data-dir {dir}\n",
        of.sstables,
        bytes(of.bytes),
        dir = of.directory
    )
}

pub(super) fn verified(of: &VerifyAccount) -> String {
    let mut out =
        format!("verified {} sstables ({}, {} blocks)", of.sstables, bytes(of.bytes), of.blocks);
    out.push_str(if of.is_whole_directory {
        ", the manifests, the schema and the commit log"
    } else {
        " and not the manifests and the commit log, which the engine is using"
    });
    let _ = match of.problems.len() {
        0 => writeln!(out, ": all is well"),
        count => write!(out, ": {count} problems\n{}", problems(of)),
    };
    out
}

/// What is wrong, one a line.
pub(super) fn problems(of: &VerifyAccount) -> String {
    of.problems.iter().flat_map(|problem| [problem.as_str(), "\n"]).collect()
}

/// Columns under their heads; all but the first flush right.
fn table(heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let rows: Vec<Vec<String>> = rows.into_iter().collect();
    let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
    let all: Vec<&Vec<String>> = std::iter::once(&heads).chain(&rows).collect();
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..heads.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in all {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(line, "{cell:<width$}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// About so many bytes, in the largest unit of which there are some.
fn bytes(count: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| count >= *unit) {
        Some((unit, name)) => {
            let tenths = u128::from(count) * 10 / u128::from(*unit);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{count} B"),
    }
}

fn duration(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let clock = format!("{:02}:{:02}:{:02}", rest / 3_600, rest / 60 % 60, rest % 60);
    if days == 0 { clock } else { format!("{days} d {clock}") }
}

/// A moment in UTC, by microseconds since the Unix epoch.
fn date_time(us: i64) -> String {
    let (days, second) = (us.div_euclid(86_400_000_000), us.div_euclid(1_000_000) % 86_400);
    let second = second.rem_euclid(86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

/// The date of so many days since the Unix epoch. By Howard Hinnant's `civil_from_days`.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::time::days_from_civil;

    #[test]
    fn columns_stand_under_their_heads() {
        let rows = vec![vec!["a".to_owned(), "10".to_owned()], vec!["long".into(), "1".into()]];
        assert_eq!(table(&["name", "n"], rows), "name   n\na     10\nlong   1\n");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [1023, 1024, 1536, 5 << 30].map(bytes),
            ["1023 B", "1.0 KiB", "1.5 KiB", "5.0 GiB"]
        );
        assert_eq!([59, 86_399, 90_061].map(duration), ["00:00:59", "23:59:59", "1 d 01:01:01"]);
    }

    #[test]
    fn days_become_the_dates_that_they_come_from() {
        for days in (-800_000..800_000).step_by(97) {
            let (year, month, day) = civil(days);
            let month = u32::try_from(month).expect("small");
            let day = u32::try_from(day).expect("small");
            assert_eq!(days_from_civil(year, month, day), Some(days));
        }
        assert_eq!(date_time(-1), "1969-12-31T23:59:59Z");
        assert_eq!(date_time(1_767_225_661_000_000), "2026-01-01T00:01:01Z");
    }
}
