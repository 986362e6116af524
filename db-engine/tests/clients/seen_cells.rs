//! What a row of a result has of a column of any kind, as cells.

use super::{
    statements::{COLUMNS, LIST, SET, USER_TYPE},
    worlds::SeenCell,
};

/// The cells of a column: its value, timestamps and times to live.
pub fn cells_of(column: u16, values: &[Option<Vec<u8>>]) -> Vec<SeenCell> {
    let [value, timestamps, ttls] = values else { panic!("three of each column") };
    let Some(value) = value.as_deref() else { return Vec::new() };
    let timestamp = |bytes: &[u8]| i64::from_be_bytes(bytes.try_into().unwrap());
    let ttl = |bytes: &[u8]| i64::from(i32::from_be_bytes(bytes.try_into().unwrap()));
    let ty = COLUMNS.iter().find(|one| one.number == column).unwrap().ty;
    if matches!(ty, "int" | "text") {
        let timestamp = timestamp(timestamps.as_deref().unwrap());
        let left = ttls.as_deref().map(ttl);
        return vec![((column, None), value.to_vec(), timestamp, left)];
    }
    let times = items(&timestamps.as_deref().unwrap()[4..]);
    let lives = ttls.as_deref().map(|ttls| items(&ttls[4..])).unwrap_or_default();
    let parts: Vec<(Vec<u8>, Option<Vec<u8>>)> = match column {
        USER_TYPE => {
            let fields = items(value).into_iter().enumerate();
            fields.map(|(at, field)| (vec![0, u8::try_from(at).unwrap()], field)).collect()
        }
        SET => items(&value[4..]).into_iter().map(|item| (item.unwrap(), Some(vec![]))).collect(),
        LIST => {
            let items = items(&value[4..]).into_iter().map(Option::unwrap);
            items.map(|item| (item.clone(), Some(item))).collect()
        }
        _ => {
            let all = items(&value[4..]);
            all.chunks_exact(2).map(|pair| (pair[0].clone().unwrap(), pair[1].clone())).collect()
        }
    };
    assert!(times.len() >= parts.len(), "a timestamp for each part");
    let cells = parts.into_iter().enumerate().filter_map(|(at, (path, value))| {
        let left = lives.get(at).and_then(|left| left.as_deref()).map(ttl);
        let timestamp = timestamp(times[at].as_deref()?);
        Some(((column, Some(path)), value?, timestamp, left))
    });
    cells.collect()
}

/// Values behind each other, each behind its length.
fn items(mut bytes: &[u8]) -> Vec<Option<Vec<u8>>> {
    let mut items = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let length = usize::try_from(i32::from_be_bytes(*length)).ok();
        let (item, rest) = rest.split_at(length.unwrap_or(0));
        items.push(length.map(|_| item.to_vec()));
        bytes = rest;
    }
    items
}
