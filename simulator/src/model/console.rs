//! What somebody does behind the interface's back: the console of the service.

use serde::{Deserialize, Serialize};

use super::World;
use super::reply::Effect;
use super::server::{Power, Server};

/// An action at the console. It is done at once, and whatever runs on the server is cancelled by it, but for `EndTask`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
#[allow(
    missing_docs,
    reason = "each acts on the server, or the region, that it names"
)]
pub enum Console {
    /// The server is gone.
    Release { server: String },
    /// The power is off.
    PowerOff { server: String },
    /// The power is on.
    PowerOn { server: String },
    /// The server is being migrated, until the power is set.
    Migrate { server: String },
    /// The server has another name.
    Rename { server: String, name: String },
    /// The server has another operating system.
    Rebuild { server: String, image: String },
    /// What runs on the server ends now as it was to end, also a task that never ends by itself.
    EndTask { server: String },
    /// The identifier of a released server is given away again: to a server of this name, deployed at once, in this
    /// account. All else of it is as it was.
    Recycle {
        server: String,
        account: String,
        name: String,
    },
    /// The region sells nothing and leaves the region list; its servers live on.
    SellOut { region: String },
    /// The region sells again.
    Restock { region: String },
}

/// The console does not know what it was told to act on.
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
                // What ends with it is told as the end of a task is.
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
            looks: 0,
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
