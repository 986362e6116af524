//! Reads that wait for blocks of sstables.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{
    super::{Done, Page, Partitions, ReadRequest, Refused, Store, Tag, turn::Job},
    Cost, Progress,
    cache::BlockId,
    read,
};
use crate::{
    error::Error,
    io::{Buffer, Completion, Operation},
    mutation::token::range_of,
    sstable::Block,
};

/// A read that waits for blocks.
pub(in crate::store) struct PendingRead {
    tag: Tag,
    request: ReadRequest,
    page: Page,
    /// Blocks that were read for it and may not be in the cache any more.
    held: HashMap<BlockId, Arc<Block>>,
    waiting: usize,
}

impl Store {
    /// Reads rows: fills `page` at once (true), or answers later with [`Done::Read`] (false).
    ///
    /// # Errors
    ///
    /// If the table is not known: it was dropped.
    pub fn read(
        &mut self,
        tag: Tag,
        request: &ReadRequest,
        page: &mut Page,
    ) -> std::result::Result<bool, Refused> {
        page.clear();
        self.metrics.reads += 1;
        let mut request = request.clone();
        if let Partitions::Range { from, to } = &mut request.partitions {
            // Sstables of another number of shards may hold rows that are not ours.
            let own = range_of(self.shard, self.config.shards);
            (*from, *to) = ((*from).max(*own.start()), (*to).min(*own.end()));
        }
        let missing = self.read_on(&mut request, page, &HashMap::new())?;
        if missing.is_empty() {
            self.metrics.rows_returned += page.len() as u64;
            return Ok(true);
        }
        self.metrics.reads_from_disk += 1;
        let is_scan = matches!(request.partitions, Partitions::Range { .. });
        self.metrics.scans_filling_cache += u64::from(is_scan && !request.bypass_cache);
        self.reads_begun += 1;
        let page = std::mem::take(page);
        let pending = PendingRead { tag, request, page, held: HashMap::new(), waiting: 0 };
        self.reads.insert(self.reads_begun, pending);
        self.fetch(self.reads_begun, &missing);
        Ok(false)
    }

    /// Reads as far as blocks are in memory; those that are missing.
    fn read_on(
        &mut self,
        request: &mut ReadRequest,
        page: &mut Page,
        held: &HashMap<BlockId, Arc<Block>>,
    ) -> Result<Vec<BlockId>, Refused> {
        let table = self.tables.get_mut(&request.table).ok_or(Refused::UnknownTable)?;
        let mut cost = Cost::default();
        let (cache, metrics) = (&mut self.cache, &mut self.metrics);
        let mut find = |id: BlockId| {
            let found = held.get(&id).cloned().or_else(|| cache.get(id));
            metrics.cache_hits += u64::from(found.is_some());
            found
        };
        let progress = read(table, request, page, &mut find, &mut cost);
        self.metrics.rows_scanned += cost.rows_scanned;
        match progress {
            Progress::Complete => Ok(Vec::new()),
            Progress::Missing(missing) => Ok(missing),
        }
    }

    /// Asks for blocks that a read waits for.
    fn fetch(&mut self, read: u64, missing: &[BlockId]) {
        for id in missing {
            if let Some(pending) = self.reads.get_mut(&read) {
                pending.waiting += 1;
            }
            let same = self.jobs.values_mut().find_map(|job| match job {
                Job::Block { id: other, reads, .. } if other == id => Some(reads),
                _ => None,
            });
            if let Some(reads) = same {
                reads.push(read);
                continue;
            }
            let sstables = self.tables.values().flat_map(|table| &table.sstables);
            let sstable = sstables.into_iter().find(|sstable| sstable.summary.id == id.0);
            let place = sstable.and_then(|sstable| {
                sstable.index.location(id.1).map(|location| (sstable.file, location))
            });
            let Some((file, location)) = place else { continue };
            self.metrics.cache_misses += 1;
            let (offset, bytes) = (location.offset, location.bytes as usize);
            let buffer = Buffer::with_capacity(bytes);
            let operation = Operation::Read { file, offset, bytes, buffer };
            self.submit(operation, Job::Block { id: *id, offset, reads: vec![read] });
        }
    }

    /// A block was read, for these reads.
    pub(in crate::store) fn block_read(
        &mut self,
        id: BlockId,
        offset: u64,
        reads: &[u64],
        over: Completion,
    ) {
        let bytes = over.buffer.unwrap_or_default();
        let decoded = match over.result {
            Ok(_) => Block::decode(id.0, offset, bytes.as_slice())
                .map_err(|error| Error::corrupt(id.0.file_name(), offset, error.to_string())),
            Err(error) => Err(Error::io(id.0.file_name(), error)),
        };
        match decoded.map(Arc::new).map_err(Arc::new) {
            Ok(block) => {
                let is_kept = |read: &u64| {
                    self.reads.get(read).is_none_or(|pending| !pending.request.bypass_cache)
                };
                if reads.iter().any(is_kept) {
                    self.cache.put(id, Arc::clone(&block));
                }
                for read in reads {
                    if let Some(pending) = self.reads.get_mut(read) {
                        pending.held.insert(id, Arc::clone(&block));
                        pending.waiting -= 1;
                    }
                    self.resume(*read);
                }
            }
            Err(error) => {
                for read in reads {
                    if let Some(pending) = self.reads.remove(read) {
                        self.metrics.reads_failed += 1;
                        self.done.push(Done::ReadFailed(pending.tag, Arc::clone(&error)));
                    }
                }
            }
        }
    }

    /// Goes on with a read that does not wait any more.
    fn resume(&mut self, read: u64) {
        if self.reads.get(&read).is_none_or(|pending| pending.waiting > 0) {
            return;
        }
        let Some(mut pending) = self.reads.remove(&read) else { return };
        let held = std::mem::take(&mut pending.held);
        let PendingRead { tag, request, page, .. } = &mut pending;
        match self.read_on(request, page, &held) {
            Ok(missing) if missing.is_empty() => {
                self.metrics.rows_returned += page.len() as u64;
                self.done.push(Done::Read(*tag, Box::new(std::mem::take(page))));
            }
            Ok(missing) => {
                // Blocks that it may need again stay with it, however small the cache is.
                pending.held = held;
                self.reads.insert(read, pending);
                self.fetch(read, &missing);
            }
            // The table was dropped while it was read: it has no rows.
            Err(_) => self.done.push(Done::Read(*tag, Box::default())),
        }
    }
}
