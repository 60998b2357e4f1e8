//! Maps of items on the threads of a backend.

use parking_lot::Mutex;

use crate::Backend;

/// Returns the results of `work` for all items, in the order of the items. The calls run on the
/// threads of [`Backend::each`].
pub fn map_each<B: Backend + ?Sized, T: Send, R: Send>(
    backend: &B,
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let slots: Vec<_> = items.into_iter().map(|item| Mutex::new((Some(item), None))).collect();
    backend.each(slots.len(), &|i| {
        let item = slots[i].lock().0.take().expect("each number is called once");
        let result = work(item);
        slots[i].lock().1 = Some(result);
    });
    let results = slots.into_iter().map(|slot| slot.into_inner().1);
    results.map(|result| result.expect("all calls have returned")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NaiveBackend;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let texts = map_each(&NaiveBackend, (0..5).map(|i| i * i), |square: u32| square.to_string());
        assert_eq!(texts, ["0", "1", "4", "9", "16"]);
        assert!(map_each(&NaiveBackend, [0u8; 0], |item| item).is_empty());
    }

    #[test]
    fn items_may_be_parts_of_a_slice() {
        let mut words = [0u32; 10];
        let lengths = map_each(&NaiveBackend, words.chunks_mut(4).enumerate(), |(i, part)| {
            part.fill(i as u32 + 1);
            part.len()
        });
        assert_eq!((words, lengths), ([1, 1, 1, 1, 2, 2, 2, 2, 3, 3], vec![4, 4, 2]));
    }
}
