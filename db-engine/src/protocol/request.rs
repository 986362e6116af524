//! Requests: the bodies of STARTUP, REGISTER, QUERY, PREPARE, EXECUTE and BATCH (CQL v4 §4.1).

use super::{Consistency, MalformedBody, notation::BodyReader};
use crate::types::Value;

/// Bits of the flags of QUERY, EXECUTE and BATCH.
mod flag {
    pub const VALUES: u8 = 0x01;
    pub const SKIP_METADATA: u8 = 0x02;
    pub const PAGE_SIZE: u8 = 0x04;
    pub const PAGING_STATE: u8 = 0x08;
    pub const SERIAL_CONSISTENCY: u8 = 0x10;
    pub const DEFAULT_TIMESTAMP: u8 = 0x20;
    pub const NAMES: u8 = 0x40;
}

/// Values up to this number lie on the stack; only wider statements cost an allocation.
const VALUES_INLINE: usize = 24;

/// The values of one statement, borrowed from the frame.
pub struct Values<'a> {
    inline: [Value<'a>; VALUES_INLINE],
    length: usize,
    more: Vec<Value<'a>>,
}

impl Default for Values<'_> {
    fn default() -> Self {
        Self { inline: [Value::Null; VALUES_INLINE], length: 0, more: Vec::new() }
    }
}

impl<'a> Values<'a> {
    /// In the order of the bind markers, or of their names.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[Value<'a>] {
        if self.more.is_empty() {
            self.inline.get(..self.length).unwrap_or_default()
        } else {
            &self.more
        }
    }

    /// Reads `[short n]` and `n` values, in place of those that were here.
    ///
    /// # Errors
    /// The body ends too early, or says nonsense.
    #[inline]
    pub fn read(&mut self, reader: &mut BodyReader<'a>) -> Result<(), MalformedBody> {
        self.more.clear();
        let count = usize::from(reader.short()?);
        if let Some(slots) = self.inline.get_mut(..count) {
            for slot in slots {
                *slot = reader.value()?;
            }
            self.length = count;
            return Ok(());
        }
        for _ in 0..count {
            self.more.push(reader.value()?);
        }
        Ok(())
    }

    /// Reads `[short n]` and `n` pairs of a name and a value.
    fn read_named(&mut self, reader: &mut BodyReader<'a>) -> Result<Vec<&'a str>, MalformedBody> {
        self.more.clear();
        self.length = 0;
        let mut names = Vec::new();
        for _ in 0..reader.short()? {
            names.push(reader.string()?);
            self.more.push(reader.value()?);
        }
        Ok(names)
    }
}

/// What QUERY and EXECUTE say beside the statement.
pub struct Parameters<'a> {
    /// The level asked for.
    pub consistency: Consistency,
    /// The names of the values, where the client named them.
    pub names: Option<Vec<&'a str>>,
    /// The client remembers the columns of the result.
    pub skip_metadata: bool,
    /// Rows in a page; `None`: all in one.
    pub page_rows: Option<u32>,
    /// Where the page begins, as the page before told.
    pub paging_state: Option<&'a [u8]>,
    /// The level at which conditions are looked at, if the client said one.
    pub serial: Option<Consistency>,
    /// The write time that the client chose, in microseconds.
    pub timestamp_us: Option<i64>,
}

