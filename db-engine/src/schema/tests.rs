use super::{
    Applied, Catalog, Ddl, DroppedColumn, SchemaError, SizeTiers, Table, TableName, TableSettings,
    TombstoneRule,
    ddl::{Alteration, ChangeKind, NewColumn, Properties, Property},
    describe,
};
use crate::{
    mutation::{Cell, Content, Liveness},
    types::{CqlType, parse::TypeName},
};
use std::sync::Arc;
use uuid::Uuid;

fn map(pairs: &[(&str, &str)]) -> Property {
    Property::Map(pairs.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect())
}

fn table() -> TableName {
    TableName { keyspace: Some("ks".into()), name: "t".into() }
}

/// The name of a type without parts.
fn type_name(name: &str) -> TypeName {
    let name = name.to_string();
    TypeName { keyspace: None, name, is_quoted: false, arguments: Vec::new() }
}

fn column(name: &str, ty: &str) -> NewColumn {
    NewColumn { name: name.to_string(), ty: type_name(ty), is_static: false }
}

fn create(properties: Properties) -> Ddl {
    Ddl::CreateTable {
        name: table(),
        if_not_exists: false,
        columns: vec![column("v", "double"), column("k", "int"), column("a", "text")],
        partition_key: vec!["k".into()],
        clustering: Vec::new(),
        order: Vec::new(),
        properties,
    }
}

fn apply(catalog: &Catalog, ddl: &Ddl) -> Result<Applied, SchemaError> {
    catalog.apply(ddl, Uuid::from_u128(7), 1_000_000)
}

fn with_keyspace() -> Catalog {
    let replication = map(&[("class", "SimpleStrategy"), ("replication_factor", "1")]);
    let properties = vec![("replication".to_string(), replication)];
    let ddl = Ddl::CreateKeyspace { name: "ks".into(), if_not_exists: false, properties };
    apply(&Catalog::default(), &ddl).unwrap().catalog.unwrap()
}

fn with_table(properties: Properties) -> Result<Catalog, SchemaError> {
    Ok(apply(&with_keyspace(), &create(properties))?.catalog.unwrap())
}

fn windows(unit: &str, size: &str, ttl: &str) -> Properties {
    let compaction = map(&[
        ("class", "TimeWindowCompactionStrategy"),
        ("compaction_window_unit", unit),
        ("compaction_window_size", size),
    ]);
    let ttl = Property::Value(ttl.to_string());
    vec![("compaction".into(), compaction), ("default_time_to_live".into(), ttl)]
}

#[test]
fn a_compaction_window_has_a_length() {
    let window = |unit, size| {
        let catalog = with_table(windows(unit, size, "0")).unwrap();
        catalog.stored().values().next().unwrap().window_us
    };
    assert_eq!(window("MINUTES", "1"), Some(60_000_000));
    assert_eq!(window("HOURS", "6"), Some(6 * 3_600_000_000));
    assert_eq!(window("DAYS", "91"), Some(91 * 86_400_000_000));
    let plain = with_table(Vec::new()).unwrap();
    let tiers = Some(SizeTiers::default());
    let tombstones = Some(TombstoneRule::default());
    let settings =
        TableSettings { gc_grace_s: 864_000, tiers, tombstones, ..TableSettings::default() };
    assert_eq!(plain.stored().into_values().collect::<Vec<_>>(), [settings]);
}

