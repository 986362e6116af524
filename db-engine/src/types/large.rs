//! Large values, which are checked and brought into their stored form bit by bit, so that others
//! are served meanwhile.
//!
//! The work is written as futures, which pause whenever they have done a piece of it: the compiler
//! keeps track of where they are. Nothing wakes them but [`LargeWork::go_on`].

mod check;
mod elements;
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

/// Encodes an element behind others: its path, unless it is one of a list, and its value.
pub type PutElement =
    Box<dyn FnMut(&mut Vec<u8>, Option<&[u8]>, &[u8]) -> Result<(), TypeError> + Send>;

/// What a value is wanted for.
pub enum Purpose {
    /// To be stored as one value, in its [form](super::canonical).
    Whole,
    /// To be taken apart into elements when it is bound, in the order given.
    AsGiven,
    /// To be taken apart into elements that are encoded like this, in the order of their paths. Of
    /// several with one key the one with the greatest value stays.
    Elements(PutElement),
}

/// What a large value has become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueForm {
    Whole,
    AsGiven,
    /// So many elements.
    Elements(u32),
}

/// A large value that was checked, or what is wrong with it.
#[derive(Debug, PartialEq, Eq)]
pub struct LargeValue {
    done: Result<(Vec<u8>, ValueForm), TypeError>,
}

impl LargeValue {
    /// The value as it is stored, if that is what it was wanted for.
    ///
    /// # Errors
    /// If it is not legal.
    pub fn stored(&self) -> Result<Option<&[u8]>, TypeError> {
        let (bytes, form) = self.done()?;
        Ok((form == ValueForm::Whole).then_some(bytes))
    }

    /// The value, of which only the order and repetitions may differ from what was given, and do
    /// not unless it was wanted whole.
    ///
    /// # Errors
    /// If it is not legal, or was taken apart.
    pub fn checked(&self) -> Result<&[u8], TypeError> {
        match self.done()? {
            (_, ValueForm::Elements(_)) => Err(TypeError("a value was taken apart".into())),
            (bytes, _) => Ok(bytes),
        }
    }

    /// The encoded elements and how many they are, if it was taken apart.
    ///
    /// # Errors
    /// If it is not legal.
    pub fn elements(&self) -> Result<Option<(&[u8], u32)>, TypeError> {
        match self.done()? {
            (bytes, ValueForm::Elements(count)) => Ok(Some((bytes, count))),
            _ => Ok(None),
        }
    }

    fn done(&self) -> Result<(&[u8], ValueForm), TypeError> {
        let (bytes, form) = self.done.as_ref().map_err(Clone::clone)?;
        Ok((bytes, *form))
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.done.as_ref().map_or(0, |(bytes, _)| bytes.capacity())
    }
}

type Work = Pin<Box<dyn Future<Output = Result<(Vec<u8>, ValueForm), TypeError>> + Send>>;

enum WorkStage {
    Copying(CqlType, Vec<u8>, Purpose),
    Working(Work),
    Done,
}

/// The work on a large value.
pub struct LargeWork {
    bytes: usize,
    /// Of what it comes to, if that is elements.
    room: usize,
    pace: Arc<Pace>,
    stage: WorkStage,
}

impl Debug for LargeWork {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "LargeWork({} bytes)", self.bytes)
    }
}

impl LargeWork {
    /// Whether values of this type take long to check, compared with being copied.
    #[must_use]
    pub fn is_for(ty: &CqlType) -> bool {
        ty.is_collection() || matches!(ty, CqlType::Tuple(_) | CqlType::Udt(_))
    }

    /// Nothing is done yet. While it is worked on, it takes the memory of a copy, and of another
    /// one into which it is brought in order, of what is inside of it first; or of its elements.
    #[must_use]
    pub fn new(ty: &CqlType, purpose: Purpose, given: &[u8]) -> Self {
        let (length, mut room) = (given.len(), 0);
        let copies = if ty.needs_sorting() { form::copies(ty) } else { 1 };
        let bytes = match purpose {
            Purpose::Whole => length * copies,
            Purpose::AsGiven => length,
            Purpose::Elements(_) => {
                room = elements::encoded_bytes(ty, given);
                length * copies + room
            }
        };
        let stage = WorkStage::Copying(ty.clone(), Vec::new(), purpose);
        Self { bytes, room, pace: Arc::default(), stage }
    }

    /// Bytes of memory that it takes, at most.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Goes on as long as there is time; `given` is the value, the same each time. Gives it when
    /// all is done.
    pub fn go_on(&mut self, given: &[u8], time: &mut TimeSlice<'_>) -> Option<LargeValue> {
        if let WorkStage::Copying(ty, copy, purpose) = &mut self.stage {
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
            let (purpose, room) = (std::mem::replace(purpose, Purpose::AsGiven), self.room);
            self.stage = WorkStage::Working(Box::pin(async move {
                check::check(&ty, &copy, false, &pace).await?;
                Ok(match purpose {
                    Purpose::Whole => (form::form(&ty, copy, &pace).await?, ValueForm::Whole),
                    Purpose::AsGiven => (copy, ValueForm::AsGiven),
                    Purpose::Elements(put) => {
                        let taken = elements::take_apart(&ty, copy, (put, room), &pace);
                        let (bytes, count) = taken.await?;
                        (bytes, ValueForm::Elements(count))
                    }
                })
            }));
        }
        let mut context = Context::from_waker(Waker::noop());
        while !time.is_over() {
            let WorkStage::Working(work) = &mut self.stage else { return None };
            self.pace.begin_piece();
            let polled = work.as_mut().poll(&mut context);
            time.look();
            if let Poll::Ready(done) = polled {
                self.stage = WorkStage::Done;
                return Some(LargeValue { done });
            }
        }
        None
    }
}
