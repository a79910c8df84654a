//! The embedded store. A change is on disk before it is acknowledged.
//!
//! One thread writes. It takes all batches that have arrived meanwhile and commits them in one transaction, so that concurrent
//! calls cost one flush. Entries of the ledger that no caller waits for are written with the next batch, or after half a
//! second.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use tokio::sync::oneshot;

use crate::ledger::Entry;
use crate::model::Record;

const META: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("meta");
const SERVERS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("servers");
const TASKS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("tasks");
const LEDGER: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("ledger");

/// How long entries of the ledger may stay unwritten if no caller waits for them.
const LINGER: Duration = Duration::from_millis(500);

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be opened, read or written.
    #[error("the store does not work")]
    Database(#[from] redb::Error),
    /// A record in the file is not understood.
    #[error("a record of the store is not understood")]
    Record(#[from] serde_json::Error),
    /// The writing thread could not be started, or is gone.
    #[error("the store has stopped")]
    Stopped,
}

/// The changes of one step.
#[derive(Debug, Default)]
pub struct Batch {
    /// Records of the world.
    pub records: Vec<Record>,
    /// Entries of the ledger.
    pub entries: Vec<Arc<Entry>>,
}

/// Everything a store holds.
#[derive(Debug, Default)]
pub struct Contents {
    /// Records of the world; none in a new store.
    pub records: Vec<Record>,
    /// The entries of the ledger, in order.
    pub entries: Vec<Entry>,
}

struct Job {
    batch: Batch,
    done: Option<oneshot::Sender<bool>>,
}

/// The store, open for writing.
#[derive(Debug)]
pub struct Store {
    jobs: Option<Sender<Job>>,
    waiting: Arc<AtomicUsize>,
    writer: Option<JoinHandle<()>>,
}

/// A handle to wait until a batch is on disk.
#[derive(Debug)]
#[must_use]
pub struct Durable(Option<oneshot::Receiver<bool>>);

impl Durable {
    /// Already on disk: the wait returns true at once.
    pub const fn already() -> Self {
        Self(None)
    }

    /// Never on disk: the wait returns false at once.
    pub fn never() -> Self {
        Self(Some(oneshot::channel().1))
    }

    /// Waits until the batch is on disk; false if it cannot be written.
    pub async fn wait(self) -> bool {
        match self.0 {
            None => true,
            Some(done) => done.await.unwrap_or(false),
        }
    }
}

impl Store {
    /// Opens a file, creates it if necessary, and reads it.
    ///
    /// # Errors
    /// The file is not readable, not writable, in use by another process, or malformed.
    pub fn open(path: &Path) -> Result<(Self, Contents), StoreError> {
        let database = Database::create(path).map_err(redb::Error::from)?;
        write(&database, &[])?;
        let contents = read(&database)?;
        let (jobs, inbox) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let unfinished = Arc::clone(&waiting);
        let writer = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || run(&database, &inbox, &unfinished))
            .map_err(|_| StoreError::Stopped)?;
        Ok((
            Self {
                jobs: Some(jobs),
                waiting,
                writer: Some(writer),
            },
            contents,
        ))
    }

    /// Passes a batch to the writer, with a handle to wait for it. Batches are written in the order of these calls.
    pub fn put(&self, batch: Batch) -> Durable {
        let (done, waiter) = oneshot::channel();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.send(Job {
            batch,
            done: Some(done),
        });
        Durable(Some(waiter))
    }

    /// Passes a batch that no caller needs to wait for. Only if earlier batches are not written yet does the handle wait, since
    /// an answer may depend on them.
    pub fn put_lazily(&self, batch: Batch) -> Durable {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            return self.put(batch);
        }
        self.send(Job { batch, done: None });
        Durable::already()
    }

    fn send(&self, job: Job) {
        // If the writer has ended, it drops the job, and the handle returns false.
        if let Some(jobs) = &self.jobs {
            jobs.send(job).ok();
        }
    }
}

