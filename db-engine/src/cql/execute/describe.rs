//! DESCRIBE: the schema as rows, page by page.
//!
//! ```text
//! state := version u8 = 2 | schema version 16 bytes | rows so far u32 | checksum u32   big-endian
//! ```
//!
//! `checksum` is CRC-32 of all before it. The state is good for as long as the schema is the same.

use crate::{
    cql::{
        error::{CqlError, invalid},
        execute::{
            list_place::ListPlace,
            read::{PAGE_BYTES, check_result},
            select::ReadOptions,
            value::check_count,
        },
        parse::ast::{DescribeTarget, ElementKind},
        prepare::plan::DescribePlan,
    },
    io::TimeSlice,
    schema::{
        Catalog, Keyspace, Table, TableName,
        describe::{keyspace_cql, keyspaces, table_cql, tables, type_cql, types, types_in_order},
        system::{self, NodeInfo, PARTITIONER, is_system},
    },
    types::{Value, collection, name::quoted, user_type::UserType},
};

const STATE_VERSION: u8 = 2;

/// Writing a description takes as long as moving so many times its bytes.
const DESCRIBING_FACTOR: usize = 16;

/// What Cassandra calls the part of it that knows data centres and racks; there are none here.
const SNITCH: &str = "SimpleSnitch";

