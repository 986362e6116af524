//! `WHERE` of a SELECT: conditions → partitions, a range of clustering keys, and what is left to
//! be checked row by row.

use crate::{
    cql::{
        error::{CqlError, invalid},
        parse::ast::{Operator, Relation, Target, Term},
        prepare::{
            binder::{Binder, column},
            contains::{check_order, contains, entry},
            input::{BoundValue, Operand, PartKey},
            plan::{Choice, Condition, Edge, KeyRanges, PartitionSet, RangeInput},
            restrictions::{Restriction, Restrictions, Restricts},
            source::Source,
        },
    },
    schema::{Column, Table},
    types::CqlType,
};

/// What Cassandra says to a query that would look at more than it returns.
pub(super) const FILTERING: &str = "Cannot execute this query as it might involve data filtering \
     and thus may have unpredictable performance. If you want to execute this query despite the \
     performance unpredictability, use ALLOW FILTERING";

/// The conditions on one column.
#[derive(Default)]
pub(super) struct OfColumn {
    pub equal: Option<Choice>,
    lower: Option<(BoundValue, bool)>,
    upper: Option<(BoundValue, bool)>,
}

impl OfColumn {
    pub(super) fn is_empty(&self) -> bool {
        self.equal.is_none() && self.lower.is_none() && self.upper.is_none()
    }
}

/// A `WHERE`, sorted out.
pub(super) struct Where {
    pub partitions: PartitionSet,
    pub ranges: KeyRanges,
    pub conditions: Vec<Condition>,
}

/// Conditions as they come, by column of the table.
pub(super) struct Sorter<'a> {
    pub table: &'a Table,
    pub allow_filtering: bool,
    pub restrictions: Restrictions<'a>,
    /// Of the key's columns, and of the others up to the last that has any.
    pub columns: Vec<OfColumn>,
    /// Ends of a range over several columns: where it begins among the clustering columns.
    pub multi: Option<usize>,
    pub span: RangeInput,
    pub token: OfColumn,
    /// `CONTAINS`, and those on values of maps.
    pub of_elements: Vec<Condition>,
    /// The keys of elements that are asked for.
    pub parts: Vec<PartKey>,
}

/// `IN`: its values.
pub(super) fn choice(
    term: &Term,
    column: &Column,
    binder: &mut Binder,
) -> Result<Choice, CqlError> {
    match term {
        Term::Tuple(items) => {
            let slots: Result<Vec<_>, _> =
                items.iter().map(|item| binder.of_column(item, column)).collect();
            Ok(Choice::Several(slots?))
        }
        term => {
            let ty = CqlType::List(Box::new(column.ty.clone()));
            let list = binder.slot(term, &format!("in({})", column.name), &ty)?;
            Ok(Choice::List(list, Binder::null_of(column)))
        }
    }
}

impl Choice {
    /// The same; `IN` of one value is `=`.
    fn into_equal(self) -> Choice {
        match self {
            Choice::Several(mut slots) if slots.len() == 1 => {
                slots.pop().map_or(Choice::Several(slots), Choice::One)
            }
            other => other,
        }
    }
}

impl<'a> Sorter<'a> {
    pub(super) fn new(table: &'a Table, allow_filtering: bool) -> Self {
        let key = table.partition_key().len() + table.clustering().len();
        let columns = (0..key).map(|_| OfColumn::default()).collect();
        let (span, token) = (RangeInput::default(), OfColumn::default());
        let (of_elements, parts) = (Vec::new(), Vec::new());
        Sorter {
            table,
            allow_filtering,
            restrictions: Restrictions::new(table),
            columns,
            multi: None,
            span,
            token,
            of_elements,
            parts,
        }
    }

    pub(super) fn add(&mut self, relation: &Relation, binder: &mut Binder) -> Result<(), CqlError> {
        if relation.operator == Operator::Ne {
            return invalid(format!("Unsupported \"!=\" relation: {relation}"));
        }
        match &relation.target {
            Target::Column(name) => {
                let column = column(self.table, name)?;
                check_order(column, relation.operator)?;
                if let Some(condition) = contains(column, relation, binder)? {
                    self.restrict(&[column], Restricts::Elements)?;
                    self.of_elements.push(condition);
                    return Ok(());
                }
                let choice = match relation.operator {
                    Operator::In => choice(&relation.value, column, binder)?.into_equal(),
                    _ => Choice::One(binder.of_column(&relation.value, column)?),
                };
                self.restrict(&[column], Restricts::by(relation.operator, &choice))?;
                let Some(of) = self.of_column(name) else { return Ok(()) };
                set(of, relation.operator, choice)
            }
            Target::Entry(name, key) => {
                let column = column(self.table, name)?;
                let condition = entry(column, key, relation, binder, &mut self.parts)?;
                self.restrict(&[column], Restricts::Elements)?;
                self.of_elements.push(condition);
                Ok(())
            }
            Target::Token(names) => self.add_token(names, relation, binder),
            Target::Columns(names) => self.add_multi(names, relation, binder),
        }
    }

