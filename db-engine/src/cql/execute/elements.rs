//! Changes of collections that are not frozen: values → cells, one for each element.

use crate::{
    cql::{
        error::{CqlError, invalid},
        execute::{
            context::{BindContext, Given},
            known_lists::{ListBefore, RowOfLists},
            timeuuid::ListPlaces,
            value::{Found, check_length},
        },
        prepare::input::{BoundValue, ElementsWrite, Operand},
    },
    mutation::RowBuilder,
    types::{
        CqlType, Value, canonical,
        collection::{self, Truncated},
        comparable,
        user_type::UserType,
    },
};
use std::{borrow::Cow, collections::BTreeSet};

/// Bytes of an element's cell besides its path and its value.
const CELL_BYTES: usize = 11;

/// What binding a statement knows.
pub(super) struct Inputs<'a> {
    values: &'a [Value<'a>],
    context: &'a BindContext,
    places: &'a ListPlaces,
    /// The row as it was read, if the statement depends on that.
    known: Option<RowOfLists<'a>>,
    /// The timestamp of the write.
    timestamp_us: i64,
}

impl<'a> Inputs<'a> {
    pub(super) fn new(
        Given { values, context, places, .. }: Given<'a>,
        known: Option<RowOfLists<'a>>,
        timestamp_us: i64,
    ) -> Self {
        Self { values, context, places, known, timestamp_us }
    }

    fn place_behind(&self) -> Vec<u8> {
        self.places.behind(self.context.now_us, self.context.random)
    }

    fn place_before(&self) -> Vec<u8> {
        self.places.before(self.context.now_us, self.context.random)
    }
}

/// Elements of one column on their way into a row.
struct Gathered<'a> {
    column: u16,
    bound: &'a Inputs<'a>,
    /// Up to this timestamp those that are there go.
    deleted_us: Option<i64>,
    /// The path and the value of each.
    bytes: Vec<u8>,
    elements: Vec<Placed>,
    /// The list that they go into, once it was looked at.
    list: Option<ListBefore<'a>>,
}

/// Where in the bytes an element is.
struct Placed {
    /// The first bytes of its path, which mostly decide its place.
    prefix: u64,
    path: usize,
    value: usize,
    end: usize,
    /// Whether it has a value; else it is deleted.
    is_live: bool,
}

/// Appends to a row what becomes of the elements of a column; says how many bytes that are.
pub(super) fn put(
    changes: &[(u16, ElementsWrite)],
    row: &mut RowBuilder<'_>,
    bound: &Inputs<'_>,
) -> Result<usize, CqlError> {
    let Some((column, change)) = changes.first() else { return Ok(0) };
    if let Some((encoded, count)) = taken_apart(change, bound.values)? {
        if let ElementsWrite::Replace(_) = change {
            row.delete_elements(*column, bound.timestamp_us.saturating_sub(1));
        }
        row.elements(*column, encoded, count);
        return Ok(encoded.len());
    }
    let mut gathered = Gathered::new(*column, bound);
    for (_, change) in changes {
        gathered.add(change)?;
    }
    gathered.sort();
    if let Some(timestamp_us) = gathered.deleted_us {
        row.delete_elements(*column, timestamp_us);
    }
    for element in &gathered.elements {
        let path = gathered.path(element);
        if element.is_live {
            row.element(*column, path, gathered.value(element));
        } else {
            row.element_tombstone(*column, path);
        }
    }
    Ok(gathered.len())
}

/// The elements of a large value that is all of what is written to a column, and how many they are.
fn taken_apart<'a>(
    change: &ElementsWrite,
    values: &[Value<'a>],
) -> Result<Option<(&'a [u8], u32)>, CqlError> {
    let (ElementsWrite::Replace(slot) | ElementsWrite::Add(slot)) = change else {
        return Ok(None);
    };
    let Operand::Bound(marker) = slot.operand else { return Ok(None) };
    match values.get(usize::from(marker)) {
        Some(Value::Large(large)) => Ok(large.elements()?),
        _ => Ok(None),
    }
}

