//! The reasons of conditions. Each has a meaning and a remedy, from which `docs/conditions.md` and `docs/reasons/` are generated.

macro_rules! reasons {
    ($($variant:ident: $meaning:literal, $remedy:literal;)*) => {
        /// The reason for a condition's status. The names are a public interface.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $(#[doc = $meaning] $variant,)*
        }

        impl Reason {
            /// Every reason, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name that appears in a condition.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant),)* }
            }

            /// The meaning of the reason.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }

            /// The first sentence of the meaning, without the full stop.
            pub fn gist(self) -> &'static str {
                let meaning = self.meaning();
                let first = meaning.split_once(". ").map_or(meaning, |(first, _)| first);
                first.trim_end_matches('.')
            }

            /// The actions that a user can take.
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)* }
            }
        }
    };
}

reasons! {
    Pending:
        "The operator has not observed the object yet. The schema of the CRD sets this reason, so that an object has conditions from the start.",
        "Wait a few seconds. If it stays, check that the operator runs and that it watches the object's namespace.";
    Available:
        "The server is as the spec describes it, or the Account can be used.",
        "Nothing to do.";
    Creating:
        "The service is creating the server.",
        "Wait. The operator polls the service's task.";
    CreateUnconfirmed:
        "The outcome of a create is unknown: the call got no answer, or one that settles nothing (a 5xx). The operator looks for the server by its name, and buys nothing until the server is proven absent.",
        "Wait for settleSeconds of the Account and two listings. If the token was replaced in the meantime, follow the message.";
    CheckingForExistingServer:
        "The operator reads the service's listing before a purchase, or before a deletion that keeps the server, in case this Instance already has one.",
        "Wait for two listings. If it stays, check the Account: its listing cannot be read.";
    RecordedByOtherCluster:
        "The record of the Instance is from another cluster. The service still lists the server in that record, and no Instance of this cluster owns it, so a move may be in progress. After five minutes the operator buys another server for this Instance.",
        "To keep the server, set spec.import.id to its identifier. Or stop the operator of the other cluster, and run this one with the --cluster-id of that cluster. To get another server at once, remove the annotation cloudserver.dev/binding.";
    Importing:
        "The operator is looking for the server of spec.import, or comparing it with the spec. It buys nothing.",
        "Wait for one listing. If it stays, read the message.";
    ImportNotFound:
        "The service lists no server in the Instance's zone that matches spec.import. The operator buys none instead.",
        "Fix spec.import, spec.region or spec.zone, or the Account. status.unowned of the Account lists servers that can be imported. To buy a server, remove spec.import.";
    ImportAmbiguous:
        "More than one server matches spec.import, or may match as far as the listing shows. The operator imports none.",
        "Narrow spec.import, or set spec.import.id to one of the servers in the message.";
    ImportConflict:
        "The server that spec.import describes belongs to another Instance. The operator does nothing to it, and does not release it with this Instance.",
        "Import another server (refused while status.id is set); or set spec.deletionPolicy of the Instance in the message to Retain, and then delete that Instance; or delete this Instance.";
    ImportDiffers:
        "The server that spec.import describes differs from the spec, or has no name. The operator does not import it.",
        "Change the spec to the values in the message, or give the server a name at the service.";
    ImportDenied:
        "The Account does not allow its Instances to import servers. The operator does not look for the server of spec.import, and buys none instead.",
        "Set spec.imports: Allowed in the Account. Users who may create Instances in its namespace can then take every server of its token that no Instance owns, including servers of other namespaces with the same token. Otherwise delete the Instance, or remove spec.import to buy a server.";
    Reinstalling:
        "The service is reinstalling the server's operating system as the spec requests; this erases its disk.",
        "Wait. The operator polls the service's task.";
    ChangingPassword:
        "The service is setting the password of the login Secret.",
        "Wait. The operator polls the service's task.";
    Starting:
        "The service is starting the server.",
        "Wait. The operator polls the service's task.";
    Stopping:
        "The service is stopping the server.",
        "Wait. The operator polls the service's task.";
    Restarting:
        "The service is restarting the server, as spec.restart.token requests.",
        "Wait. The operator polls the service's task.";
    OperationFailed:
        "An operation failed at the service, or its outcome is unknown and the server does not show it; the operator retries it.",
        "Read the service's message in the condition. After three failures in a row the Instance is Stalled, and the operator retries slowly.";
    OperationRefused:
        "The service refused an operation and did nothing.",
        "Fix the problem in the message, in the spec or at the service. The operator retries when the spec changes, otherwise slowly.";
    OutcomeUnknown:
        "The outcome of an operation is unknown, and nothing at the service shows it; a retry might execute it twice.",
        "Look at the server. To request the operation again, set a new spec.reinstall.token. To keep the server as it is, set spec.image, spec.login and spec.reinstall back to the values in status.applied; if they already have these, edit another field.";
    WaitingForService:
        "The spec was changed, and the operator must read the service before it acts; the service has not answered yet.",
        "Wait; the operator continues automatically. If it stays, read the message and check the Account.";
    ServiceBusy:
        "The service cannot execute the operation now: another operation uses the server, or something is not in the required state.",
        "Wait; the operator retries.";
    CreateFailed:
        "The service accepted the create and its task failed; the operator releases the rest and retries the create.",
        "Read the service's message in the condition. After three failures in a row the Instance is Stalled, and the operator retries slowly.";
    CreateRefused:
        "The service refused the create; nothing was bought.",
        "Fix the problem in the message (image, package, firewall, key, name, quota, account), in the spec or at the service. The operator retries when the spec changes, otherwise slowly.";
    Releasing:
        "The Instance is being deleted: the operator releases its server and confirms its absence.",
        "Wait. The operator removes the finalizer once the service confirms the release.";
    ReleaseUnconfirmed:
        "The service reports the server as gone, but nothing shows that the token still belongs to the account that bought it.",
        "Give the Account a token of the account that bought the server. If the console shows that the server is gone, remove the finalizer cloudserver.dev/release by hand.";
    ServerMissing:
        "The service no longer knows the server of the Instance. The operator buys another one only if spec.onExternalDeletion is Recreate, and once the server is proven gone.",
        "To get a new server, set spec.onExternalDeletion to Recreate (without effect if no record names the server); or delete the Instance and apply it again, without spec.import.";
    ServerReadFailed:
        "The server is recorded, but the operator has not been able to read its detail yet; or the service does not know it, and nothing shows that the token belongs to the account that bought it. In the condition Synced: for five minutes neither its detail nor a listing of its zone has shown whether it exists.",
        "Wait. If the token was replaced, follow the message. If it stays, check the Account.";
    ImageDiffers:
        "The server has another image than the spec, usually because it was changed at the service. The operator erases nothing because of that.",
        "To accept the image, set spec.image.id to it; if a failed reinstall left it, that reinstalls the server. To reinstall the server, set a new spec.reinstall.token or another image.";
    SpecChangedAfterPurchase:
        "The spec was edited between the purchase and the first status: package, firewall, zone or Account are not those that were bought. While the Instance has this reason, these fields can be edited.",
        "Revert the spec. For another server, add an Instance with another name.";
    PowerStateDiffers:
        "The server shows no power state, or for 15 minutes it has shown one that the operator does not know.",
        "Look at the server at the service. Or set spec.powerState to Unmanaged. If it is Unmanaged already, a reinstall left the server off: set Stopped to keep it off.";
    NameDiffers:
        "The server was renamed at the service. If its name no longer ends in the Instance's marker, the operator does nothing to it.",
        "Restore the name in the message.";
    OperationOverdue:
        "An operation takes longer than such operations usually take.",
        "Check the service's console. The operator keeps polling the operation, slowly.";
    ForeignOperationRunning:
        "The service is busy with an operation on the server that this operator did not start, or shows a state that the operator does not know. The operator changes nothing until that ends.",
        "Wait until the service is done. After 15 minutes an unknown state becomes PowerStateDiffers, or is ignored with spec.powerState Unmanaged.";
    ReferenceNotFound:
        "The service lists nothing that matches the name or filter in the spec. The operator neither buys nor reinstalls.",
        "Choose one of the candidates in the message, or create the missing object at the service; the operator looks again automatically.";
    ReferenceAmbiguous:
        "The service lists several objects that match the name in the spec. The operator neither buys nor reinstalls.",
        "Use the id of one of the candidates in the message, or narrow the selector of an image.";
    ReferenceLookupFailed:
        "The operator could not look up the name or filter in the spec.",
        "Wait; the operator retries. If it stays, read the message and check the Account.";
    AccountLimitReached:
        "The Account has reached spec.maxInstances: that number of its Instances have a server or are about to have one. The operator buys none for this Instance until another one is gone.",
        "Delete an Instance that is not needed, or raise spec.maxInstances of the Account. The operator then continues automatically.";
    CreateRateReached:
        "The Account has reached spec.createRate.perMinute. A create that the service refused does not count; one with an unknown outcome does.",
        "Wait; the operator continues automatically. If you did not create these Instances, find out what creates them.";
    ClientRateLimited:
        "A request of the Instance waits: the Account's spec.requests are in use, or the service answers slowly. Changes of servers go first, then purchases and running operations, then routine reads.",
        "Wait; the operator continues automatically. If it lasts, raise spec.requests of the Account as far as the service allows, or check the service.";
    AccountPending:
        "The operator has not checked the Account yet: its service has not answered the first request.",
        "Wait. Within a minute the Account reports whether it can be used.";
    AccountNotFound:
        "The Account of the Instance does not exist in its namespace.",
        "Create the Account. While no server can have been bought, you can also change spec.accountRef.";
    TokenNotFound:
        "The Secret with the Account's token, or its key, does not exist or is empty.",
        "Create the Secret with the key in spec.tokenSecretRef.";
    SecretUseNotAllowed:
        "The Secret that the Account names lacks the label that allows this use. Without that label, users who may create Accounts could have any Secret sent anywhere.",
        "If the Secret is meant for this use, have a user who may write it run the command in the message, which adds the label cloudserver.dev/use: token (or client-certificate). The operator then continues automatically. Otherwise name another Secret.";
    SecretEndpointMismatch:
        "The annotation cloudserver.dev/endpoint of the Secret does not allow the Account's endpoint or proxy, or cannot be read.",
        "Fix spec.endpoint or spec.proxy of the Account, or have a user who may write the Secret fix its annotation cloudserver.dev/endpoint. The operator then continues automatically.";
    TokenInvalid:
        "The token in the Account's Secret contains characters that an HTTP header cannot carry.",
        "Put the token into the Secret as plain ASCII text, without line feeds or control characters.";
    TokenRefused:
        "The service refuses the Account's token.",
        "Put a valid token into the Secret. The operator reads it again when it changes.";
    AccountNotNormal:
        "The service refuses operations because the status of the account is not normal. The Account is not Ready until the service accepts such an operation, at most for ten minutes after the last refusal; everything else continues, unless the service refuses reads as well.",
        "Settle the account's status at the service (payment, verification). The operator retries.";
    RateLimited:
        "The service is rate limiting requests (429). Requests wait for the time that the service names, ten minutes at most, or for a second to a minute if it names none; then they continue at a lower rate. An Account reports this if no listing has succeeded for two and a half minutes, or none ever did, until a request succeeds.",
        "Nothing to do. If it happens often, lower spec.requests of the Account.";
    EndpointInvalid:
        "The Account's endpoint, its proxy or one of its paths cannot be used.",
        "Fix spec.endpoint, spec.proxy or spec.paths of the Account.";
    EndpointNotAllowed:
        "The operator's --allowed-endpoint flags do not allow the Account's endpoint or proxy. The operator sends nothing there.",
        "Fix spec.endpoint or spec.proxy of the Account, or have the administrator of the operator add the flag in the message.";
    AddressRefused:
        "The Account's endpoint or proxy is an internal address, or its name resolves only to such addresses: loopback, link-local, a metadata service, multicast. The operator opened no connection.",
        "Fix spec.endpoint or spec.proxy of the Account. If the address is intended, have the administrator of the operator add the flag in the message, and one for every other endpoint in use.";
    CaBundleNotFound:
        "The ConfigMap or Secret with the Account's CA bundle, or its key, does not exist.",
        "Create it, or fix spec.tls.caBundle of the Account.";
    CaBundleInvalid:
        "The Account's CA bundle cannot be used. The operator sends nothing, and does not use the system's authorities instead.",
        "Put PEM certificates of authorities there, at least one of them still valid. The operator reads them again when they change.";
    ConfigMapReadFailed:
        "The operator could not read a ConfigMap.",
        "Allow the operator's ServiceAccount to get ConfigMaps in this namespace. The operator retries.";
    ClientCertificateNotFound:
        "The Secret with the Account's client certificate, or its key tls.crt or tls.key, does not exist.",
        "Create the Secret with both keys, or fix spec.tls.clientCertificateSecretRef of the Account.";
    ClientCertificateInvalid:
        "The Account's client certificate cannot be used: it is expired or not valid yet, not PEM, or does not match its key.",
        "Put a valid certificate and its private key into the Secret. The operator reads them again when they change.";
    PlainHttp:
        "The Account's endpoint uses http: anyone who can read or change the traffic gets the token and the login passwords.",
        "Set spec.endpoint to an https address. If its certificate is from your own authority, also set spec.tls.caBundle.";
    ServiceUnreachable:
        "The service cannot be reached or does not answer as it should. status.unreachableSince of the Account shows since when.",
        "Check spec.endpoint, the network and the service. The operator retries at least every 20 s.";
    LoginSecretNotFound:
        "The Secret with the login password, or its key, does not exist.",
        "Create the Secret that spec.login.passwordSecretRef names, with that key. With spec.login.generate: put the password back under the key in the message, and do not delete the Secret, which may hold the only copy of the password in force.";
    SecretReadFailed:
        "The operator could not read a Secret.",
        "Allow the operator's ServiceAccount to get Secrets in this namespace. The operator retries.";
    WriteRefused:
        "The apiserver rejects a write of the operator to this object.",
        "Read the message, and fix the admission policy or the missing permission. The operator retries.";
    SecretNameConflict:
        "A Secret with the name that the operator needs exists and does not belong to this Instance. The operator neither uses nor changes it.",
        "Name another Secret in the spec, or use this one in spec.login.passwordSecretRef. If it was created for this Instance and restored from a backup without its labels, run the command in the message, which hands it over and keeps its password. Do not delete it until you know that no server uses its password.";
    SecretNotWritable:
        "The apiserver rejects a Secret that the operator writes, because of a quota, an admission policy or webhook, or a missing right; the message quotes the apiserver. Or the operator creates no Secrets because its rights are excessive.",
        "Quota: raise the ResourceQuota, or delete Secrets that are not needed. Policy or webhook: make it admit the Secret, or add the labels and annotations that it requires with a template in the spec. Missing right: apply deploy/secret-writer (for one namespace, enable deploy/one-namespace/secret-writer in deploy/namespaced/kustomization.yaml), or name an existing Secret in spec.login.passwordSecretRef. If the message reports excessive rights, or a policy of this operator rejects the Secret, apply deploy/shared. The operator retries.";
    LoginPasswordInvalid:
        "The login password does not meet the service's rules.",
        "Use 8 to 30 characters: at least one of A-Z, one of a-z, one digit, and exactly one of ( ) ~ ! @ # $ * - + = { } [ ] : ; , . ? / If the service takes several of them, set spec.passwordSpecialCharacters of the Account to AtLeastOne.";
    RecordInvalid:
        "The annotation cloudserver.dev/binding was edited, or the server was renamed: the record cannot be read, or names a server without this Instance's name. The operator buys and releases nothing while this lasts.",
        "If the message names a server with another name, rename that server as described there. Otherwise restore the annotation from a backup, or remove it: the operator then rebuilds the record from status.id and the server's name. If you remove it while the Instance is being deleted, a server without the Instance's name stays.";
    Undecodable:
        "This version of the operator cannot read the object, because a newer version wrote it. The operator does nothing with it.",
        "Install the version that wrote it, or fix the field in the message.";
    ReinstallNeedsApproval:
        "The spec requests a reinstall, which erases the disk, and spec.reinstallPolicy is OnRequest, or spec.reinstall.image is another image: the operator waits for a user to acknowledge it. Until then it maintains power state and password as the spec requires.",
        "To reinstall and erase the disk, set a new spec.reinstall.token, and spec.reinstall.image to the identifier of the image in the message. To keep the disk, revert image, login and token.";
    ReinstallForbidden:
        "The spec requests a reinstall, which erases the disk, and spec.reinstallPolicy is Never.",
        "To keep the disk, revert image, login and token. To erase it, set spec.reinstallPolicy to OnRequest (asks first) or Automatic.";
    DeletionProtected:
        "The Instance was deleted while spec.deletionProtection is true: the operator keeps the server and the Instance until a user decides.",
        "To release the server, set spec.deletionProtection to false. To keep the server, set spec.deletionPolicy to Retain first, and save a generated password, which is deleted.";
    ObservedOnly:
        "spec.managementPolicy is Observe, and the server differs from the spec, or a second server exists. The operator changes nothing.",
        "Change the spec to match the server, change the server at the service, or set spec.managementPolicy to Manage.";
    NoServer:
        "spec.managementPolicy is Observe, and this Instance has no server. The operator buys none.",
        "To buy a server, set spec.managementPolicy to Manage. Otherwise delete the Instance.";
    Paused:
        "spec.pause holds the Instance: the operator begins, buys, changes and releases nothing, and a deletion waits.",
        "Remove spec.pause, or wait until its time.";
    RecreateLimitReached:
        "The server was released outside the operator, and spec.recreateLimit allows no further replacement.",
        "Find out who released it. Then raise spec.recreateLimit, or delete the Instance and apply it again, without spec.import.";
    InventoryUnreliable:
        "Many known servers disappeared from the service's listing at once. The operator buys and releases nothing until that is explained.",
        "Check that the token belongs to the right account. The condition clears when the servers are listed again, or when the service confirms for each that it is gone.";
    ExpiresSoon:
        "The server is prepaid, and the service ends it within a week. status.expireTime shows when, in UTC; the operator reads the service's own times by spec.utcOffset of the Account.",
        "Renew the server at the service; the operator cannot. The condition clears when the service shows a later time.";
    Expired:
        "The prepaid time of the server has passed. The service may keep the server for a few days and then destroys it.",
        "If the server still exists, renew it at the service. To buy another one when it is destroyed, set spec.onExternalDeletion to Recreate.";
    DryRunAccepted:
        "The operator's ServiceAccount has more rights than it should: the apiserver accepted a dry run that it should reject. The condition ExcessivePermissions of the Account names the right. An attacker with the operator's token could use it too. Everything works, except that the operator creates no Secrets for Instances.",
        "Have a cluster administrator apply deploy/shared, whose policy (Kubernetes 1.30 or newer) forbids it, or remove the roles that allow it. The condition clears within a minute.";
}

impl Reason {
    /// The reason with this name.
    pub fn of(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|reason| reason.as_str() == name)
    }

    /// Whether the service refused a call and is expected to keep refusing it: a retry makes sense, but not within seconds.
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
