use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zeroize::Zeroizing;

use crate::conversation::Conversation;
use crate::{Client, ClientError, Fetches, Lookups};

/// A client that is lent to one conversation after the other, for callers who cannot keep a borrow of it from one step to
/// the next, such as those of another language. It comes back when the conversation is over or dropped.
pub struct Lender(Arc<Mutex<Option<Client>>>);

/// What a client does in a conversation.
type Script<'c, T> = Pin<Box<dyn Future<Output = Result<T, ClientError>> + Send + 'c>>;

/// A client until it goes back.
struct Loan {
    client: Option<Client>,
    home: Arc<Mutex<Option<Client>>>,
}

impl Loan {
    fn client(&mut self) -> &mut Client {
        self.client.as_mut().expect("it is here until the loan is dropped")
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        *lock(&self.home) = self.client.take();
    }
}

// Whoever panicked while holding it has changed nothing.
fn lock(home: &Mutex<Option<Client>>) -> MutexGuard<'_, Option<Client>> {
    home.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lender {
    /// One who has this client.
    pub fn new(client: Client) -> Self {
        Self(Arc::new(Mutex::new(Some(client))))
    }

    /// What `read` makes of the client; `None` while it is lent.
    pub fn read<T>(&self, read: impl FnOnce(&Client) -> T) -> Option<T> {
        lock(&self.0).as_ref().map(read)
    }

    /// [`Client::look_up_keys`]; `None` while the client is lent.
    pub fn look_up_keys(&self, keys: Vec<Zeroizing<Vec<u8>>>) -> Option<Conversation<'static, Lookups>> {
        self.lend(move |client| Box::pin(async move { client.values_of_keys(&slices(&keys)).await }))
    }

    /// [`Client::look_up_indices`]; `None` while the client is lent.
    pub fn look_up_indices(&self, indices: Zeroizing<Vec<u64>>) -> Option<Conversation<'static, Lookups>> {
        self.lend(move |client| Box::pin(async move { client.values_at(&indices).await }))
    }

    /// [`Client::fetch_keys`]; `None` while the client is lent.
    pub fn fetch_keys(&self, keys: Vec<Zeroizing<Vec<u8>>>) -> Option<Conversation<'static, Fetches>> {
        self.lend(move |client| Box::pin(async move { client.fetched_keys(&slices(&keys)).await }))
    }

    /// [`Client::fetch_indices`]; `None` while the client is lent.
    pub fn fetch_indices(&self, indices: Zeroizing<Vec<u64>>) -> Option<Conversation<'static, Fetches>> {
        self.lend(move |client| Box::pin(async move { client.fetched_at(&indices).await }))
    }

    /// A conversation of the client, which goes back with its end.
    fn lend<T: 'static>(
        &self,
        script: impl for<'c> FnOnce(&'c mut Client) -> Script<'c, T> + Send + 'static,
    ) -> Option<Conversation<'static, T>> {
        let client = lock(&self.0).take()?;
        let mut loan = Loan { client: Some(client), home: Arc::clone(&self.0) };
        let lines = loan.client().lines().clone();
        Some(Conversation::new(lines, async move { script(loan.client()).await }))
    }
}

fn slices(keys: &[Zeroizing<Vec<u8>>]) -> Vec<&[u8]> {
    keys.iter().map(|key| &key[..]).collect()
}