impl<'a> Gathered<'a> {
    fn new(column: u16, bound: &'a Inputs<'a>) -> Self {
        let (bytes, elements) = (Vec::new(), Vec::new());
        Self { column, bound, deleted_us: None, bytes, elements, list: None }
    }

    fn len(&self) -> usize {
        self.bytes.len() + self.elements.len() * CELL_BYTES
    }

    fn path(&self, element: &Placed) -> &[u8] {
        self.bytes.get(element.path..element.value).unwrap_or_default()
    }

    fn value(&self, element: &Placed) -> &[u8] {
        self.bytes.get(element.value..element.end).unwrap_or_default()
    }

    fn add(&mut self, change: &ElementsWrite) -> Result<(), CqlError> {
        let bound = self.bound;
        match change {
            ElementsWrite::Clear => {
                self.delete(bound.timestamp_us);
                Ok(())
            }
            ElementsWrite::Replace(slot) => {
                let found = slot.find_as_given(bound.values, bound.context)?;
                if !matches!(found, Found::Unset) {
                    // Those that come with it have its timestamp, and stay.
                    self.delete(bound.timestamp_us.saturating_sub(1));
                }
                match &slot.ty {
                    CqlType::Udt(of) => self.add_fields(of, &found),
                    ty => self.add_all(ty, &found),
                }
            }
            ElementsWrite::Add(slot) => {
                let found = slot.find_as_given(bound.values, bound.context)?;
                self.add_all(&slot.ty, &found)
            }
            ElementsWrite::Prepend(slot) => {
                let found = slot.find_as_given(bound.values, bound.context)?;
                self.prepend(&slot.ty, &found)
            }
            ElementsWrite::Subtract(slot) => {
                let found = slot.find_as_given(bound.values, bound.context)?;
                let CqlType::Set(ty) = &slot.ty else { return Ok(()) };
                self.each(&found, |gathered, items| {
                    let key = items.item()?.unwrap_or_default();
                    Ok(gathered.push_key(ty, key, None))
                })
            }
            ElementsWrite::Put(key, value) => {
                let path = map_key(key, bound)?;
                match value.find(bound.values, bound.context)? {
                    Found::Bytes(value) => self.push_key(&key.ty, &path, Some(&value)),
                    Found::Null => self.push_key(&key.ty, &path, None),
                    Found::Unset => Ok(()),
                }
            }
            ElementsWrite::RemoveKey(key) => {
                let path = map_key(key, bound)?;
                self.push_key(&key.ty, &path, None)
            }
            ElementsWrite::RemoveItem(item) => match item.find(bound.values, bound.context)? {
                Found::Bytes(path) => self.push_key(&item.ty, &path, None),
                Found::Null => invalid("Invalid null set element"),
                Found::Unset => Ok(()),
            },
            ElementsWrite::PutField(place, slot) => {
                match slot.find(bound.values, bound.context)? {
                    Found::Bytes(value) => self.push_field(*place, Some(&value)),
                    Found::Null => self.push_field(*place, None),
                    Found::Unset => Ok(()),
                }
            }
            ElementsWrite::RemoveField(place) => self.push_field(*place, None),
            ElementsWrite::PutAt(index, slot) => self.put_at(index, slot),
            ElementsWrite::RemoveAt(index) => self.remove_at(index),
            ElementsWrite::Discard(slot) => {
                let found = slot.find_as_given(bound.values, bound.context)?;
                self.discard(&slot.ty, &found)
            }
        }
    }

