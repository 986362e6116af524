//! What [`canonical`](super::super::canonical) does, bit by bit.
//!
//! A set, or a map, is put in order where it is, a run of its items at a time; then its runs are
//! merged. So it takes no more memory than another copy.

use super::{
    super::{
        CqlType, TypeError,
        canonical::{
            COUNT_BYTES, RepeatedKeys, broken, next_item, prefix, put_in_order, put_next,
            set_count, value_of,
        },
        collection::{Elements, put_count},
        comparable,
    },
    COPY_BYTES, PIECE_BYTES,
    pace::Pace,
};
use std::{
    cmp::Ordering,
    collections::{BinaryHeap, binary_heap::PeekMut},
    ops::Range,
    pin::Pin,
};

type Forming<'a> = Pin<Box<dyn Future<Output = Result<Vec<u8>, TypeError>> + Send + 'a>>;

/// How many copies of a value are there while it is formed, itself included.
pub(super) fn copies(ty: &CqlType) -> usize {
    let is_deep = match ty {
        CqlType::Set(item) => item.needs_sorting(),
        CqlType::Map(key, value) => key.needs_sorting() || value.needs_sorting(),
        // One item may be nearly all of it. Of a smaller one, half of it at most, there are as many
        // beside the value.
        CqlType::List(item) => return copies(item).max(2),
        CqlType::Tuple(types) => return types.iter().map(copies).fold(2, usize::max),
        CqlType::Udt(of) => return of.types().map(copies).fold(2, usize::max),
        _ => return 1,
    };
    if is_deep { 4 } else { 2 }
}

/// The value as it is stored. It must be valid.
pub(super) fn form<'a>(ty: &'a CqlType, bytes: Vec<u8>, pace: &'a Pace) -> Forming<'a> {
    Box::pin(async move {
        match ty {
            _ if !ty.needs_sorting() => Ok(bytes),
            CqlType::Set(item) => {
                in_order((item, RepeatedKeys::LastGiven), None, bytes, pace).await
            }
            CqlType::Map(key, value) => {
                in_order((key, RepeatedKeys::LastGiven), Some(value), bytes, pace).await
            }
            CqlType::List(item) => {
                let count = Elements(&bytes).count().map_err(broken)?;
                in_place((0..count).map(|_| &**item), COUNT_BYTES, bytes, pace).await
            }
            CqlType::Tuple(types) => in_place(types.iter(), 0, bytes, pace).await,
            CqlType::Udt(of) => in_place(of.types(), 0, bytes, pace).await,
            _ => Ok(bytes),
        }
    })
}

/// Forms the items of a value that keep their order. Formed they are no longer than given, so each
/// is put behind the ones before.
async fn in_place<'a>(
    types: impl Iterator<Item = &'a CqlType> + Send,
    start: usize,
    mut bytes: Vec<u8>,
    pace: &'a Pace,
) -> Result<Vec<u8>, TypeError> {
    let (mut read, mut written, mut formed) = (start, start, Vec::new());
    for ty in types {
        if read == bytes.len() {
            break;
        }
        let mut items = Elements(bytes.get(read..).unwrap_or_default());
        let item_bytes = items.item().map_err(broken)?.map_or(0, <[u8]>::len);
        if item_bytes > bytes.len() / 2 && item_bytes >= PIECE_BYTES && ty.needs_sorting() {
            let item = read + COUNT_BYTES..bytes.len() - items.0.len();
            (bytes, read) = most_formed(ty, bytes, written, item, pace).await?;
            written = read;
            continue;
        }
        // Memory for a large item is not kept for the next one.
        formed = if formed.capacity() > 2 * PIECE_BYTES { Vec::new() } else { formed };
        formed.clear();
        read = put_formed(ty, &bytes, read, &mut formed, pace).await?;
        written = put_back(&mut bytes, written, &formed, pace).await;
    }
    bytes.truncate(written);
    Ok(bytes)
}

/// Forms an item that is most of a value in the memory of that, and puts it behind what was written
/// before; gives the value, and the place behind the item.
async fn most_formed(
    ty: &CqlType,
    mut bytes: Vec<u8>,
    written: usize,
    item: Range<usize>,
    pace: &Pace,
) -> Result<(Vec<u8>, usize), TypeError> {
    let mut front = copied(bytes.get(..written).unwrap_or_default(), pace).await;
    let behind = copied(bytes.get(item.end..).unwrap_or_default(), pace).await;
    bytes.truncate(item.end);
    bytes.drain(..item.start);
    pace.worked(bytes.len()).await;
    let mut bytes = form(ty, bytes, pace).await?;
    put_count(&mut front, bytes.len());
    bytes.splice(..0, front);
    pace.worked(bytes.len()).await;
    let end = bytes.len();
    for piece in behind.chunks(COPY_BYTES) {
        bytes.extend_from_slice(piece);
        pace.worked(piece.len()).await;
    }
    Ok((bytes, end))
}

