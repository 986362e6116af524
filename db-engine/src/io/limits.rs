//! What the operating system allows this process, and what it gets back.

use std::{ffi::CString, io, os::unix::ffi::OsStrExt, path::Path};

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

/// How long a thread of ours may compute before another one's turn comes, in nanoseconds: the
/// shortest that Linux grants.
#[cfg(target_os = "linux")]
const TIME_SLICE_NS: u64 = 100_000;

/// Has this thread, and those that it will start, run as soon as they are woken. They ask for less
/// time at once, not for more in all, so any process may. A durable write wakes its thread up to
/// three times, and each time it would wait until whoever computes has used up its own slice: 4 ms
/// on a kernel with 250 ticks a second, while the device takes 0.1 ms. Kernels before 6.12, and
/// threads of another class than the usual one, stay as they are.
pub fn run_soon_when_woken() {
    #[cfg(target_os = "linux")]
    {
        let bytes = size_of::<libc::sched_attr>();
        // SAFETY: all zeros is a valid value of the structure, which has numbers only.
        let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes at most `bytes`, which is how long `attributes` is.
        let got =
            unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, bytes, 0) };
        if got != 0 || attributes.sched_policy != libc::SCHED_OTHER.cast_unsigned() {
            return;
        }
        attributes.sched_runtime = TIME_SLICE_NS;
        // SAFETY: the kernel reads as much as `attributes.size` says, which it has set itself.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}

/// Bytes that are free for us on the disk of this directory.
///
/// # Errors
/// The operating system does not tell.
pub fn free_bytes(directory: &Path) -> io::Result<u64> {
    let path = CString::new(directory.as_os_str().as_bytes())?;
    // SAFETY: all zeros is a valid value of the structure, which has numbers only.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends with a zero, `found` is a whole structure, and both outlive the call.
    if unsafe { libc::statvfs(path.as_ptr(), &raw mut found) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
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

    #[cfg(target_os = "linux")]
    #[test]
    fn threads_have_short_turns_where_the_kernel_grants_them() {
        let slice = || {
            let text = std::fs::read_to_string("/proc/thread-self/sched").ok()?;
            let line = text.lines().find(|line| line.starts_with("se.slice"))?;
            line.split_whitespace().last()?.parse::<u64>().ok()
        };
        let (before, own, started) = std::thread::scope(|scope| {
            let body = || {
                let before = slice();
                run_soon_when_woken();
                (before, slice(), std::thread::spawn(slice).join().expect("it ends"))
            };
            scope.spawn(body).join().expect("it ends")
        });
        // A kernel that shows no slices has none that can be asked for.
        if before.is_some() {
            assert_eq!((own, started), (Some(TIME_SLICE_NS), Some(TIME_SLICE_NS)));
        }
    }

    #[test]
    fn the_limit_is_what_the_operating_system_shows() {
        let limit = raise_open_files().unwrap();
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let mut numbers = line.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
        assert_eq!(numbers.next(), Some(limit), "{line}");
    }
}
