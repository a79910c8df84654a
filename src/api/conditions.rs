//! Conditions, as kstatus and people read them: `Ready` always, and `Reconciling`, `Stalled` and `Drifted` only while
//! they are true (design section 7). Every reason has a meaning and a remedy, from which `docs/conditions.md` and `docs/reasons/`
//! are made.

use super::printable;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize as _, Deserializer};
use serde_json::{Value, json};

/// The desired state is reached, also when that state is Stopped.
pub const READY: &str = "Ready";
/// Something is being done, or waited for.
pub const RECONCILING: &str = "Reconciling";
/// Somebody has to mend something: nothing shows that waiting helps. Most of it is tried again all the same, slowly.
pub const STALLED: &str = "Stalled";
/// The server differs from the spec in a way that only a human may resolve.
pub const DRIFTED: &str = "Drifted";

/// What status tells of the server was confirmed lately; false where the server could not be looked at for five minutes, or where
/// there is nobody to ask.
pub const SYNCED: &str = "Synced";

/// The service expires the server within a week, or has expired it. A warning: the server may run all the same.
pub const EXPIRING: &str = "Expiring";

/// The operator may do what it must not, on an Account: nothing is kept from working by it.
pub const UNSAFE_RIGHTS: &str = "UnsafeRights";
/// The Account's token goes over the network in the clear. A warning: it says nothing of whether the Account can be used.
pub const INSECURE_ENDPOINT: &str = "InsecureEndpoint";

/// Every type above: the operator writes and removes conditions of these types. One of another type is another controller's.
pub const OWN_TYPES: [&str; 8] = [
    READY,
    RECONCILING,
    STALLED,
    DRIFTED,
    SYNCED,
    EXPIRING,
    UNSAFE_RIGHTS,
    INSECURE_ENDPOINT,
];

/// Longest message of a condition, in characters: the service's words are cut to this.
const MESSAGE_MAX: usize = 1024;

macro_rules! reasons {
    ($($variant:ident: $meaning:literal, $remedy:literal;)*) => {
        /// Why a condition has its status. The names are a public interface.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $(#[doc = $meaning] $variant,)*
        }

        impl Reason {
            /// Every reason, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The word that stands in a condition.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant),)* }
            }

            /// What it says about the world.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }

            /// The first sentence of its meaning, without the full stop.
            pub fn gist(self) -> &'static str {
                let meaning = self.meaning();
                let first = meaning.split_once(". ").map_or(meaning, |(first, _)| first);
                first.trim_end_matches('.')
            }

            /// What a person can do about it.
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)* }
            }
        }
    };
}

