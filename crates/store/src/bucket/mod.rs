//! Buckets of S3 and Google Cloud Storage, and web servers, through the crate `object_store`.
//!
//! Credentials come from the environment, as `object_store` reads them. Messages do not include
//! that crate's errors, which quote signed addresses and response bodies: they give the status or
//! the fault of the last request.

mod transport;

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::LazyLock;

use object_store::aws::AmazonS3Builder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::{ClientConfigKey, ClientOptions, Error, ObjectStore};
use tokio::runtime::{Builder, Runtime};
use url::Url;

pub(crate) use self::transport::Fault;
use self::transport::{LastFault, Transport};

/// A bucket or a web server.
pub(crate) struct Bucket {
    store: Box<dyn ObjectStore>,
    last_fault: LastFault,
}

impl fmt::Debug for Bucket {
    // The store's own `Debug` output may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").finish_non_exhaustive()
    }
}

/// Runtime that drives requests while their callers block.
static RUNTIME: LazyLock<io::Result<Runtime>> =
    LazyLock::new(|| Builder::new_current_thread().enable_all().build());

impl Bucket {
    /// Creates a client of the bucket `host` in the cloud of `scheme`. The settings come from the
    /// environment.
    pub fn of_cloud(scheme: &str, host: &str) -> Result<Self, String> {
        let transport = Transport::default();
        let last_fault = transport.last_fault();
        let store: Option<Box<dyn ObjectStore>> = match scheme {
            "s3" => {
                let builder = AmazonS3Builder::from_env().with_bucket_name(host);
                builder.with_http_connector(transport).build().ok().map(|store| Box::new(store) as _)
            }
            "gs" => {
                let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(host);
                builder.with_http_connector(transport).build().ok().map(|store| Box::new(store) as _)
            }
            _ => return Err("addresses begin with s3://, gs:// or https://".into()),
        };
        let store = store
            .ok_or("its store cannot be set up; check the variables AWS_* or GOOGLE_* of the environment")?;
        Ok(Self { store, last_fault })
    }

    /// Creates a client of the web server at `url`. Every request sends the URL's query, which may
    /// be a signature.
    pub fn of_web(url: &Url) -> Result<Self, String> {
        let transport = Transport::default();
        let last_fault = transport.last_fault();
        let is_plain = url.scheme() == "http";
        let options = ClientOptions::new().with_config(ClientConfigKey::AllowHttp, is_plain.to_string());
        let builder = HttpBuilder::new().with_url(url.as_str()).with_client_options(options);
        let store = builder.with_http_connector(transport).build();
        Ok(Self { store: Box::new(store.map_err(|_| "it is no address of a web server")?), last_fault })
    }

    /// Returns the store, for requests to [`Bucket::ask`].
    pub fn store(&self) -> &dyn ObjectStore {
        &*self.store
    }

    /// Runs a request and returns its result.
    ///
    /// # Errors
    /// The fault of its last attempt; of kind [`io::ErrorKind::Unsupported`] if the server does not
    /// support ranges of this object.
    pub fn ask<T>(&self, request: impl Future<Output = Result<T, Error>>) -> io::Result<T> {
        let runtime = RUNTIME.as_ref().map_err(|error| io::Error::from(error.kind()))?;
        self.last_fault.set(None);
        runtime.block_on(request).map_err(|error| match (self.last_fault.get(), error) {
            (_, Error::NotSupported { .. }) => {
                io::Error::new(io::ErrorKind::Unsupported, "it gives no ranges")
            }
            (Some(fault), _) => fault.into(),
            (None, _) => io::Error::other("its server does not answer as a store of objects does"),
        })
    }
}
