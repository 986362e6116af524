//! User-defined types: fields with names, each of a type of its own.
//!
//! A type may be part of many others, and of thousands of columns: all share it, and what is asked
//! of it often is worked out once.

use super::{CqlType, parse::DEPTH_MAX};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most bytes by which clients are told of one type, with all types in it: they are told with
/// every result, so that types of types would otherwise multiply.
pub const OPTION_BYTES_MAX: usize = 65_536;

/// The user-defined types of a keyspace by name.
pub type UserTypes = BTreeMap<String, Arc<UserType>>;

/// One field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UserField {
    /// Its name, as it is once quotes and case are settled.
    pub name: String,
    /// The type of its values.
    pub ty: CqlType,
    /// Whether it is declared `frozen<>` if it is a collection. Values are the same in any case.
    pub frozen: bool,
}

impl UserField {
    /// The type as CQL text declares it.
    #[must_use]
    pub fn type_name(&self) -> String {
        if self.frozen { self.ty.to_string() } else { self.ty.unfrozen_name() }
    }
}

/// A user-defined type, as it is for as long as nobody alters it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UserType {
    keyspace: String,
    name: String,
    fields: Vec<UserField>,
    option_bytes: usize,
    heap_bytes: usize,
    depth: usize,
    needs_sorting: bool,
    mentions_duration: bool,
}

impl UserType {
    /// A type of these fields.
    #[must_use]
    pub fn new(keyspace: &str, name: &str, fields: Vec<UserField>) -> Self {
        let names = keyspace.len() + name.len();
        let sum = |of: &dyn Fn(&UserField) -> usize| {
            fields.iter().map(of).fold(names, usize::saturating_add)
        };
        let heap = |field: &UserField| {
            let inside = field.name.len().saturating_add(field.ty.heap_bytes());
            size_of::<UserField>().saturating_add(inside)
        };
        Self {
            // Its number, how many fields it has, and the lengths of its names.
            option_bytes: sum(&|f| f.name.len().saturating_add(2 + f.ty.option_bytes())) + 8,
            heap_bytes: sum(&heap) + size_of::<UserType>(),
            depth: 1 + fields.iter().map(|field| field.ty.depth()).max().unwrap_or(0),
            needs_sorting: fields.iter().any(|field| field.ty.needs_sorting()),
            mentions_duration: fields.iter().any(|field| field.ty.mentions_duration()),
            keyspace: keyspace.to_string(),
            name: name.to_string(),
            fields,
        }
    }

    /// Its keyspace, the only one in which it can be used.
    #[must_use]
    pub fn keyspace(&self) -> &str {
        &self.keyspace
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its fields, in the order in which values have them.
    #[must_use]
    pub fn fields(&self) -> &[UserField] {
        &self.fields
    }

    /// Types of its fields, in their order.
    pub fn types(&self) -> impl Iterator<Item = &CqlType> {
        self.fields.iter().map(|field| &field.ty)
    }

    /// The place of the field of this name.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }

    pub(super) fn needs_sorting(&self) -> bool {
        self.needs_sorting
    }

    pub(super) fn mentions_duration(&self) -> bool {
        self.mentions_duration
    }

    pub(super) fn put_option(&self, out: &mut Vec<u8>) {
        put_name(&self.keyspace, out);
        put_name(&self.name, out);
        let count = u16::try_from(self.fields.len()).expect("a type has few fields");
        out.extend_from_slice(&count.to_be_bytes());
        for field in &self.fields {
            put_name(&field.name, out);
            field.ty.put_option(out);
        }
    }
}

fn put_name(name: &str, out: &mut Vec<u8>) {
    let length = u16::try_from(name.len()).expect("a name is shorter than what it is part of");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(name.as_bytes());
}

impl CqlType {
    /// The types that it is made of, those of fields of user-defined types not among them.
    fn parts(&self) -> &[CqlType] {
        match self {
            CqlType::List(item) | CqlType::Set(item) => std::slice::from_ref(item),
            CqlType::Tuple(fields) => fields,
            _ => &[],
        }
    }

    /// Adds up what the types that it is made of have; `of_type` is asked of user-defined ones.
    fn sum(&self, own: usize, of_type: &impl Fn(&UserType) -> usize) -> usize {
        let of_part = |part: &CqlType| part.sum(own, of_type);
        let parts = match self {
            CqlType::Udt(ty) => of_type(ty),
            CqlType::Map(key, value) => of_part(key).saturating_add(of_part(value)),
            ty => ty.parts().iter().map(of_part).fold(0, usize::saturating_add),
        };
        parts.saturating_add(own)
    }

