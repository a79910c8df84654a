//! The permissions on our kinds in the cluster's own roles view, edit and admin.

use crate::support::{Setup, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_belong_to_admins_and_viewers_read_no_secret() {
    let setup = Setup::default().bare().without_operator();
    let world = setup.begin("roles").await;
    for role in ["view", "edit", "admin"] {
        let (name, role) = (format!("as-{role}"), format!("--clusterrole={role}"));
        let user = format!("--user={name}");
        world
            .run(&["create", "rolebinding", &name, &role, &user], "")
            .await;
    }
    for (question, view, edit, admin) in [
        ("list instances.cloudserver.dev", true, true, true),
        ("watch instances.cloudserver.dev", true, true, true),
        ("create instances.cloudserver.dev", false, true, true),
        ("patch instances.cloudserver.dev", false, true, true),
        ("delete instances.cloudserver.dev", false, true, true),
        ("get accounts.cloudserver.dev", false, false, true),
        ("create accounts.cloudserver.dev", false, false, true),
        ("patch accounts.cloudserver.dev", false, false, true),
        ("delete accounts.cloudserver.dev", false, false, true),
        // Status is the operator's to write, and no user may write the marks of an operator.
        (
            "patch instances.cloudserver.dev --subresource=status",
            false,
            false,
            false,
        ),
        (
            "patch accounts.cloudserver.dev --subresource=status",
            false,
            false,
            false,
        ),
        ("act-as operators.cloudserver.dev", false, false, false),
        ("write records.cloudserver.dev", false, false, false),
        ("write tokencopies.cloudserver.dev", false, false, false),
    ] {
        for (role, expected) in [("view", view), ("edit", edit), ("admin", admin)] {
            let user = format!("as-{role}");
            let words: Vec<&str> = question.split(' ').collect();
            // A controller of the cluster aggregates these roles.
            eventually(&format!("{role}: {words:?}: {expected}"), async || {
                match super::may(&world, &user, &words).await == expected {
                    true => Ok(()),
                    false => Err("it is the other way".to_owned()),
                }
            })
            .await;
        }
    }
    world.finish().await;
}
