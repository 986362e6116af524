//! What the clients of a simulation have seen.

/// What has happened in all, so that a test can tell that it has tested something.
#[derive(Default, Debug)]
pub struct Tally {
    pub acknowledged: u64,
    pub refused: u64,
    pub left_behind: u64,
    pub reads: u64,
    pub failed_reads: u64,
    pub rows: u64,
    pub created: u64,
    pub emptied: u64,
    pub altered: u64,
    pub crashes: u64,
    pub stops: u64,
    pub refused_openings: u64,
    pub spoilt: u64,
    pub kinds: u64,
    pub applied: u64,
    pub not_applied: u64,
    pub counted: u64,
    pub dropped: u64,
}