impl Drop for Store {
    /// Writes the remaining batches and closes the file.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(writer) = self.writer.take() {
            writer.join().ok();
        }
    }
}

fn run(database: &Database, inbox: &Receiver<Job>, waiting: &AtomicUsize) {
    // Once a write failed, nothing may be acknowledged: an earlier change is not on disk.
    let mut broken = false;
    while let Ok(first) = inbox.recv() {
        let mut jobs = vec![first];
        let begun = Instant::now();
        while jobs.last().is_some_and(|job| job.done.is_none()) {
            match inbox.recv_timeout(LINGER.saturating_sub(begun.elapsed())) {
                Ok(job) => jobs.push(job),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        jobs.extend(inbox.try_iter());
        if !broken && let Err(error) = write(database, &jobs) {
            tracing::error!(%error, source = ?std::error::Error::source(&error), "the store failed; nothing is acknowledged from now on");
            broken = true;
        }
        for job in jobs {
            if let Some(done) = job.done {
                waiting.fetch_sub(1, Ordering::SeqCst);
                done.send(!broken).ok();
            }
        }
    }
}

fn write(database: &Database, jobs: &[Job]) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().map_err(redb::Error::from)?;
    // After a crash, the file then opens at once, without a scan.
    transaction.set_quick_repair(true);
    write_into(&transaction, jobs)?;
    transaction.commit().map_err(redb::Error::from)?;
    Ok(())
}

fn write_into(transaction: &redb::WriteTransaction, jobs: &[Job]) -> Result<(), StoreError> {
    let open = |table| transaction.open_table(table).map_err(redb::Error::from);
    let (mut meta, mut servers, mut tasks) = (open(META)?, open(SERVERS)?, open(TASKS)?);
    let mut ledger = open(LEDGER)?;
    for batch in jobs.iter().map(|job| &job.batch) {
        for record in &batch.records {
            let (table, number, bytes) = match record {
                Record::Meta(record) => (&mut meta, 0, serde_json::to_vec(record)?),
                Record::Server(number, record) => {
                    (&mut servers, *number, serde_json::to_vec(record)?)
                }
                Record::Task(number, record) => (&mut tasks, *number, serde_json::to_vec(record)?),
            };
            table
                .insert(number, bytes.as_slice())
                .map_err(redb::Error::from)?;
        }
        for entry in &batch.entries {
            let bytes = serde_json::to_vec(entry.as_ref())?;
            ledger
                .insert(entry.seq, bytes.as_slice())
                .map_err(redb::Error::from)?;
        }
    }
    Ok(())
}

fn read(database: &Database) -> Result<Contents, StoreError> {
    let transaction = database.begin_read().map_err(redb::Error::from)?;
    let open = |table| transaction.open_table(table).map_err(redb::Error::from);
    let mut contents = Contents::default();
    for row in open(META)?.iter().map_err(redb::Error::from)? {
        let (_, bytes) = row.map_err(redb::Error::from)?;
        contents
            .records
            .push(Record::Meta(serde_json::from_slice(bytes.value())?));
    }
    for row in open(SERVERS)?.iter().map_err(redb::Error::from)? {
        let (number, bytes) = row.map_err(redb::Error::from)?;
        contents.records.push(Record::Server(
            number.value(),
            serde_json::from_slice(bytes.value())?,
        ));
    }
    for row in open(TASKS)?.iter().map_err(redb::Error::from)? {
        let (number, bytes) = row.map_err(redb::Error::from)?;
        contents.records.push(Record::Task(
            number.value(),
            serde_json::from_slice(bytes.value())?,
        ));
    }
    for row in open(LEDGER)?.iter().map_err(redb::Error::from)? {
        let (_, bytes) = row.map_err(redb::Error::from)?;
        contents
            .entries
            .push(serde_json::from_slice(bytes.value())?);
    }
    Ok(contents)
}
