//! The sstables of an opening: which are of use, and their indexes.

use std::{collections::BTreeMap, io, path::PathBuf};

use crate::{
    compaction::expiry::droppable,
    directory::Sequential,
    error::{Error, Result},
    io::FileId,
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

/// Opens an sstable for reading.
pub(in crate::store) fn open_sstable(
    files: &mut Sequential<'_>,
    summary: &Summary,
) -> Result<(FileId, Index)> {
    let name = summary.id.file_name();
    let corrupt = |offset: u64, error: io::Error| {
        let what = format!("{error}. Restore this directory from a backup");
        Error::corrupt(PathBuf::from(&name), offset, what)
    };
    let (file, bytes) = files.open(&name)?;
    let footer_at = bytes.saturating_sub(FOOTER_BYTES as u64);
    let footer = files.read(&name, file, footer_at, FOOTER_BYTES as u64)?;
    let footer = read_footer(summary.id, bytes, footer.as_slice())
        .map_err(|error| corrupt(footer_at, error))?;
    if footer.summary != *summary {
        let what = "the manifest says something else of it. Restore this directory from a backup";
        return Err(Error::corrupt(&name, footer_at, what));
    }
    let index = files.read(&name, file, footer.index.offset, u64::from(footer.index.bytes))?;
    let index = read_index(&footer, index.as_slice())
        .map_err(|error| corrupt(footer.index.offset, error))?;
    Ok((file, index))
}
