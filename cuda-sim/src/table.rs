//! Objects by number. The number that was given back last is given out first, so that stale handles soon name
//! something else.

/// Objects by number.
#[derive(Debug)]
pub(crate) struct Table<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(number) = self.free.pop()
            && let Some(entry) = self.entries.get_mut(number as usize)
        {
            *entry = Some(value);
            return number;
        }
        self.entries.push(Some(value));
        (self.entries.len() - 1) as u32
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.entries.get(number as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.entries.get_mut(number as usize)?.as_mut()
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let removed = self.entries.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(removed)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.entries.iter().enumerate().filter_map(|(number, entry)| Some((number as u32, entry.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.entries.iter_mut().enumerate().filter_map(|(number, entry)| Some((number as u32, entry.as_mut()?)))
    }

    /// The numbers ever given out are below this.
    pub(crate) fn bound(&self) -> u32 {
        self.entries.len() as u32
    }
}
