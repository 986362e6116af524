//! Large values, which are checked and brought into their stored form bit by bit, so that others
//! are served meanwhile.
//!
//! The work is written as futures, which pause whenever they have done a piece of it: the compiler
//! keeps track of where they are. Nothing wakes them but [`LargeWork::go_on`].

mod check;
mod form;
mod pace;
#[cfg(test)]
mod tests;

use self::pace::Pace;
use super::{CqlType, TypeError};
use crate::io::TimeSlice;
use std::{
    fmt::{self, Debug, Formatter},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// From so many bytes on values are worth being worked on bit by bit. What is shorter takes less
/// than a millisecond.
pub const LARGE_VALUE_BYTES: usize = 32 << 10;

/// Bytes of a piece of a value that is worked on at once. Tests make do with small values.
const PIECE_BYTES: usize = if cfg!(test) { 40 } else { 16 << 10 };

/// Bytes that are copied at once.
const COPY_BYTES: usize = 4 * PIECE_BYTES;

/// What a value is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To be stored as one value, in its [form](super::canonical).
    Whole,
    /// To be taken apart into elements, in the order given.
    Elements,
}

/// A large value that was checked, or what is wrong with it.
#[derive(Debug, PartialEq, Eq)]
pub struct LargeValue {
    purpose: Purpose,
    bytes: Result<Vec<u8>, TypeError>,
}

impl LargeValue {
    /// The value as it is stored, if that is what it was wanted for.
    ///
    /// # Errors
    /// If it is not legal.
    pub fn stored(&self) -> Result<Option<&[u8]>, TypeError> {
        let bytes = self.checked()?;
        Ok((self.purpose == Purpose::Whole).then_some(bytes))
    }

    /// The value, of which only the order and repetitions may differ from what was given, and do
    /// not if it was wanted for its elements.
    ///
    /// # Errors
    /// If it is not legal.
    pub fn checked(&self) -> Result<&[u8], TypeError> {
        self.bytes.as_deref().map_err(Clone::clone)
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.as_ref().map_or(0, Vec::capacity)
    }
}

type Work = Pin<Box<dyn Future<Output = Result<Vec<u8>, TypeError>> + Send>>;

enum WorkStage {
    Copying(CqlType, Vec<u8>),
    Working(Work),
    Done,
}

/// The work on a large value.
pub struct LargeWork {
    purpose: Purpose,
    bytes: usize,
    pace: Arc<Pace>,
    stage: WorkStage,
}

impl Debug for LargeWork {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "LargeWork({:?}, {} bytes)", self.purpose, self.bytes)
    }
}

impl LargeWork {
    /// Whether values of this type take long to check, compared with being copied.
    #[must_use]
    pub fn is_for(ty: &CqlType) -> bool {
        ty.is_collection() || matches!(ty, CqlType::Tuple(_) | CqlType::Udt(_))
    }

    /// Bytes of memory that a value of so many takes while it is worked on: a copy, and another one
    /// into which it is brought in order, of what is inside of it first.
    #[must_use]
    pub fn memory(ty: &CqlType, purpose: Purpose, bytes: usize) -> usize {
        bytes * if purpose == Purpose::Whole && ty.needs_sorting() { form::copies(ty) } else { 1 }
    }

    /// Nothing is done yet.
    #[must_use]
    pub fn new(ty: &CqlType, purpose: Purpose, length: usize) -> Self {
        Self {
            purpose,
            bytes: Self::memory(ty, purpose, length),
            pace: Arc::default(),
            stage: WorkStage::Copying(ty.clone(), Vec::new()),
        }
    }

    /// Bytes of memory that it takes, at most.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Goes on as long as there is time; `given` is the value, the same each time. Gives it when
    /// all is done.
    pub fn go_on(&mut self, given: &[u8], time: &mut TimeSlice<'_>) -> Option<LargeValue> {
        if let WorkStage::Copying(ty, copy) = &mut self.stage {
            copy.reserve_exact(given.len() - copy.len());
            while copy.len() < given.len() {
                if time.is_over() {
                    return None;
                }
                let end = given.len().min(copy.len() + COPY_BYTES);
                copy.extend_from_slice(given.get(copy.len()..end).unwrap_or_default());
                time.look();
            }
            let (ty, copy, pace) = (ty.clone(), std::mem::take(copy), Arc::clone(&self.pace));
            let is_whole = self.purpose == Purpose::Whole;
            self.stage = WorkStage::Working(Box::pin(async move {
                check::check(&ty, &copy, false, &pace).await?;
                if is_whole { form::form(&ty, copy, &pace).await } else { Ok(copy) }
            }));
        }
        let mut context = Context::from_waker(Waker::noop());
        while !time.is_over() {
            let WorkStage::Working(work) = &mut self.stage else { return None };
            self.pace.begin_piece();
            let polled = work.as_mut().poll(&mut context);
            time.look();
            if let Poll::Ready(bytes) = polled {
                self.stage = WorkStage::Done;
                return Some(LargeValue { purpose: self.purpose, bytes });
            }
        }
        None
    }
}
