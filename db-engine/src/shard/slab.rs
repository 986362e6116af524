//! A table of what is under way, by places that are used again.

use super::tag::SlabKey;

/// Entries by place. An entry's [`SlabKey`] never means another one.
#[derive(Debug)]
pub struct Slab<T> {
    entries: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Puts an entry into a free place.
    ///
    /// # Panics
    /// There are 2^32 entries: what may be under way is limited far below.
    pub fn insert(&mut self, entry: T) -> SlabKey {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push((0, None));
            u32::try_from(self.entries.len() - 1).expect("what is under way is limited")
        });
        let place = &mut self.entries[index as usize];
        place.0 = place.0.wrapping_add(1);
        place.1 = Some(entry);
        SlabKey { index, generation: place.0 }
    }

    /// The entry, if it is still there.
    pub fn get(&mut self, slot: SlabKey) -> Option<&mut T> {
        let (generation, entry) = self.entries.get_mut(slot.index as usize)?;
        if *generation == slot.generation { entry.as_mut() } else { None }
    }

    /// Takes the entry out, if it is still there.
    pub fn remove(&mut self, slot: SlabKey) -> Option<T> {
        self.get(slot)?;
        self.free.push(slot.index);
        self.entries[slot.index as usize].1.take()
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_used_again_and_its_old_name_is_not() {
        let mut slab = Slab::default();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!(slab.remove(a), Some('a'));
        let c = slab.insert('c');
        assert_eq!((c.index, slab.len()), (a.index, 2));
        assert_eq!(slab.get(a), None);
        assert_eq!(slab.remove(a), None);
        assert_eq!(slab.get(c), Some(&mut 'c'));
        assert_eq!(slab.remove(b), Some('b'));
        assert_eq!(slab.remove(c), Some('c'));
        assert_eq!(slab.len(), 0);
    }
}