    /// Checks that a relation on columns that follow each other goes with those before it.
    pub(super) fn restrict(
        &mut self,
        columns: &[&Column],
        kind: Restricts,
    ) -> Result<(), CqlError> {
        let first = columns.first().and_then(|column| self.place(&column.name));
        let Some(begin) = first else { return Ok(()) };
        let new = Restriction { columns: begin..begin + columns.len(), kind };
        self.restrictions.add(new, self.allow_filtering)
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.table.columns.iter().position(|column| column.name == name)
    }

    pub(super) fn of_column(&mut self, name: &str) -> Option<&mut OfColumn> {
        let at = self.place(name)?;
        let length = self.columns.len().max(at + 1);
        self.columns.resize_with(length, OfColumn::default);
        self.columns.get_mut(at)
    }

    fn add_token(
        &mut self,
        names: &[String],
        relation: &Relation,
        binder: &mut Binder,
    ) -> Result<(), CqlError> {
        names.iter().try_for_each(|name| column(self.table, name).map(drop))?;
        let key: Vec<&str> =
            self.table.partition_key().iter().map(|column| column.name.as_str()).collect();
        if names != key {
            return invalid(
                "The token() function must be applied to all partition key components or none of \
                 them",
            );
        }
        if relation.operator == Operator::In {
            return invalid("IN cannot be used with the token function");
        }
        let slot = match &relation.value {
            Term::Call { name, arguments } if name == "token" => {
                self.token_of(arguments, binder)?
            }
            term => binder.slot(term, "partition key token", &CqlType::Bigint)?,
        };
        let choice = Choice::One(slot);
        self.restrictions.add_token(Restricts::by(relation.operator, &choice))?;
        set(&mut self.token, relation.operator, choice)
    }

    /// `token(…)` of values.
    fn token_of(&self, arguments: &[Term], binder: &mut Binder) -> Result<BoundValue, CqlError> {
        let key = self.table.partition_key();
        check_token_arguments(self.table, arguments.len())?;
        // Named after the function, as Cassandra does: drivers would take `a` for the key itself
        // and route by it.
        let slots: Result<Vec<_>, _> = arguments
            .iter()
            .zip(key)
            .enumerate()
            .map(|(at, (term, column))| {
                binder.slot(term, &format!("arg{at}(system.token)"), &column.ty)
            })
            .collect();
        let operand = Operand::Token(slots?);
        let (name, ty) = ("partition key token".to_string(), CqlType::Bigint);
        Ok(BoundValue { name, ty, descending: false, operand })
    }

    /// `selects_static_only`: nothing of the rows is asked for.
    pub(super) fn finish(mut self, selects_static_only: bool) -> Result<Where, CqlError> {
        let allow_filtering = self.allow_filtering;
        let mut conditions = Vec::new();
        let key = self.table.partition_key().len();
        let clustering = key..key + self.table.clustering().len();
        let partitions = self.partitions(key, &mut conditions)?;
        if selects_static_only && self.restrictions.of_clustering() {
            return invalid(
                "Cannot restrict clustering columns when selecting only static columns",
            );
        }
        if !allow_filtering {
            self.restrictions.check_prefix()?;
        }
        let mut prefix = Vec::new();
        if matches!(partitions, PartitionSet::Keys(_)) {
            prefix = self.clustering(clustering)?;
        } else if self.multi.is_some() {
            return Err(CqlError::unsupported("Filtering by several columns at once is"));
        }
        for (at, column) in self.table.columns.iter().enumerate() {
            let Some(of) = self.columns.get_mut(at).map(std::mem::take) else { continue };
            if matches!(of.equal, Some(Choice::Tuples(_) | Choice::WithBefore)) {
                return Err(CqlError::unsupported("Filtering by several columns at once is"));
            }
            push_conditions(&Source::of(column), of, &mut conditions);
        }
        conditions.append(&mut self.of_elements);
        let by_value =
            |one: &Condition| matches!(one.source, Source::Cell(_) | Source::Elements { .. });
        if conditions.iter().any(by_value) && !allow_filtering {
            return invalid(FILTERING);
        }
        if conditions.iter().any(|condition| !orders(&condition.choice)) {
            return Err(CqlError::unsupported("Filtering by a duration is"));
        }
        Ok(Where { partitions, ranges: self.ranges(prefix), conditions })
    }

