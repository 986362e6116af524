//! Writes: values → an encoded mutation. The path of every measurement, so nothing is allocated
//! and nothing is decided here that preparing could decide.

use crate::{
    cql::{
        error::CqlError,
        execute::{
            context::{BindContext, BindScratch, Given, Supplied},
            elements::{self, Inputs},
            keys::partition_keys,
            known_lists::RowOfLists,
            value::{Found, check_count, check_key, check_length, put_key},
        },
        prepare::{
            input::BoundValue,
            plan::{Action, RowChanges, WritePlan},
        },
    },
    mutation::{
        Builder, CK_BYTES_MAX, KEY_BYTES_MAX, MutationView, RowBuilder, TableNumber, Token, Write,
        token::token,
    },
    schema::options::TTL_S_MAX,
    types::{Value, comparable},
};

impl WritePlan {
    /// Appends the mutations that the statement with these values is; says which partition's, if
    /// it names one alone.
    ///
    /// Nothing is appended if it fails.
    ///
    /// # Errors
    /// In Cassandra's words, if the values do not suit the statement.
    pub fn bind(
        &self,
        values: &[Value<'_>],
        context: &BindContext,
        scratch: &mut BindScratch,
        out: &mut Vec<u8>,
    ) -> Result<Option<Token>, CqlError> {
        self.bind_next(values, context, scratch, out, &mut None)
    }

    /// As [`WritePlan::bind`], for one statement of a batch: what changes the same partition as the
    /// statement before it becomes part of that mutation, which begins at `last`.
    ///
    /// # Errors
    /// As [`WritePlan::bind`].
    pub fn bind_next(
        &self,
        values: &[Value<'_>],
        context: &BindContext,
        scratch: &mut BindScratch,
        out: &mut Vec<u8>,
        last: &mut Option<usize>,
    ) -> Result<Option<Token>, CqlError> {
        check_count(values, self.markers)?;
        self.append((values, None), context, scratch, out, last)
    }

    /// Checks the values of its partition key.
    ///
    /// # Errors
    /// In Cassandra's words, if they do not suit it.
    pub fn check_key(
        &self,
        values: &[Value<'_>],
        context: &BindContext,
        scratch: &mut BindScratch,
    ) -> Result<(), CqlError> {
        match &self.many {
            Some(many) => partition_keys(&many.partitions, values, context).map(drop),
            None => put_key(&self.partition_key, values, context, &mut scratch.key),
        }
    }

    /// As [`WritePlan::bind_next`], for one statement of a text, to which only some values belong.
    pub(super) fn append(
        &self,
        supplied: Supplied<'_>,
        context: &BindContext,
        scratch: &mut BindScratch,
        out: &mut Vec<u8>,
        last: &mut Option<usize>,
    ) -> Result<Option<Token>, CqlError> {
        self.append_row(supplied, context, scratch, out, last, |builder, given, ck, write| {
            self.build(builder, given, ck, write)
        })
    }

    /// Appends what `build` writes to the row that the statement names.
    #[inline]
    pub(super) fn append_row(
        &self,
        (values, lists): Supplied<'_>,
        context: &BindContext,
        scratch: &mut BindScratch,
        out: &mut Vec<u8>,
        last: &mut Option<usize>,
        build: impl FnOnce(&mut Builder<'_>, Given<'_>, &[u8], &Write) -> Result<(), CqlError>,
    ) -> Result<Option<Token>, CqlError> {
        check_length(out.len())?;
        // Values are judged in Cassandra's order.
        let timestamp_us = self.timestamp_us(values, context)?;
        let given = Given { values, context, places: &scratch.places, lists };
        if let Some(many) = &self.many {
            *last = None;
            self.append_many(many, given, timestamp_us, out)?;
            return Ok(None);
        }
        put_key(&self.partition_key, values, context, &mut scratch.key)?;
        put_clustering(&self.clustering, values, context, &mut scratch.ck)?;
        let write = self.write(timestamp_us, values, context)?;
        let start = out.len();
        let same =
            last.and_then(|last| Some((last, token_of(out, last, self.table, &scratch.key)?)));
        let (mut builder, token) = if let Some((last, token)) = same {
            (Builder::resume(out, last), token)
        } else {
            *last = Some(start);
            let token = token(&scratch.key);
            (Builder::new(out, self.table, token, &scratch.key), token)
        };
        match build(&mut builder, given, &scratch.ck, &write) {
            Ok(()) => {
                builder.finish().map_err(|_| too_long())?;
                Ok(Some(token))
            }
            Err(error) => {
                out.truncate(start);
                Err(error)
            }
        }
    }

    fn build(
        &self,
        builder: &mut Builder<'_>,
        given: Given<'_>,
        ck: &[u8],
        write: &Write,
    ) -> Result<(), CqlError> {
        match self.action {
            Action::DeletePartition => {
                builder.delete_partition(write);
                return Ok(());
            }
            Action::DeleteRow => {
                builder.delete_row(ck, write);
                return Ok(());
            }
            Action::Insert | Action::Update => {}
        }
        let of_static = self.build_static(builder, given, write);
        if self.has_row {
            // As by Cassandra, what is wrong with the row is told first.
            self.build_row(builder, given, ck, write)?;
        }
        of_static
    }

    /// Writes to the static row, if the statement does.
    #[inline]
    pub(super) fn build_static(
        &self,
        builder: &mut Builder<'_>,
        given: Given<'_>,
        write: &Write,
    ) -> Result<(), CqlError> {
        if self.static_changes.is_empty() {
            return Ok(());
        }
        let known = given.lists.and_then(|lists| lists.row(self, builder.key(), &[]));
        self.static_changes.put(&mut builder.row(&[], write, false), (given, known), write)
    }

    /// Writes to a row.
    pub(super) fn build_row(
        &self,
        builder: &mut Builder<'_>,
        given: Given<'_>,
        ck: &[u8],
        write: &Write,
    ) -> Result<(), CqlError> {
        let known = given.lists.and_then(|lists| lists.row(self, builder.key(), ck));
        let mut row = builder.row(ck, write, self.action == Action::Insert);
        self.changes.put(&mut row, (given, known), write)
    }

    /// When it is written, in microseconds since the Unix epoch.
    #[inline]
    pub(super) fn timestamp_us(
        &self,
        values: &[Value<'_>],
        context: &BindContext,
    ) -> Result<i64, CqlError> {
        match &self.timestamp {
            None => Ok(context.timestamp_us),
            Some(slot) => timestamp(slot, values, context),
        }
    }

    #[inline]
    pub(super) fn write(
        &self,
        timestamp: i64,
        values: &[Value<'_>],
        context: &BindContext,
    ) -> Result<Write, CqlError> {
        let ttl_s = match &self.ttl {
            None => self.default_ttl_s,
            Some(slot) => ttl(slot, values, context)?.unwrap_or(self.default_ttl_s),
        };
        Ok(Write { timestamp, ttl_s, now_s: context.now_s() })
    }
}

impl RowChanges {
    fn put(
        &self,
        row: &mut RowBuilder<'_>,
        (given, known): (Given<'_>, Option<RowOfLists<'_>>),
        write: &Write,
    ) -> Result<(), CqlError> {
        let (mut cells, mut bytes_in_all) = (self.cells.as_slice(), 0);
        if self.elements.is_empty() {
            return put_cells(cells, row, given, &mut bytes_in_all);
        }
        for changes in self.elements.chunk_by(|a, b| a.0 == b.0) {
            let before = cells.partition_point(|(column, _)| *column < changes[0].0);
            let (first, rest) = cells.split_at(before);
            put_cells(first, row, given, &mut bytes_in_all)?;
            let inputs = Inputs::new(given, known, write.timestamp);
            bytes_in_all += elements::put(changes, row, &inputs)?;
            check_length(bytes_in_all)?;
            cells = rest;
        }
        put_cells(cells, row, given, &mut bytes_in_all)
    }
}

/// Appends cells to a row, and counts their bytes.
#[inline]
fn put_cells(
    cells: &[(u16, BoundValue)],
    row: &mut RowBuilder<'_>,
    Given { values, context, .. }: Given<'_>,
    bytes_in_all: &mut usize,
) -> Result<(), CqlError> {
    for (column, slot) in cells {
        match slot.find(values, context)? {
            Found::Bytes(bytes) => {
                *bytes_in_all += bytes.len();
                check_length(*bytes_in_all)?;
                row.cell(*column, &bytes);
            }
            Found::Null => {
                row.tombstone(*column);
            }
            Found::Unset => {}
        }
    }
    Ok(())
}

#[cold]
pub(super) fn too_long() -> CqlError {
    CqlError::invalid("A key or value is too long")
}

/// The token of the mutation that begins here, if it changes this partition.
fn token_of(out: &[u8], start: usize, table: TableNumber, key: &[u8]) -> Option<Token> {
    let view = MutationView::parse(out.get(start..)?).ok()?;
    (view.table() == table && view.key() == key).then(|| view.token())
}

/// The value of `USING TIMESTAMP`, in microseconds since the Unix epoch.
pub(super) fn timestamp(
    slot: &BoundValue,
    values: &[Value<'_>],
    context: &BindContext,
) -> Result<i64, CqlError> {
    match slot.find(values, context)? {
        Found::Unset => Ok(context.timestamp_us),
        Found::Null => Err(CqlError::invalid("Invalid null value of timestamp")),
        Found::Bytes(bytes) => match <[u8; 8]>::try_from(&*bytes).map(i64::from_be_bytes) {
            Ok(i64::MIN) => Err(CqlError::invalid(format!(
                "Out of bound timestamp, must be in [{}, {}]",
                i64::MIN + 1,
                i64::MAX
            ))),
            Ok(timestamp) => Ok(timestamp),
            Err(_) => Err(CqlError::invalid("Invalid timestamp value")),
        },
    }
}

/// The value of `USING TTL`, in seconds; none if it is unset.
fn ttl(
    slot: &BoundValue,
    values: &[Value<'_>],
    context: &BindContext,
) -> Result<Option<u32>, CqlError> {
    let bytes = match slot.find(values, context)? {
        Found::Unset => return Ok(None),
        // Not the table's own, but none at all: as in Cassandra.
        Found::Null => return Ok(Some(0)),
        Found::Bytes(bytes) => bytes,
    };
    let Ok(ttl) = <[u8; 4]>::try_from(&*bytes).map(i32::from_be_bytes) else {
        return Ok(Some(0));
    };
    match u32::try_from(ttl) {
        Err(_) => {
            Err(CqlError::invalid(format!("A TTL must be greater or equal to 0, but was {ttl}")))
        }
        Ok(ttl) if ttl > TTL_S_MAX => Err(CqlError::invalid(format!(
            "ttl is too large. requested ({ttl}) maximum ({TTL_S_MAX})"
        ))),
        Ok(ttl) => Ok(Some(ttl)),
    }
}

pub(super) fn put_clustering(
    slots: &[BoundValue],
    values: &[Value<'_>],
    context: &BindContext,
    out: &mut Vec<u8>,
) -> Result<(), CqlError> {
    out.clear();
    let mut length = 0;
    for slot in slots {
        let value = slot.find_key(values, context)?;
        length += value.len();
        if length <= KEY_BYTES_MAX {
            comparable::encode(&slot.ty, slot.descending, &value, out)?;
        }
    }
    check_key(length)?;
    if out.len() > CK_BYTES_MAX { Err(ck_too_long(length, out.len())) } else { Ok(()) }
}

#[cold]
fn ck_too_long(length: usize, encoded: usize) -> CqlError {
    CqlError::invalid(format!(
        "A clustering key of {length} bytes takes {encoded} in the order of its types, more than \
         {CK_BYTES_MAX}: use fewer or shorter values"
    ))
}