reasons! {
    Pending:
        "The operator has not looked at the object yet. The apiserver itself shows this reason, so that an object has conditions from its first moment on.",
        "Wait some seconds. If it stays, see whether the operator runs, and whether it serves the object's namespace.";
    Available:
        "The server is as the spec describes it.",
        "Nothing to do.";
    Creating:
        "The service is creating the server.",
        "Wait; the service's task is polled.";
    CreateUnconfirmed:
        "It is not known whether a create was carried out: it had no answer, or one that settles nothing (a 5xx). The server is looked for by its name, and nothing is bought until it is proven absent.",
        "Wait for the Account's settleSeconds and two listings. Where the token was changed meanwhile, do what the message says.";
    LookingForServer:
        "Before anything is bought, the service's listing is read for a server that this Instance already has.",
        "Wait for two listings. If it stays, look at the Account: the listing cannot be read.";
    BoughtElsewhere:
        "The record on the Instance is from another cluster. The service lists the server that it names, and no Instance of this cluster has that server: the fleet may be on the move. Another server is bought for this Instance after five minutes.",
        "To keep the server, set spec.import.id to it, or stop the operator of the other cluster and run this one with --cluster-id of that cluster. To have another server at once, remove the annotation cloudserver.dev/binding.";
    Importing:
        "The server that spec.import names is being looked for and looked at. Nothing is bought.",
        "Wait for one listing. If it stays, read the message.";
    ImportNotFound:
        "The service lists no server in the Instance's zone that spec.import describes. Nothing is bought instead.",
        "Mend spec.import, spec.region or spec.zone, or the Account: status.unowned of the Account names servers that can be imported. Without spec.import a server is bought.";
    ImportAmbiguous:
        "More than one server fits what spec.import says, or may fit as far as the listing tells. Nothing is taken over.",
        "Narrow spec.import, or name the one that is meant in spec.import.id; the message lists them.";
    ImportConflict:
        "The server that spec.import describes belongs to another Instance. Nothing is done to it, and nothing is released with this Instance.",
        "Import another one, or delete the Instance that the message names and keep its server, or delete this one.";
    ImportDiffers:
        "The server that spec.import describes is not as the spec says. Nothing is taken over.",
        "Set the spec to what the message says that the server has.";
    ImportDenied:
        "spec.import asks for a server that exists, and the Account does not let its Instances import any. The server is not looked for, and nothing is bought instead.",
        "Set spec.imports: Allowed in the Account, where whoever may create Instances in its namespace may have every server of its token that no Instance has, also those of other namespaces with the same token. Otherwise delete the Instance, or take spec.import out to have a server bought.";
    Reinstalling:
        "The service is reinstalling the server's operating system, as the spec asked; its disk is erased.",
        "Wait; the service's task is polled.";
    ChangingPassword:
        "The service is setting the password that the login Secret holds now.",
        "Wait; the service's task is polled.";
    Starting:
        "The service is starting the server.",
        "Wait; the service's task is polled.";
    Stopping:
        "The service is stopping the server.",
        "Wait; the service's task is polled.";
    Restarting:
        "The service is restarting the server, as spec.restart.token asked.",
        "Wait; the service's task is polled.";
    OperationFailed:
        "An operation failed at the service, or it is not known whether it was carried out and the server does not show it; it is tried again.",
        "Read the service's words in the message. After three failures in a row the Instance is Stalled and tried again slowly.";
    OperationRefused:
        "The service refused an operation; nothing was done.",
        "Mend what the message names, in the spec or at the service. It is tried again when the spec changes, and slowly without that.";
    OutcomeUnknown:
        "It is not known whether an operation was carried out, and nothing at the service tells; repeating it might do it twice.",
        "Look at the server. A new spec.reinstall.token asks again; taking back what asked for it (spec.image, spec.login or the token) asks for nothing.";
    WaitingForService:
        "The spec was changed. Before that is acted upon the service has to be asked, and it has not answered yet.",
        "Wait; it goes on by itself. If it stays, read the message and look at the Account.";
    ServiceBusy:
        "The service cannot do it now: another operation holds the server, or something is not in the state that it needs.",
        "Wait; it is tried again by itself.";
    CreateFailed:
        "The service took the create and its task failed; what it left behind is released and the create is tried again.",
        "Read the service's words in the message. After three failures in a row the Instance is Stalled and tried again slowly.";
    CreateRefused:
        "The service refused the create; nothing was bought.",
        "Mend what the message names (image, package, firewall, key, name, quota, account), in the spec or at the service. It is tried again when the spec changes, and slowly without that.";
    Releasing:
        "The Instance is being deleted: its server is being released and its absence confirmed.",
        "Wait; the finalizer leaves when the service confirms.";
    ReleaseUnconfirmed:
        "The server is said to be gone, but nothing shows that the token still belongs to the account that bought it.",
        "Give the Account a token of the account that bought the server. If the console shows the server gone, remove the finalizer cloudserver.dev/release by hand.";
    ServerMissing:
        "The service does not know the recorded server any more. Nothing is bought in its place.",
        "Delete the Instance and apply it again, without spec.import, to get a new server.";
    ServerUnobserved:
        "The server is recorded, and its detail could not be read: it has not been seen yet. In Synced: neither its detail nor a listing of its zone told for five minutes whether it is there.",
        "Wait; if it stays, read the message and look at the Account.";
    ImageDiffers:
        "The server's image was changed at the service. Nothing is erased because of that.",
        "Set spec.image.id to the server's image to accept it. A new spec.reinstall.token, or another image, has the server reinstalled.";
    PurchaseDiffers:
        "The spec was edited between the purchase and the first status: package, firewall, place or Account are not those that were bought.",
        "Set the spec back. For another server, add an Instance with another name.";
    PowerStateDiffers:
        "The server has been for 15 minutes in a state that the operator does not know, or its power does not stay as the spec wants it.",
        "Look at the server at the service, and who or what changes its power; or set spec.powerState to Unmanaged.";
    NameDiffers:
        "The server was renamed at the service. Where its name does not end in the Instance's marker any more, nothing is done to it.",
        "Give it back the name that the message tells.";
    OperationOverdue:
        "An operation takes longer than such operations take.",
        "Look at the service's console. It is followed all the same, slowly.";
    OperationPending:
        "The service is busy with an operation on the server that this operator did not start, or shows the server in a state that the operator does not know. The operator changes nothing meanwhile.",
        "Wait until the service is done. A state that the operator does not know becomes PowerStateDiffers after 15 minutes.";
    ReferenceNotFound:
        "The service lists nothing that is what the spec asks for by name or filter. Nothing is called.",
        "Choose one of the candidates in the message, or make the thing at the service; it is looked up again by itself.";
    ReferenceAmbiguous:
        "The service lists several things that are what the spec asks for by name. Nothing is called.",
        "Narrow the selector, or name one of the candidates in the message by its id.";
    ReferenceUnread:
        "What the spec asks for by name or filter could not be looked up.",
        "Wait; it is tried again by itself. If it stays, read the message and look at the Account.";
    AccountLimitReached:
        "As many Instances of the Account have a server, or are about to have one, as its spec.maxInstances allows. Nothing is bought for this one until one of them is gone.",
        "Delete an Instance that is not needed, or raise spec.maxInstances of the Account; it goes on by itself.";
    CreateRateReached:
        "As many creates were sent for the Account within a minute as its spec.createRate.perMinute allows. One that the service refused does not count, and one whose outcome is not known does.",
        "Wait; it goes on by itself. If it was not you who made so many Instances, find out what makes them.";
    RequestLimitReached:
        "What the Instance needs has to wait: as many requests as the Account's spec.requests allows are under way, or the service answers them slowly. Changes of servers go first, then purchases and running operations, then looks at what nobody changed.",
        "Wait; it goes on by itself. If it lasts, raise spec.requests of the Account as far as the service allows, or look at the service.";
    AccountPending:
        "The operator has not looked at the Account yet: its service has not answered the first request.",
        "Wait; it is told within half a minute whether the Account can be used.";
    AccountNotFound:
        "The Account that the Instance names does not exist in its namespace.",
        "Create the Account. As long as the Instance has no server, spec.accountRef can name another one.";
    TokenNotFound:
        "The Secret or the key in it that holds the Account's token does not exist or is empty.",
        "Create the Secret with the key that spec.tokenSecretRef names.";
    SecretNotConsented:
        "The Secret that the Account names does not say that it may be used so: whoever may create Accounts must not be able to have any Secret sent to any place.",
        "If the Secret is meant for it, have somebody who may write it run the command in the message, which labels it cloudserver.dev/use: token (or client-certificate). It goes on by itself. Otherwise name another Secret.";
    SecretBoundElsewhere:
        "The Secret that the Account names is for other endpoints than the Account's, or not for its proxy: its annotation cloudserver.dev/endpoint says so, or cannot be read.",
        "Mend spec.endpoint or spec.proxy of the Account, or have somebody who may write the Secret mend its annotation cloudserver.dev/endpoint. It goes on by itself.";
    TokenInvalid:
        "What the Account's Secret holds as the token is no text that a header can carry.",
        "Put the token into the Secret, without line feeds or control characters in it.";
    TokenRefused:
        "The service does not take the Account's token.",
        "Put a valid token into the Secret; it is read again when it changes.";
    AccountNotNormal:
        "The service refuses operations for this account, since its status is not normal. The Account is not Ready until the service takes such an operation again, or for ten minutes after the last refusal; all else goes on.",
        "Settle the account's status at the service (payment, verification); it is tried again by itself.";
    RateLimited:
        "The service asks for fewer requests. They wait as long as it asks for, ten minutes at most, or for a second to a minute where it names no time; then they go on, fewer at first. An Account says so once no listing came through for two and a half minutes, or none ever did, and until a request is answered.",
        "Nothing to do; lower spec.requests of the Account if it happens often.";
    EndpointInvalid:
        "The Account's endpoint, its proxy or one of its paths is not usable.",
        "Mend spec.endpoint, spec.proxy or spec.paths of the Account.";
    EndpointNotAllowed:
        "The operator runs with --allowed-endpoint, and the Account's endpoint or proxy is none of those that it allows. Nothing is sent there.",
        "Mend spec.endpoint or spec.proxy of the Account, or have whoever runs the operator add the flag that the message names.";
    AddressRefused:
        "The Account's endpoint or proxy is an internal address, or its name resolves to nothing else: loopback, link-local, a metadata service, multicast. No connection was opened.",
        "Mend spec.endpoint or spec.proxy of the Account. Where the address is meant, have whoever runs the operator add the flag that the message names.";
    CaBundleNotFound:
        "The ConfigMap or Secret, or the key in it, that holds the Account's CA bundle does not exist.",
        "Create it, or mend spec.tls.caBundle of the Account.";
    CaBundleInvalid:
        "The Account's CA bundle cannot be used. Nothing is sent: the system's authorities do not take its place.",
        "Put certificates of authorities in PEM there, one of them still valid; they are read again when they change.";
    ConfigMapUnread:
        "A ConfigMap could not be read.",
        "Allow the operator's ServiceAccount to get ConfigMaps in this namespace; it is tried again by itself.";
    ClientCertificateNotFound:
        "The Secret that holds the Account's client certificate, or one of its keys tls.crt and tls.key, does not exist.",
        "Create the Secret with both keys, or mend spec.tls.clientCertificateSecretRef of the Account.";
    ClientCertificateInvalid:
        "The Account's client certificate cannot be used: it is out of its time, no PEM, or its key is another's.",
        "Put a valid certificate and its own private key into the Secret; they are read again when they change.";
    PlainHttp:
        "The Account's endpoint is http: whoever sees or changes what passes on the way has the token, and the login passwords.",
        "Set spec.endpoint to an https address, with spec.tls.caBundle where its certificate is of an authority of your own.";
    ServiceUnreachable:
        "The service cannot be reached or does not answer as it should. status.unreachableSince of the Account says since when.",
        "Check spec.endpoint, the network and the service; it is tried again by itself, at least every 20 s.";
    LoginSecretNotFound:
        "The Secret or the key in it that holds the login password does not exist.",
        "Create the Secret with the key that spec.login.passwordSecretRef names.";
    SecretUnread:
        "A Secret could not be read.",
        "Allow the operator's ServiceAccount to get Secrets in this namespace; it is tried again by itself.";
    WriteRefused:
        "The apiserver refuses what the operator has to write on the object.",
        "Read the message: an admission policy or missing permission stands in the way. It is tried again by itself.";
    SecretNotOurs:
        "A Secret of the name that the operator is to write exists and does not belong to this Instance. It is neither used nor changed.",
        "Name another Secret in the spec, or use this one by spec.login.passwordSecretRef. If it was made for this Instance, and a backup brought it back without its labels, hand it over by the command in the message: its password stays. Do not delete it before you know that no server has the password in it.";
    SecretNotWritable:
        "The apiserver does not let the operator write a Secret: a quota, an admission policy or webhook, or a missing right stands in the way. The message quotes the apiserver, which names it.",
        "Quota: raise the ResourceQuota, or delete Secrets that are not needed. Policy or webhook: have it admit the Secret, or give the Secret what it asks for by template in the spec. Missing right: apply deploy/secret-writer (for one namespace, take deploy/one-namespace/secret-writer into deploy/namespaced/kustomization.yaml), or name an existing Secret in spec.login.passwordSecretRef. Where the message says that the operator may do too much, or where a policy of this operator refuses, apply deploy/shared. The operator tries again by itself.";
    LoginPasswordInvalid:
        "The login password does not meet the service's rules.",
        "8 to 30 characters with at least one of A-Z, one of a-z, one digit, and exactly one of ( ) ~ ! @ # $ * - + = { } [ ] : ; , . ? / If the service takes several of them, set spec.passwordSpecialCharacters of the Account to AtLeastOne.";
    BindingInvalid:
        "The annotation cloudserver.dev/binding was edited, or the server was renamed: the record cannot be read, or names a server that does not bear this Instance's name. Nothing is bought or released while it stands.",
        "Restore the annotation from a backup, or remove it: the record is then rebuilt from status.id and the server's name. While the Instance is being deleted, a server that does not bear its name is left where it is once the annotation is removed.";
    Undecodable:
        "This version of the operator cannot read the object: a newer version wrote it. Nothing is done about it.",
        "Install the version that wrote it, or mend the field that the message names.";
    ReinstallPending:
        "The spec asks for a reinstall, which erases the disk, and spec.reinstallPolicy is OnRequest: it waits until somebody acknowledges it. Power and password are kept as the spec says meanwhile.",
        "To erase the disk and reinstall, set a new spec.reinstall.token and spec.reinstall.image to the image of the spec. To keep the disk, set image, login and token back.";
    ReinstallForbidden:
        "The spec asks for a reinstall, which erases the disk, and spec.reinstallPolicy is Never.",
        "To keep the disk, set image, login and token back. To erase it, set spec.reinstallPolicy to OnRequest or Automatic.";
    DeletionProtected:
        "The Instance was deleted while spec.deletionProtection is true: its server is kept, and the Instance stays until that is settled.",
        "To release the server, set spec.deletionProtection to false. To let the Instance go and keep the server, set spec.deletionPolicy to Retain before that.";
    ObservedOnly:
        "spec.managementPolicy is Observe, and the server is not as the spec describes it, or there is a second one. Nothing is changed.",
        "Set the spec to what the server is, change the server at the service, or set spec.managementPolicy to Manage.";
    NotBought:
        "spec.managementPolicy is Observe, and this Instance has no server. None is bought.",
        "Set spec.managementPolicy to Manage to have one bought, or delete the Instance.";
    Paused:
        "spec.pause holds the Instance: nothing is begun, bought, changed or released, and a deletion waits.",
        "Take spec.pause out of the spec, or wait for its time.";
    RecreateLimitReached:
        "Somebody else released the server, and spec.recreateLimit allows no further purchase in its place.",
        "Find out who released it. Then raise spec.recreateLimit, or delete the Instance and apply it again.";
    ListingSuspect:
        "Many known servers vanished from the service's listing at once. Nothing is bought or released until that is explained.",
        "Check that the token belongs to the right account. It clears when the servers show again, or when the service confirms for each that it is gone.";
    ExpiresSoon:
        "The server is paid in advance, and the service expires it within a week. status.expireTime says when, with the time zone of spec.utcOffset of the Account.",
        "Renew the server at the service; the operator cannot. The condition clears when the service shows another time.";
    Expired:
        "The time until which the server is paid in advance has passed. The service may keep the server for a few days and then destroys it.",
        "Renew the server at the service if it is still there. To buy another one when it is destroyed, set spec.onExternalDeletion to Recreate.";
    NotRefused:
        "The operator tried by dry runs, which change nothing, what its ServiceAccount must not be allowed, and the apiserver would have done it. The condition UnsafeRights of the Account says what. Whoever gets hold of the operator's token could do the same. All works, but that no new Secrets are made for Instances meanwhile.",
        "Have a cluster administrator apply deploy/shared, whose policy (Kubernetes 1.30 or newer) forbids it, or take the roles away that allow it. It clears by itself within a minute.";
}