#[test]
fn compaction_options_are_heeded_or_named() {
    let made = |class: &str, options: &[(&str, &str)]| {
        let all = [&[("class", class)], options].concat();
        let all = all.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        let compaction = Property::Map(all.collect());
        let applied = apply(&with_keyspace(), &create(vec![("compaction".into(), compaction)]));
        let applied = applied.unwrap();
        let tiers = applied.catalog.unwrap().stored().values().next().unwrap().tiers;
        (tiers, applied.warning)
    };
    let all = [
        ("min_threshold", "3"),
        ("max_threshold", "9"),
        ("bucket_low", "0.25"),
        ("bucket_high", "2.5"),
        ("min_sstable_size", "77"),
    ];
    let (bucket_low, bucket_high) = (0.25, 2.5);
    let tiers = SizeTiers {
        min_threshold: 3,
        max_threshold: 9,
        bucket_low,
        bucket_high,
        min_sstable_bytes: 77,
    };
    for class in ["SizeTieredCompactionStrategy", "TimeWindowCompactionStrategy"] {
        assert_eq!(made(class, &all), (Some(tiers), None));
        assert_eq!(made(class, &[("enabled", "False")]), (None, None));
        let unheeded = [("provide_overlapping_tombstones", "ROW"), ("log_all", "true")];
        let (tiers, warning) = made(class, &unheeded);
        assert_eq!(tiers, Some(SizeTiers::default()));
        let warning = warning.unwrap();
        assert!(warning.ends_with("Sandglass: log_all, provide_overlapping_tombstones"));
    }
    for class in ["LeveledCompactionStrategy", "UnifiedCompactionStrategy"] {
        let (tiers, warning) = made(class, &[]);
        assert_eq!(tiers, Some(SizeTiers::default()));
        assert!(warning.unwrap().contains("SizeTieredCompactionStrategy"));
    }
}

#[test]
fn sstables_are_written_anew_for_their_tombstones_where_cassandra_does_it() {
    let rule = |class: &str, options: &[(&str, &str)]| {
        let all = [&[("class", class)], options].concat();
        let all = all.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        let catalog = with_table(vec![("compaction".into(), Property::Map(all.collect()))]);
        catalog.unwrap().stored().values().next().unwrap().tombstones
    };
    let (tiered, windowed) = ("SizeTieredCompactionStrategy", "TimeWindowCompactionStrategy");
    let default = TombstoneRule::default();
    assert_eq!((default.threshold, default.interval_s, default.unchecked), (0.2, 86_400, false));
    assert_eq!((rule(tiered, &[]), rule(windowed, &[])), (Some(default), None));
    assert_eq!(rule(windowed, &[("unchecked_tombstone_compaction", "false")]), None);
    let all = [
        ("tombstone_threshold", "0.5"),
        ("tombstone_compaction_interval", "60"),
        ("unchecked_tombstone_compaction", "True"),
    ];
    let own = TombstoneRule { threshold: 0.5, interval_s: 60, unchecked: true };
    for class in [tiered, windowed, "LeveledCompactionStrategy"] {
        assert_eq!(rule(class, &all), Some(own));
        assert_eq!(rule(class, &[all[0]]), Some(TombstoneRule { threshold: 0.5, ..default }));
        assert_eq!(rule(class, &[all[0], ("enabled", "false")]), None);
    }
}

#[test]
fn storage_learns_of_another_grace() {
    let grace = |seconds: &str| Property::Value(seconds.to_string());
    let catalog = with_table(vec![("gc_grace_seconds".into(), grace("60"))]).unwrap();
    let seconds = |catalog: &Catalog| catalog.stored().values().next().unwrap().gc_grace_s;
    assert_eq!(seconds(&catalog), 60);
    let change = Alteration::With(vec![("gc_grace_seconds".into(), grace("0"))]);
    let altered =
        apply(&catalog, &Ddl::AlterTable { name: table(), if_exists: false, change }).unwrap();
    assert_eq!(seconds(&altered.catalog.unwrap()), 0);
}

#[test]
fn too_many_windows_are_warned_of_when_they_become_too_many() {
    let warning = |unit, size, ttl| {
        apply(&with_keyspace(), &create(windows(unit, size, ttl))).unwrap().warning
    };
    assert_eq!(warning("DAYS", "1", "2592000"), None);
    assert_eq!(warning("HOURS", "1", "180000"), None);
    assert!(warning("HOURS", "1", "183600").unwrap().contains("51 windows"));
    let altered = |catalog: &Catalog, property: (&str, &str)| {
        let value = Property::Value(property.1.to_string());
        let change = Alteration::With(vec![(property.0.into(), value)]);
        let ddl = Ddl::AlterTable { name: table(), if_exists: false, change };
        apply(catalog, &ddl).unwrap().warning
    };
    let few = with_table(windows("HOURS", "1", "180000")).unwrap();
    assert!(altered(&few, ("default_time_to_live", "183600")).is_some());
    let many = with_table(windows("HOURS", "1", "183600")).unwrap();
    assert_eq!(altered(&many, ("comment", "known")), None);
}

