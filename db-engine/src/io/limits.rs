//! What the operating system allows this process, and what it gets back.

use std::io;

/// What is allocated with at least so many bytes goes back to the operating system when it is
/// freed.
#[cfg(target_env = "gnu")]
const RETURNED_BYTES_MIN: libc::c_int = 256 << 10;

/// Has the allocator give large pieces of memory back. By itself it would keep more and more of
/// them, in the heap of each thread: after a few requests of some megabytes, twice as much was
/// resident as was in use.
pub fn return_large_memory() {
    #[cfg(target_env = "gnu")]
    for option in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        // SAFETY: it only changes numbers of the allocator, under its own lock.
        let is_set = unsafe { libc::mallopt(option, RETURNED_BYTES_MIN) } == 1;
        debug_assert!(is_set, "the number is one that the allocator takes");
    }
}

/// Allows as many open files as may be allowed; returns how many that is.
///
/// # Errors
/// The operating system does not tell.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a whole structure of its type, and outlives the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } < 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur < limit.rlim_max {
        let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
        // SAFETY: as above. Where it is refused, the limit stays what it was.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            return Ok(raised.rlim_cur);
        }
    }
    Ok(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_what_the_operating_system_shows() {
        let limit = raise_open_files().unwrap();
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let mut numbers = line.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
        assert_eq!(numbers.next(), Some(limit), "{line}");
    }
}
