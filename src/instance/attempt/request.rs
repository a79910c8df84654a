//! The request of a call. It may contain a password, so it is built right before the intent and dropped after the call.

use super::{Attempt, ServerAndTask, ServiceCall};
use crate::api::{Operation, PurchaseRecord, Verb, names};
use crate::cloud::{
    Client, CreateRequest, Error, FirewallId, ImageId, PackageCode, PasswordRequest, Permit,
    ReinstallRequest, ServerId, ServerLogin,
};
use crate::instance::login::LoginFact;
use crate::instance::outcome::Outcome;

pub(super) enum ServiceRequest {
    Create(CreateRequest),
    Reinstall(ReinstallRequest),
    ModifyPassword(PasswordRequest),
    Start(ServerId),
    Stop {
        id: ServerId,
        /// Cut the power instead of asking the operating system.
        force: bool,
    },
    Restart(ServerId),
    Release(ServerId),
}

impl ServiceRequest {
    pub(super) async fn send(
        &self,
        client: &Client,
        permit: Permit,
    ) -> Result<ServerAndTask, Error> {
        let (id, task) = match self {
            Self::Create(request) => {
                let accepted = client.create(permit, request).await?;
                return Ok((accepted.id, Some(accepted.task)));
            }
            Self::Reinstall(it) => (&it.server, Some(client.reinstall(permit, it).await?)),
            Self::ModifyPassword(it) => {
                (&it.server, Some(client.modify_password(permit, it).await?))
            }
            Self::Start(id) => (id, client.start(permit, id).await?),
            Self::Stop { id, force } => (id, client.stop(permit, id, *force).await?),
            Self::Restart(id) => (id, client.restart(permit, id).await?),
            Self::Release(id) => (id, client.release(permit, id).await?),
        };
        Ok((id.clone(), task))
    }
}

impl Attempt<'_> {
    pub(super) fn request(&self, start: &ServiceCall) -> Result<ServiceRequest, Outcome> {
        match start {
            ServiceCall::Create(record) => Ok(ServiceRequest::Create(self.purchase(record)?)),
            ServiceCall::Operate(operation) => self.operation(operation),
            ServiceCall::Release(id, _) => Ok(ServiceRequest::Release(id.clone())),
        }
    }

    fn purchase(&self, record: &PurchaseRecord) -> Result<CreateRequest, Outcome> {
        let facts = &self.observed.facts;
        Ok(CreateRequest {
            package: PackageCode::from(record.package.as_str()),
            place: facts.place(),
            name: names::server_name(&facts.key.name, &facts.marker),
            image: ImageId::from(record.target.image.as_str()),
            firewall: record.firewall.as_deref().map(FirewallId::from),
            login: self.login()?,
        })
    }

    fn operation(&self, operation: &Operation) -> Result<ServiceRequest, Outcome> {
        let facts = &self.observed.facts;
        let server = facts.id().ok_or(Outcome::Stale)?;
        let region = || facts.places.last().map(|place| place.region.clone());
        match operation.call() {
            Verb::Reinstall => Ok(ServiceRequest::Reinstall(ReinstallRequest {
                server,
                image: ImageId::from(operation.target.image.as_str()),
                region: region().ok_or(Outcome::Stale)?,
                login: self.login()?,
            })),
            Verb::ModifyPassword => match self.login()? {
                ServerLogin::Password(password) => {
                    Ok(ServiceRequest::ModifyPassword(PasswordRequest {
                        server,
                        region: region().ok_or(Outcome::Stale)?,
                        password,
                    }))
                }
                ServerLogin::Key { .. } => Err(Outcome::Stale),
            },
            Verb::Start => Ok(ServiceRequest::Start(server)),
            Verb::Stop => Ok(ServiceRequest::Stop {
                id: server,
                force: operation.power_cut,
            }),
            Verb::Restart => Ok(ServiceRequest::Restart(server)),
            Verb::Create | Verb::Release => Err(Outcome::Stale),
        }
    }

    fn login(&self) -> Result<ServerLogin, Outcome> {
        match &self.observed.login {
            LoginFact::Ready(credentials) => Ok(credentials.login.clone()),
            _ => Err(Outcome::Stale),
        }
    }
}
