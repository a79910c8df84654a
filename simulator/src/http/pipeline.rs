//! The course of one call: steps before the effect, the effect, steps after it, the reply.

use std::sync::Arc;

use axum::response::Response;
use tokio_util::sync::CancellationToken;

use super::conn::Connection;
use super::spoil;
use crate::faults::{ClientGone, Execution, Override, Plan, Step};
use crate::service::Service;
use crate::wire::{RawReply, RawRequest};

/// The result of a sequence of steps.
enum Way {
    /// The call continues.
    On,
    /// The call ends with this answer.
    Answer(Override),
    /// The connection is aborted without an answer.
    Lost,
}

/// Serves one call; `None` means that the connection must be aborted. Runs to its end even if the client has disconnected.
pub(super) async fn serve(
    service: Arc<Service>,
    connection: Connection,
    raw: RawRequest,
    gone: CancellationToken,
) -> Option<Response> {
    let plan = service.plan(&raw);
    if !plan.names.is_empty() {
        tracing::info!(path = %raw.path, faults = ?plan.names, "a call meets faults");
    }
    match walk(&plan.before, &gone, true).await {
        Way::On => {}
        Way::Answer(answer) => {
            service.enter_unexecuted(&raw, &plan, Some(answer.status));
            return Some(spoil::respond(
                &overridden(&answer),
                answer.retry_after,
                None,
            ));
        }
        Way::Lost => {
            service.enter_unexecuted(&raw, &plan, None);
            return None;
        }
    }
    if let Execution::Late(after) = plan.execution {
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            service.execute(&raw, &plan).await;
        });
        return None;
    }
    let mut reply = service.execute(&raw, &plan).await;
    if plan.execution == Execution::Twice {
        service.execute(&raw, &plan).await;
    }
    let mut retry_after = None;
    match walk(&plan.after, &gone, false).await {
        Way::On => {}
        Way::Answer(answer) => {
            retry_after = answer.retry_after;
            reply = overridden(&answer);
        }
        Way::Lost => return None,
    }
    notify_holds(&plan, &connection, &reply);
    Some(spoil::respond(&reply, retry_after, plan.spoil.as_ref()))
}

async fn walk(steps: &[Step], gone: &CancellationToken, before_effect: bool) -> Way {
    for step in steps {
        match step {
            Step::Delay(time) => tokio::time::sleep(*time).await,
            Step::Hold(hold) => {
                hold.park(gone).await;
                if before_effect && gone.is_cancelled() && hold.gone() == ClientGone::Drop {
                    return Way::Lost;
                }
            }
            Step::Answer(answer) => return Way::Answer(answer.clone()),
            Step::Lose => return Way::Lost,
            Step::Hang => {
                gone.cancelled().await;
                return Way::Lost;
            }
        }
    }
    Way::On
}

/// Notifies the holds after the reply once the reply's last byte was passed to the kernel.
fn notify_holds(plan: &Plan, connection: &Connection, reply: &RawReply) {
    if plan.after_reply.is_empty() {
        return;
    }
    let holds = plan.after_reply.clone();
    let body = reply.body.to_string().len();
    // The response has a head as well, so that this many bytes are written only once the body is complete.
    connection.when_written(
        body + 1,
        Box::new(move || holds.iter().for_each(|hold| hold.pass())),
    );
}

fn overridden(answer: &Override) -> RawReply {
    RawReply {
        status: answer.status,
        body: answer.body.clone(),
    }
}
