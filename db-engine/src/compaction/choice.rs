//! Which sstables of a table become one.
//!
//! As in Cassandra and ScyllaDB, sstables of about the same size are merged as soon as there are
//! some of them, so that a row is rewritten once for each time that its sstable has grown
//! `min_threshold` times as large. With windows each of them is a set of its own, and sstables of
//! two windows are never merged.
//!
//! A window that is over becomes one sstable. So in the window that is filled at present less is
//! done: what is merged there is written once more soon. What comes late for a window that is over
//! is kept beside its large sstable and merged with the like, until it is an eighth of that.

use crate::schema::{SizeTiers, TableSettings};
use std::collections::BTreeMap;

/// The window at hand may have so many sstables for each that makes a tier before any are merged.
const PATIENCE: usize = 4;

/// What lies beside the large sstable of an older window is merged with it once it is this part.
const LATE_PART: u64 = 8;

/// What the choice follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Bytes of its file.
    pub bytes: u64,
    /// The number of its window, as of when it was written.
    pub window: i64,
    /// The oldest timestamp in it, in microseconds since the Unix epoch.
    pub timestamp_min: i64,
    /// The newest timestamp in it.
    pub timestamp_max: i64,
}

/// Sstables that are to be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Their places.
    pub places: Vec<usize>,
    /// Whether what is written of them is one sstable for each window: it is one that spans
    /// several, because the windows were others when it was written.
    pub splits: bool,
}

/// The next sstables to be merged of a table, of which all are given; `most` of them at most.
/// `None` if they are well as they are.
#[must_use]
pub fn choose(
    settings: &TableSettings,
    candidates: &[Candidate],
    now_us: i64,
    most: usize,
) -> Option<Selection> {
    let tiers = settings.tiers.as_ref()?;
    let most = most.min(tiers.max_threshold as usize);
    if most < 2 {
        return None;
    }
    let Some(window_us) = settings.window_us.filter(|window_us| *window_us > 0) else {
        let all = candidates.iter().enumerate().collect();
        return merged(size_tiered(tiers, all, most));
    };
    let window_of = |timestamp_us: i64| timestamp_us.div_euclid(window_us);
    if let Some(place) = spanning(candidates, window_us) {
        return Some(Selection { places: vec![place], splits: true });
    }
    let mut windows: BTreeMap<i64, Vec<(usize, &Candidate)>> = BTreeMap::new();
    for (place, one) in candidates.iter().enumerate() {
        windows.entry(window_of(one.timestamp_max)).or_default().push((place, one));
    }
    // A clock of a client that is far ahead ends no window.
    let newest = *windows.last_key_value()?.0.min(&window_of(now_us));
    windows.into_iter().rev().find_map(|(window, own)| {
        merged(if window < newest {
            of_older_window(tiers, own, most)
        } else if own.len() >= PATIENCE * tiers.min_threshold as usize {
            size_tiered(tiers, own, most)
        } else {
            Vec::new()
        })
    })
}

/// The next sstables to be merged, `most` of them at most, where all of these are to become one, or
/// one for each window; and whether they are the last of their window. What is one already is
/// written once more, too. `None` if there are none.
#[must_use]
pub fn choose_all(
    settings: &TableSettings,
    candidates: &[Candidate],
    most: usize,
) -> Option<(Selection, bool)> {
    let window_us = settings.window_us.filter(|window_us| *window_us > 0);
    if let Some(place) = window_us.and_then(|window_us| spanning(candidates, window_us)) {
        return Some((Selection { places: vec![place], splits: true }, false));
    }
    let window_of = |one: &Candidate| window_us.map(|us| one.timestamp_max.div_euclid(us));
    let window = candidates.iter().map(window_of).min()?;
    let own = candidates.iter().enumerate().filter(|(_, one)| window_of(one) == window);
    let mut own: Vec<_> = own.collect();
    own.sort_by_key(|(_, one)| one.bytes);
    let places = own.iter().take(most).map(|(place, _)| *place).collect();
    Some((Selection { places, splits: false }, own.len() <= most))
}

/// One that spans several windows, because the windows were others when it was written.
fn spanning(candidates: &[Candidate], window_us: i64) -> Option<usize> {
    let window_of = |timestamp_us: i64| timestamp_us.div_euclid(window_us);
    candidates.iter().position(|one| {
        let newest = window_of(one.timestamp_max);
        one.window != newest && window_of(one.timestamp_min) != newest
    })
}

fn merged(places: Vec<usize>) -> Option<Selection> {
    (!places.is_empty()).then_some(Selection { places, splits: false })
}

/// Those that are to be merged of a window that is over.
fn of_older_window(
    tiers: &SizeTiers,
    mut own: Vec<(usize, &Candidate)>,
    most: usize,
) -> Vec<usize> {
    own.sort_by_key(|(_, one)| one.bytes);
    let Some((largest, rest)) = own.split_last() else { return Vec::new() };
    let rest_bytes: u64 = rest.iter().map(|(_, one)| one.bytes).sum();
    if rest.is_empty() {
        return Vec::new();
    }
    if rest_bytes.saturating_mul(LATE_PART) >= largest.1.bytes {
        return own.iter().take(most).map(|(place, _)| *place).collect();
    }
    size_tiered(tiers, rest.to_vec(), most)
}

/// The smallest that are about as large as enough others.
fn size_tiered(tiers: &SizeTiers, mut own: Vec<(usize, &Candidate)>, most: usize) -> Vec<usize> {
    own.sort_by_key(|(_, one)| one.bytes);
    let is_small = |bytes: f64| bytes < as_float(tiers.min_sstable_bytes);
    let enough = most.min(tiers.min_threshold as usize);
    let (mut tier, mut sum) = (Vec::new(), 0.0);
    for (place, one) in own {
        let (bytes, average) = (as_float(one.bytes), sum / as_float(tier.len() as u64));
        let is_alike = (is_small(bytes) && is_small(average))
            || (average * tiers.bucket_low <= bytes && bytes <= average * tiers.bucket_high);
        if !tier.is_empty() && !is_alike {
            if tier.len() >= enough {
                break;
            }
            tier.clear();
            sum = 0.0;
        }
        tier.push(place);
        sum += bytes;
    }
    if tier.len() < enough {
        return Vec::new();
    }
    tier.truncate(most);
    tier
}

/// Sizes of files are compared roughly.
#[allow(clippy::cast_precision_loss)]
fn as_float(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests;
