//! Sockets and ioctls.
