//! The request of a call. It may contain a password, so it is built right before the intent and dropped after the call.

use super::{Attempt, ServerAndTask, ServiceCall};
use crate::api::{Applied, KeyLoginPassword, Verb, names};
use crate::cloud::{
    Client, CreateRequest, Error, FirewallId, ImageId, KeyId, PackageCode, PasswordRequest, Permit,
    ReinstallRequest, ServerId, ServerLogin, password,
};
use crate::instance::outcome::Outcome;
use crate::session::AccountSession;
use secrecy::SecretString;

pub(super) enum ServiceRequest {
    Create(CreateRequest),
    Reinstall(ReinstallRequest),
    ModifyPassword(PasswordRequest),
    Start(ServerId),
    /// `true`: cut the power instead of asking the operating system.
    Stop(ServerId, bool),
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
            Self::Stop(id, force) => (id, client.stop(permit, id, *force).await?),
            Self::Restart(id) => (id, client.restart(permit, id).await?),
            Self::Release(id) => (id, client.release(permit, id).await?),
        };
        Ok((id.clone(), task))
    }
}

impl Attempt<'_> {
    pub(super) async fn request(
        &self,
        call: &ServiceCall,
        session: &AccountSession,
    ) -> Result<ServiceRequest, Outcome> {
        let facts = &self.observed.facts;
        let operation = match call {
            ServiceCall::Create(record) => {
                return Ok(ServiceRequest::Create(CreateRequest {
                    package: PackageCode::from(record.package.as_str()),
                    place: facts.place(),
                    name: names::server_name(&facts.key.name, &facts.marker),
                    image: ImageId::from(record.target.image.as_str()),
                    firewall: record.firewall.as_deref().map(FirewallId::from),
                    login: self.login(&record.target, session).await?,
                }));
            }
            ServiceCall::Release(id, _) => return Ok(ServiceRequest::Release(id.clone())),
            ServiceCall::Operate(operation) => operation,
        };
        let server = facts.id().ok_or(Outcome::Stale)?;
        let region = facts.places.last().map(|place| place.region.clone());
        Ok(match operation.call() {
            Verb::Reinstall => ServiceRequest::Reinstall(ReinstallRequest {
                server,
                image: ImageId::from(operation.target.image.as_str()),
                region: region.ok_or(Outcome::Stale)?,
                login: self.login(&operation.target, session).await?,
            }),
            Verb::ModifyPassword => match self.login(&operation.target, session).await? {
                ServerLogin::Password(password) => {
                    ServiceRequest::ModifyPassword(PasswordRequest {
                        server,
                        region: region.ok_or(Outcome::Stale)?,
                        password,
                    })
                }
                ServerLogin::Key { .. } => return Err(Outcome::Stale),
            },
            Verb::Start => ServiceRequest::Start(server),
            Verb::Stop => ServiceRequest::Stop(server, operation.power_cut),
            Verb::Restart => ServiceRequest::Restart(server),
            Verb::Create | Verb::Release => return Err(Outcome::Stale),
        })
    }

    /// The login that the target names. If its Secret has another version by now, the plan must be made again.
    async fn login(
        &self,
        target: &Applied,
        session: &AccountSession,
    ) -> Result<ServerLogin, Outcome> {
        if let Some(key) = &target.key {
            return Ok(ServerLogin::Key {
                key: KeyId::from(key.as_str()),
                password: match session.spec().key_login_password {
                    KeyLoginPassword::Omit => None,
                    KeyLoginPassword::Empty => Some(SecretString::from("")),
                    KeyLoginPassword::Random => Some(password::generate()),
                },
            });
        }
        let secret = self.observed.facts.login();
        let planned = secret.zip(target.password_secret.as_ref());
        let (secret, version) = planned.ok_or(Outcome::Stale)?;
        let password = secret.password(&self.context.client, version).await;
        let password = password.map_err(|problem| Outcome::not_done(problem.to_string()))?;
        password.map(ServerLogin::Password).ok_or(Outcome::Stale)
    }
}
