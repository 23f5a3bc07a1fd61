//! Messages between two processes over a Unix socket: bytes, and now and then a file descriptor.

use std::{
    io::{self, IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

pub(crate) struct Channel(UnixStream);

impl Channel {
    /// This process's end, and the one for the other.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        Ok((Self(ours), theirs.into()))
    }

    /// The end that the process was started with, as its standard input.
    pub(crate) fn of_stdin() -> io::Result<Self> {
        Ok(Self(io::stdin().as_fd().try_clone_to_owned()?.into()))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    pub(crate) fn receive<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// A descriptor travels beside at least one byte.
    pub(crate) fn send_file(&mut self, file: impl AsFd) -> io::Result<()> {
        let files = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&files)) {
            return Err(io::Error::other("no room for a file descriptor"));
        }
        rustix::net::sendmsg(&self.0, &[IoSlice::new(&[0])], &mut control, SendFlags::empty())?;
        Ok(())
    }

    pub(crate) fn receive_file(&mut self) -> io::Result<OwnedFd> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        rustix::net::recvmsg(&self.0, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(mut files) = message
                && let Some(file) = files.next()
            {
                return Ok(file);
            }
        }
        Err(io::Error::other("no file descriptor came"))
    }
}