impl<'a> Parameters<'a> {
    /// Reads the query parameters, which end the body. The bound values are read into `values`:
    /// they are too large to be handed on from function to function.
    ///
    /// # Errors
    /// The body ends too early, or says nonsense.
    #[inline]
    pub fn read(
        reader: &mut BodyReader<'a>,
        values: &mut Values<'a>,
    ) -> Result<Self, MalformedBody> {
        let consistency = Consistency::from_wire(reader.short()?)?;
        let flags = reader.byte()?;
        let mut names = None;
        if flags & flag::VALUES != 0 {
            if flags & flag::NAMES == 0 {
                values.read(reader)?;
            } else {
                names = Some(values.read_named(reader)?);
            }
        }
        let mut page_rows = None;
        if flags & flag::PAGE_SIZE != 0 {
            // A page size of 0 or below means no paging.
            page_rows = u32::try_from(reader.int()?).ok().filter(|rows| *rows > 0);
        }
        let paging_state = if flags & flag::PAGING_STATE == 0 { None } else { reader.bytes()? };
        let (serial, timestamp_us) = read_tail(reader, flags)?;
        let skip_metadata = flags & flag::SKIP_METADATA != 0;
        Ok(Self {
            consistency,
            names,
            skip_metadata,
            page_rows,
            paging_state,
            serial,
            timestamp_us,
        })
    }
}

/// `[serial consistency] [default timestamp]`, each if its flag is set.
fn read_tail(
    reader: &mut BodyReader<'_>,
    flags: u8,
) -> Result<(Option<Consistency>, Option<i64>), MalformedBody> {
    let mut serial = None;
    if flags & flag::SERIAL_CONSISTENCY != 0 {
        serial = Some(Consistency::from_wire(reader.short()?)?);
    }
    if flags & flag::DEFAULT_TIMESTAMP == 0 {
        return Ok((serial, None));
    }
    match reader.long()? {
        i64::MIN => Err(MalformedBody(format!(
            "Out of bound timestamp, must be in [{}, {}] (got {})",
            i64::MIN + 1,
            i64::MAX,
            i64::MIN
        ))),
        timestamp => Ok((serial, Some(timestamp))),
    }
}

/// How the writes of a batch belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchKind {
    /// All or none, whatever happens.
    Logged,
    /// Each for itself, where they belong to different partitions.
    Unlogged,
    /// Of counters.
    Counter,
}

/// A statement of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementRef<'a> {
    /// As text.
    Text(&'a str),
    /// By the id of a prepared one.
    Prepared(&'a [u8]),
}

/// What a BATCH says besides its statements, and how far they are read.
#[derive(Debug, Clone, Copy)]
pub struct BatchHead {
    /// How its writes belong together.
    pub kind: BatchKind,
    /// Statements that have not been read yet.
    pub remaining: u16,
    /// The level asked for.
    pub consistency: Consistency,
    /// The level at which conditions are looked at, if the client said one.
    pub serial: Option<Consistency>,
    /// The write time that the client chose, in microseconds.
    pub timestamp_us: Option<i64>,
    /// Bytes of the body from the next statement on.
    rest_bytes: usize,
}

/// A BATCH. Its statements are read one after the other with [`Batch::next`].
pub struct Batch<'a> {
    /// All but the statements.
    pub head: BatchHead,
    reader: BodyReader<'a>,
}

impl<'a> Batch<'a> {
    /// Bytes of the statements that have not been read.
    #[must_use]
    pub fn rest_bytes(&self) -> usize {
        self.reader.rest().len()
    }

    /// Reads the kind, looks over the statements, and reads what follows them: the write time is
    /// needed before the first statement can be bound, but stands behind the last.
    ///
    /// # Errors
    /// The body ends too early, or says nonsense.
    pub fn read(body: &'a [u8]) -> Result<Self, MalformedBody> {
        let mut reader = BodyReader::new(body);
        let kind = match reader.byte()? {
            0 => BatchKind::Logged,
            1 => BatchKind::Unlogged,
            2 => BatchKind::Counter,
            other => return Err(MalformedBody(format!("Invalid batch type {other}"))),
        };
        let remaining = reader.short()?;
        let mut ahead = reader;
        for _ in 0..remaining {
            read_statement(&mut ahead)?;
            for _ in 0..ahead.short()? {
                ahead.value()?;
            }
        }
        let consistency = Consistency::from_wire(ahead.short()?)?;
        let flags = ahead.byte()?;
        if flags & flag::NAMES != 0 {
            // CQL v4 §4.1.7: the names would stand behind the values that they name.
            return Err(MalformedBody::new("named values cannot be used in a BATCH message"));
        }
        let (serial, timestamp_us) = read_tail(&mut ahead, flags)?;
        let rest_bytes = reader.rest().len();
        let head = BatchHead { kind, remaining, consistency, serial, timestamp_us, rest_bytes };
        Ok(Self { head, reader })
    }

