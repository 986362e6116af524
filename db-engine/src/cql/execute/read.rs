//! A read under way: which step is next, how much is still wanted, what came out so far.

mod accept;

use crate::{
    cql::{
        error::CqlError,
        execute::{
            aggregate::Total,
            collect::CollectedPlace,
            filter::{Filter, RowConditions},
            keys::{KEY_BYTES, Steps},
            paging::PagingState,
            partition::PartitionRead,
        },
        prepare::plan::SelectPlan,
    },
    mutation::token::{range_of, shard_of},
    store::{JudgedPlace, Page, Partitions, Position, ReadRequest, RowFilter},
    types::comparable,
};
use std::{ops::RangeBounds, sync::Arc};

/// Rows asked of storage at a time: about as many as are taken in within a millisecond, during
/// which nothing else is done.
const ROWS_A_REQUEST: usize = 1_000;
/// Bytes after which a page ends even if it could have more rows.
pub(super) const PAGE_BYTES: usize = 1 << 20;
/// Most bytes of a result that is not paged: the driver must take it as one message.
const RESULT_BYTES_MAX: usize = 64 << 20;
/// Rows looked at in vain, after which a page ends: so a client hears of its read now and then.
const FILTERED_ROWS_MAX: u64 = 10_000;
/// Bytes of a read besides its keys and values.
const READ_OWN_BYTES: usize = 600;

/// A read under way. Owned by whoever executes it; may move between shards.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // Each is a fact of its own.
pub struct Read {
    steps: Steps,
    step: usize,
    /// The shard whose tokens are being read.
    shard: Option<u16>,
    after: Option<Position>,
    /// What rows are asked for besides their keys, if anything.
    conditions: Option<Arc<RowConditions>>,
    /// Keys of elements that are asked for, as they compare, if there are no conditions.
    parts: Vec<Option<Vec<u8>>>,
    now_s: i64,
    limit_left: u64,
    per_partition: u64,
    /// The partition whose rows are being taken, if that makes a difference.
    partition: Option<PartitionRead>,
    page_left: Option<u64>,
    filtered: u64,
    rows: u32,
    start: Option<usize>,
    /// Most bytes of the result.
    bytes_max: usize,
    /// Bytes asked of storage at a time: fewer if each row is looked at many times.
    page_bytes: usize,
    over: bool,
    paused: Option<Position>,
    totals: Vec<Total>,
    scratch: Vec<u8>,
    /// A page that is not wholly taken in, and how far it is.
    unfinished: Option<Box<Page>>,
    place: PagePlace,
}

/// How far the page at hand is taken in.
#[derive(Clone, Copy, Debug, Default)]
struct PagePlace {
    /// So many of its rows.
    rows: usize,
    /// And so much of the next one, or of the static row that is given alone, if it is begun.
    within_row: Option<PlaceInRow>,
}

/// How far a row is taken in.
#[derive(Clone, Copy, Debug, Default)]
struct PlaceInRow {
    /// How far it is judged, and its work.
    judged: JudgedPlace,
    /// So many of its columns are taken in.
    columns: usize,
    /// How far the elements of the next of them are.
    collected: Option<CollectedPlace>,
}

impl Read {
    pub(super) fn new(
        plan: &SelectPlan,
        steps: Steps,
        (filters, parts): (Vec<Filter>, Vec<Option<Vec<u8>>>),
        page_size: Option<u32>,
        now_s: i64,
    ) -> Box<Self> {
        let has_conditions = !filters.is_empty() || plan.counted.is_some();
        let (conditions, parts) = if has_conditions {
            (Some(Arc::new(RowConditions::new(plan, (filters, parts), now_s))), Vec::new())
        } else {
            (None, parts)
        };
        Box::new(Read {
            steps,
            step: 0,
            shard: None,
            after: None,
            conditions,
            parts,
            now_s,
            limit_left: u64::MAX,
            per_partition: u64::MAX,
            partition: None,
            page_left: page_size.map(u64::from),
            filtered: 0,
            rows: 0,
            start: None,
            bytes_max: RESULT_BYTES_MAX,
            page_bytes: PAGE_BYTES.min(PAGE_BYTES * 4 / plan.collections.max(1)),
            over: false,
            paused: None,
            totals: plan.aggregates.iter().map(Total::new).collect(),
            scratch: Vec::new(),
            unfinished: None,
            place: PagePlace::default(),
        })
    }