    /// Bytes by which clients are told of it, at most: see [`CqlType::put_option`].
    #[must_use]
    pub fn option_bytes(&self) -> usize {
        let own = if *self == CqlType::Duration { 4 + super::DURATION_CLASS.len() } else { 4 };
        self.sum(own, &|ty| ty.option_bytes)
    }

    /// Bytes of memory that it takes besides itself if it shares nothing with others, about.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.sum(size_of::<CqlType>(), &|ty| ty.heap_bytes)
    }

    /// How deep types are nested in it.
    #[must_use]
    pub fn depth(&self) -> usize {
        match self {
            CqlType::Udt(ty) => ty.depth,
            CqlType::Map(key, value) => 1 + key.depth().max(value.depth()),
            ty => ty.parts().iter().map(|part| 1 + part.depth()).max().unwrap_or(0),
        }
    }

    /// Calls this with the name of each user-defined type in it, but not of those in these.
    pub fn for_each_user_type<'a>(&'a self, each: &mut impl FnMut(&'a str)) {
        match self {
            CqlType::Udt(ty) => each(&ty.name),
            CqlType::Map(key, value) => {
                key.for_each_user_type(each);
                value.for_each_user_type(each);
            }
            ty => ty.parts().iter().for_each(|part| part.for_each_user_type(each)),
        }
    }

    /// Whether a user-defined type of one of these names is in it, without looking into these.
    #[must_use]
    pub fn uses(&self, is_meant: &impl Fn(&str) -> bool) -> bool {
        let mut found = false;
        self.for_each_user_type(&mut |name| found |= is_meant(name));
        found
    }

    /// Whether a user-defined type of one of these names occurs in it, or in one that does.
    #[must_use]
    pub fn mentions(&self, is_meant: &impl Fn(&str) -> bool) -> bool {
        match self {
            CqlType::Udt(ty) => {
                is_meant(&ty.name) || ty.types().any(|field| field.mentions(is_meant))
            }
            CqlType::Map(key, value) => key.mentions(is_meant) || value.mentions(is_meant),
            ty => ty.parts().iter().any(|part| part.mentions(is_meant)),
        }
    }

    /// The type with other user-defined types in the place of these, by name. Those in types that
    /// are not replaced stay.
    #[must_use]
    pub fn with(&self, others: &UserTypes) -> CqlType {
        self.map_user_types(&|ty| CqlType::Udt(Arc::clone(others.get(&ty.name).unwrap_or(ty))))
    }

    /// The type with tuples in the place of user-defined types: what is left of a dropped column,
    /// which must not keep its type from being changed or dropped.
    #[must_use]
    pub fn expanded(&self) -> CqlType {
        self.map_user_types(&|ty| CqlType::Tuple(ty.types().map(CqlType::expanded).collect()))
    }

    fn map_user_types(&self, change: &impl Fn(&Arc<UserType>) -> CqlType) -> CqlType {
        let of = |ty: &CqlType| Box::new(ty.map_user_types(change));
        match self {
            CqlType::Udt(ty) => change(ty),
            CqlType::List(item) => CqlType::List(of(item)),
            CqlType::Set(item) => CqlType::Set(of(item)),
            CqlType::Map(key, value) => CqlType::Map(of(key), of(value)),
            CqlType::Tuple(fields) => {
                CqlType::Tuple(fields.iter().map(|field| field.map_user_types(change)).collect())
            }
            ty => ty.clone(),
        }
    }

    /// Checks that it is neither too deep nor too large to be worked with.
    ///
    /// # Errors
    /// A sentence that says what is too much.
    pub fn check_size(&self) -> Result<(), String> {
        if self.depth() > DEPTH_MAX {
            return Err(format!(
                "Types are nested {} deep in {self}, more than {DEPTH_MAX}",
                self.depth()
            ));
        }
        let bytes = self.option_bytes();
        if bytes > OPTION_BYTES_MAX {
            return Err(format!(
                "Type {self} takes {bytes} bytes with the names and types of all fields in it, \
                 more than {OPTION_BYTES_MAX}: use fewer fields or shorter names"
            ));
        }
        self.check_order()
    }

    /// Checks that items of sets and keys of maps have an order, at any depth.
    fn check_order(&self) -> Result<(), String> {
        let of_parts = match self {
            CqlType::Set(item) if item.mentions_duration() => {
                return Err(format!(
                    "Durations are not allowed inside sets: {}",
                    self.unfrozen_name()
                ));
            }
            CqlType::Map(key, _) if key.mentions_duration() => {
                return Err(format!(
                    "Durations are not allowed as map keys: {}",
                    self.unfrozen_name()
                ));
            }
            CqlType::Map(key, value) => vec![&**key, &**value],
            CqlType::Udt(ty) => ty.types().collect(),
            ty => ty.parts().iter().collect(),
        };
        of_parts.into_iter().try_for_each(CqlType::check_order)
    }
}
