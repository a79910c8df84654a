use std::net::TcpListener;

use super::*;

#[tokio::test]
async fn a_port_that_another_process_took_is_replaced() {
    for taken in [|ports: &Ports| ports.etcd, |ports: &Ports| ports.apiserver] {
        let executables = Executables::find_or_build().unwrap();
        let ports = Ports::choose().unwrap();
        let apiserver = ports.apiserver;
        let _other = TcpListener::bind(("127.0.0.1", taken(&ports))).unwrap();

        let cluster = Cluster::builder()
            .start_on(ports, executables)
            .await
            .unwrap();

        assert_ne!(cluster.url(), format!("https://127.0.0.1:{apiserver}"));
        cluster.stop().await;
    }
}