    pub(super) fn set_limits(&mut self, limit: Option<u64>, per_partition: Option<u64>) {
        self.per_partition = per_partition.unwrap_or(u64::MAX);
        if self.totals.is_empty() {
            self.limit_left = limit.unwrap_or(u64::MAX);
        }
    }

    /// Bytes of the keys and values that it has of its own.
    #[must_use]
    pub fn own_bytes(&self) -> usize {
        let keys = self.steps.bytes();
        let conditions = self.conditions.as_deref();
        let filters = conditions.map_or(&[][..], |conditions| &conditions.filters);
        let parts = conditions.map_or(&self.parts, |conditions| &conditions.parts);
        let codes = filters.iter().flat_map(|filter| &filter.codes);
        let codes = codes.chain(parts.iter().flatten());
        READ_OWN_BYTES + keys + codes.map(|code| KEY_BYTES + code.capacity()).sum::<usize>()
    }

    /// Gives the result at most this much memory.
    pub fn limit_result(&mut self, bytes: usize) {
        self.bytes_max = self.bytes_max.min(bytes);
    }

    pub(super) fn resume(&mut self, plan: &SelectPlan, state: PagingState) -> Result<(), CqlError> {
        let refused = || CqlError::protocol("Invalid value for the paging state");
        self.limit_left = self.limit_left.min(state.left);
        let left = self.per_partition.min(state.partition_left);
        let position = state.position;
        match &mut self.steps {
            Steps::Tokens { from, to } => {
                if position.token.0 > *to || position.token.0 < *from {
                    return Err(refused());
                }
                *from = position.token.0;
            }
            Steps::Keys { keys, slices } => {
                let key = keys.iter().position(|(_, key)| *key == position.key);
                let key = key.ok_or_else(refused)?;
                let within = slices.iter().position(|slice| slice.contains(&position.ck));
                let Some(within) = within.filter(|_| left > 0) else {
                    self.skip_to(key + 1);
                    return Ok(());
                };
                self.step = key * slices.len() + within;
            }
        }
        let Position { token, key, .. } = position.clone();
        let has_given = state.has_given;
        self.partition = Some(PartitionRead { token, key, left, has_given, static_row: None });
        self.after = Some(self.beyond(plan, position));
        Ok(())
    }

    /// The shard of its partition, if it has only one.
    #[must_use]
    #[inline]
    pub fn owner(&self, shards: u16) -> Option<u16> {
        match &self.steps {
            Steps::Keys { keys, .. } => match keys.as_slice() {
                [(token, _)] => Some(shard_of(*token, shards)),
                _ => None,
            },
            Steps::Tokens { .. } => None,
        }
    }

    /// What to read next and on which shard; none when the page, or everything, is there.
    ///
    /// Asking twice without [`Read::accept`] in between gives the same.
    #[must_use]
    pub fn next(&mut self, plan: &SelectPlan, shards: u16) -> Option<(u16, ReadRequest)> {
        if self.over || self.paused.is_some() {
            return None;
        }
        let (shard, partitions, (from, to)) = self.steps.part(self.step, shards)?;
        self.shard = Some(shard);
        let (key, is_one) = match (&partitions, &self.after) {
            (Partitions::One { key, .. }, _) => (Some(key), true),
            (Partitions::Range { .. }, after) => (after.as_ref().map(|after| &after.key), false),
        };
        let at_hand = self.partition.as_ref().filter(|own| Some(&own.key) == key);
        let left = at_hand.map_or(self.per_partition, |partition| partition.left);
        // So many rows may be given of what is asked for, and so many in this page.
        let whole = if is_one { self.limit_left.min(left) } else { self.limit_left };
        let most = whole.min(self.page_left.unwrap_or(u64::MAX));
        let rows_max = rows(most).min(ROWS_A_REQUEST);
        let filter = self.conditions.clone();
        let filters = filter.as_ref().is_some_and(|filter| !filter.filters.is_empty());
        let goes_on = whole > rows_max as u64 || filters;
        let request = ReadRequest {
            table: plan.table,
            partitions,
            from,
            to,
            reverse: plan.reverse,
            after: self.after.clone(),
            rows_max,
            partition_rows_max: if is_one { usize::MAX } else { rows(self.per_partition) },
            partition_rows_left: if is_one { usize::MAX } else { rows(left) },
            filter: filter.map(|conditions| conditions as Arc<dyn RowFilter>),
            bytes_max: self.page_bytes,
            now_s: self.now_s,
            columns: Some(Arc::clone(&plan.columns)),
            static_rows: plan.static_rows,
            bypass_cache: plan.bypass_cache,
            newest: false,
            newest_of_all: false,
            goes_on,
        };
        Some((shard, request))
    }