/// Appends the item at `read` as it is stored, with its length; gives the place behind it.
async fn put_formed(
    ty: &CqlType,
    bytes: &[u8],
    read: usize,
    formed: &mut Vec<u8>,
    pace: &Pace,
) -> Result<usize, TypeError> {
    let rest = bytes.get(read..).unwrap_or_default();
    let mut items = Elements(rest);
    let item = items.item().map_err(broken)?;
    let end = bytes.len() - items.0.len();
    match item {
        Some(item) if item.len() >= PIECE_BYTES && ty.needs_sorting() => {
            let copy = copied(item, pace).await;
            let item = form(ty, copy, pace).await?;
            formed.reserve_exact(COUNT_BYTES + item.len());
            put_count(formed, item.len());
            for piece in item.chunks(COPY_BYTES) {
                formed.extend_from_slice(piece);
                pace.worked(piece.len()).await;
            }
        }
        _ => put_next(ty, &mut Elements(rest), formed)?,
    }
    pace.worked(end - read).await;
    Ok(end)
}

async fn copied(bytes: &[u8], pace: &Pace) -> Vec<u8> {
    let mut copy = Vec::with_capacity(bytes.len());
    for piece in bytes.chunks(COPY_BYTES) {
        copy.extend_from_slice(piece);
        pace.worked(piece.len()).await;
    }
    copy
}

/// Puts what was formed where it was before, or further to the front; gives the place behind it.
async fn put_back(bytes: &mut [u8], at: usize, formed: &[u8], pace: &Pace) -> usize {
    let mut end = at;
    for piece in formed.chunks(COPY_BYTES) {
        if let Some(place) = bytes.get_mut(end..end + piece.len()) {
            place.copy_from_slice(piece);
        }
        end += piece.len();
        pace.worked(0).await;
    }
    end
}

/// Forms a set, or a map if its values have a type.
pub(super) async fn in_order<'a>(
    (key, which): (&'a CqlType, RepeatedKeys),
    value: Option<&'a CqlType>,
    mut bytes: Vec<u8>,
    pace: &'a Pace,
) -> Result<Vec<u8>, TypeError> {
    let is_deep = key.needs_sorting() || value.is_some_and(CqlType::needs_sorting);
    let count = Elements(&bytes).count().map_err(broken)?;
    let mut left = usize::try_from(count).unwrap_or(0);
    let (mut read, mut written) = (COUNT_BYTES, COUNT_BYTES);
    let (mut kept, mut runs, mut formed, mut ordered) = (0, Vec::new(), Vec::new(), Vec::new());
    while left > 0 {
        let (start, mut number) = (read, 0);
        formed.clear();
        while number < left && read - start < PIECE_BYTES {
            if is_deep {
                read = put_formed(key, &bytes, read, &mut formed, pace).await?;
                if let Some(ty) = value {
                    read = put_formed(ty, &bytes, read, &mut formed, pace).await?;
                }
            } else {
                let mut items = Elements(bytes.get(read..).unwrap_or_default());
                items.item().map_err(broken)?;
                value.map_or(Ok(None), |_| items.item()).map_err(broken)?;
                read = bytes.len() - items.0.len();
            }
            number += 1;
        }
        left -= number;
        let run = if is_deep { &formed } else { bytes.get(start..read).unwrap_or_default() };
        ordered.clear();
        if number > 1 {
            kept += put_in_order((key, which), value.is_some(), (run, number), &mut ordered)?;
        } else {
            // It may be nearly all of the value.
            kept += 1;
            if is_deep {
                std::mem::swap(&mut ordered, &mut formed);
            } else {
                ordered = copied(run, pace).await;
            }
        }
        pace.worked(read - start).await;
        let end = put_back(&mut bytes, written, &ordered, pace).await;
        runs.push(written..end);
        written = end;
    }
    bytes.truncate(written);
    let merge = RunMerge { key, which, are_pairs: value.is_some(), bytes: &bytes };
    if merge.are_in_order(&runs, pace).await? {
        set_count(&mut bytes, 0, kept);
        return Ok(bytes);
    }
    merge.merged(runs, pace).await
}

