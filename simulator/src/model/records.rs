//! The state in pieces for a store: one record for each server and each task, and one for everything else.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::account::Account;
use super::server::Server;
use super::task::Task;
use super::{Config, World};
use crate::time::Timestamp;

/// Everything that changed since the store last took the changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Dirty {
    pub(super) meta: bool,
    pub(super) servers: BTreeSet<u64>,
    pub(super) tasks: BTreeSet<u64>,
}

impl Dirty {
    pub(super) fn of_a_new_world() -> Self {
        Self {
            meta: true,
            ..Self::default()
        }
    }
}

/// The state except servers and tasks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Meta {
    seed: u64,
    now: Timestamp,
    servers_made: u64,
    tasks_made: u64,
    accounts: Vec<Account>,
    sold_out: BTreeSet<String>,
}

/// One piece of the state. A later record with the same number replaces it.
#[derive(Clone, Debug)]
pub enum Record {
    /// The state except servers and tasks.
    Meta(Box<Meta>),
    /// A server, by its number.
    Server(u64, Box<Server>),
    /// A task, by its number.
    Task(u64, Box<Task>),
}

/// The records do not make a world.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The records come from a different seed than the requested one.
    #[error("the state was made from seed {found}, not {expected}")]
    Seed {
        /// The seed in the records.
        found: u64,
        /// The requested seed.
        expected: u64,
    },
}

impl World {
    /// The records that changed since the last call.
    pub fn take_changes(&mut self) -> Vec<Record> {
        let dirty = std::mem::take(&mut self.dirty);
        let mut records = Vec::with_capacity(dirty.servers.len() + dirty.tasks.len() + 1);
        if dirty.meta {
            records.push(Record::Meta(Box::new(Meta {
                seed: self.seed,
                now: self.now,
                servers_made: self.servers_made,
                tasks_made: self.tasks_made,
                accounts: self.accounts.clone(),
                sold_out: self.sold_out.clone(),
            })));
        }
        for number in dirty.servers {
            if let Some(server) = self.servers.get(&number) {
                records.push(Record::Server(number, Box::new(server.clone())));
            }
        }
        for number in dirty.tasks {
            if let Some(task) = self.tasks.get(&number) {
                records.push(Record::Task(number, Box::new(task.clone())));
            }
        }
        records
    }

    /// Restores a world from its records, with the durations and readings of `config`. Accounts and their tokens come from the
    /// records.
    ///
    /// # Errors
    /// The records come from another seed.
    pub fn restore(config: Config, records: Vec<Record>) -> Result<Self, RestoreError> {
        let mut world = Self::new(config);
        for record in records {
            match record {
                Record::Meta(meta) => {
                    if meta.seed != world.seed {
                        return Err(RestoreError::Seed {
                            found: meta.seed,
                            expected: world.seed,
                        });
                    }
                    world.now = meta.now;
                    world.servers_made = meta.servers_made;
                    world.tasks_made = meta.tasks_made;
                    world.accounts = meta.accounts;
                    world.sold_out = meta.sold_out;
                }
                Record::Server(number, server) => {
                    world.index(&server);
                    world.servers.insert(number, *server);
                }
                Record::Task(number, task) => {
                    if task.is_open() {
                        world.due.insert((task.due, number));
                    }
                    world.task_by_id.insert(task.id.clone(), number);
                    world.tasks.insert(number, *task);
                }
            }
        }
        world.dirty = Dirty::of_a_new_world();
        Ok(world)
    }
}
