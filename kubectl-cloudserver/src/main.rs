//! The plugin's binary.

fn main() -> std::process::ExitCode {
    kubectl_cloudserver::main()
}
