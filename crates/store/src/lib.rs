//! Ingest of tables, keyword index and hashed snapshots on disk.