/// The schema's default of a status: what the apiserver shows until the operator has written one. It costs no write.
pub fn unwritten() -> Value {
    json!({
        "observedGeneration": -1,
        "conditions": [{
            "type": READY,
            "status": "Unknown",
            "reason": Reason::Pending.as_str(),
            "message": "the operator has not looked at the object yet",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        }],
    })
}

/// Reads a list of conditions: the default alone reads as none.
pub(super) fn written<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Condition>, D::Error> {
    let mut all = Vec::<Condition>::deserialize(from)?;
    if matches!(&all[..], [only] if only.type_ == READY && only.reason == Reason::Pending.as_str())
    {
        all.clear();
    }
    Ok(all)
}

/// What ought to be mended and keeps nothing from working: a condition of its own, which stands only while it is true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Type of the condition.
    pub type_: &'static str,
    /// Why.
    pub reason: Reason,
    /// A sentence for people, as in [`Readiness`].
    pub message: String,
}

impl Warning {
    /// The condition that says it. The transition time is kept from `former` where it stood there.
    pub fn to_condition(&self, former: &[Condition], generation: i64, now: Timestamp) -> Condition {
        condition(
            (self.type_, "True"),
            self.reason,
            &self.message,
            former,
            generation,
            now,
        )
    }
}

/// Whether what status tells was confirmed lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Synced {
    /// It was.
    Yes,
    /// It was not, for this reason, with a sentence for people.
    No(Reason, String),
}

