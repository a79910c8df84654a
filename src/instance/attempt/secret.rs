//! Writes a Secret of the Instance.

use super::Attempt;
use crate::credentials::{Chore, GeneratedSecret, SecretNotWritten, connect, reported_account};
use crate::instance::memory::lock;
use crate::instance::outcome::Outcome;

impl Attempt<'_> {
    pub(super) async fn write_secret(&self, chore: &Chore) -> Outcome {
        let done = self.try_write(chore).await;
        done.unwrap_or_else(|why| match why {
            SecretNotWritten::Stale => Outcome::Stale,
            SecretNotWritten::Failed(why) => Outcome::not_done(why),
            SecretNotWritten::Refused(why) => Outcome::NotDone(why.message.clone(), Some(why)),
        })
    }

    async fn try_write(&self, chore: &Chore) -> Result<Outcome, SecretNotWritten> {
        let (observed, secrets) = (&*self.observed, self.context.secret_client());
        let facts = &observed.facts;
        let login = facts.login();
        if let Chore::Connect(wanted) = chore {
            let (owner, now) = (facts.secret_owner(), observed.now);
            let connected = connect(secrets, owner, login.as_ref(), wanted, now).await;
            // The server does not depend on this Secret: the reconcile reports the server, and the next one tries again.
            let Ok((mut known, is_written)) = connected else {
                return Ok(Outcome::Rested);
            };
            if known.trouble.is_some() {
                // A change is noticed by the version that the watch shows, which never shows Secrets of some types.
                known.version.clone_from(&observed.connection_version);
            }
            let is_in_trouble = known.trouble.is_some();
            let connection = &mut lock(self.memory).secrets.connection;
            let former = connection.replace(Box::new(known));
            let was_in_trouble = former.is_some_and(|it| it.trouble.is_some());
            // The next reconcile reports an obstacle, or that it is gone.
            return Ok(match is_written || is_in_trouble || was_in_trouble {
                true => Outcome::Written,
                false => Outcome::Rested,
            });
        }
        let secret = GeneratedSecret {
            secrets,
            login: login.as_ref().ok_or(SecretNotWritten::Stale)?,
            has_server: facts.id().is_some(),
            username: reported_account(&facts.status.detail),
            now: observed.wall_clock,
        };
        let metadata = secret.write(chore).await?;
        let memory = &mut lock(self.memory);
        memory.secrets.login = Some(Box::new(metadata));
        // The plan that waits for this write reads the server's detail again.
        memory.observations.look.at = None;
        Ok(Outcome::Written)
    }
}