/// The first of what is left of a run.
struct RunHead {
    /// The first bytes of its order, which mostly decide.
    prefix: u64,
    order: Vec<u8>,
    /// The number of the run. What was given last wins, and is in the last of them.
    run: usize,
    /// The item or pair, and the rest of the run.
    item: Range<usize>,
    end: usize,
}

impl Ord for RunHead {
    /// The greatest is the one to go next: the least, and of equal ones the last given.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_order = other.prefix.cmp(&self.prefix).then_with(|| other.order.cmp(&self.order));
        by_order.then(self.run.cmp(&other.run))
    }
}

impl PartialOrd for RunHead {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RunHead {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for RunHead {}

/// Runs of items, each in order.
struct RunMerge<'a> {
    key: &'a CqlType,
    which: RepeatedKeys,
    are_pairs: bool,
    bytes: &'a [u8],
}

impl RunMerge<'_> {
    /// Goes to the item at this place.
    fn go_to(&self, head: &mut RunHead, at: usize) -> Result<(), TypeError> {
        let mut items = Elements(self.bytes.get(at..).unwrap_or_default());
        head.order.clear();
        comparable::encode(self.key, false, next_item(&mut items)?, &mut head.order)?;
        if self.are_pairs {
            next_item(&mut items)?;
        }
        head.prefix = prefix(&head.order);
        head.item = at..self.bytes.len() - items.0.len();
        Ok(())
    }

    fn head(&self, number: usize, run: &Range<usize>) -> Result<RunHead, TypeError> {
        let (order, item) = (Vec::new(), run.start..run.start);
        let mut head = RunHead { prefix: 0, order, run: number, item, end: run.end };
        self.go_to(&mut head, run.start)?;
        Ok(head)
    }

    /// Whether each run begins behind the end of the one before.
    async fn are_in_order(&self, runs: &[Range<usize>], pace: &Pace) -> Result<bool, TypeError> {
        let mut before: Option<RunHead> = None;
        for (number, run) in runs.iter().enumerate() {
            let mut head = self.head(number, run)?;
            pace.worked(head.order.len()).await;
            if before.is_some_and(|before| before.order >= head.order) {
                return Ok(false);
            }
            if number + 1 == runs.len() {
                break;
            }
            while head.item.end < head.end {
                let mut items = Elements(self.bytes.get(head.item.end..).unwrap_or_default());
                next_item(&mut items)?;
                if self.are_pairs {
                    next_item(&mut items)?;
                }
                head.item = head.item.end..self.bytes.len() - items.0.len();
                pace.worked(0).await;
            }
            let last = head.item.start;
            if last > run.start {
                self.go_to(&mut head, last)?;
                pace.worked(head.order.len()).await;
            }
            before = Some(head);
        }
        Ok(true)
    }

    async fn merged(&self, runs: Vec<Range<usize>>, pace: &Pace) -> Result<Vec<u8>, TypeError> {
        let mut heads = BinaryHeap::with_capacity(runs.len());
        for (number, run) in runs.iter().enumerate() {
            let head = self.head(number, run)?;
            let bytes = head.order.len();
            heads.push(head);
            pace.worked(bytes).await;
        }
        let mut out = Vec::with_capacity(self.bytes.len());
        out.extend_from_slice(&[0; COUNT_BYTES]);
        let (mut last, mut last_at, mut kept) = (Vec::new(), 0, 0);
        while let Some(mut head) = heads.peek_mut() {
            let item = self.bytes.get(head.item.clone()).unwrap_or_default();
            if kept == 0 || head.order != last {
                last_at = out.len();
                out.extend_from_slice(item);
                kept += 1;
                std::mem::swap(&mut last, &mut head.order);
            } else if self.which == RepeatedKeys::Greatest
                && self.are_pairs
                && value_of(item) > value_of(out.get(last_at..).unwrap_or_default())
            {
                out.truncate(last_at);
                out.extend_from_slice(item);
            }
            let (bytes, next) = (head.item.len(), head.item.end);
            if next < head.end {
                self.go_to(&mut head, next)?;
                drop(head);
            } else {
                PeekMut::pop(head);
            }
            pace.worked(bytes).await;
        }
        set_count(&mut out, 0, kept);
        Ok(out)
    }
}
