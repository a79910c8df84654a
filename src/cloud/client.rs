//! The one client: an operation in, a value or an [`Error`] out.

use std::fmt;
use std::sync::Arc;

use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::answer::{Answer, Reading};
use super::call::{Call, Caller, Observer, check_endpoint};
use super::error::{BuildError, Error, Fault, Operation};
use super::gate::{Gate, Lane, Permit};
use super::ids::{Place, ServerId, TaskId};
use super::offers::{Firewall, Image, Key, Offer, Offers, Package, Region, Server};
use super::paths::Paths;
use super::transport::Http;
use super::wire::{
    Accepted, CreateAccepted, CreateRequest, Detail, Page, PasswordRequest, ReinstallRequest,
    TaskReport, receipt, task_id,
};
use crate::api::default_missing_codes;

/// Rows asked for in a page: the most that the service gives (field note 7).
pub(crate) const PAGE_SIZE: u32 = 50;

/// A client of the service for one endpoint and token. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    caller: Arc<Caller>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("endpoint", &self.caller.endpoint.as_str())
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client with the default reading of "no such instance" and no observer.
    ///
    /// # Errors
    /// The endpoint is no plain http or https URL, or the token fits in no header.
    pub fn new(
        http: Http,
        endpoint: &str,
        token: SecretString,
        paths: Paths,
        gate: Gate,
    ) -> Result<Self, BuildError> {
        let endpoint = check_endpoint(endpoint)?;
        let mut header =
            HeaderValue::from_str(token.expose_secret()).map_err(|_| BuildError::Token)?;
        if header.is_empty() {
            return Err(BuildError::Token);
        }
        header.set_sensitive(true);
        let caller = Caller {
            http,
            endpoint,
            token,
            header,
            paths,
            gate,
            missing_codes: default_missing_codes(),
            observer: None,
        };
        Ok(Self {
            caller: Arc::new(caller),
        })
    }

    /// Has each call told to an observer.
    #[must_use]
    pub fn with_observer(self, observer: Observer) -> Self {
        let caller = Caller {
            observer: Some(observer),
            ..Arc::unwrap_or_clone(self.caller)
        };
        Self {
            caller: Arc::new(caller),
        }
    }

    /// Replaces the fragments of error codes that mean "no such thing" (field note 20). Case does not matter.
    #[must_use]
    pub fn with_missing_codes(self, fragments: Vec<String>) -> Self {
        // An empty fragment would be found in every code.
        let missing_codes = fragments
            .into_iter()
            .filter(|fragment| !fragment.is_empty())
            .collect();
        let caller = Caller {
            missing_codes,
            ..Arc::unwrap_or_clone(self.caller)
        };
        Self {
            caller: Arc::new(caller),
        }
    }

    /// Where the service is.
    pub fn endpoint(&self) -> &str {
        self.caller.endpoint.as_str().trim_end_matches('/')
    }

    /// The gate that the calls of this client pass.
    pub fn gate(&self) -> &Gate {
        &self.caller.gate
    }

    /// Waits for leave to make one call. A mutating call takes it by value, so that the wait for the limit lies before
    /// the intent is recorded, and nothing lies between the record and the call.
    pub async fn permit(&self, lane: Lane) -> Permit {
        self.caller.gate.permit(lane).await
    }

    /// Section 4.3: details of one instance.
    ///
    /// # Errors
    /// See [`Error`]; an answer without an `instance` of that very id is an error that proves nothing.
    pub async fn detail(&self, lane: Lane, id: &ServerId) -> Result<Detail, Error> {
        let query = [("ecsResourceUUID", id.as_str())];
        let call = self.read(lane, Operation::Detail, &query).await;
        self.caller
            .run(call, |mut answer, reading| {
                let detail = Detail::read(&mut answer.body)
                    .filter(|detail| detail.id == *id)
                    .map(|detail| detail.without_secrets(reading.secrets));
                answer.result(detail, "it carries no such instance", reading)
            })
            .await
    }

    /// Field note 5: the result of a task.
    ///
    /// # Errors
    /// See [`Error`]; that the *task* failed is a report, not an error.
    pub async fn task(&self, lane: Lane, id: &TaskId) -> Result<TaskReport, Error> {
        let query = [("asyncTaskUUID", id.as_str())];
        let call = self.read(lane, Operation::Task, &query).await;
        self.caller.run(call, |mut answer, reading| {
            let report = TaskReport::read(&answer.body);
            if matches!(&report, Some(report) if report.state.is_final() && report.state != super::TaskState::Succeeded) {
                // The envelope of a failed task may deny success too: about the task, not about the query.
                answer.body.remove("success");
                answer.body.remove("httpStatus");
            }
            answer.result(report, "it carries no task", reading)
        })
        .await
    }

    /// Field note 7: one page of the instances of a place, from page 1.
    ///
    /// # Errors
    /// See [`Error`]; a page with a row that is no object is an error, since any row may be the one that matters.
    pub async fn instances_page(
        &self,
        lane: Lane,
        place: &Place,
        page: u32,
    ) -> Result<Page, Error> {
        let (page, size) = (page.to_string(), PAGE_SIZE.to_string());
        let query = [
            ("regionCode", place.region.as_str()),
            ("zoneCode", place.zone.as_str()),
            ("page", page.as_str()),
            ("pageSize", size.as_str()),
        ];
        let call = self.read(lane, Operation::Instances, &query).await;
        self.caller
            .run(call, |mut answer, reading| {
                let page = Page::read(&mut answer.body);
                answer.result(page, "it carries no instances", reading)
            })
            .await
    }

    /// The same, with each row whole: for showing. What a page proves about servers, [`Client::instances_page`] tells.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn servers_page(
        &self,
        lane: Lane,
        place: &Place,
        page: u32,
    ) -> Result<Offers<Server>, Error> {
        let query = [
            ("regionCode", place.region.as_str()),
            ("zoneCode", place.zone.as_str()),
        ];
        self.offers_page(lane, Operation::Instances, &query, page)
            .await
    }

    /// Field note 8: the regions, in one answer. One that is sold out may be missing.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn regions(&self, lane: Lane) -> Result<Offers<Region>, Error> {
        self.offers(lane, Operation::Regions, &[]).await
    }

    /// Section 4.8: the packages of a region, or of one zone of it, in one answer; none of elsewhere, whatever is served.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn packages(
        &self,
        lane: Lane,
        region: &str,
        zone: Option<&str>,
    ) -> Result<Offers<Package>, Error> {
        let mut query = vec![("regionCode", region)];
        query.extend(zone.map(|zone| ("zoneCode", zone)));
        let served = self.offers(lane, Operation::Packages, &query).await?;
        Ok(served.within(region, zone))
    }

    /// Section 4.6: one page of the images of a region, from page 1.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn images_page(
        &self,
        lane: Lane,
        region: &str,
        page: u32,
    ) -> Result<Offers<Image>, Error> {
        let query = [("regionCode", region)];
        self.offers_page(lane, Operation::Images, &query, page)
            .await
    }

    /// Section 4.5: one page of the security groups of a region, from page 1.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn firewalls_page(
        &self,
        lane: Lane,
        region: &str,
        page: u32,
    ) -> Result<Offers<Firewall>, Error> {
        let query = [("regionCode", region)];
        self.offers_page(lane, Operation::Firewalls, &query, page)
            .await
    }

    /// Section 4.7: one page of the key pairs of the account, from page 1.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn keys_page(&self, lane: Lane, page: u32) -> Result<Offers<Key>, Error> {
        self.offers_page(lane, Operation::Keys, &[], page).await
    }

    /// Section 4.7, for one row: the cheapest call that an account must be allowed to make. Tells only whether the
    /// service answers and takes the token.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn probe(&self, lane: Lane) -> Result<(), Error> {
        let query = [("page", "1"), ("pageSize", "1")];
        let call = self.read(lane, Operation::Keys, &query).await;
        self.caller
            .run(call, |answer, reading| {
                let keys = answer.body.get("sshKeys").and_then(Value::as_array);
                let answered = keys.map(|_| ());
                answer.result(answered, "it carries no key pairs", reading)
            })
            .await
    }

    /// Section 4.1: create an instance. Never repeated by itself.
    ///
    /// # Errors
    /// See [`Error`]; a success without both identifiers is an unknown outcome.
    pub async fn create(
        &self,
        permit: Permit,
        request: &CreateRequest,
    ) -> Result<CreateAccepted, Error> {
        let call = mutation(
            Operation::Create,
            request.body(),
            request.login.password(),
            permit,
        );
        self.caller
            .run(call, |answer, reading| {
                let receipt = receipt(&answer.body);
                answer.result(receipt, "it names no instance and task", reading)
            })
            .await
    }

    /// Field note 1: release an instance.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn release(&self, permit: Permit, id: &ServerId) -> Result<Accepted, Error> {
        self.plain(Operation::Release, permit, json!({ "ecsResourceUUID": id }))
            .await
    }

    /// Field note 3: start an instance.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn start(&self, permit: Permit, id: &ServerId) -> Result<Accepted, Error> {
        self.plain(Operation::Start, permit, json!({ "ecsResourceUUID": id }))
            .await
    }

    /// Field note 2: stop an instance, by force or not.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn stop(
        &self,
        permit: Permit,
        id: &ServerId,
        force: bool,
    ) -> Result<Accepted, Error> {
        self.plain(
            Operation::Stop,
            permit,
            json!({ "ecsResourceUUID": id, "forceStop": force }),
        )
        .await
    }

    /// Field note 4: restart an instance.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn restart(&self, permit: Permit, id: &ServerId) -> Result<Accepted, Error> {
        self.plain(Operation::Restart, permit, json!({ "ecsResourceUUID": id }))
            .await
    }

    /// Section 4.4: reinstall the operating system.
    ///
    /// # Errors
    /// See [`Error`]; a success without a task is an unknown outcome.
    pub async fn reinstall(
        &self,
        permit: Permit,
        request: &ReinstallRequest,
    ) -> Result<TaskId, Error> {
        let call = mutation(
            Operation::Reinstall,
            request.body(),
            request.login.password(),
            permit,
        );
        self.caller.run(call, task_answer).await
    }

    /// Section 4.2: set the password of the login account.
    ///
    /// # Errors
    /// See [`Error`]; a success without a task is an unknown outcome.
    pub async fn modify_password(
        &self,
        permit: Permit,
        request: &PasswordRequest,
    ) -> Result<TaskId, Error> {
        let call = mutation(
            Operation::ModifyPassword,
            request.body(),
            Some(request.password.expose_secret()),
            permit,
        );
        self.caller.run(call, task_answer).await
    }

    /// A call about one instance whose task may be missing from the answer: what it does shows in the listing.
    async fn plain(
        &self,
        operation: Operation,
        permit: Permit,
        body: Value,
    ) -> Result<Accepted, Error> {
        self.caller
            .run(
                mutation(operation, body, None, permit),
                |answer, reading| {
                    let task = task_id(&answer.body);
                    // An envelope field besides makes it an answer of the service and not any odd object.
                    let spoken = task.is_some()
                        || (answer.body.contains_key("httpStatus")
                            && !answer.body.contains_key("code"));
                    let denied =
                        task.is_none() && answer.body.get("success") == Some(&Value::Bool(false));
                    answer.result(
                        (spoken && !denied).then_some(Accepted { task }),
                        "it says nothing of acceptance",
                        reading,
                    )
                },
            )
            .await
    }

    async fn offers_page<T: Offer>(
        &self,
        lane: Lane,
        operation: Operation,
        query: &[(&str, &str)],
        page: u32,
    ) -> Result<Offers<T>, Error> {
        let (page, size) = (page.to_string(), PAGE_SIZE.to_string());
        let paging = [("page", page.as_str()), ("pageSize", size.as_str())];
        let query = [query, &paging].concat();
        self.offers(lane, operation, &query).await
    }

    async fn offers<T: Offer>(
        &self,
        lane: Lane,
        operation: Operation,
        query: &[(&str, &str)],
    ) -> Result<Offers<T>, Error> {
        let call = self.read(lane, operation, query).await;
        self.caller
            .run(call, |mut answer, reading| {
                let offers = Offers::read(&mut answer.body, reading.secrets);
                answer.result(offers, "it carries no such list", reading)
            })
            .await
    }

    async fn read<'a>(
        &self,
        lane: Lane,
        operation: Operation,
        query: &'a [(&'a str, &'a str)],
    ) -> Call<'a> {
        Call {
            operation,
            query,
            body: None,
            secret: None,
            permit: self.permit(lane).await,
        }
    }
}

fn mutation(operation: Operation, body: Value, secret: Option<&str>, permit: Permit) -> Call<'_> {
    Call {
        operation,
        query: &[],
        body: Some(body),
        secret,
        permit,
    }
}

fn task_answer(answer: Answer, reading: &Reading<'_>) -> Result<TaskId, Fault> {
    let task = task_id(&answer.body);
    answer.result(task, "it names no task", reading)
}

#[cfg(test)]
mod tests;