#[test]
fn windows_have_a_unit_and_a_size() {
    for (unit, size) in [("WEEKS", "1"), ("DAYS", "0"), ("DAYS", "x"), ("DAYS", "99999999999")] {
        let refused = with_table(windows(unit, size, "0"));
        assert!(matches!(refused, Err(SchemaError::Config(_))), "{unit} {size}");
    }
}

#[test]
fn a_truncated_table_is_another_one_to_storage() {
    let before = with_table(Vec::new()).unwrap();
    let applied = apply(&before, &Ddl::Truncate { name: table() }).unwrap();
    let after = applied.catalog.unwrap();
    assert!(applied.change.is_none());
    assert_ne!(before.stored(), after.stored());
    let number = |catalog: &Catalog| catalog.table("ks", "t").unwrap().number;
    let (new, gone) = after.tables_since(&before);
    assert!(matches!(&new[..], [(of, _)] if *of == number(&after)));
    assert_eq!(gone, [number(&before)]);
    assert_eq!(before.table("ks", "t").unwrap().id, after.table("ks", "t").unwrap().id);
    assert!(!after.is_current(before.table("ks", "t").unwrap().table_version()));
}

fn alter(catalog: &Catalog, change: Alteration) -> Catalog {
    let ddl = Ddl::AlterTable { name: table(), if_exists: false, change };
    let applied = apply(catalog, &ddl).unwrap();
    assert_eq!(applied.change.unwrap().change, ChangeKind::Updated);
    applied.catalog.unwrap()
}

fn drop_v(timestamp_us: Option<i64>) -> Alteration {
    Alteration::Drop { if_exists: false, columns: vec!["v".to_string()], timestamp_us }
}

fn add_v(ty: &str) -> Alteration {
    Alteration::Add { if_not_exists: false, columns: vec![column("v", ty)] }
}

fn t_of(catalog: &Catalog) -> Arc<super::Table> {
    Arc::clone(catalog.table("ks", "t").unwrap())
}

fn number(catalog: &Catalog) -> u16 {
    t_of(catalog).column("v").unwrap().number
}

/// From which timestamp on cells of the columns count.
fn newer_than(catalog: &Catalog) -> Option<Vec<i64>> {
    let t = t_of(catalog);
    Some(t.counted_columns()?.iter().map(|column| column.newer_than_us).collect())
}

fn has_dropped(catalog: &Catalog, column: u16, timestamp: i64) -> bool {
    let liveness = Liveness::forever(timestamp);
    let cell = Cell { column, path: None, liveness, content: Content::Live(b"") };
    t_of(catalog).settings().dropped.is_some_and(|dropped| dropped.have(&cell))
}

#[test]
fn a_dropped_column_that_is_added_again_has_its_number_and_only_newer_cells() {
    let before = with_table(Vec::new()).unwrap();
    let without = alter(&before, drop_v(None));
    assert_eq!(newer_than(&before), None);
    assert_eq!(newer_than(&without), Some(vec![i64::MIN]));
    let number_before = Some(number(&before));
    let dropped = DroppedColumn {
        ty: CqlType::Double,
        is_static: false,
        frozen: false,
        dropped_us: 1_000_000,
        number: number_before,
    };
    assert_eq!(t_of(&without).dropped, [("v".to_string(), dropped)].into());
    assert_eq!(Catalog::from_json(&without.to_json()).as_ref(), Ok(&without));
    let ddl = Ddl::AlterTable { name: table(), if_exists: false, change: add_v("text") };
    let refused = apply(&without, &ddl).unwrap_err();
    let text = "Cannot add a column 'v' of type text, incompatible with previously dropped column \
                'v' of type double";
    assert_eq!(refused.to_string(), text);
    let again = alter(&without, add_v("double"));
    assert_eq!(number(&before), number(&again));
    assert_ne!(before.version, again.version);
    let mut expected = vec![i64::MIN; 2];
    expected[usize::from(number(&before))] = 1_000_000;
    assert_eq!(newer_than(&again), Some(expected.clone()));
    let earlier = alter(&alter(&again, drop_v(Some(7))), add_v("double"));
    assert_eq!(newer_than(&earlier), Some(expected.clone()), "what was dropped does not come back");
    let once_more = alter(&alter(&again, drop_v(Some(1_000_007))), add_v("double"));
    expected[usize::from(number(&before))] = 1_000_007;
    assert_eq!(newer_than(&once_more), Some(expected));
    let (own, other) = (number(&before), 1 - number(&before));
    for catalog in [&without, &again, &earlier] {
        assert!(has_dropped(catalog, own, 1_000_000) && !has_dropped(catalog, own, 1_000_001));
        assert!(!has_dropped(catalog, other, 0), "another column");
        assert!(!has_dropped(catalog, own.max(other) + 1, 0), "one that comes later");
    }
    assert!(!has_dropped(&before, own, 0) && has_dropped(&once_more, own, 1_000_007));
    let described = describe::table_cql(&t_of(&once_more), true);
    let drop_and_add = "\nALTER TABLE ks.t DROP v USING TIMESTAMP 1000007;\n\
                        ALTER TABLE ks.t ADD v double;";
    assert!(described.ends_with(drop_and_add), "{described}");
    assert!(!describe::table_cql(&t_of(&once_more), false).contains("ALTER TABLE"));
    assert_eq!(Catalog::from_json(&once_more.to_json()).as_ref(), Ok(&once_more));
}