/// A part of the schema.
enum Element<'a> {
    Keyspace(&'a Keyspace),
    Table(&'a Table),
    Type(&'a UserType),
}

impl Element<'_> {
    /// Appends its row.
    fn put(&self, plan: &DescribePlan, out: &mut Vec<u8>) {
        let (keyspace, kind, name) = match self {
            Element::Keyspace(keyspace) => (&*keyspace.name, "keyspace", &*keyspace.name),
            Element::Table(table) => (&*table.keyspace, "table", &*table.name),
            Element::Type(ty) => (ty.keyspace(), "type", ty.name()),
        };
        collection::put_item(out, Some(quoted(keyspace).as_bytes()));
        collection::put_item(out, Some(kind.as_bytes()));
        collection::put_item(out, Some(quoted(name).as_bytes()));
        if matches!(plan.describe.target, DescribeTarget::List(_)) {
            return;
        }
        let statement = match self {
            Element::Keyspace(keyspace) => keyspace_cql(keyspace),
            Element::Table(table) => table_cql(table, plan.describe.internals),
            Element::Type(ty) => type_cql(ty),
        };
        collection::put_item(out, Some(statement.as_bytes()));
    }
}

impl DescribePlan {
    /// At which element a page begins.
    ///
    /// # Errors
    /// In Cassandra's words, if there is no such thing, or the schema has changed since the page
    /// before.
    pub(super) fn first(
        &self,
        catalog: &Catalog,
        values: &[Value<'_>],
        options: &ReadOptions<'_>,
    ) -> Result<usize, CqlError> {
        check_count(values, 0)?;
        if self.describe.target == DescribeTarget::Cluster {
            return Ok(0);
        }
        self.elements(catalog)?;
        match options.paging_state {
            Some(state) => Ok(rows_so_far(state, catalog)? as usize),
            None => Ok(0),
        }
    }

    /// Appends the rows of a page until all are there, which it tells, or the time is over.
    ///
    /// # Errors
    /// The result would be too large.
    pub(super) fn put_rows(
        &self,
        (catalog, node): (&Catalog, &NodeInfo),
        page_rows: Option<u32>,
        place: &mut ListPlace,
        time: &mut TimeSlice<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CqlError> {
        if self.describe.target == DescribeTarget::Cluster {
            self.put_cluster(node, out);
            place.rows = 1;
            return Ok(true);
        }
        for element in self.elements(catalog)?.iter().skip(place.looked_at) {
            let is_full = |rows_max| place.rows >= rows_max || out.len() >= PAGE_BYTES;
            if page_rows.is_some_and(is_full) {
                let rows_so_far = u32::try_from(place.looked_at).unwrap_or(u32::MAX);
                place.state = Some(state(catalog, rows_so_far));
                return Ok(true);
            }
            if time.is_over() {
                return Ok(false);
            }
            let before = out.len();
            element.put(self, out);
            check_result(out.len())?;
            place.looked_at += 1;
            place.rows += 1;
            time.count(DESCRIBING_FACTOR * (out.len() - before));
        }
        Ok(true)
    }

    fn elements<'a>(&self, catalog: &'a Catalog) -> Result<Vec<Element<'a>>, CqlError> {
        match &self.describe.target {
            DescribeTarget::Schema { full } => {
                let all = keyspaces(catalog).into_iter();
                let wanted = all.filter(|keyspace| *full || !is_system(&keyspace.name));
                Ok(wanted.flat_map(whole).collect())
            }
            DescribeTarget::Keyspace { name, only } => {
                let keyspace = self.keyspace(catalog, name.as_deref())?;
                Ok(if *only { vec![Element::Keyspace(keyspace)] } else { whole(keyspace) })
            }
            DescribeTarget::List(ElementKind::Keyspace) => {
                Ok(keyspaces(catalog).into_iter().map(Element::Keyspace).collect())
            }
            DescribeTarget::List(kind @ (ElementKind::Table | ElementKind::Type)) => {
                let all = match &self.keyspace {
                    Some(name) => vec![self.keyspace(catalog, Some(name))?],
                    None => keyspaces(catalog),
                };
                let all = all.into_iter();
                Ok(match kind {
                    ElementKind::Type => all.flat_map(types).map(Element::Type).collect(),
                    _ => all.flat_map(tables).map(Element::Table).collect(),
                })
            }
            DescribeTarget::Cluster | DescribeTarget::List(_) => Ok(Vec::new()),
            DescribeTarget::Element(kind, name) => self.element(catalog, *kind, name),
            DescribeTarget::Any(name) => self.any(catalog, name),
        }
    }

    fn element<'a>(
        &self,
        catalog: &'a Catalog,
        kind: ElementKind,
        name: &TableName,
    ) -> Result<Vec<Element<'a>>, CqlError> {
        let keyspace = self.keyspace(catalog, name.keyspace.as_deref())?;
        let (name, of) = (&name.name, &keyspace.name);
        let table = keyspace.tables.get(name).filter(|_| kind == ElementKind::Table);
        if let Some(table) = table {
            return Ok(vec![Element::Table(table)]);
        }
        let ty = keyspace.types.get(name).filter(|_| kind == ElementKind::Type);
        if let Some(ty) = ty {
            return Ok(vec![Element::Type(ty)]);
        }
        invalid(match kind {
            ElementKind::Keyspace | ElementKind::Table => {
                format!("Table '{name}' not found in keyspace '{of}'")
            }
            ElementKind::Type => format!("User defined type '{name}' not found in '{of}'"),
            ElementKind::Function => format!("User defined function '{name}' not found in '{of}'"),
            ElementKind::Aggregate => {
                format!("User defined aggregate '{name}' not found in '{of}'")
            }
            ElementKind::Index => {
                format!("Table for existing index '{name}' not found in '{of}'")
            }
            ElementKind::View => format!("Materialized view '{name}' not found in '{of}'"),
        })
    }

    /// A keyspace of this name, or else a table.
    fn any<'a>(
        &self,
        catalog: &'a Catalog,
        name: &TableName,
    ) -> Result<Vec<Element<'a>>, CqlError> {
        let found = if name.keyspace.is_none() { find(catalog, &name.name) } else { None };
        if let Some(keyspace) = found {
            return Ok(whole(keyspace));
        }
        let of = name.keyspace.as_deref().or(self.keyspace.as_deref()).unwrap_or(&name.name);
        let keyspace = self.keyspace(catalog, Some(of))?;
        match keyspace.tables.get(&name.name) {
            Some(table) => Ok(vec![Element::Table(table)]),
            None => invalid(format!("'{}' not found in keyspace '{of}'", name.name)),
        }
    }

    /// The keyspace of this name, or else the one in use.
    fn keyspace<'a>(
        &self,
        catalog: &'a Catalog,
        name: Option<&str>,
    ) -> Result<&'a Keyspace, CqlError> {
        let Some(name) = name.or(self.keyspace.as_deref()) else {
            return invalid("No keyspace specified and no current keyspace");
        };
        let missing = || CqlError::invalid(format!("'{name}' not found in keyspaces"));
        find(catalog, name).ok_or_else(missing)
    }

    fn put_cluster(&self, node: &NodeInfo, out: &mut Vec<u8>) {
        let partitioner = PARTITIONER.rsplit('.').next().unwrap_or_default();
        for text in [node.cluster_name.as_str(), partitioner, SNITCH] {
            collection::put_item(out, Some(text.as_bytes()));
        }
        if self.tells_owners() {
            let owner = collection::list(&[format!("/{}:{}", node.address, node.port)]);
            let mut tokens: Vec<String> = node.tokens.iter().map(i64::to_string).collect();
            tokens.sort();
            let pairs: Vec<_> = tokens.iter().map(|token| (token, &owner)).collect();
            collection::put_item(out, Some(&collection::map(&pairs)));
        }
    }
}

