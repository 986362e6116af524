//! RESULT: what a statement gave (CQL v4 §4.2.5).

use super::{
    frame::{HEADER_BYTES, RESPONSE_BIT},
    notation::{put_bytes, put_count, put_int, put_short, put_short_bytes, put_string},
    opcode, response,
};
use crate::{cql::ColumnSpec, schema::SchemaChange};

const VOID: u8 = 1;
const ROWS: i32 = 2;
const SET_KEYSPACE: i32 = 3;
const PREPARED: i32 = 4;
const SCHEMA_CHANGE: i32 = 5;

/// Flags of metadata.
mod flag {
    pub const GLOBAL_TABLE: i32 = 1;
    pub const MORE_PAGES: i32 = 2;
    pub const NO_METADATA: i32 = 4;
}

/// Appends the acknowledgement of a write: thirteen bytes, of which only the stream differs.
#[inline]
pub fn void(out: &mut Vec<u8>, stream: i16) {
    let [s0, s1] = stream.to_be_bytes();
    let version = super::VERSION | RESPONSE_BIT;
    out.extend_from_slice(&[version, 0, s0, s1, opcode::RESULT, 0, 0, 0, 4, 0, 0, 0, VOID]);
}

/// Appends that a keyspace is now the connection's.
pub fn set_keyspace(out: &mut Vec<u8>, stream: i16, keyspace: &str) {
    let at = response::begin(out, stream, opcode::RESULT);
    put_int(out, SET_KEYSPACE);
    put_string(out, keyspace);
    response::end(out, at);
}

/// Appends that the schema has changed, as the answer to the statement that did it, and what its
/// client is to be warned of.
pub fn schema_change(out: &mut Vec<u8>, stream: i16, change: &SchemaChange, warnings: &[String]) {
    let at = response::begin_warned(out, stream, opcode::RESULT, warnings);
    put_int(out, SCHEMA_CHANGE);
    put_change(out, change);
    response::end(out, at);
}

/// Appends that the schema has changed, to a connection that asked to be told.
pub fn schema_event(out: &mut Vec<u8>, change: &SchemaChange) {
    let at = response::begin(out, response::EVENT_STREAM, opcode::EVENT);
    put_string(out, "SCHEMA_CHANGE");
    put_change(out, change);
    response::end(out, at);
}

fn put_change(out: &mut Vec<u8>, change: &SchemaChange) {
    put_string(out, change.change.name());
    put_string(out, change.target());
    put_string(out, &change.keyspace);
    if let Some(name) = change.name() {
        put_string(out, name);
    }
}

/// The columns of a result, encoded once when a statement is prepared.
#[derive(Debug, Default)]
pub struct Columns {
    count: usize,
    /// Keyspace, table, and for each column name and type.
    specs: Vec<u8>,
}

impl Columns {
    /// Encodes these columns of one table.
    #[must_use]
    pub fn new(keyspace: &str, table: &str, columns: &[ColumnSpec]) -> Self {
        let mut specs = Vec::new();
        if !columns.is_empty() {
            put_string(&mut specs, keyspace);
            put_string(&mut specs, table);
        }
        for column in columns {
            put_string(&mut specs, &column.name);
            column.ty.put_option(&mut specs);
        }
        Self { count: columns.len(), specs }
    }

    fn flags(&self) -> i32 {
        if self.count == 0 { 0 } else { flag::GLOBAL_TABLE }
    }
}

/// What rows begin with.
#[derive(Debug, Clone, Copy)]
pub struct RowsHead<'a> {
    /// The stream of the request.
    pub stream: i16,
    /// Their columns.
    pub columns: &'a Columns,
    /// The client knows the columns from when it prepared the statement.
    pub skip_metadata: bool,
    /// Where to go on, if there are more.
    pub paging_state: Option<&'a [u8]>,
    /// How many rows there are.
    pub count: u32,
}

/// Appends rows whose cells are already encoded one after the other. Gives where they begin.
pub fn rows(out: &mut Vec<u8>, head: &RowsHead<'_>, cells: &[u8]) -> usize {
    out.reserve(HEADER_BYTES + 32 + head.columns.specs.len() + cells.len());
    let at = put_head(out, head);
    out.extend_from_slice(cells);
    response::end(out, at);
    at
}

/// The same, with many cells: if nothing is before them, their memory becomes that of `out`, whose
/// own is given for it.
pub fn rows_of_many_cells(out: &mut Vec<u8>, head: &RowsHead<'_>, cells: &mut Vec<u8>) -> usize {
    if !out.is_empty() {
        return rows(out, head, cells);
    }
    let mut begin = Vec::new();
    let at = put_head(&mut begin, head);
    cells.splice(..0, begin);
    // They grew by half or more at a time, and what is to be sent counts with all its memory.
    cells.shrink_to_fit();
    std::mem::swap(out, cells);
    response::end(out, at);
    at
}

fn put_head(out: &mut Vec<u8>, head: &RowsHead<'_>) -> usize {
    let RowsHead { stream, columns, skip_metadata, paging_state, count } = *head;
    let at = response::begin(out, stream, opcode::RESULT);
    put_int(out, ROWS);
    let shape = if skip_metadata { flag::NO_METADATA } else { columns.flags() };
    let more = if paging_state.is_some() { flag::MORE_PAGES } else { 0 };
    put_int(out, shape | more);
    put_count(out, columns.count);
    if let Some(state) = paging_state {
        put_bytes(out, Some(state));
    }
    if !skip_metadata {
        out.extend_from_slice(&columns.specs);
    }
    out.extend_from_slice(&count.to_be_bytes());
    at
}

