//! What messages become: rows as ingest writes them.

use sandglass_db::{
    io::Random,
    mutation::{Builder, TableNumber, Write, token},
};

pub const MEASUREMENTS: TableNumber = TableNumber(1);
pub const LATEST: TableNumber = TableNumber(2);
pub const RARE: TableNumber = TableNumber(3);

const DAY_US: u64 = 86_400_000_000;
const TTL_S: u32 = 30 * 86_400;

/// Messages of so many sensors in turn.
pub struct Messages {
    sensors: u64,
    late_percent: u64,
    random: Random,
    number: u64,
}

impl Messages {
    pub fn new(sensors: u64, late_percent: u64) -> Self {
        Self { sensors, late_percent, random: Random(5), number: 0 }
    }

    /// The mutation of a table that is written rarely.
    pub fn rare(now_us: i64, out: &mut Vec<u8>) {
        let write = Write { timestamp: now_us, ttl_s: 0, now_s: now_us / 1_000_000 };
        let key = now_us.to_be_bytes();
        let mut builder = Builder::new(out, RARE, token::token(&key), &key);
        builder.row(b"", &write, true).cell(1, b"a change of a setting");
        builder.finish().expect("a short row");
    }

    /// The mutations of the next one. One that is late has the timestamps of its time.
    pub fn next(&mut self, now_us: i64, out: &mut Vec<u8>) {
        self.number += 1;
        let is_late = self.random.percent(self.late_percent);
        let late_us = if is_late { self.random.below(DAY_US) } else { 0 };
        let at_us = now_us - i64::try_from(late_us).expect("less than a day");
        let sensor = self.number % self.sensors;
        let day = at_us.div_euclid(i64::try_from(DAY_US).expect("it fits"));
        // A sensor has some noise, and few values.
        let value = 21.5 + f64::from(u32::try_from(self.random.below(64)).expect("few")) / 8.0;
        let write = Write { timestamp: at_us, ttl_s: TTL_S, now_s: now_us / 1_000_000 };
        let id = [&[0, 16][..], &sensor.to_be_bytes(), &[7; 8]].concat();
        let key = [&id[..], &[0, 0, 8], &day.to_be_bytes(), &[0]].concat();
        let mut builder = Builder::new(out, MEASUREMENTS, token::token(&key), &key);
        let ck = [&b"temperature\0"[..], &(at_us / 1_000).to_be_bytes(), &[0; 8]].concat();
        builder.row(&ck, &write, true).cell(5, &value.to_be_bytes());
        builder.finish().expect("a short row");
        if is_late {
            return;
        }
        let forever = Write { ttl_s: 0, ..write };
        let mut builder = Builder::new(out, LATEST, token::token(&id), &id);
        let mut row = builder.row(b"temperature\0", &forever, true);
        row.cell(2, &(at_us / 1_000).to_be_bytes()).cell(4, &value.to_be_bytes());
        drop(row);
        builder.finish().expect("a short row");
    }
}
