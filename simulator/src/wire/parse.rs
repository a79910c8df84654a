//! Parses a raw request: finds its endpoint and decodes its content.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::RawRequest;
use super::endpoint::Endpoint;
use crate::model::{CreateRequest, ListRequest, Refusal, Request};

/// The reason why a request does not reach the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// The service knows the path and refuses the form of the request.
    Refused(Refusal),
    /// The simulator does not model the path.
    Unmodelled,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreateBody {
    package_config: Option<CreateRequest>,
}

/// Parses a request.
///
/// # Errors
/// The path is unknown, the method is wrong, or the body is not JSON of the right types.
pub fn parse(raw: &RawRequest) -> Result<(Endpoint, Request), Unserved> {
    let endpoint = Endpoint::at(&raw.path).ok_or(Unserved::Unmodelled)?;
    if raw.method != endpoint.method() {
        let message = format!("{} needs the method {}", raw.path, endpoint.method());
        return Err(Unserved::Refused(Refusal::new(
            405,
            "MethodNotAllowed.Error",
            message,
        )));
    }
    let request = match endpoint {
        Endpoint::Create => {
            let body: CreateBody = json(raw)?;
            let config = body.package_config;
            Request::Create(
                config.ok_or_else(|| Unserved::Refused(Refusal::missing("PackageConfig")))?,
            )
        }
        Endpoint::Release => Request::Release(json(raw)?),
        Endpoint::Stop => Request::Stop(json(raw)?),
        Endpoint::Start => Request::Start(json(raw)?),
        Endpoint::Restart => Request::Restart(json(raw)?),
        Endpoint::ModifyPassword => Request::Password(json(raw)?),
        Endpoint::Reinstall => Request::Reinstall(json(raw)?),
        Endpoint::Detail => Request::Detail {
            server: parameter(raw, "ecsResourceUUID"),
        },
        Endpoint::TaskResult => Request::TaskResult {
            task: parameter(raw, "asyncTaskUUID"),
        },
        Endpoint::InstanceList => Request::Instances(list(raw)),
        Endpoint::FirewallList => Request::Firewalls(list(raw)),
        Endpoint::ImageList => Request::Images(list(raw)),
        Endpoint::KeyList => Request::Keys(list(raw)),
        Endpoint::PackageList => Request::Packages(list(raw)),
        Endpoint::RegionList => Request::Regions,
    };
    Ok((endpoint, request))
}

fn json<T: DeserializeOwned>(raw: &RawRequest) -> Result<T, Unserved> {
    let kind = raw.content_type.as_deref().unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let message = "The request needs the header Content-Type: application/json";
        return Err(Unserved::Refused(Refusal::new(
            415,
            "InvalidContentType.NotSupported",
            message,
        )));
    }
    // The parser's message is omitted, since it may quote a password.
    serde_json::from_slice(&raw.body).map_err(|_| {
        Unserved::Refused(Refusal::malformed(
            "RequestBody",
            "The body is not the JSON that this path needs",
        ))
    })
}

fn parameter(raw: &RawRequest, name: &str) -> Option<String> {
    raw.query
        .iter()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.clone())
}

fn list(raw: &RawRequest) -> ListRequest {
    ListRequest {
        region: parameter(raw, "regionCode"),
        zone: parameter(raw, "zoneCode"),
        page: parameter(raw, "page"),
        page_size: parameter(raw, "pageSize"),
        image_kind: parameter(raw, "imageType"),
        package: parameter(raw, "packageCode"),
    }
}