fn find<'a>(catalog: &'a Catalog, name: &str) -> Option<&'a Keyspace> {
    catalog.keyspaces.get(name).or_else(|| system::keyspaces().get(name))
}

/// A keyspace with its types and tables.
fn whole(keyspace: &Keyspace) -> Vec<Element<'_>> {
    let types = types_in_order(keyspace).into_iter().map(Element::Type);
    let tables = tables(keyspace).into_iter().map(Element::Table);
    std::iter::once(Element::Keyspace(keyspace)).chain(types).chain(tables).collect()
}

fn state(catalog: &Catalog, rows: u32) -> Vec<u8> {
    let mut out = vec![STATE_VERSION];
    out.extend_from_slice(catalog.version.as_bytes());
    out.extend_from_slice(&rows.to_be_bytes());
    out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
    out
}

fn rows_so_far(bytes: &[u8], catalog: &Catalog) -> Result<u32, CqlError> {
    let broken = || CqlError::protocol("Invalid value for the paging state");
    let (body, checksum) = bytes.split_last_chunk::<4>().ok_or_else(broken)?;
    let Some(([version, schema @ ..], rows)) = body.split_first_chunk::<17>() else {
        return Err(broken());
    };
    let rows: [u8; 4] = rows.try_into().map_err(|_| broken())?;
    if crc32fast::hash(body) != u32::from_be_bytes(*checksum) || *version != STATE_VERSION {
        return Err(broken());
    }
    if schema != catalog.version.as_bytes() {
        return invalid(
            "The schema has changed since the previous page of the DESCRIBE statement result. \
             Please retry the DESCRIBE statement.",
        );
    }
    Ok(u32::from_be_bytes(rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cql::error::ErrorCode;

    #[test]
    fn a_state_is_good_for_as_long_as_it_is_whole_and_the_schema_the_same() {
        let catalog = Catalog::default();
        let bytes = state(&catalog, 1234);
        assert_eq!(rows_so_far(&bytes, &catalog), Ok(1234));
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let refused = rows_so_far(&bytes, &catalog).expect_err("it is damaged");
            assert_eq!(refused.code, ErrorCode::Protocol, "bit {bit}");
        }
        for end in 0..bytes.len() {
            let refused = rows_so_far(&bytes[..end], &catalog).expect_err("it is cut");
            assert_eq!(refused.code, ErrorCode::Protocol, "cut at {end}");
        }
        let mut changed = catalog;
        changed.version = uuid::Uuid::from_u128(7);
        let refused = rows_so_far(&bytes, &changed).expect_err("the schema has changed");
        assert_eq!(refused.code, ErrorCode::Invalid);
    }
}
