//! The console of the service: changes that are not made through the interface.

use serde::{Deserialize, Serialize};

use super::World;
use super::reply::Effect;
use super::server::{Power, Server};

/// An action at the console. It takes effect at once and cancels the task that runs on the server, except for `EndTask`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Console {
    /// Releases the server.
    Release { server: String },
    /// Powers the server off.
    PowerOff { server: String },
    /// Powers the server on.
    PowerOn { server: String },
    /// Migrates the server, until the power is set.
    Migrate { server: String },
    /// Renames the server.
    Rename { server: String, name: String },
    /// Installs another operating system on the server.
    Rebuild { server: String, image: String },
    /// Ends the task that runs on the server now, with its scripted result. This also ends a task that would never end.
    EndTask { server: String },
    /// Assigns the identifier of a released server again, to a server with this name in this account, which is deployed at
    /// once. All other properties are those of the released server.
    Recycle {
        server: String,
        account: String,
        name: String,
    },
    /// Stops selling in the region, which disappears from the region list; its servers keep running.
    SellOut { region: String },
    /// Sells in the region again.
    Restock { region: String },
}

/// The console does not know the target of the action.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the console knows no {what} {id}")]
pub struct ConsoleError {
    what: &'static str,
    id: String,
}

impl World {
    /// Acts at the console.
    ///
    /// # Errors
    /// There is no such live server, image or region.
    pub fn console(&mut self, action: Console) -> Result<Effect, ConsoleError> {
        let effect = match action {
            Console::Release { server } => {
                let number = self.at_console(&server)?;
                self.remove(number);
                Effect::Released { server }
            }
            Console::PowerOff { server } => {
                let number = self.at_console(&server)?;
                self.update(number, |each| each.power = Power::Stopped);
                Effect::Stopped { server }
            }
            Console::PowerOn { server } => {
                let number = self.at_console(&server)?;
                self.update(number, |each| each.power = Power::Started);
                Effect::Started { server }
            }
            Console::Migrate { server } => {
                let number = self.at_console(&server)?;
                self.update(number, |each| each.power = Power::Migrating);
                Effect::None
            }
            Console::Rename { server, name } => {
                let number = self.at_console(&server)?;
                self.update(number, |each| each.name.clone_from(&name));
                Effect::Renamed { server, name }
            }
            Console::Rebuild { server, image } => {
                if self.catalogue.image(&image).is_none() {
                    return Err(ConsoleError {
                        what: "image",
                        id: image,
                    });
                }
                let number = self.at_console(&server)?;
                self.update(number, |each| each.image.clone_from(&image));
                Effect::Reinstalled { server, image }
            }
            Console::EndTask { server } => {
                // The task's end is recorded as its own event.
                let number = self.live_number(&server)?;
                self.end_task_of(number);
                Effect::None
            }
            Console::Recycle {
                server,
                account,
                name,
            } => self.recycle(server, account, name)?,
            Console::SellOut { region } => self.set_sold_out(region, true)?,
            Console::Restock { region } => self.set_sold_out(region, false)?,
        };
        if !effect.is_none() {
            self.events.push(effect.clone());
        }
        Ok(effect)
    }

    fn recycle(
        &mut self,
        server: String,
        account: String,
        name: String,
    ) -> Result<Effect, ConsoleError> {
        let unknown = |what, id: &str| ConsoleError {
            what,
            id: id.to_owned(),
        };
        if self.accounts.iter().all(|each| each.name != account) {
            return Err(unknown("account", &account));
        }
        let former = self.record(&server).filter(|server| !server.is_live());
        let former = former.ok_or_else(|| unknown("released server", &server))?;
        let heir = Server {
            number: self.servers_made,
            account,
            name: name.clone(),
            power: Power::Started,
            task: None,
            pending: None,
            created_at: self.now,
            visible_at: self.now,
            addressed_at: self.now,
            released_at: None,
            reads: 0,
            ..former.clone()
        };
        self.servers_made += 1;
        self.dirty.meta = true;
        self.index(&heir);
        self.servers.insert(heir.number, heir);
        Ok(Effect::Created { server, name })
    }

    fn at_console(&mut self, id: &str) -> Result<u64, ConsoleError> {
        let number = self.live_number(id)?;
        self.cancel_task_of(number);
        Ok(number)
    }

    fn live_number(&self, id: &str) -> Result<u64, ConsoleError> {
        let live = self.record(id).filter(|server| server.is_live());
        let unknown = || ConsoleError {
            what: "server",
            id: id.to_owned(),
        };
        live.map(|server| server.number).ok_or_else(unknown)
    }

    fn set_sold_out(&mut self, region: String, sold_out: bool) -> Result<Effect, ConsoleError> {
        if self.catalogue.region(&region).is_none() {
            return Err(ConsoleError {
                what: "region",
                id: region,
            });
        }
        if sold_out {
            self.sold_out.insert(region);
        } else {
            self.sold_out.remove(&region);
        }
        self.dirty.meta = true;
        Ok(Effect::None)
    }
}