impl Synced {
    /// The condition that says it. The transition time is kept from `former` where it stood there.
    pub fn to_condition(&self, former: &[Condition], generation: i64, now: Timestamp) -> Condition {
        let (status, reason, message) = match self {
            Self::Yes => (
                "True",
                Reason::Available,
                "the service told lately whether the server is there",
            ),
            Self::No(reason, message) => ("False", *reason, message.as_str()),
        };
        condition((SYNCED, status), reason, message, former, generation, now)
    }
}

/// What is to stand in the conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// How things stand.
    pub state: State,
    /// Why.
    pub reason: Reason,
    /// A sentence for people: names the thing and what to do; no clocks, counters or request ids.
    pub message: String,
}

/// How an object stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Ready=True.
    Ready,
    /// Ready=False, Reconciling=True: waiting helps.
    Reconciling,
    /// Ready=False, Stalled=True: somebody has to mend something.
    Stalled,
    /// Ready=False, Stalled=True, Drifted=True: only a human may resolve it.
    Drifted,
}

impl Reason {
    /// The reason of this name.
    pub fn of(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|reason| reason.as_str() == name)
    }

    /// Whether the service said no to a call, and will for a while: it may be asked again, but not in seconds.
    pub fn is_lasting_refusal(self) -> bool {
        matches!(
            self,
            Self::CreateRefused
                | Self::OperationRefused
                | Self::TokenRefused
                | Self::AccountNotNormal
                | Self::ServiceBusy
        )
    }
}

