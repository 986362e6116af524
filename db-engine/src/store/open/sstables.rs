//! The sstables of an opening: which are of use, and their indexes.

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc};

use crate::{
    compaction::expiry::droppable,
    directory::Sequential,
    error::{Error, Result},
    io::Operation,
    mutation::TableNumber,
    schema::TableSettings,
    sstable::{FOOTER_BYTES, Index, SstableId, Summary, read_footer, read_index},
    store::table::extent,
};

/// The sstables that are of no use any more, over all shards.
pub(super) fn expired(
    sstables: &BTreeMap<SstableId, Summary>,
    tables: &BTreeMap<TableNumber, TableSettings>,
    now_s: i64,
) -> Vec<SstableId> {
    let ids = tables.iter().flat_map(|(table, settings)| {
        let own = sstables.values().filter(|summary| summary.table == *table);
        let (summaries, extents): (Vec<&Summary>, Vec<_>) =
            own.map(|summary| (summary, extent(summary, settings))).unzip();
        let places = droppable(&extents, None, now_s);
        places.into_iter().map(move |place| summaries[place].id)
    });
    ids.collect()
}

/// The end of a file that is read at once: most indexes are in it.
const TAIL_BYTES: u64 = 64 << 10;

/// The index of an sstable, if the file is what the manifest says of it.
pub(in crate::store) fn index_of(
    files: &mut Sequential<'_>,
    summary: &Summary,
) -> Result<Arc<Index>> {
    let name = summary.id.file_name();
    let corrupt = |offset: u64, error: io::Error| {
        let what = format!("{error}. Restore this directory from a backup");
        Error::corrupt(PathBuf::from(&name), offset, what)
    };
    let (file, bytes) = files.open(&name)?;
    let footer_at = bytes.saturating_sub(FOOTER_BYTES as u64);
    let tail_at = bytes.saturating_sub(TAIL_BYTES);
    let tail = files.read(&name, file, tail_at, bytes - tail_at)?;
    let tail_from = |at: u64| {
        let start = usize::try_from(at.checked_sub(tail_at)?).ok()?;
        tail.as_slice().get(start..)
    };
    let footer = read_footer(summary.id, bytes, tail_from(footer_at).unwrap_or_default())
        .map_err(|error| corrupt(footer_at, error))?;
    if footer.summary != *summary {
        let what = "the manifest says something else of it. Restore this directory from a backup";
        return Err(Error::corrupt(&name, footer_at, what));
    }
    let (index_at, index_bytes) = (footer.index.offset, footer.index.bytes);
    let known = tail_from(index_at).and_then(|tail| tail.get(..index_bytes as usize));
    let index = if let Some(stored) = known {
        read_index(&footer, stored)
    } else {
        let stored = files.read(&name, file, index_at, index_bytes.into())?;
        read_index(&footer, stored.as_slice())
    };
    let index = index.map_err(|error| corrupt(index_at, error))?;
    files.run(&name, Operation::Close { file })?;
    Ok(Arc::new(index))
}