/// The body of the answer to PREPARE.
///
/// `keys`: for each column of the partition key, which marker gives its value.
#[must_use]
pub fn prepared(id: &[u8], keys: &[u16], bind: &Columns, result: &Columns) -> Vec<u8> {
    let mut out = Vec::new();
    put_int(&mut out, PREPARED);
    put_short_bytes(&mut out, id);
    put_int(&mut out, bind.flags());
    put_count(&mut out, bind.count);
    put_count(&mut out, keys.len());
    for key in keys {
        put_short(&mut out, *key);
    }
    out.extend_from_slice(&bind.specs);
    put_int(&mut out, if result.count == 0 { flag::NO_METADATA } else { result.flags() });
    put_count(&mut out, result.count);
    out.extend_from_slice(&result.specs);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        protocol::notation::BodyReader,
        schema::{Changed, ddl::ChangeKind},
        types::CqlType,
    };

    fn columns() -> Columns {
        let column = |name: &str, ty| ColumnSpec { name: name.to_owned(), ty };
        Columns::new("ks", "t", &[column("a", CqlType::Int), column("b", CqlType::Text)])
    }

    #[test]
    fn a_void_result_is_thirteen_bytes() {
        let mut out = Vec::new();
        void(&mut out, 0x0102);
        assert_eq!(out, [0x84, 0, 1, 2, 8, 0, 0, 0, 4, 0, 0, 0, 1]);
    }

    #[test]
    fn rows_say_their_columns_unless_the_client_knows_them() {
        let columns = columns();
        let (skip_metadata, paging_state) = (false, None);
        let head = RowsHead { stream: 1, columns: &columns, skip_metadata, paging_state, count: 1 };
        let mut out = Vec::new();
        rows(&mut out, &head, &[0xFF; 8]);
        let mut body = BodyReader::new(&out[9..]);
        assert_eq!([body.int(), body.int(), body.int()], [Ok(2), Ok(1), Ok(2)]);
        assert_eq!([body.string(), body.string()], [Ok("ks"), Ok("t")]);
        assert_eq!((body.string(), body.short()), (Ok("a"), Ok(9)));
        assert_eq!((body.string(), body.short()), (Ok("b"), Ok(13)));
        assert_eq!((body.int(), body.rest()), (Ok(1), &[0xFF; 8][..]));

        out.clear();
        let head = RowsHead { skip_metadata: true, paging_state: Some(b"next"), count: 0, ..head };
        rows(&mut out, &head, &[]);
        let mut body = BodyReader::new(&out[9..]);
        assert_eq!([body.int(), body.int(), body.int()], [Ok(2), Ok(6), Ok(2)]);
        assert_eq!(body.bytes(), Ok(Some(&b"next"[..])));
        assert_eq!((body.int(), body.rest()), (Ok(0), &[][..]));
    }

    #[test]
    fn many_cells_are_answered_with_like_few() {
        let columns = columns();
        let (skip_metadata, paging_state) = (false, Some(&b"next"[..]));
        let head = RowsHead { stream: 7, columns: &columns, skip_metadata, paging_state, count: 2 };
        for before in [&b""[..], b"an answer"] {
            let (mut few, mut many) = (before.to_vec(), before.to_vec());
            let mut cells = Vec::with_capacity(5_000);
            cells.resize(1_000, 0xFF);
            let at = rows(&mut few, &head, &cells);
            assert_eq!(rows_of_many_cells(&mut many, &head, &mut cells), at);
            assert_eq!(many, few);
            assert_eq!(cells.is_empty(), before.is_empty(), "they are given away");
            assert!(many.capacity() < 2_000, "{} bytes of memory", many.capacity());
        }
    }

    #[test]
    fn a_prepared_write_has_markers_and_no_result() {
        let out = prepared(b"id", &[1, 0], &columns(), &Columns::default());
        let mut body = BodyReader::new(&out);
        assert_eq!((body.int(), body.short_bytes()), (Ok(4), Ok(&b"id"[..])));
        assert_eq!([body.int(), body.int(), body.int()], [Ok(1), Ok(2), Ok(2)]);
        assert_eq!([body.short(), body.short()], [Ok(1), Ok(0)]);
        let specs = columns().specs;
        assert_eq!(body.take(specs.len()), Ok(&specs[..]));
        assert_eq!((body.int(), body.int(), body.rest()), (Ok(4), Ok(0), &[][..]));
    }

    #[test]
    fn a_change_of_the_schema_is_told_to_who_made_it_and_to_who_listens() {
        let (keyspace, what) = ("ks".to_owned(), Changed::Table("t".to_owned()));
        let change = SchemaChange { change: ChangeKind::Created, keyspace, what };
        let mut out = Vec::new();
        schema_change(&mut out, 3, &change, &[]);
        let length = out.len();
        schema_event(&mut out, &change);
        assert_eq!(out[length..length + 5], [0x84, 0, 0xFF, 0xFF, 0x0C]);
        let mut body = BodyReader::new(&out[length + 9..]);
        let told = [(); 5].map(|()| body.string().expect("text"));
        assert_eq!(told, ["SCHEMA_CHANGE", "CREATED", "TABLE", "ks", "t"]);
        assert_eq!(out[13..length], out[length + 9 + 15..]);
    }
}