impl Readiness {
    /// The desired state is reached.
    pub fn ready(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            state: State::Ready,
            reason,
            message: message.into(),
        }
    }

    /// Something is being done or waited for.
    pub fn reconciling(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            state: State::Reconciling,
            reason,
            message: message.into(),
        }
    }

    /// Somebody has to mend something.
    pub fn stalled(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            state: State::Stalled,
            reason,
            message: message.into(),
        }
    }

    /// The server differs from the spec and only a human may resolve it.
    pub fn drifted(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            state: State::Drifted,
            reason,
            message: message.into(),
        }
    }

    /// The conditions that say it: the message in Ready, the first sentence of the reason's meaning in the others. Transition
    /// times are kept from `former` where the status value is the same.
    pub fn to_conditions(
        &self,
        former: &[Condition],
        generation: i64,
        now: Timestamp,
    ) -> Vec<Condition> {
        let wanted: &[(&str, &str)] = match self.state {
            State::Ready => &[(READY, "True")],
            State::Reconciling => &[(READY, "False"), (RECONCILING, "True")],
            State::Stalled => &[(READY, "False"), (STALLED, "True")],
            State::Drifted => &[(READY, "False"), (STALLED, "True"), (DRIFTED, "True")],
        };
        wanted
            .iter()
            .map(|&what| {
                // The message stands once; whoever reads one of the others alone is told enough to go by.
                let message = match what.0 {
                    READY => self.message.clone(),
                    _ => format!("{}; see condition {READY}", self.reason.gist()),
                };
                condition(what, self.reason, &message, former, generation, now)
            })
            .collect()
    }
}