#[test]
fn a_column_that_an_older_program_dropped_comes_back_with_another_number() {
    let before = with_table(Vec::new()).unwrap();
    let own = number(&before);
    let without = alter(&before, drop_v(None));
    let mut old: serde_json::Value = serde_json::from_str(&without.to_json()).unwrap();
    old["format"] = 1.into();
    let table = &mut old["keyspaces"][0]["tables"][0];
    table["dropped"] = serde_json::json!([{ "name": "v", "type": "double", "dropped_ms": 1_000 }]);
    let old = Catalog::from_json(&old.to_string()).unwrap();
    let old = alter(&old, add_v("double"));
    assert_ne!(own, number(&old), "cells of old stay where they are");
    assert_eq!(newer_than(&old), Some(vec![i64::MIN; 2]));
    assert!(has_dropped(&old, own, i64::MAX) && !has_dropped(&old, number(&old), 0));
}

#[test]
fn the_catalog_comes_back_from_its_file_and_no_other_does() {
    let catalog = with_table(windows("HOURS", "6", "604800")).unwrap();
    let text = catalog.to_json();
    assert_eq!(Catalog::from_json(&text), Ok(catalog));
    let newer = text.replacen("\"format\": 4", "\"format\": 5", 1);
    assert!(Catalog::from_json(&newer).unwrap_err().contains("format 5"));
    assert!(Catalog::from_json("{}").is_err());
    let unused = text.replacen("\"next_table\": 2", "\"next_table\": 1", 1);
    assert!(Catalog::from_json(&unused).is_err());
}

#[test]
fn what_is_there_already_is_said_or_left() {
    let catalog = with_table(Vec::new()).unwrap();
    let mut ddl = create(Vec::new());
    let refused = apply(&catalog, &ddl).unwrap_err();
    let (keyspace, table) = ("ks".to_string(), "t".to_string());
    assert_eq!(refused, SchemaError::AlreadyExists { keyspace, table });
    if let Ddl::CreateTable { if_not_exists, .. } = &mut ddl {
        *if_not_exists = true;
    }
    let applied = apply(&catalog, &ddl).unwrap();
    assert!(applied.catalog.is_none() && applied.change.is_none());
    let drop = Ddl::DropTable { name: table_of_no_one(), if_exists: true };
    assert!(apply(&catalog, &drop).unwrap().catalog.is_none());
}

fn table_of_no_one() -> TableName {
    TableName { keyspace: Some("nobody".into()), name: "t".into() }
}

