//! DESCRIBE: statement and keyspace in use → [`DescribePlan`]. What it names is looked for when it
//! is executed, as in Cassandra.

use crate::{
    cql::{
        parse::ast::{Describe, DescribeTarget},
        prepare::plan::{ColumnSpec, DescribePlan, Plan, Prepared},
    },
    schema::system::is_system,
    types::CqlType,
};

pub(super) fn prepare_describe(keyspace: Option<&str>, describe: Describe) -> Prepared {
    let mut names = vec!["keyspace_name", "type", "name"];
    match &describe.target {
        DescribeTarget::Cluster => names = vec!["cluster", "partitioner", "snitch"],
        DescribeTarget::List(_) => {}
        _ => names.push("create_statement"),
    }
    let text = |name: &str| ColumnSpec { name: name.to_string(), ty: CqlType::Text };
    let mut result: Vec<_> = names.into_iter().map(text).collect();
    let plan = DescribePlan { describe, keyspace: keyspace.map(str::to_string) };
    if plan.tells_owners() {
        let owners = CqlType::List(Box::new(CqlType::Text));
        let ty = CqlType::Map(Box::new(CqlType::Text), Box::new(owners));
        result.push(ColumnSpec { name: "range_ownership".to_string(), ty });
    }
    Prepared { result, ..Prepared::new(Plan::Describe(plan), "system", "describe") }
}

impl DescribePlan {
    /// Whether who owns which tokens is told: of the cluster, to those who use a keyspace.
    pub(in crate::cql) fn tells_owners(&self) -> bool {
        self.describe.target == DescribeTarget::Cluster
            && self.keyspace.as_deref().is_some_and(|name| !is_system(name))
    }
}
