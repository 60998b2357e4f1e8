use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use zeroize::Zeroizing;

use crate::conversation::Conversation;
use crate::{Client, ClientError, Fetches, Lookups};

/// A client lent to one conversation after another, for callers that cannot keep a borrow of it
/// between steps, such as callers in another language. The client returns when the conversation is
/// over or dropped.
pub struct Lender(Arc<Mutex<Option<Client>>>);

/// The client's part of a conversation.
type Script<'c, T> = Pin<Box<dyn Future<Output = Result<T, ClientError>> + Send + 'c>>;

/// A lent client, which returns when this is dropped.
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
        *self.home.lock() = self.client.take();
    }
}

impl Lender {
    /// Creates a lender that owns `client`.
    pub fn new(client: Client) -> Self {
        Self(Arc::new(Mutex::new(Some(client))))
    }

    /// Calls `read` with the client; `None` while the client is lent.
    pub fn read<T>(&self, read: impl FnOnce(&Client) -> T) -> Option<T> {
        self.0.lock().as_ref().map(read)
    }

    /// Starts [`Client::look_up_keys`]; `None` while the client is lent.
    pub fn look_up_keys(&self, keys: Vec<Zeroizing<Vec<u8>>>) -> Option<Conversation<'static, Lookups>> {
        self.lend(move |client| Box::pin(async move { client.values_of_keys(&slices(&keys)).await }))
    }

    /// Starts [`Client::look_up_indices`]; `None` while the client is lent.
    pub fn look_up_indices(&self, indices: Zeroizing<Vec<u64>>) -> Option<Conversation<'static, Lookups>> {
        self.lend(move |client| Box::pin(async move { client.values_at(&indices).await }))
    }

    /// Starts [`Client::fetch_keys`]; `None` while the client is lent.
    pub fn fetch_keys(&self, keys: Vec<Zeroizing<Vec<u8>>>) -> Option<Conversation<'static, Fetches>> {
        self.lend(move |client| Box::pin(async move { client.fetched_keys(&slices(&keys)).await }))
    }

    /// Starts [`Client::fetch_indices`]; `None` while the client is lent.
    pub fn fetch_indices(&self, indices: Zeroizing<Vec<u64>>) -> Option<Conversation<'static, Fetches>> {
        self.lend(move |client| Box::pin(async move { client.fetched_at(&indices).await }))
    }

    /// Lends the client to a conversation that runs `script`.
    fn lend<T: 'static>(
        &self,
        script: impl for<'c> FnOnce(&'c mut Client) -> Script<'c, T> + Send + 'static,
    ) -> Option<Conversation<'static, T>> {
        let client = self.0.lock().take()?;
        let mut loan = Loan { client: Some(client), home: Arc::clone(&self.0) };
        let lines = loan.client().lines().clone();
        Some(Conversation::new(lines, async move { script(loan.client()).await }))
    }
}

fn slices(keys: &[Zeroizing<Vec<u8>>]) -> Vec<&[u8]> {
    keys.iter().map(|key| &key[..]).collect()
}
