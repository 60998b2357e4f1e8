use spirea_protocols::delta;
use zeroize::Zeroizing;

/// What is looked up.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'a> {
    /// The values of keys.
    Keys(&'a [&'a [u8]]),
    /// Those at indices.
    Indices(&'a [u64]),
}

impl Wanted<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Keys(keys) => keys.len(),
            Self::Indices(indices) => indices.len(),
        }
    }

    /// At most `most` of them, from `start`.
    pub(crate) fn part(&self, start: usize, most: usize) -> Self {
        let part = start..self.len().min(start + most);
        match self {
            Self::Keys(keys) => Self::Keys(&keys[part]),
            Self::Indices(indices) => Self::Indices(&indices[part]),
        }
    }

    /// One by one: the key, or the one under which a delta has the index, and the index.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Zeroizing<Vec<u8>>, Option<u64>)> {
        (0..self.len()).map(|i| {
            let (key, index) = match self {
                Self::Keys(keys) => (keys[i].to_vec(), None),
                Self::Indices(indices) => (delta::index_key(indices[i]).to_vec(), Some(indices[i])),
            };
            (Zeroizing::new(key), index)
        })
    }
}