    /// The list as the changes before have left it.
    fn list(&mut self) -> Result<ListBefore<'a>, CqlError> {
        let mut list = match (self.list.take(), self.bound.known) {
            (Some(list), _) => list,
            (None, Some(row)) => row.list(self.column)?,
            (None, None) => return invalid("A list that was not read cannot be written to"),
        };
        list.delete(self.deleted_us)?;
        for element in self.elements.iter().skip(list.seen) {
            let value = element.is_live.then(|| self.value(element));
            list.write(self.path(element), value, self.bound.timestamp_us)?;
        }
        Ok(list)
    }

    fn put_at(&mut self, index: &BoundValue, slot: &BoundValue) -> Result<(), CqlError> {
        let (values, context) = (self.bound.values, self.bound.context);
        let found = index.find(values, context)?;
        let value = slot.find(values, context)?;
        let index = match found {
            Found::Bytes(bytes) => list_index(&bytes)?,
            Found::Null => return invalid("Invalid null value for list index"),
            Found::Unset => return invalid("Invalid unset value for list index"),
        };
        let list = self.list()?;
        if list.is_empty() {
            return invalid("Attempted to set an element on a list which is null");
        }
        let path = list.path_at(index)?;
        match value {
            Found::Bytes(value) => self.push_path(path, Some(&value))?,
            Found::Null => self.push_path(path, None)?,
            Found::Unset => {}
        }
        self.list = Some(list);
        Ok(())
    }

    fn remove_at(&mut self, index: &BoundValue) -> Result<(), CqlError> {
        let index = match index.find(self.bound.values, self.bound.context)? {
            Found::Bytes(bytes) => list_index(&bytes)?,
            Found::Null => return invalid("Invalid null value for list index"),
            Found::Unset => return Ok(()),
        };
        let list = self.list()?;
        if list.is_empty() {
            return invalid("Attempted to delete an element from a list which is null");
        }
        self.push_path(list.path_at(index)?, None)?;
        self.list = Some(list);
        Ok(())
    }

    /// Deletes the elements of a list that are like one of these.
    fn discard(&mut self, ty: &CqlType, found: &Found<'_>) -> Result<(), CqlError> {
        let CqlType::List(ty) = ty else { return Ok(()) };
        let mut unwanted = BTreeSet::new();
        self.each(found, |_, items| {
            let item = items.item()?.unwrap_or_default();
            Ok(canonical::canonical(ty, item).map_err(CqlError::from).map(|item| {
                unwanted.insert(item);
            }))
        })?;
        let list = self.list()?;
        for path in list.paths_of(|value| unwanted.contains(value))? {
            self.push_path(path, None)?;
        }
        self.list = Some(list);
        Ok(())
    }

    fn delete(&mut self, timestamp_us: i64) {
        self.deleted_us = self.deleted_us.max(Some(timestamp_us));
    }

    /// Adds the fields of a user-defined type that are not null.
    fn add_fields(&mut self, of: &UserType, found: &Found<'_>) -> Result<(), CqlError> {
        let Found::Bytes(bytes) = found else { return Ok(()) };
        let mut items = collection::Elements(bytes);
        for (place, ty) in (0..).zip(of.types()) {
            if items.is_empty() {
                break;
            }
            let item = items.item();
            let broken = |_| CqlError::invalid("Not enough bytes to read a user-defined type");
            if let Some(item) = item.map_err(broken)? {
                self.push_field(place, Some(&canonical::canonical(ty, item)?))?;
            }
        }
        Ok(())
    }

    fn push_field(&mut self, place: u16, value: Option<&[u8]>) -> Result<(), CqlError> {
        let path = self.bytes.len();
        self.bytes.extend_from_slice(&place.to_be_bytes());
        self.push(path, value)
    }

    /// Adds the elements of a set, a map or a list.
    fn add_all(&mut self, ty: &CqlType, found: &Found<'_>) -> Result<(), CqlError> {
        let bound = self.bound;
        self.each(found, |gathered, items| {
            let first = items.item()?.unwrap_or_default();
            Ok(match ty {
                CqlType::Set(item) => gathered.push_key(item, first, Some(&[])),
                CqlType::Map(key, of) => {
                    let value = items.item()?.unwrap_or_default();
                    canonical::canonical(of, value)
                        .map_err(CqlError::from)
                        .and_then(|value| gathered.push_key(key, first, Some(&value)))
                }
                CqlType::List(item) => {
                    let place = bound.place_behind();
                    gathered.push_item(item, &place, first)
                }
                _ => Ok(()),
            })
        })
    }

    /// Adds the elements of a list, the last one first: each takes the place before the others.
    fn prepend(&mut self, ty: &CqlType, found: &Found<'_>) -> Result<(), CqlError> {
        let CqlType::List(ty) = ty else { return Ok(()) };
        let mut items = Vec::new();
        self.each(found, |_, elements| {
            items.push(elements.item()?.unwrap_or_default());
            Ok(Ok(()))
        })?;
        for item in items.into_iter().rev() {
            let place = self.bound.place_before();
            self.push_item(ty, &place, item)?;
        }
        Ok(())
    }

    /// Takes the elements of a collection one after the other; there are none of null.
    fn each<'f>(
        &mut self,
        found: &'f Found<'_>,
        mut take: impl FnMut(
            &mut Self,
            &mut collection::Elements<'f>,
        ) -> Result<Result<(), CqlError>, Truncated>,
    ) -> Result<(), CqlError> {
        let Found::Bytes(bytes) = found else { return Ok(()) };
        let broken = |_| CqlError::invalid("Not enough bytes to read a collection");
        let mut items = collection::Elements(bytes);
        let count = items.count().map_err(broken)?;
        let count = usize::try_from(count).unwrap_or(0);
        check_length(self.len().saturating_add(count.saturating_mul(CELL_BYTES)))?;
        for _ in 0..count {
            take(self, &mut items).map_err(broken)??;
        }
        Ok(())
    }

    /// Adds an element of a set or a map by its key.
    fn push_key(&mut self, ty: &CqlType, key: &[u8], value: Option<&[u8]>) -> Result<(), CqlError> {
        let path = self.bytes.len();
        comparable::encode(ty, false, &canonical::canonical(ty, key)?, &mut self.bytes)?;
        self.push(path, value)
    }

    /// Adds an element of a list.
    fn push_item(&mut self, ty: &CqlType, place: &[u8], item: &[u8]) -> Result<(), CqlError> {
        let path = self.bytes.len();
        comparable::encode(&CqlType::Timeuuid, false, place, &mut self.bytes)?;
        self.push(path, Some(&canonical::canonical(ty, item)?))
    }

    /// Adds an element of a list by its path.
    fn push_path(&mut self, path: &[u8], value: Option<&[u8]>) -> Result<(), CqlError> {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(path);
        self.push(at, value)
    }

    fn push(&mut self, path: usize, value: Option<&[u8]>) -> Result<(), CqlError> {
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(value.unwrap_or_default());
        let (end, is_live) = (self.bytes.len(), value.is_some());
        let prefix = canonical::prefix(self.bytes.get(path..middle).unwrap_or_default());
        self.elements.push(Placed { prefix, path, value: middle, end, is_live });
        check_length(self.len())
    }

    /// Brings the elements into the order of their paths, each once. Of those with one path the
    /// one stays that would win if they were written by several statements.
    fn sort(&mut self) {
        let mut elements = std::mem::take(&mut self.elements);
        if !elements.is_sorted_by(|a, b| self.path(a) < self.path(b)) {
            elements.sort_by(|a, b| {
                let by_prefix = a.prefix.cmp(&b.prefix);
                let by_path = by_prefix.then_with(|| self.path(a).cmp(self.path(b)));
                let by_life = || a.is_live.cmp(&b.is_live);
                by_path.then_with(by_life).then_with(|| self.value(b).cmp(self.value(a)))
            });
            elements.dedup_by(|later, kept| self.path(later) == self.path(kept));
        }
        self.elements = elements;
    }
}

fn list_index(bytes: &[u8]) -> Result<i32, CqlError> {
    let index = bytes.try_into().map(i32::from_be_bytes);
    index.map_err(|_| CqlError::invalid("Invalid empty value for list index"))
}

fn map_key<'b>(slot: &'b BoundValue, bound: &Inputs<'b>) -> Result<Cow<'b, [u8]>, CqlError> {
    let words = |what: &str| format!("Invalid {what} map key");
    slot.find_or_refuse(bound.values, bound.context, words)
}
