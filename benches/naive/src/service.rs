//! The calls of this controller to the service: one request, one JSON object.

use reqwest::RequestBuilder;
use serde_json::{Map, Value, json};
use thiserror::Error;

/// The endpoint of an Account, and its token.
#[derive(Clone)]
pub struct Service {
    http: reqwest::Client,
    endpoint: String,
    token: String,
}

/// A failed call.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// There was no answer, or the answer was not JSON.
    #[error("the service gave no answer")]
    Transport(#[from] reqwest::Error),
    /// The service refused the call.
    #[error("the service refused it: {message} ({status} {code})")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The service's code.
        code: String,
        /// The service's message.
        message: String,
    },
    /// A success without the required field.
    #[error("the service's answer has no {0}")]
    Incomplete(&'static str),
}

impl ServiceError {
    /// Whether the instance does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status, code, .. }
            if *status == 404 || code.contains("NotFound") || code.contains("NotExist"))
    }
}

/// The state of a task.
pub enum Task {
    /// It is in progress.
    Running,
    /// It succeeded.
    Succeeded,
    /// It failed, with the service's message.
    Failed(String),
}

impl Service {
    /// The service at this endpoint, with this token.
    pub fn new(http: reqwest::Client, endpoint: &str, token: String) -> Self {
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        Self {
            http,
            endpoint,
            token,
        }
    }

    /// Buys a server; returns its identifier and the task that deploys it.
    pub async fn create(&self, package: Value) -> Result<(String, Option<String>), ServiceError> {
        let body = json!({ "packageConfig": package });
        let answer = self.post("/instance/create", &body).await?;
        let id = named(&answer, "ecsResourceUUID");
        let id = id.ok_or(ServiceError::Incomplete("ecsResourceUUID"))?;
        Ok((id, named(&answer, "asyncTaskUUID")))
    }

    /// Begins an operation on a server; returns its task.
    pub async fn begin(&self, path: &str, body: &Value) -> Result<Option<String>, ServiceError> {
        let answer = self.post(path, body).await?;
        Ok(named(&answer, "asyncTaskUUID"))
    }

    /// The state of a task.
    pub async fn task(&self, id: &str) -> Result<Task, ServiceError> {
        let query = [("asyncTaskUUID", id)];
        let answer = self.get("/asynctask/getResult", &query).await?;
        let result = named(&answer, "processResult").unwrap_or_default();
        Ok(match result.as_str() {
            "SUCCESS" => Task::Succeeded,
            "FAIL" | "CANCEL" => {
                let reasons = ["errorMessage", "failMessage", "remark", "message"];
                let reason = reasons.iter().find_map(|key| named(&answer, key));
                Task::Failed(reason.unwrap_or(result))
            }
            _ => Task::Running,
        })
    }

    /// The details of a server; none if it does not exist.
    pub async fn detail(&self, id: &str) -> Result<Option<Map<String, Value>>, ServiceError> {
        let query = [("ecsResourceUUID", id)];
        match self.get("/instance/detail", &query).await {
            Ok(mut answer) => match answer["instance"].take() {
                Value::Object(detail) => Ok(Some(detail)),
                _ => Err(ServiceError::Incomplete("instance")),
            },
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, ServiceError> {
        let request = self.http.get(format!("{}{path}", self.endpoint));
        self.send(request.query(query)).await
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value, ServiceError> {
        let request = self.http.post(format!("{}{path}", self.endpoint));
        self.send(request.json(body)).await
    }

    async fn send(&self, request: RequestBuilder) -> Result<Value, ServiceError> {
        let answer = request.header("x-open-token", &self.token).send().await?;
        let status = answer.status();
        let body: Value = answer.json().await?;
        let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
        // A refusal may have status 200. Then it has a code, or its success field is false.
        if status.is_success() && body["code"].is_null() && body["success"] != false {
            return Ok(body);
        }
        Err(ServiceError::Refused {
            status: status.as_u16(),
            code: text("code"),
            message: text("message"),
        })
    }
}

/// A text of an answer, nested in `asyncTaskInfo` or at the top level: both shapes occur.
fn named(answer: &Value, key: &str) -> Option<String> {
    let text = answer["asyncTaskInfo"][key].as_str();
    let text = text.or_else(|| answer[key].as_str());
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}