fn condition(
    (type_, status): (&str, &str),
    reason: Reason,
    message: &str,
    former: &[Condition],
    generation: i64,
    now: Timestamp,
) -> Condition {
    let message = printable(message);
    let mut cut: String = message.chars().take(MESSAGE_MAX).collect();
    if cut.len() < message.len() {
        cut.push('…');
    }
    let since = former
        .iter()
        .find(|c| c.type_ == type_ && c.status == status);
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.as_str().to_owned(),
        message: cut,
        observed_generation: Some(generation),
        last_transition_time: since.map_or(Time(now), |c| c.last_transition_time.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transition_time_moves_only_with_the_status() {
        let t0 = Timestamp::UNIX_EPOCH;
        let t1 = Timestamp::from_second(60).unwrap();
        let waiting = Readiness::reconciling(Reason::Creating, "a").to_conditions(&[], 1, t0);
        let still = Readiness::reconciling(Reason::Releasing, "b").to_conditions(&waiting, 2, t1);
        assert!(
            still
                .iter()
                .all(|c| c.last_transition_time.0 == t0 && c.reason == "Releasing")
        );
        let ready = Readiness::ready(Reason::Available, "").to_conditions(&still, 2, t1);
        assert_eq!(
            ready.len(),
            1,
            "abnormal conditions stand only while they are true"
        );
        assert_eq!(
            (ready[0].status.as_str(), ready[0].last_transition_time.0),
            ("True", t1)
        );
    }

    #[test]
    fn a_message_stands_once_and_the_other_conditions_point_to_it() {
        let message = "create was refused with 404: mend spec.image.id (img-1)";
        let of = |readiness: Readiness| readiness.to_conditions(&[], 1, Timestamp::UNIX_EPOCH);
        for (told, types) in [
            (
                of(Readiness::stalled(Reason::CreateRefused, message)),
                [READY, STALLED].as_slice(),
            ),
            (
                of(Readiness::reconciling(Reason::CreateRefused, message)),
                &[READY, RECONCILING],
            ),
            (
                of(Readiness::drifted(Reason::CreateRefused, message)),
                &[READY, STALLED, DRIFTED],
            ),
        ] {
            let found: Vec<&str> = told.iter().map(|c| c.type_.as_str()).collect();
            assert_eq!(found, types);
            assert_eq!(told[0].message, message);
            for other in &told[1..] {
                assert_eq!(
                    other.message,
                    "The service refused the create; nothing was bought; see condition Ready"
                );
                assert_eq!(other.reason, "CreateRefused");
            }
        }
    }

    #[test]
    fn every_reason_teaches() {
        for reason in Reason::ALL {
            assert!(
                reason.meaning().ends_with('.') && !reason.remedy().is_empty(),
                "{reason:?}"
            );
        }
    }
}