#[test]
fn a_static_column_needs_clustering_columns_and_stays_what_it_was() {
    let new_static = |name: &str| NewColumn { is_static: true, ..column(name, "int") };
    let create = |clustering: &[&str], columns: Vec<NewColumn>| {
        let mut ddl = create(Vec::new());
        if let Ddl::CreateTable { clustering: names, columns: all, .. } = &mut ddl {
            names.extend(clustering.iter().map(ToString::to_string));
            all.extend(columns);
        }
        apply(&with_keyspace(), &ddl).map(|applied| applied.catalog.unwrap())
    };
    let refused = |made: Result<Catalog, SchemaError>| made.unwrap_err().to_string();
    let useless = "Static columns are only useful (and thus allowed) if the table has at least one \
                   clustering column";
    assert_eq!(refused(create(&[], vec![new_static("s")])), useless);
    let of_key = "Static column 's' cannot be part of the PRIMARY KEY";
    assert_eq!(refused(create(&["s"], vec![new_static("s")])), of_key);
    let made = create(&["a"], vec![new_static("z"), new_static("s")]).unwrap();
    let names = |catalog: &Catalog| {
        let table = catalog.table("ks", "t").unwrap();
        table.columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&made), ["k", "a", "s", "z", "v"]);
    assert_eq!(Catalog::from_json(&made.to_json()).as_ref(), Ok(&made));
    let alter = |catalog: &Catalog, change| {
        apply(catalog, &Ddl::AlterTable { name: table(), if_exists: false, change })
            .map(|applied| applied.catalog.unwrap())
    };
    let add = |column| Alteration::Add { if_not_exists: false, columns: vec![column] };
    let drop = |name: &str| {
        let columns = vec![name.to_string()];
        Alteration::Drop { if_exists: false, columns, timestamp_us: None }
    };
    let wider = alter(&made, add(new_static("t"))).unwrap();
    assert_eq!(names(&wider), ["k", "a", "s", "t", "z", "v"]);
    let plain = with_table(Vec::new()).unwrap();
    assert_eq!(refused(alter(&plain, add(new_static("t")))), useless);
    // Its rows are in storage once the column is not.
    let mut left = made;
    for name in ["s", "z"] {
        left = alter(&left, drop(name)).unwrap();
    }
    let found = Catalog::from_json(&left.to_json()).unwrap();
    assert_eq!(found, left);
    assert!(found.table("ks", "t").unwrap().has_static_rows());
    assert!(!plain.table("ks", "t").unwrap().has_static_rows());
    let another = "Cannot re-add previously dropped column 's' of kind REGULAR, incompatible with \
                   previous kind STATIC";
    assert_eq!(refused(alter(&left, add(column("s", "int")))), another);
    assert_eq!(names(&alter(&left, add(new_static("s"))).unwrap()), ["k", "a", "s", "v"]);
    // A program before this one did not know of them.
    let old = plain.to_json().replacen("\"format\": 4", "\"format\": 2", 1);
    assert_eq!(Catalog::from_json(&old), Ok(plain));
}

/// `CREATE TABLE` of this name.
fn named(name: &str) -> Ddl {
    let mut ddl = create(Vec::new());
    if let Ddl::CreateTable { name: of, .. } = &mut ddl {
        of.name = name.to_string();
    }
    ddl
}

#[test]
fn a_change_costs_what_it_changes_and_not_what_there_is() {
    let mut before = with_table(Vec::new()).unwrap();
    for number in 0..100 {
        before = apply(&before, &named(&format!("t{number}"))).unwrap().catalog.unwrap();
    }
    let comment = vec![("comment".to_string(), Property::Value("less".to_string()))];
    let altered = Alteration::With(comment);
    let ddl = Ddl::AlterTable { name: table(), if_exists: false, change: altered };
    let after = apply(&before, &ddl).unwrap().catalog.unwrap();
    let is_same = |table: &&Arc<Table>| {
        Arc::ptr_eq(table, before.table("ks", &table.name).unwrap()) && table.has_text()
    };
    assert_eq!(after.tables().filter(is_same).count(), 100, "all others, with their texts");
    assert_eq!(after.tables_since(&before), (Vec::new(), Vec::new()), "nothing for storage");

    // What was kept is what would be made anew, the one of the altered table too.
    let read = Catalog::from_json(&after.to_json()).unwrap();
    assert_eq!((&read, read.to_json()), (&after, after.to_json()));
    assert!(after.to_json().contains("less") && !before.to_json().contains("less"));
    assert_ne!(after.version, before.version);
    let dropped = Ddl::DropTable { name: table(), if_exists: false };
    let left = apply(&after, &dropped).unwrap().catalog.unwrap();
    let number = after.table("ks", "t").unwrap().number;
    assert_eq!(left.tables_since(&after), (Vec::new(), vec![number]));
    assert_eq!(left.tables_since(&Catalog::default()).0.len(), 100);
}