    /// Whether a partition has given as many rows as are wanted of one.
    fn is_full(&self, key: &[u8]) -> bool {
        let is_full = |partition: &PartitionRead| partition.is_full() && partition.key == key;
        self.partition.as_ref().is_some_and(is_full)
    }

    /// The number of the partition after the one that is being read, if they are named by keys.
    fn next_key(&self) -> Option<usize> {
        match &self.steps {
            Steps::Keys { slices, .. } => Some(self.step.checked_div(slices.len())? + 1),
            Steps::Tokens { .. } => None,
        }
    }

    /// Goes on with the first range of the partition with this number. A place is of one
    /// partition: kept for the next one it would hide the rows before it.
    fn skip_to(&mut self, number: usize) {
        let Steps::Keys { keys, slices } = &self.steps else { return };
        self.step = number * slices.len();
        self.over = number >= keys.len();
        self.after = None;
        self.partition = None;
    }

    /// Where to go on after a place: behind its partition if no more of that is wanted.
    fn beyond(&self, plan: &SelectPlan, mut position: Position) -> Position {
        if self.is_full(&position.key) {
            position.ck = end(plan).to_vec();
        }
        position
    }

    /// Nothing is left of the step that was read last.
    fn advance(&mut self, shards: u16) {
        self.after = None;
        if self.partition.as_ref().is_some_and(PartitionRead::is_full)
            && let Some(number) = self.next_key()
        {
            self.skip_to(number);
            return;
        }
        match &mut self.steps {
            Steps::Keys { keys, slices } => {
                self.step += 1;
                self.over = self.step >= keys.len() * slices.len();
            }
            Steps::Tokens { from, to } => {
                let shard = self.shard.unwrap_or_default();
                let end = *range_of(shard, shards).end();
                match end.checked_add(1) {
                    Some(next) if next <= *to => *from = next,
                    _ => self.over = true,
                }
            }
        }
    }

    /// Ends the read: how many rows were appended in all, and the paging state if there may be
    /// more. Appends the one row of a count or sum.
    #[must_use]
    pub fn finish(&mut self, out: &mut Vec<u8>) -> (u32, Option<Vec<u8>>) {
        if !self.totals.is_empty() {
            self.totals.iter().for_each(|total| total.put(out));
            return (1, None);
        }
        let state = self.paused.take().map(|position| {
            let partition = self.partition.as_ref();
            let partition_left = partition.map_or(self.per_partition, |partition| partition.left);
            let has_given = partition.is_some_and(|partition| partition.has_given);
            PagingState { left: self.limit_left, partition_left, has_given, position }.encode()
        });
        (self.rows, state)
    }
}

/// The place behind all rows of a partition.
fn end(plan: &SelectPlan) -> &'static [u8] {
    if plan.reverse { &[] } else { &[comparable::ABOVE] }
}

fn rows(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Checks that a result of so many bytes may be sent as one message.
pub(super) fn check_result(bytes: usize) -> Result<(), CqlError> {
    if bytes <= RESULT_BYTES_MAX {
        return Ok(());
    }
    Err(CqlError::invalid(format!(
        "The result has more than {RESULT_BYTES_MAX} bytes: ask for it in pages"
    )))
}
