//! Listening sockets: the one thing about sockets that neither `std` nor `mio` can set up.
//!
//! With more than one shard each has a socket of its own on the same port (`SO_REUSEPORT`), and
//! the kernel spreads new connections over them; no thread hands connections to another.

use std::{
    fs, io,
    net::{SocketAddr, TcpListener},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::PermissionsExt, net::UnixListener},
    },
    path::Path,
};

/// Connections that the kernel may keep for us until we accept them.
const BACKLOG: libc::c_int = 1024;

/// Opens one listening socket for each of `count` shards, all on one address. Port 0 takes a free
/// one, the same for all.
///
/// # Errors
/// The address is in use, or is not one of this machine, or may not be used by this user.
pub fn listen(address: SocketAddr, count: u16) -> io::Result<Vec<TcpListener>> {
    if count == 1 {
        return Ok(vec![bind(address, false)?]);
    }
    if address.port() != 0 {
        // Another engine of the same user could share the port with us, and each would get a part
        // of the connections. A socket that does not share finds out that somebody is there.
        drop(bind(address, false)?);
    }
    let first = bind(address, true)?;
    let address = first.local_addr()?;
    let mut sockets = vec![first];
    for _ in 1..count {
        sockets.push(bind(address, true)?);
    }
    Ok(sockets)
}

fn bind(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: plain arguments; the result is checked before it is used as a descriptor.
    let fd = checked(unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: `fd` was just opened and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // Connections of an engine that has just stopped do not keep the address from us.
    set(&socket, libc::SO_REUSEADDR)?;
    if shared {
        set(&socket, libc::SO_REUSEPORT)?;
    }
    let (storage, length) = raw(address);
    // SAFETY: `storage` is a socket address of its family and `length` bytes long.
    checked(unsafe { libc::bind(fd, (&raw const storage).cast(), length) })?;
    // SAFETY: plain arguments.
    checked(unsafe { libc::listen(fd, BACKLOG) })?;
    Ok(TcpListener::from(socket))
}

/// The longest path of a local socket, in bytes: what the operating system has room for.
pub const LOCAL_PATH_BYTES_MAX: usize = 107;

/// Listens at a path, for whoever is the user of this process or root. Nobody can connect before
/// the file has its permissions.
///
/// # Errors
/// The path is too long or in use, or the operating system refuses.
pub fn listen_local(path: &Path) -> io::Result<UnixListener> {
    let bytes = path.as_os_str().as_bytes();
    // SAFETY: all of `sockaddr_un` is integers, for which zeros are valid.
    let mut raw: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    raw.sun_family = libc::sa_family_t::try_from(libc::AF_UNIX).expect("small");
    if bytes.len() > LOCAL_PATH_BYTES_MAX || bytes.contains(&0) {
        let what = format!("a socket's path has at most {LOCAL_PATH_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    for (place, byte) in raw.sun_path.iter_mut().zip(bytes) {
        *place = byte.cast_signed();
    }
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: plain arguments; the result is checked before it is used as a descriptor.
    let fd = checked(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    // SAFETY: `fd` was just opened and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let length = libc::socklen_t::try_from(size_of_val(&raw)).expect("a few dozen bytes");
    // SAFETY: `raw` is a socket address of its family and `length` bytes long.
    checked(unsafe { libc::bind(fd, (&raw const raw).cast(), length) })?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    // SAFETY: plain arguments.
    checked(unsafe { libc::listen(fd, BACKLOG) })?;
    Ok(UnixListener::from(socket))
}

fn set(socket: &OwnedFd, option: libc::c_int) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).expect("four");
    // SAFETY: `on` lives as long as the call and has the length that is given.
    let result = unsafe {
        let value = (&raw const on).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, value, length)
    };
    checked(result).map(drop)
}

/// The address as the operating system wants it, and its length in bytes.
fn raw(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all of `sockaddr_storage` is integers, for which zeros are valid.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let length = match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::sa_family_t::try_from(libc::AF_INET).expect("small"),
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: `sockaddr_storage` is made to hold any address, in size and alignment.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(raw) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::sa_family_t::try_from(libc::AF_INET6).expect("small"),
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(raw) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, libc::socklen_t::try_from(length).expect("a few dozen bytes"))
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    fn local(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn all_shards_listen_on_one_port_and_nobody_else_can() {
        for count in [1, 3] {
            let sockets = listen(local(0), count).expect("a free port");
            assert_eq!(sockets.len(), usize::from(count));
            let address = sockets[0].local_addr().expect("bound");
            assert!(sockets.iter().all(|s| s.local_addr().expect("bound") == address));
            for other in [1, 2] {
                let refused = listen(address, other).expect_err("taken");
                assert_eq!(refused.kind(), ErrorKind::AddrInUse, "{count} then {other}");
            }
        }
    }

    #[test]
    fn the_newer_protocol_of_the_internet_works_too() {
        match listen(SocketAddr::from(([0u16, 0, 0, 0, 0, 0, 0, 1], 0)), 2) {
            Ok(sockets) => assert!(sockets[0].local_addr().expect("bound").is_ipv6()),
            // Some containers have no IPv6 at all.
            Err(error) => assert_eq!(error.kind(), ErrorKind::AddrNotAvailable),
        }
    }
}
