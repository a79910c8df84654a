//! Injects a fault at each boundary of every operation, on real components.
//!
//! Two proxies number the requests of one Instance in a world of its own. A run without a fault records the requests of an
//! operation; then each boundary (before a request is forwarded, after its effect, after its reply) and each act gets one run.
//! The verdict on a run comes from the state of the world once it is idle: see `verdict.rs`.
//!
//! `make test` kills at every boundary. All acts: `make torture`; some of them: `TORTURE_ONLY=create/receipt make torture` runs
//! every case with that text in its name.

mod act;
mod case;
mod matrix;
mod operation;
mod play;
mod story;
mod verdict;

use operation::Operation;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_boundary_of_a_create_ends_with_one_server() {
    matrix::kill_everywhere(Operation::Create).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_boundary_of_a_long_create_ends_with_one_server() {
    matrix::kill_everywhere(Operation::LongCreate).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_boundary_of_a_reinstall_that_wants_the_server_stopped_erases_once() {
    matrix::kill_everywhere(Operation::StoppingReinstall).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_boundary_of_a_reinstall_erases_once() {
    matrix::kill_everywhere(Operation::Reinstall).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_boundary_of_a_password_change_ends_with_the_new_password() {
    matrix::kill_everywhere(Operation::Password).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_boundary_of_a_stop_ends_with_a_stopped_server() {
    matrix::kill_everywhere(Operation::Stop).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_boundary_of_a_start_ends_with_a_running_server() {
    matrix::kill_everywhere(Operation::Start).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_boundary_of_a_restart_ends_with_a_running_server() {
    matrix::kill_everywhere(Operation::Restart).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_boundary_of_a_deletion_ends_with_no_server() {
    matrix::kill_everywhere(Operation::Delete).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_boundary_of_an_import_imports_the_server_and_buys_none() {
    matrix::kill_everywhere(Operation::Import).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_boundary_of_a_replacement_ends_with_one_server() {
    matrix::kill_everywhere(Operation::Recreate).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledgement_of_the_apiserver_that_is_lost_costs_no_second_server() {
    matrix::lose_acknowledgements(&[Operation::Create, Operation::Delete]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the whole matrix takes long: make torture"]
async fn torture() {
    matrix::everything().await;
}