    /// What is needed to go on later with the statements that have not been read.
    #[must_use]
    pub fn head_of_rest(&self) -> BatchHead {
        BatchHead { rest_bytes: self.reader.rest().len(), ..self.head }
    }

    /// Goes on with the same body as before.
    ///
    /// # Errors
    /// It is another body.
    pub fn resume(head: BatchHead, body: &'a [u8]) -> Result<Self, MalformedBody> {
        let mut reader = BodyReader::new(body);
        reader.take(body.len().saturating_sub(head.rest_bytes))?;
        Ok(Self { head, reader })
    }

    /// The next statement, and its values in `values`.
    ///
    /// # Errors
    /// None, since [`Batch::read`] has looked over all of them.
    #[inline]
    pub fn next(
        &mut self,
        values: &mut Values<'a>,
    ) -> Result<Option<StatementRef<'a>>, MalformedBody> {
        if self.head.remaining == 0 {
            return Ok(None);
        }
        self.head.remaining -= 1;
        let statement = read_statement(&mut self.reader)?;
        values.read(&mut self.reader)?;
        Ok(Some(statement))
    }
}

#[inline]
fn read_statement<'a>(reader: &mut BodyReader<'a>) -> Result<StatementRef<'a>, MalformedBody> {
    match reader.byte()? {
        0 => reader.long_string().map(StatementRef::Text),
        1 => reader.short_bytes().map(StatementRef::Prepared),
        other => Err(unknown_kind(other)),
    }
}

#[cold]
fn unknown_kind(kind: u8) -> MalformedBody {
    MalformedBody(format!("Invalid query kind {kind} in BATCH message"))
}

/// What STARTUP says that we act on.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Startup<'a> {
    /// The CQL version the client wants: mandatory.
    pub cql_version: Option<&'a str>,
    /// How bodies may be compressed.
    pub compression: Option<&'a str>,
    /// The driver's name, for the log.
    pub driver_name: Option<&'a str>,
    /// The driver's version, for the log.
    pub driver_version: Option<&'a str>,
}

impl<'a> Startup<'a> {
    /// Reads the string map; keys that we do not know are passed over.
    ///
    /// # Errors
    /// The body ends too early, or says nonsense.
    pub fn read(body: &'a [u8]) -> Result<Self, MalformedBody> {
        let mut reader = BodyReader::new(body);
        let mut startup = Self::default();
        for _ in 0..reader.short()? {
            let (key, value) = (reader.string()?, reader.string()?);
            match key {
                "CQL_VERSION" => startup.cql_version = Some(value),
                "COMPRESSION" => startup.compression = Some(value),
                "DRIVER_NAME" => startup.driver_name = Some(value),
                "DRIVER_VERSION" => startup.driver_version = Some(value),
                _ => {}
            }
        }
        Ok(startup)
    }
}

/// Whether a REGISTER asks for schema changes, the only events that we ever send.
///
/// # Errors
/// The body ends too early, or names an event that is in no specification.
pub fn read_register(body: &[u8]) -> Result<bool, MalformedBody> {
    let mut reader = BodyReader::new(body);
    let mut schema_changes = false;
    for _ in 0..reader.short()? {
        match reader.string()? {
            "SCHEMA_CHANGE" => schema_changes = true,
            "TOPOLOGY_CHANGE" | "STATUS_CHANGE" => {}
            other => return Err(MalformedBody(format!("Invalid value '{other}' for Event.Type"))),
        }
    }
    Ok(schema_changes)
}

#[cfg(test)]
mod tests;