    pub(super) fn ranges(self, prefix: Vec<Choice>) -> KeyRanges {
        let next = self.table.clustering().get(prefix.len());
        let descending = next.is_some_and(|column| column.descending);
        KeyRanges { open: next.is_some(), descending, prefix, span: self.span }
    }

    fn partitions(
        &mut self,
        key: usize,
        conditions: &mut Vec<Condition>,
    ) -> Result<PartitionSet, CqlError> {
        let keys = self.table.partition_key();
        let is_of_key = |one: &Condition| keys.iter().any(|key| one.source == Source::of(key));
        if !self.allow_filtering && self.of_elements.iter().any(is_of_key) {
            return invalid(FILTERING);
        }
        let of_key = self.columns.get_mut(..key).unwrap_or_default();
        if of_key.iter().all(|of| of.equal.is_some()) {
            if !self.token.is_empty() {
                return Err(CqlError::unsupported("token() besides a whole partition key is"));
            }
            return Ok(PartitionSet::Keys(
                of_key.iter_mut().filter_map(|of| of.equal.take()).collect(),
            ));
        }
        if of_key.iter().any(|of| !of.is_empty()) {
            if !self.allow_filtering {
                return invalid(FILTERING);
            }
            for (of, column) in of_key.iter_mut().zip(&self.table.columns) {
                push_conditions(&Source::of(column), std::mem::take(of), conditions);
            }
        }
        let token = std::mem::take(&mut self.token);
        if let Some(Choice::One(slot)) = token.equal {
            let (lower, upper) = (Some((slot.clone(), true)), Some((slot, true)));
            return Ok(PartitionSet::Tokens { lower, upper });
        }
        Ok(PartitionSet::Tokens { lower: token.lower, upper: token.upper })
    }

    /// Takes the conditions that make a range of clustering keys; gives the prefix.
    pub(super) fn clustering(
        &mut self,
        clustering: std::ops::Range<usize>,
    ) -> Result<Vec<Choice>, CqlError> {
        let mut prefix = Vec::new();
        for of in self.columns.get_mut(clustering).unwrap_or_default() {
            if let Some(choice) = of.equal.take() {
                prefix.push(choice);
                continue;
            }
            if self.multi.is_some_and(|begin| begin != prefix.len()) {
                return Err(CqlError::unsupported("Filtering by several columns at once is"));
            }
            add_edge(&mut self.span.lower, of.lower.take());
            add_edge(&mut self.span.upper, of.upper.take());
            break;
        }
        Ok(prefix)
    }
}

/// Checks how many arguments `token` has.
pub(super) fn check_token_arguments(table: &Table, count: usize) -> Result<(), CqlError> {
    let required = table.partition_key().len();
    if count == required {
        return Ok(());
    }
    invalid(format!(
        "Invalid number of arguments in call to function system.token: {required} required but \
         {count} provided"
    ))
}

/// Sets one end of a range over several columns to a value of the first of them.
fn add_edge(edge: &mut Option<Edge>, end: Option<(BoundValue, bool)>) {
    if let Some((slot, inclusive)) = end {
        *edge = Some(Edge { slots: vec![slot], inclusive });
    }
}

fn orders(choice: &Choice) -> bool {
    match choice {
        Choice::One(slot) | Choice::List(_, slot) => slot.ty.has_order(),
        Choice::Several(slots) => slots.iter().all(|slot| slot.ty.has_order()),
        Choice::Tuples(_) | Choice::WithBefore => true,
    }
}

fn push_conditions(source: &Source, of: OfColumn, conditions: &mut Vec<Condition>) {
    let mut push = |operator, choice| {
        let source = source.clone();
        conditions.push(Condition { source, is_map: false, operator, choice });
    };
    if let Some(choice) = of.equal {
        push(Operator::In, choice);
    }
    if let Some((slot, inclusive)) = of.lower {
        push(if inclusive { Operator::Ge } else { Operator::Gt }, Choice::One(slot));
    }
    if let Some((slot, inclusive)) = of.upper {
        push(if inclusive { Operator::Le } else { Operator::Lt }, Choice::One(slot));
    }
}

/// Keeps what a relation says of a column that `Restrictions` has let in.
pub(super) fn set(of: &mut OfColumn, operator: Operator, choice: Choice) -> Result<(), CqlError> {
    match (operator, choice) {
        (Operator::Gt | Operator::Ge, Choice::One(slot)) => {
            of.lower = Some((slot, operator == Operator::Ge));
        }
        (Operator::Lt | Operator::Le, Choice::One(slot)) => {
            of.upper = Some((slot, operator == Operator::Le));
        }
        // It was refused before.
        (Operator::Ne, _) => return Err(CqlError::unsupported("!= in a condition is")),
        (_, choice) => of.equal = Some(choice),
    }
    Ok(())
}
